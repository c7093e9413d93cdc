//! `tollhouse pause`, `resume`, `rollback` and `delete`: changes of a tool in the state that was read. If somebody else
//! changed it first, reports what changed and does nothing.

use reqwest::Method;
use serde_json::{Value, json};
use tollhouse_tool::Slug;

use super::{
    base::{
        address::same_place,
        answer::Answer,
        changed::{changes, short},
        error::{Error, Result},
        prompt,
        session::Session,
        text::{list, moment, text},
        tool_state::{Folder, State},
    },
    show::whole,
};

/// Arguments of `pause` and `resume`.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Endpoint [default: that of the folder]
    slug: Option<Slug>,
    /// Only where its revision is still this one [default: the one that is read]
    #[arg(long, value_name = "REV")]
    onto: Option<u64>,
}

/// Arguments of `rollback`.
#[derive(clap::Args)]
pub(crate) struct RollbackArgs {
    /// Endpoint [default: that of the folder]
    slug: Option<Slug>,
    /// Version to run again, by the first characters of its hash [default: the one published before the one that runs]
    #[arg(long)]
    to: Option<String>,
    /// Only where its revision is still this one [default: the one that is read]
    #[arg(long, value_name = "REV")]
    onto: Option<u64>,
}

/// Arguments of `delete`.
#[derive(clap::Args)]
pub(crate) struct DeleteArgs {
    /// Endpoint [default: that of the folder]
    slug: Option<Slug>,
    /// Do not ask
    #[arg(long)]
    yes: bool,
    /// Only where its revision is still this one [default: the one that is read]
    #[arg(long, value_name = "REV")]
    onto: Option<u64>,
}

/// A tool as it was read before the change.
pub(crate) struct ReadEndpoint {
    pub(crate) slug: Slug,
    pub(crate) record: Value,
    pub(crate) revision: Option<u64>,
}

impl ReadEndpoint {
    /// Reads a tool. `onto` is a revision that was read before.
    ///
    /// # Errors
    ///
    /// The host's refusal.
    pub(crate) async fn of(session: &Session, slug: Slug, onto: Option<u64>) -> Result<Self> {
        let mut answer = session.client.get(&["ai", "endpoints", slug.as_str()]).send().await?;
        let record = answer.body["endpoint"].take();
        let revision = onto.or(answer.revision()).or(record["revision"].as_u64());
        Ok(Self { slug, record, revision })
    }

    /// Changes the tool if it is still at the revision that was read.
    ///
    /// # Errors
    ///
    /// The host's refusal, or what somebody else changed meanwhile.
    pub(crate) async fn change(&self, session: &Session, method: Method, body: Option<&Value>) -> Result<Answer> {
        let asking = session.client.ask(method, &["ai", "endpoints", self.slug.as_str()]).if_match(self.revision);
        let asking = match body {
            Some(body) => asking.json(body),
            None => asking,
        };
        match asking.send().await {
            Err(error) if error.code() == "revision_changed" => Err(self.confirm_slow_change(session, error).await),
            Ok(answer) => {
                if let Err(error) = self.note(session, &answer) {
                    session.out.note(&format!("warning: it is done, and this folder does not know it: {}", error.message));
                }
                Ok(answer)
            }
            refused => refused,
        }
    }

    /// Updates the revision in the tool's folder if the folder was at the previous one, so that the change counts as
    /// made from there.
    fn note(&self, session: &Session, answer: &Answer) -> Result {
        let Some(folder) = &session.folder else { return Ok(()) };
        let is_of_it = folder.state.slug == self.slug && same_place(&folder.state.host, session.client.base());
        match answer.revision() {
            Some(revision) if is_of_it && Some(folder.state.revision) == self.revision => {
                Folder::note(&folder.path, &State { revision, ..folder.state.clone() })
            }
            Some(_) | None => Ok(()),
        }
    }

    /// Adds to the error what somebody else has changed since the tool was read.
    pub(crate) async fn confirm_slow_change(&self, session: &Session, refused: Error) -> Error {
        let Ok(now) = Self::of(session, self.slug.clone(), None).await else { return refused };
        let (before, after) = (self.revision.unwrap_or_default(), now.revision.unwrap_or_default());
        let newest = list(&now.record, "versions").map(|stored| (moment(stored, "createdAt"), text(stored, "by"))).max();
        let at = moment(&now.record, "updatedAt");
        let by = newest.filter(|(published, _)| *published == at).map(|(_, by)| format!(", by {by}")).unwrap_or_default();
        let differences = if self.record["revision"] == now.record["revision"] { vec![] } else { changes(&self.record, &now.record) };
        let error = Error {
            message: format!("{} changed on the host since revision {before}: now {after}{by}, {at}", self.slug),
            hint: None,
            ..refused
        };
        Error { more: differences, ..error }.hint(format!("nothing was changed; onto what is there now: --onto {after}"))
    }
}

pub(crate) async fn set_status(session: &Session, args: Args, status: &str) -> Result {
    let read = ReadEndpoint::of(session, session.slug(args.slug)?, args.onto).await?;
    let answer = read.change(session, Method::PATCH, Some(&json!({ "status": status }))).await?;
    session.out.print(&answer.body, |answer| format!("{} is {status}, revision {}\n", read.slug, answer["endpoint"]["revision"]))
}

pub(crate) async fn rollback(session: &Session, args: RollbackArgs) -> Result {
    let read = ReadEndpoint::of(session, session.slug(args.slug)?, args.onto).await?;
    let running = text(&read.record, "version");
    let to = match args.to {
        Some(message) => whole(&read.record, &message),
        None => before(&read.record).ok_or_else(|| Error::refused(format!("{} keeps no version before {}", read.slug, short(running))))?,
    };
    if to == running {
        let answer = json!({ "ok": true, "changed": false, "endpoint": read.record });
        return session.out.print(&answer, |_| {
            format!("{} runs {} already, at revision {}; nothing was changed\n", read.slug, short(&to), read.revision.unwrap_or_default())
        });
    }
    let answer = read.change(session, Method::PATCH, Some(&json!({ "version": to }))).await?;
    session.out.print(&answer.body, |answer| {
        format!(
            "{} runs {} again, revision {}; secrets, grants and price are as they were\n",
            read.slug,
            short(&to),
            answer["endpoint"]["revision"]
        )
    })
}

/// Returns the version that was published before the current one.
fn before(record: &Value) -> Option<String> {
    let running = text(record, "version");
    let mut stored: Vec<_> = list(record, "versions").map(|stored| (text(stored, "createdAt"), text(stored, "version"))).collect();
    stored.sort_unstable();
    let position = stored.iter().position(|(_, version)| *version == running)?;
    Some(stored[position.checked_sub(1)?].1.to_owned())
}

pub(crate) async fn delete(session: &Session, args: DeleteArgs) -> Result {
    let slug = session.slug(args.slug)?;
    if !args.yes && !prompt::is_asked() {
        return prompt::require_terminal(&format!("delete {slug}"), "--yes");
    }
    let read = ReadEndpoint::of(session, slug, args.onto).await?;
    if !args.yes {
        prompt::require_terminal(
            &format!("delete {} on {}? Its slug stays yours, and its receipts stay", read.slug, session.host()),
            "--yes",
        )?;
    }
    let answer = read.change(session, Method::DELETE, None).await?;
    session.out.print(&answer.body, |_| format!("{} is deleted\n", read.slug))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_goes_back_to_the_version_before_the_one_that_runs() {
        let stored = |at: &str, version: &str| json!({ "createdAt": at, "version": version });
        let record = |running: &str| json!({ "version": running, "versions": [stored("3", "c"), stored("1", "a"), stored("2", "b")] });
        assert_eq!(before(&record("c")).as_deref(), Some("b"));
        assert_eq!(before(&record("b")).as_deref(), Some("a"));
        assert_eq!(before(&record("a")), None);
    }
}

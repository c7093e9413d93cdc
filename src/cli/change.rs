//! `tollhouse pause`, `resume`, `rollback` and `delete`: changes of a tool in the state that was read. If somebody else
//! changed it first, reports what changed and does nothing.

use reqwest::Method;
use serde::de::DeserializeOwned;
use serde_json::json;
use tollhouse_api::{DeleteEndpointResponse, EndpointChangeResponse, EndpointPatch, EndpointResponse, OwnEndpoint};
use tollhouse_tool::{Slug, Status};

use super::{
    base::{Answer, ConfirmArgs, Error, Folder, Result, Session, State, changes, line, moment, name, same_place, short},
    plan::changed_by,
    show::{own, whole},
    unset_secrets,
};

/// Arguments of `pause` and `resume`.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Tool [default: the folder's]
    slug: Option<Slug>,
    /// Fail unless at this revision [default: the current one]
    #[arg(long, value_name = "REV")]
    onto: Option<u64>,
}

/// Arguments of `rollback`.
#[derive(clap::Args)]
pub(crate) struct RollbackArgs {
    /// Tool [default: the folder's]
    slug: Option<Slug>,
    /// Start of the version's hash [default: the previous version]
    #[arg(long)]
    to: Option<String>,
    /// Fail unless at this revision [default: the current one]
    #[arg(long, value_name = "REV")]
    onto: Option<u64>,
}

/// Arguments of `delete`.
#[derive(clap::Args)]
pub(crate) struct DeleteArgs {
    /// Tool [default: the folder's]
    slug: Option<Slug>,
    #[command(flatten)]
    confirm: ConfirmArgs,
    /// Fail unless at this revision [default: the current one]
    #[arg(long, value_name = "REV")]
    onto: Option<u64>,
}

/// A tool as it was read before the change.
pub(crate) struct ReadEndpoint {
    pub(crate) slug: Slug,
    /// The record. `None` if the tool belongs to somebody else, so that the host refuses the change.
    pub(crate) record: Option<OwnEndpoint>,
    pub(crate) revision: Option<u64>,
}

impl ReadEndpoint {
    /// Reads a tool. `onto` is a revision that was read before.
    pub(crate) async fn of(session: &Session, slug: Slug, onto: Option<u64>) -> Result<Self> {
        let answer: Answer<EndpointResponse> = session.client.get(&["ai", "endpoints", slug.as_str()]).send().await?;
        let revision = onto.or(answer.revision());
        let record = own(answer.body);
        Ok(Self { slug, revision: revision.or(record.as_ref().map(|record| record.revision)), record })
    }

    /// Changes the tool if it is still at the revision that was read.
    ///
    /// # Errors
    ///
    /// The host's refusal, or what somebody else changed in the meantime.
    async fn change<T: DeserializeOwned>(&self, session: &Session, method: Method, patch: Option<&EndpointPatch>) -> Result<T> {
        let asking = session.client.ask(method, &["ai", "endpoints", self.slug.as_str()]).if_match(self.revision);
        let asking = match patch {
            Some(patch) => asking.json(patch),
            None => asking,
        };
        match asking.send().await {
            Err(error) if error.code() == "revision_changed" => Err(self.explain_conflict(session, error).await),
            Ok(answer) => {
                if let Err(error) = self.update_folder(session, answer.revision()) {
                    session.out.note(&format!("warning: the change was made, but could not be stored in this folder: {}", error.message));
                }
                Ok(answer.body)
            }
            Err(error) => Err(error),
        }
    }

    /// Updates the revision in the tool's folder if the folder was at the previous one, so that the change counts as
    /// made from there.
    fn update_folder(&self, session: &Session, revision: Option<u64>) -> Result {
        let Some(folder) = &session.folder else { return Ok(()) };
        let is_of_it = folder.state.slug == self.slug && same_place(&folder.state.host, session.client.base());
        match revision {
            Some(revision) if is_of_it && Some(folder.state.revision) == self.revision => {
                Folder::note(&folder.path, &State { revision, ..folder.state.clone() })
            }
            Some(_) | None => Ok(()),
        }
    }

    /// Adds to the error what somebody else has changed since the tool was read.
    pub(crate) async fn explain_conflict(&self, session: &Session, refused: Error) -> Error {
        let Ok(Self { record: Some(now), revision, .. }) = Self::of(session, self.slug.clone(), None).await else { return refused };
        let (before, after) = (self.revision.unwrap_or_default(), revision.unwrap_or_default());
        let at = moment(now.common.updated_at);
        let by = changed_by(session, &self.slug, &now).await.map(|by| format!(", by {by}")).unwrap_or_default();
        let known = self.record.as_ref().filter(|record| record.revision != now.revision);
        let error = Error {
            message: format!("`{}` changed on the host since revision {before}: now revision {after}{by}, {at}", self.slug),
            more: known.map(|record| changes(&json!(record), &json!(now))).unwrap_or_default(),
            ..refused
        };
        error.hint(format!("nothing was changed; apply it to the current revision: --onto {after}"))
    }
}

pub(crate) async fn set_status(session: &Session, args: Args, status: Status) -> Result {
    let read = ReadEndpoint::of(session, session.slug(args.slug)?, args.onto).await?;
    let patch = EndpointPatch { status: Some(status), ..EndpointPatch::default() };
    let mut answer: EndpointChangeResponse = read.change(session, Method::PATCH, Some(&patch)).await?;
    if status == Status::Active {
        answer.warnings.extend(unset_secrets::of_running(&session.client, &read.slug).await);
    }
    session.out.print(&answer, |answer| format!("{} is {}, revision {}\n", read.slug, name(status), answer.endpoint.revision))?;
    if !session.out.json {
        answer.warnings.iter().for_each(|warning| session.out.note(&line(&format!("warning: {warning}"))));
    }
    Ok(())
}

pub(crate) async fn rollback(session: &Session, args: RollbackArgs) -> Result {
    let read = ReadEndpoint::of(session, session.slug(args.slug)?, args.onto).await?;
    let running = read.record.as_ref().map(|record| record.version.as_str()).unwrap_or_default();
    let to = match (args.to, &read.record) {
        (Some(to), Some(record)) => whole(record, &to),
        (Some(to), None) => to,
        (None, record) => record
            .as_ref()
            .and_then(before)
            .ok_or_else(|| Error::refused(format!("`{}` has no stored version before {}", read.slug, short(running))))?,
    };
    if to == running {
        let answer = json!({ "ok": true, "changed": false, "endpoint": read.record });
        return session.out.print(&answer, |_| {
            format!("{} already runs {}, at revision {}; nothing was changed\n", read.slug, short(&to), read.revision.unwrap_or_default())
        });
    }
    let patch = EndpointPatch { version: Some(to.clone()), ..EndpointPatch::default() };
    let answer: EndpointChangeResponse = read.change(session, Method::PATCH, Some(&patch)).await?;
    session.out.print(&answer, |answer| {
        let revision = answer.endpoint.revision;
        format!("{} runs {} again, revision {revision}; secrets, grants and price did not change\n", read.slug, short(&to))
    })
}

/// Returns the version that was published before the current one.
fn before(record: &OwnEndpoint) -> Option<String> {
    let mut stored: Vec<_> = record.versions.iter().map(|stored| (stored.created_at, &stored.version)).collect();
    stored.sort_unstable();
    let position = stored.iter().position(|(_, version)| **version == record.version)?;
    Some(stored[position.checked_sub(1)?].1.clone())
}

pub(crate) async fn delete(session: &Session, args: DeleteArgs) -> Result {
    let slug = session.slug(args.slug)?;
    args.confirm.require_terminal(&format!("delete {slug}"))?;
    let read = ReadEndpoint::of(session, slug, args.onto).await?;
    args.confirm.require(&format!("delete {} on {}? You keep its slug and its receipts", read.slug, session.host()))?;
    let answer: DeleteEndpointResponse = read.change(session, Method::DELETE, None).await?;
    session.out.print(&answer, |_| format!("deleted {}\n", read.slug))
}

#[cfg(test)]
mod tests {
    use tollhouse_base::clock::Timestamp;
    use tollhouse_tool::{Version, VersionMaker};

    use super::*;
    use crate::show::tests::record;

    #[test]
    fn rollback_goes_to_the_version_before_the_current_one() {
        let stored = |at: u64, version: &str| Version::new(version.to_owned(), Timestamp(at), VersionMaker::Owner);
        let versions = vec![stored(3, "c"), stored(1, "a"), stored(2, "b")];
        let before = |running: &str| before(&OwnEndpoint { version: running.to_owned(), versions: versions.clone(), ..record() });
        assert_eq!((before("c").as_deref(), before("b").as_deref(), before("a")), (Some("b"), Some("a"), None));
    }
}

//! `tollhouse policy`: shows and changes what builders may do on a host. A change applies only to the revision that was
//! read, so that it cannot overwrite somebody else's unseen.

use std::path::PathBuf;

use serde_json::{Map, Value, json};
use tollhouse_api::{PolicyCheckResponse, PolicyResponse};
use tollhouse_base::plural::plural;

use super::base::{Answer, CredentialChoice, Error, Result, Session, changes, json_for_people, line, private_files, prompt};

/// Commands about the policy.
#[derive(clap::Subcommand)]
pub(crate) enum Policy {
    /// Show the policy in force
    Show,
    /// Show how a policy would restrict existing tools
    Check {
        /// File from `policy show --json`, or `-` for standard input
        file: PathBuf,
    },
    /// Replace the whole policy with the one in a file
    Set {
        /// File from `policy show --json`, or `-` for standard input
        file: PathBuf,
        #[command(flatten)]
        sure: ConfirmArgs,
    },
    /// Change fields of the policy
    Edit {
        /// Fields with JSON values, for example `limits.wallMs=5000`
        #[arg(required = true, value_name = "NAME=VALUE", value_parser = edit)]
        edits: Vec<(String, Value)>,
        #[command(flatten)]
        sure: ConfirmArgs,
    },
}

/// Flags that confirm a change.
#[derive(clap::Args)]
pub(crate) struct ConfirmArgs {
    /// Skip the confirmation
    #[arg(long)]
    yes: bool,
    /// Fail unless at this revision [default: the current one]
    #[arg(long, value_name = "REV")]
    onto: Option<u64>,
}

fn edit(text: &str) -> std::result::Result<(String, Value), String> {
    let (name, value) = text.split_once('=').ok_or("expected NAME=VALUE")?;
    if name.is_empty() || name.split('.').any(str::is_empty) {
        return Err("a name is a field, or fields separated by `.`".to_owned());
    }
    let bare = || (!value.is_empty()).then(|| Value::from(value)).ok_or_else(|| "a value must be JSON or a word".to_owned());
    Ok((name.to_owned(), serde_json::from_str(value).or_else(|_| bare())?))
}

const PATH: [&str; 3] = ["ai", "admin", "policy"];

pub(crate) async fn run(session: &Session, command: Option<Policy>) -> Result {
    match command {
        None | Some(Policy::Show) => show(session).await,
        Some(Policy::Check { file }) => {
            let answer = check(session, &in_file(&file)?).await?;
            session.out.print(&answer, narrowed)
        }
        Some(Policy::Set { file, sure }) => {
            let policy = in_file(&file)?;
            set(session, &read(session).await?, &policy, &sure).await
        }
        Some(Policy::Edit { edits, sure }) => {
            let before = read(session).await?;
            let mut policy = json!(before.body.policy);
            for (name, value) in edits {
                put(&mut policy, &name, value)?;
            }
            set(session, &before, &policy, &sure).await
        }
    }
}

async fn read(session: &Session) -> Result<Answer<PolicyResponse>> {
    session.client.get(&PATH).by(CredentialChoice::Admin).send().await
}

async fn show(session: &Session) -> Result {
    let answer = read(session).await?;
    let revision = answer.revision();
    session.out.print(&answer.body, |body| json_for_people(&body.policy) + "\n")?;
    if let Some(revision) = revision.filter(|_| !session.out.json) {
        session.out.note(&format!("revision {revision}"));
    }
    Ok(())
}

/// Reads a policy from a file: the policy itself, or a response that contains it.
fn in_file(file: &std::path::Path) -> Result<Value> {
    let text = if file == std::path::Path::new("-") {
        std::io::read_to_string(std::io::Read::take(std::io::stdin(), 1 << 20))?
    } else {
        private_files::read(file)?.ok_or_else(|| Error::usage(format!("the file `{}` does not exist", file.display())))?
    };
    let text = private_files::without_mark(text);
    let mut read: Value =
        serde_json::from_str(&text).map_err(|error| Error::usage(format!("`{}` is not JSON: {error}", file.display())))?;
    Ok(if read["policy"].is_object() { read["policy"].take() } else { read })
}

/// Sets the member with the dotted name `name`.
fn put(policy: &mut Value, name: &str, value: Value) -> Result {
    let mut position = policy;
    let mut pieces = name.split('.').peekable();
    while let Some(piece) = pieces.next() {
        let members = position.as_object_mut().ok_or_else(|| Error::usage(format!("`{name}` is not a field of the policy")))?;
        if pieces.peek().is_none() {
            members.insert(piece.to_owned(), value);
            return Ok(());
        }
        position = members.entry(piece).or_insert_with(|| Map::new().into());
    }
    Ok(())
}

async fn check(session: &Session, policy: &Value) -> Result<PolicyCheckResponse> {
    Ok(session.client.post(&["ai", "admin", "policy", "check"]).by(CredentialChoice::Admin).json(policy).send().await?.body)
}

fn narrowed(PolicyCheckResponse { narrows, .. }: &PolicyCheckResponse) -> String {
    let slugs = line(&narrows.slugs.join(", "));
    let (all, long) = (narrows.endpoints, narrows.long_running);
    let expected = format!("this would restrict {}, {long} of which would stop being long-running", plural(all, "tool"));
    if slugs.is_empty() { expected + "\n" } else { format!("{expected}: {slugs}\n") }
}

async fn set(session: &Session, before: &Answer<PolicyResponse>, policy: &Value, sure: &ConfirmArgs) -> Result {
    let differences = changes(&json!(before.body.policy), policy);
    if differences.is_empty() {
        session.out.note("this policy is already in force; nothing was changed");
        return session.out.print(&before.body, |_| String::new());
    }
    if !sure.yes {
        // Checked before the change is previewed, so that a caller without a terminal gets the error at once.
        if !prompt::is_interactive() {
            return prompt::require_confirmation("replace the policy", "--yes");
        }
        for difference in &differences {
            session.out.note(&format!("  {difference}"));
        }
        session.out.note(narrowed(&check(session, policy).await?).trim_end());
        prompt::require_confirmation("replace the policy?", "--yes")?;
    }
    let revision = sure.onto.or(before.revision());
    let asking = session.client.ask(reqwest::Method::PUT, &PATH).by(CredentialChoice::Admin).if_match(revision).json(policy);
    let answer: Answer<PolicyResponse> = match asking.send().await {
        Err(error) if error.code() == "revision_changed" => return Err(explain_conflict(session, before, error).await),
        ended => ended?,
    };
    let now = answer.revision().unwrap_or_default();
    session.out.print(&answer.body, |_| {
        differences.iter().map(|reported| format!("{reported}\n")).collect::<String>()
            + &format!("the policy is in force, revision {now}\n")
    })
}

/// Returns the error for a policy that somebody else changed since it was read, with their changes.
async fn explain_conflict(session: &Session, before: &Answer<PolicyResponse>, refused: Error) -> Error {
    let Ok(now) = read(session).await else { return refused };
    let after = now.revision().unwrap_or_default();
    let error = Error { message: format!("the policy has changed in the meantime: now revision {after}"), hint: None, ..refused };
    let error = Error { more: changes(&json!(before.body.policy), &json!(now.body.policy)), ..error };
    error.hint(format!("nothing was changed; apply it to the current revision: --onto {after}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn edit_has_a_dotted_name_and_a_value() {
        let mut policy = json!({ "limits": { "wallMs": 1 }, "tier": "jit" });
        for text in
            ["limits.wallMs=5000", "limits.cpuMs=7", "tier=jitless", "builderCapabilities.files=true", "maxEndpointsPerBuilder=null"]
        {
            let (name, value) = edit(text).unwrap();
            put(&mut policy, &name, value).unwrap();
        }
        let requested = json!({ "limits": { "wallMs": 5000, "cpuMs": 7 }, "tier": "jitless", "builderCapabilities": { "files": true }, "maxEndpointsPerBuilder": null });
        assert_eq!(policy, requested);
        assert!(put(&mut policy, "tier.x", json!(1)).is_err());
        for text in ["", "a", "=1", "a.=1", ".a=1", "a="] {
            assert!(edit(text).is_err(), "{text}");
        }
    }
}

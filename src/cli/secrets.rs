//! `tollhouse secrets`: sets, lists and removes secrets. It prints names but never values. Values come from a prompt,
//! standard input or a file, never from an argument.

use std::path::{Path, PathBuf};

use reqwest::Method;
use serde_json::json;
use tollhouse_config::HiddenValue;
use tollhouse_tool::Slug;
use zeroize::Zeroizing;

use super::{
    base::{
        client::CredentialChoice,
        dotenv::{self, Entry, MalformedLine},
        error::{Error, Result},
        private_files, prompt,
        session::Session,
        table::Table,
        text::{list, moment, text},
    },
    usage_error::never_an_argument,
};

/// The secrets of endpoints, and of a host.
#[derive(clap::Subcommand)]
pub(crate) enum Secrets {
    /// Sets or replaces one; the value is asked for, or read from standard input.
    Set(SetArgs),
    /// Names of what is set.
    List(OfArgs),
    /// Removes one.
    Rm(RmArgs),
    /// Rotates the master key: seals every secret under a new one, and lets go of the old. On the data of a stopped host, or, with `--url` or `--profile`, on a running one.
    Rotate(crate::operator::rotate::Args),
}

/// Arguments of `secrets set`.
#[derive(clap::Args)]
pub(crate) struct SetArgs {
    /// Name of the secret, as the handler reads it
    #[arg(required_unless_present = "env_file")]
    name: Option<String>,
    /// Endpoint [default: that of the folder]
    #[arg(long)]
    slug: Option<Slug>,
    /// Only for servers that `ctx.httpGetJson` asks with it: the handler never sees it
    #[arg(long)]
    auth: bool,
    /// File of `NAME=value` lines, all of which are set
    #[arg(long, value_name = "FILE", conflicts_with = "name")]
    env_file: Option<PathBuf>,
}

/// Arguments of `secrets list`.
#[derive(clap::Args)]
pub(crate) struct OfArgs {
    /// Endpoint [default: that of the folder]
    #[arg(long)]
    slug: Option<Slug>,
}

/// Arguments of `secrets rm`.
#[derive(clap::Args)]
pub(crate) struct RmArgs {
    /// Name of the secret
    name: String,
    /// Endpoint [default: that of the folder]
    #[arg(long)]
    slug: Option<Slug>,
}

pub(crate) async fn run(session: &Session, command: Secrets) -> Result {
    match command {
        Secrets::Set(args) => set(session, args).await,
        Secrets::List(args) => print_list(session, args).await,
        Secrets::Rm(args) => remove(session, args).await,
        Secrets::Rotate(_) => rotate(session).await,
    }
}

async fn set(session: &Session, args: SetArgs) -> Result {
    let slug = session.slug(args.slug)?;
    let values = match (args.env_file, args.name) {
        (Some(file), _) => in_file(&file)?,
        (None, Some(name)) if name.contains('=') => {
            return Err(Error::usage("a name has no `=`").hint(never_an_argument("--env-file FILE")));
        }
        (None, Some(name)) => {
            // Checked before the prompt, so that nobody types a value that they may not set.
            session.client.credential(CredentialChoice::Manager)?;
            let value = prompt::hidden(&format!("value of {name}"), "--env-file FILE")?;
            vec![(name, value)]
        }
        (None, None) => return Err(Error::usage("name the secret, or --env-file FILE")),
    };
    let visibility = if args.auth { "auth" } else { "env" };
    let mut done = Vec::new();
    for (name, value) in values {
        let body = json!({ "name": name, "value": value.expose(), "visibility": visibility });
        let ended = session.client.post(&["ai", "endpoints", slug.as_str(), "secrets"]).json(&body).send().await;
        let set = ended.map_err(|error| match done.len() {
            0 => error,
            before => error.more([format!("{before} before it were set")]),
        })?;
        done.push(set.body["secret"].clone());
    }
    session.out.print(&json!({ "ok": true, "secrets": done }), |answer| {
        list(answer, "secrets").map(|secret| format!("{} is set for {slug}\n", super::base::sanitize::line(text(secret, "name")))).collect()
    })
}

/// Reads the secrets of a file, which must contain at least one.
fn in_file(file: &Path) -> Result<Vec<(String, HiddenValue)>> {
    let text = private_files::read(file)?.map(Zeroizing::new);
    let text = text.ok_or_else(|| Error::usage(format!("there is no file `{}`", file.display())))?;
    let values = in_lines(&text, file)?;
    if values.is_empty() {
        return Err(Error::usage(format!("`{}` names no secret", file.display())));
    }
    Ok(values.into_iter().map(|(_, name, value)| (name, value)).collect())
}

/// Parses the lines of a dotenv file, with the number of each line.
///
/// # Errors
///
/// A line is malformed.
pub(crate) fn in_lines(text: &str, file: &Path) -> Result<Vec<(u32, String, HiddenValue)>> {
    let entries = dotenv::parse(text)
        .map_err(|MalformedLine { line, reason }| Error::usage(format!("line {line} of `{}`: {reason}", file.display())))?;
    Ok(entries.into_iter().map(|Entry { line, name, value }| (line, name, value.into())).collect())
}

async fn print_list(session: &Session, args: OfArgs) -> Result {
    let slug = session.slug(args.slug)?;
    let answer = session.client.get(&["ai", "endpoints", slug.as_str(), "secrets"]).send().await?.body;
    if session.out.json {
        return session.out.document(&answer);
    }
    let mut table = Table::new(&["name", "for", "set"]);
    for secret in list(&answer, "secrets") {
        let to = if text(secret, "visibility") == "auth" { "servers that are asked with it" } else { "the handler" };
        table.row([text(secret, "name"), to, &moment(secret, "updatedAt")]);
    }
    session.out.table(&table, "no secret is set")
}

async fn remove(session: &Session, args: RmArgs) -> Result {
    let slug = session.slug(args.slug)?;
    let asking = session.client.ask(Method::DELETE, &["ai", "endpoints", slug.as_str(), "secrets"]).query("name", &args.name);
    let answer = asking.send().await?.body;
    session.out.print(&answer, |answer| {
        format!("{} of {slug} is removed; workers that had it end\n", super::base::sanitize::line(text(answer, "name")))
    })
}

async fn rotate(session: &Session) -> Result {
    let answer = session.client.post(&["ai", "admin", "secrets", "rotate"]).by(CredentialChoice::Admin).send().await?.body;
    session.out.print(&answer, |answer| crate::operator::rotate::summary(&answer["rotation"]))?;
    crate::operator::rotate::unopened(&answer["rotation"]).map_or(Ok(()), |remaining| Err(Error::refused(remaining)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_of_values_is_read_as_others_read_it() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join(".env");
        std::fs::write(&file, "# comment\n\nA=1\nexport B = \"two words\"\nC='it''s'\nD=\nE=a=b\r\n").unwrap();
        let read: Vec<_> = in_file(&file).unwrap().into_iter().map(|(name, value)| (name, value.expose().to_owned())).collect();
        let requested = [("A", "1"), ("B", "two words"), ("C", "it''s"), ("D", ""), ("E", "a=b")];
        assert_eq!(read, requested.map(|(name, value)| (name.to_owned(), value.to_owned())));
        for (text, line) in [("A", "line 1"), ("A=1\n=2", "line 2")] {
            std::fs::write(&file, text).unwrap();
            let error = in_file(&file).unwrap_err();
            assert!(error.message.starts_with(line) && !error.message.contains("=2"), "{error:?}");
        }
    }
}

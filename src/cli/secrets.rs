//! `tollhouse secrets`: sets, lists and removes secrets. It prints names but never values. Values come from a prompt,
//! standard input or a file, never from an argument.

use std::path::{Path, PathBuf};

use reqwest::Method;
use serde_json::json;
use tollhouse_api::{KeyRotationResponse, RemoveSecretResponse, Secret, SecretList, SecretResponse, SecretVisibility, SetSecretRequest};
use tollhouse_config::HiddenValue;
use tollhouse_tool::Slug;
use zeroize::Zeroizing;

use super::{
    base::{
        CredentialChoice, Error, Result, Session, Table,
        dotenv::{self, Entry, MalformedLine},
        line, moment, private_files, prompt,
    },
    secret_hosts::{HostArgs, SecretHosts},
    usage_error::never_an_argument,
};

/// The secrets of endpoints, and of a host.
#[derive(clap::Subcommand)]
pub(crate) enum Secrets {
    /// Set a secret, from a prompt or standard input
    Set(SetArgs),
    /// List the names of secrets
    List {
        /// Tool [default: the folder's]
        #[arg(long)]
        slug: Option<Slug>,
    },
    /// Remove a secret
    Rm {
        /// Name of the secret
        name: String,
        /// Tool [default: the folder's]
        #[arg(long)]
        slug: Option<Slug>,
    },
    /// Rotate the master key (with `--url`: of a running host)
    Rotate(crate::operator::rotate::Args),
}

/// Arguments of `secrets set`.
#[derive(clap::Args)]
pub(crate) struct SetArgs {
    /// Name of the secret, as the handler reads it
    #[arg(required_unless_present = "env_file")]
    name: Option<String>,
    /// Tool [default: the folder's]
    #[arg(long)]
    slug: Option<Slug>,
    /// Use only in `ctx.httpGetJson`, hidden from the handler
    #[arg(long)]
    auth: bool,
    #[command(flatten)]
    hosts: HostArgs,
    /// Give the handler the value of a secret that had hosts
    #[arg(long, conflicts_with_all = ["auth", "hosts"])]
    expose: bool,
    /// File of `NAME=value` lines to set
    #[arg(long, value_name = "FILE", conflicts_with = "name")]
    env_file: Option<PathBuf>,
}

pub(crate) async fn run(session: &Session, command: Secrets) -> Result {
    match command {
        Secrets::Set(args) => set(session, args).await,
        Secrets::List { slug } => print_list(session, &tool(session, slug)?).await,
        Secrets::Rm { name, slug } => remove(session, &tool(session, slug)?, &name).await,
        Secrets::Rotate(_) => rotate(session).await,
    }
}

/// Returns the tool. Only a published tool has secrets, and one that is published paused sells nothing without them.
fn tool(session: &Session, named: Option<Slug>) -> Result<Slug> {
    session.slug(named).map_err(|error| match error.hint {
        Some(_) => error.hint("publish it first, with `\"status\": \"paused\"` in tool.json: tollhouse deploy"),
        None => error,
    })
}

async fn set(session: &Session, args: SetArgs) -> Result {
    let slug = tool(session, args.slug)?;
    let hosts = SecretHosts::from(args.hosts);
    let values = match (args.env_file, args.name) {
        (Some(file), _) => in_file(&file)?,
        (None, Some(name)) if name.contains('=') => {
            return Err(Error::usage("a name must not contain `=`").hint(never_an_argument("--env-file FILE")));
        }
        (None, Some(name)) => {
            // Checked before the prompt, so that no value is typed in vain.
            session.client.credential(CredentialChoice::Manager)?;
            let value = prompt::hidden(&format!("value of {name}"), "--env-file FILE")?;
            vec![FileSecret { line: 1, name, value, hosts: SecretHosts::default() }]
        }
        (None, None) => return Err(Error::usage("name the secret, or use --env-file FILE")),
    };
    let visibility = if args.auth { SecretVisibility::Auth } else { SecretVisibility::Env };
    let mut done = Vec::<Secret>::new();
    for secret in values {
        let hosts = if hosts.hosts.is_empty() { secret.hosts } else { hosts.clone() };
        let (value, visibility) = (Zeroizing::new(secret.value.expose().to_owned()), hosts.visibility(visibility));
        let (hosts, places) = (hosts.hosts, hosts.places);
        let body = SetSecretRequest { name: secret.name, value, visibility, hosts, places, expose: args.expose };
        let ended = session.client.post(&["ai", "endpoints", slug.as_str(), "secrets"]).json(&body).send::<SecretResponse>().await;
        let set = ended.map_err(|error| match done.len() {
            0 => error,
            before => error.more([format!("secrets set before the error: {before}")]),
        })?;
        done.push(set.body.secret);
    }
    session.out.print(&json!({ "ok": true, "secrets": done }), |_| {
        done.iter().map(|secret| format!("set {} for {slug}\n", line(&secret.name))).collect()
    })
}

/// Reads the secrets of a file, which must contain at least one.
fn in_file(file: &Path) -> Result<Vec<FileSecret>> {
    let text = private_files::read(file)?.map(Zeroizing::new);
    let text = text.ok_or_else(|| Error::usage(format!("the file `{}` does not exist", file.display())))?;
    let values = in_lines(&text, file)?;
    if values.is_empty() {
        return Err(Error::usage(format!("`{}` contains no secrets", file.display())));
    }
    Ok(values)
}

pub(crate) struct FileSecret {
    /// The number of its line.
    pub(crate) line: u32,
    pub(crate) name: String,
    pub(crate) value: HiddenValue,
    /// The hosts that the comment above it names.
    pub(crate) hosts: SecretHosts,
}

/// Parses the lines of a dotenv file.
pub(crate) fn in_lines(text: &str, file: &Path) -> Result<Vec<FileSecret>> {
    let wrong = |MalformedLine { line, reason }: MalformedLine| Error::usage(format!("line {line} of `{}`: {reason}", file.display()));
    let secret = |Entry { line, name, value }: Entry| -> Result<FileSecret> {
        let hosts = SecretHosts::from_comment_above(text, line).map_err(|reason| wrong(MalformedLine { line, reason }))?;
        Ok(FileSecret { line, name, value: value.into(), hosts })
    };
    dotenv::parse(text).map_err(wrong)?.into_iter().map(secret).collect()
}

async fn print_list(session: &Session, slug: &Slug) -> Result {
    let answer: SecretList = session.client.get(&["ai", "endpoints", slug.as_str(), "secrets"]).send().await?.body;
    if session.out.json {
        return session.out.document(&answer);
    }
    let mut table = Table::new(&["name", "for", "set"]);
    for secret in answer.secrets {
        let reader = match secret.visibility {
            SecretVisibility::Auth => "requests with `auth`".to_owned(),
            SecretVisibility::Env => "the handler".to_owned(),
            SecretVisibility::Hosts => secret.hosts.join(" "),
        };
        table.row([secret.name, reader, moment(secret.updated_at)]);
    }
    session.out.table(&table, "no secrets")
}

async fn remove(session: &Session, slug: &Slug, name: &str) -> Result {
    let asking = session.client.ask(Method::DELETE, &["ai", "endpoints", slug.as_str(), "secrets"]).query("name", name);
    let answer: RemoveSecretResponse = asking.send().await?.body;
    session.out.print(&answer, |answer| format!("removed {} of {slug}; workers that had it are stopped\n", line(&answer.name)))
}

async fn rotate(session: &Session) -> Result {
    let asking = session.client.post(&["ai", "admin", "secrets", "rotate"]).by(CredentialChoice::Admin);
    let answer: KeyRotationResponse = asking.send().await?.body;
    session.out.print(&answer, |answer| crate::operator::rotate::summary(&answer.rotation))?;
    crate::operator::rotate::unopened(&answer.rotation).map_or(Ok(()), |remaining| Err(Error::refused(remaining)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn env_file_is_read_as_other_programs_read_it() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join(".env");
        std::fs::write(&file, "# comment\n\nA=1\nexport B = \"two words\"\nC='it''s'\nD=\nE=a=b\r\n").unwrap();
        let read: Vec<_> = in_file(&file).unwrap().into_iter().map(|secret| (secret.name, secret.value.expose().to_owned())).collect();
        let requested = [("A", "1"), ("B", "two words"), ("C", "it''s"), ("D", ""), ("E", "a=b")];
        assert_eq!(read, requested.map(|(name, value)| (name.to_owned(), value.to_owned())));
        for (text, line) in [("A", "line 1"), ("A=1\n=2", "line 2")] {
            std::fs::write(&file, text).unwrap();
            let error = in_file(&file).err().unwrap();
            assert!(error.message.starts_with(line) && !error.message.contains("=2"), "{error:?}");
        }
    }
}

//! `tollhouse login` and `logout`: a credential is verified by the host, and then stored for that host only.

use std::path::PathBuf;

use serde_json::json;
use tollhouse_config::HiddenValue;
use zeroize::Zeroizing;

use super::{
    base::{
        Client, Config, CredentialFile, Credentials, Error, Exit, GlobalArgs, Result, Role, Session, credentials, host_name, line,
        private_files, profile, prompt,
    },
    credential_lock::CredentialLock,
    whoami,
};

/// Arguments of `login`.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// File with the credential [default: prompt or standard input]
    #[arg(long, value_name = "FILE")]
    credential_file: Option<PathBuf>,
}

/// Arguments of `logout`.
#[derive(clap::Args)]
pub(crate) struct OutArgs {
    /// Remove the credentials of all profiles
    #[arg(long)]
    all: bool,
}

pub(crate) async fn login(session: Session, global: &GlobalArgs, args: Args) -> Result {
    let url = session.client.base().clone();
    let config = Config::read(&profile::file()?)?;
    let name = session.name.clone().unwrap_or_else(|| config.new_name(&url));
    if let Some(known) = config.get(&name)
        && known.url != session.profile.url
    {
        let file = profile::file()?;
        let error = Error::usage(format!("the profile `{name}` belongs to {}, not to {}", host_name(&known.url), host_name(&url)));
        return Err(error.hint(format!("select another profile with --profile, or edit {}", file.display())));
    }
    let credential = match &args.credential_file {
        Some(file) => in_file(file)?,
        None => prompt::hidden(&format!("builder key, admin token or developer credit for {}", host_name(&url)), "--credential-file FILE")?,
    };
    let role = global.role.unwrap_or_else(|| Role::of(credential.expose()));
    let client = Client::new(url.clone(), Credentials::only(role, credential.clone()), Some(role), global.plain_http)?;
    let session = Session { client, name: Some(name.clone()), is_stored: true, ..session };
    let known = whoami::ask(&session, role).await?;
    CredentialLock::at(&session, name.clone())?.keep(&url, role, credential)?;
    let answer = json!({ "url": host_name(&url), "profile": name, "role": role.label(), "known": known });
    session.out.print(&answer, |_| {
        let who = if known.name().is_empty() { String::new() } else { format!(" ({})", line(known.name())) };
        format!("stored the {} of {} for profile {name}{who}\n", role.label(), host_name(&url))
    })
}

fn in_file(file: &std::path::Path) -> Result<HiddenValue> {
    let text = private_files::read(file)?.map(Zeroizing::new);
    let text = text.ok_or_else(|| Error::usage(format!("the file `{}` does not exist", file.display())))?;
    let credential = text.trim();
    if credential.is_empty() {
        return Err(Error::usage(format!("`{}` is empty", file.display())));
    }
    Ok(credential.to_owned().into())
}

pub(crate) fn logout(session: &Session, global: &GlobalArgs, args: &OutArgs) -> Result {
    let _alone = private_files::lock(&private_files::config()?)?;
    let file = credentials::file()?;
    let mut stored = CredentialFile::read(&file)?;
    let forgotten = if args.all {
        stored.forget_all()
    } else {
        let name =
            session.name.as_ref().ok_or_else(|| Error::new(Exit::Credential, format!("no credential is stored for {}", session.host())))?;
        stored.forget(name, global.role)
    };
    if forgotten {
        stored.write(&file)?;
    }
    let what = if forgotten { "removed from this machine; the credential remains valid on the host" } else { "no credential was stored" };
    session.out.print(&json!({ "forgotten": forgotten }), |_| format!("{what}\n"))
}

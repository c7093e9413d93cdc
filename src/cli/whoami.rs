//! `tollhouse whoami`: shows the host and the user.

use serde_json::{Value, json};

use super::base::{
    address::host_name,
    client::CredentialChoice,
    error::{Error, Result},
    global::Role,
    session::Session,
    table::FactList,
};

/// Arguments of `whoami`.
#[derive(clap::Args)]
pub(crate) struct Args {}

pub(crate) async fn run(session: &Session, _: Args) -> Result {
    let (role, known) = known(session).await?;
    let answer = json!({ "url": host_name(session.client.base()), "profile": session.name, "role": role.what(), "known": known });
    session.out.print(&answer, |_| {
        let mut facts = FactList::default();
        facts.add("host", session.host());
        facts.add("by", role.what());
        for (name, member) in [("builder", "name"), ("id", "builderId"), ("credit", "creditId"), ("label", "label")] {
            facts.add(name, known[member].as_str().unwrap_or_default());
        }
        if let Some(balance) = known["balanceUsd"].as_f64() {
            facts.add("balance", format!("${balance}"));
        }
        let profile = &session.profile;
        facts.add("limits", format!("${} a call, ${} a day", profile.max_usd, profile.daily_usd));
        facts.add("network", profile.network.as_deref().unwrap_or_default());
        facts.add("key file", profile.key_file.as_ref().map(|file| file.display().to_string()).unwrap_or_default());
        if let Some(folder) = &session.folder {
            facts.add("folder", format!("{} ({})", folder.path.display(), folder.state.slug));
        }
        if !known["suspended"].is_null() {
            facts.add("suspended", known["suspended"]["reason"].as_str().unwrap_or("yes"));
        }
        facts.text()
    })
}

/// Returns the role that most commands use, and the host's data about it.
///
/// # Errors
///
/// Nobody is signed in, or the host rejects the credential.
pub(crate) async fn known(session: &Session) -> Result<(Role, Value)> {
    let role = shown(session)?;
    Ok((role, ask(session, role).await?))
}

/// Checks that the host responds to requests without a credential.
///
/// # Errors
///
/// The host does not respond.
pub(crate) async fn answers(session: &Session) -> Result {
    session.client.get(&["ai", "manifest"]).by(CredentialChoice::Everyone).send().await.map(drop)
}

/// Returns the role of the first credential that exists, which most commands would use.
fn shown(session: &Session) -> Result<Role> {
    if !session.client.has_credential() {
        let error = Error::credential(format!("you are not signed in to {}", session.host()));
        let variables = [Role::Builder, Role::Admin, Role::Credit].map(Role::variable).join(", ");
        return Err(error.hint(format!("tollhouse login --url {}, or set one of {variables}", host_name(session.client.base()))));
    }
    let mut lacking = None;
    for who in [CredentialChoice::Manager, CredentialChoice::Holder] {
        match session.client.credential(who) {
            Ok(Some((role, _))) => return Ok(role),
            Ok(None) => {}
            Err(error) => lacking = Some(error),
        }
    }
    Err(lacking.unwrap_or_else(|| Error::credential("nobody is signed in")))
}

/// Returns the host's data about the owner of this credential. A response proves that the host accepts the credential.
pub(crate) async fn ask(session: &Session, role: Role) -> Result<Value> {
    let client = &session.client;
    let answer = match role {
        Role::Builder => client.get(&["ai", "builders", "me"]).send().await?.body["builder"].take(),
        Role::Admin => client.get(&["ai", "admin", "policy"]).by(CredentialChoice::Admin).send().await.map(|_| json!({}))?,
        Role::Credit => client.get(&["ai", "credits"]).by(CredentialChoice::Holder).query("limit", 1).send().await?.body,
    };
    Ok(answer)
}

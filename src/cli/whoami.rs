//! `tollhouse whoami`: shows the host and the user.

use serde::Serialize;
use serde_json::json;
use tollhouse_api::{Builder, BuilderResponse, CreditHistory, Manifest, PolicyResponse};

use super::base::{CredentialChoice, Error, FactList, Result, Role, Session, host_name, usd};

/// The host's data about the owner of a credential.
#[derive(Serialize)]
#[serde(untagged)]
pub(crate) enum Identity {
    Builder(Builder),
    Admin {},
    Credit(Box<CreditHistory>),
}

impl Identity {
    /// Returns the builder's name, or the credit's label.
    pub(crate) fn name(&self) -> &str {
        match self {
            Self::Builder(builder) => &builder.name,
            Self::Admin {} => "",
            Self::Credit(credit) => &credit.credit.label,
        }
    }
}

pub(crate) async fn run(session: &Session) -> Result {
    let (role, known) = known(session).await?;
    let answer = json!({ "url": host_name(session.client.base()), "profile": session.name, "role": role.label(), "known": known });
    session.out.print(&answer, |_| {
        let mut facts = FactList::default();
        facts.add("host", session.host());
        facts.add("role", role.label());
        match &known {
            Identity::Builder(builder) => {
                facts.add("builder", &builder.name);
                facts.add("id", &builder.builder_id);
            }
            Identity::Admin {} => {}
            Identity::Credit(history) => {
                facts.add("credit", &history.credit.credit_id);
                facts.add("label", &history.credit.label);
                facts.add("balance", usd(history.credit.balance_usd));
            }
        }
        let profile = &session.profile;
        facts.add("limits", format!("${} a call, ${} a day", profile.max_usd, profile.daily_usd));
        facts.add("network", profile.network.as_deref().unwrap_or_default());
        facts.add("key file", profile.key_file.as_ref().map(|file| file.display().to_string()).unwrap_or_default());
        if let Some(folder) = &session.folder {
            facts.add("folder", format!("{} ({})", folder.path.display(), folder.state.slug));
        }
        if let Identity::Builder(Builder { suspended: Some(suspension), .. }) = &known {
            facts.add("suspended", suspension.reason.as_deref().unwrap_or("yes"));
        }
        facts.text()
    })
}

/// Returns the role that most commands use, and the host's data about it.
///
/// # Errors
///
/// Nobody is signed in, or the host rejects the credential.
pub(crate) async fn known(session: &Session) -> Result<(Role, Identity)> {
    let role = shown(session)?;
    Ok((role, ask(session, role).await?))
}

/// Checks that the host responds to requests without a credential.
pub(crate) async fn answers(session: &Session) -> Result {
    session.client.get(&["ai", "manifest"]).by(CredentialChoice::Everyone).send::<Manifest>().await.map(drop)
}

/// Returns the role of the first credential that exists, which most commands would use.
fn shown(session: &Session) -> Result<Role> {
    if !session.client.has_credential() {
        let error = Error::credential(format!("you are not signed in to {}", session.host()));
        let variables = [Role::Builder, Role::Admin, Role::Credit].map(Role::variable).join(", ");
        return Err(error.hint(format!("sign in: tollhouse login --url {}, or set one of {variables}", host_name(session.client.base()))));
    }
    let mut lacking = None;
    for who in [CredentialChoice::Manager, CredentialChoice::Holder] {
        match session.client.credential(who) {
            Ok(Some((role, _))) => return Ok(role),
            Ok(None) => {}
            Err(error) => lacking = Some(error),
        }
    }
    Err(lacking.unwrap_or_else(|| Error::credential("not signed in")))
}

/// Returns the host's data about the owner of this credential. A response proves that the host accepts the credential.
pub(crate) async fn ask(session: &Session, role: Role) -> Result<Identity> {
    let client = &session.client;
    Ok(match role {
        Role::Builder => Identity::Builder(client.get(&["ai", "builders", "me"]).send::<BuilderResponse>().await?.body.builder),
        Role::Admin => {
            client.get(&["ai", "admin", "policy"]).by(CredentialChoice::Admin).send::<PolicyResponse>().await?;
            Identity::Admin {}
        }
        Role::Credit => {
            let asking = client.get(&["ai", "credits"]).by(CredentialChoice::Holder).query("limit", 1);
            Identity::Credit(Box::new(asking.send::<CreditHistory>().await?.body))
        }
    })
}

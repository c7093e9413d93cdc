//! `/ai/builders/sign-in-links`: lets a program sign its user in to the dashboard without a credential in the URL.

use std::sync::Arc;

use axum::{Json, extract::State, http::HeaderMap};
use tollhouse_account::session::Kind;
use tollhouse_api::{SignInLink, Timestamp, True};
use tollhouse_front::{Caller, Code, Fault, names};

use super::{
    auth::Anyone,
    route::{Route, post},
    services::Accounts,
};

pub(super) fn routes() -> Vec<Route> {
    let what = "a link that signs in to the dashboard as who asks: once, within a minute";
    vec![post("/ai/builders/sign-in-links", "makeSignInLink", what, link).answers("SignInLink")]
}

async fn link(Anyone(caller, ..): Anyone, State(accounts): State<Arc<Accounts>>, headers: HeaderMap) -> Result<Json<SignInLink>, Fault> {
    let (kind, owner, name) = match &caller {
        Caller::Admin => (Kind::Admin, "admin", &names::ADMIN_TOKEN),
        Caller::Builder(builder) => (Kind::Builder, builder.id.as_str(), &names::BUILDER_KEY),
    };
    let credential = headers.get(name).and_then(|credential| credential.to_str().ok()).ok_or(Code::Unauthorized)?;
    let (token, until) = accounts.sessions.link(owner, kind, credential).await?;
    let url = format!("{}/dashboard/sign-in?link={token}", accounts.base_url);
    Ok(Json(SignInLink { ok: True, url, expires_at: Timestamp(until.0) }))
}

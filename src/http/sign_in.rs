//! `/ai/builders/sign-in-links`: lets a program sign its user in to the dashboard without a credential in the URL.

use tollhouse_account::session::SessionKind;
use tollhouse_api::{SignInLink, True};
use tollhouse_front::{Caller, Code, header_names};

use crate::{AdminOrBuilder, HeaderMap, Http, Json, JsonResult, Route, State, post};

pub(super) fn routes() -> Vec<Route> {
    let what = "a link that signs the caller in to the dashboard: once, within a minute";
    vec![post("/ai/builders/sign-in-links", "makeSignInLink", what, link).answers("SignInLink")]
}

async fn link(AdminOrBuilder(caller, ..): AdminOrBuilder, State(http): State<Http>, headers: HeaderMap) -> JsonResult<SignInLink> {
    let (kind, owner, name) = match &caller {
        Caller::Admin => (SessionKind::Admin, "admin", &header_names::ADMIN_TOKEN),
        Caller::Builder(builder) => (SessionKind::Builder, builder.id.as_str(), &header_names::BUILDER_KEY),
    };
    let credential = headers.get(name).and_then(|credential| credential.to_str().ok()).ok_or(Code::Unauthorized)?;
    let (token, until) = http.sessions.link(owner, kind, credential).await?;
    let url = format!("{}/dashboard/sign-in?link={token}", http.base_url);
    Ok(Json(SignInLink { ok: True, url, expires_at: until }))
}

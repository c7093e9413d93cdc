//! `/dashboard/sign-in`: exchanges a credential for a session.

use std::sync::Arc;

use axum::extract::{FromRequest as _, FromRequestParts as _};
use maud::{Markup, html};
use serde_json::Value;
use tollhouse_account::{
    builder::KEY_PREFIX,
    credential,
    session::{SessionKind, Token},
};
use tollhouse_api::CreditHistory;
use tollhouse_front::{ApiError, Code};
use tollhouse_money::CREDIT_PREFIX;

use crate::{
    ApiRefusal, Area, IntoResponse, Page, PageResult, PostedForm, RawQuery, Redirect, Request, Response, Services, State, StatusCode,
    Visitor, form,
    forms::{self, PostedInBrief, PostedToSignIn, SentForm},
    header, page_frame,
    parts::{sign_in::sign_in as sign_in_form, time::span},
    visitor::own,
};

/// Error message of a failed sign-in.
const WRONG: &str = "Invalid credential. It is mistyped, used, expired or replaced.";

pub(crate) async fn page(visitor: Visitor, RawQuery(query): RawQuery) -> Response {
    let query = query.unwrap_or_default();
    let request = |requested: &str| form_urlencoded::parse(query.as_bytes()).find(|(name, _)| name == requested).map(|(_, value)| value);
    match request("link") {
        Some(link) => by_link(&visitor, &link).await,
        None => sign_in_page(&visitor, &carried(request("to").as_deref().unwrap_or_default(), None), None).await,
    }
}

/// Returns the page of a sign-in link. Only its button signs in, because programs open links too.
/// It names the account only if the link is valid.
async fn by_link(visitor: &Visitor, link: &str) -> Response {
    let owner = match link.parse::<Token>() {
        Ok(token) => visitor.services.sessions.linked(&token).await.ok().flatten(),
        Err(()) => None,
    };
    let main = html! {
        p.lead {
            @match owner {
                Some(owner) => { "This link signs you in as " code { (owner) } ". It works once, within one minute of its creation. " }
                None => { "This link is not valid. It is mistyped, used, or older than one minute. Create a new one. " }
            }
            @if let Some(session) = visitor.session() { "You are signed in as " code { (session.owner) } ". Signing in with the link ends that session." }
        }
        form.form method="post" action="/dashboard/session" {
            (form::token(visitor))
            input type="hidden" name="link" value=(link);
            button.primary { "Sign in" }
        }
    };
    visitor.show(Page { unlisted: true, ..Page::new(Area::SignIn, "Sign in", main) }).await
}

/// `POST /dashboard/session`: begins a session for a credential, and redirects to the requested
/// page.
pub(crate) async fn sign_in(State(services): State<Arc<Services>>, request: Request) -> Result<Response, Response> {
    let (mut parts, body) = request.into_parts();
    let visitor = Visitor::from_request_parts(&mut parts, &services).await.map_err(IntoResponse::into_response)?;
    let browser = parts.headers.get(header::USER_AGENT).and_then(|name| name.to_str().ok()).unwrap_or_default().to_owned();
    let request = Request::from_parts(parts, body);
    // Checked before the form is read, which may be as large as an upload.
    if let Err(often) = visitor.may_show_credential() {
        return too_often(&visitor, &often, PostedInBrief::from_request(request, &services).await.ok()).await;
    }
    let posted = PostedToSignIn::from_request(request, &services).await?;
    begin(&services, posted, &browser).await.map_err(IntoResponse::into_response)
}

/// Refuses to check a credential now. The page carries a short form on. For a longer one, the
/// visitor can reload the page to send it again.
async fn too_often(visitor: &Visitor, often: &ApiError, posted: Option<PostedInBrief>) -> Result<Response, Response> {
    let wait = often.retry_after_secs().unwrap_or_default();
    let reason = format!("Too many invalid credentials from your address. Try again in {}.", span(wait));
    let again = || {
        posted.as_ref().map(|PostedForm { fields, .. }| carried(fields.get("to").unwrap_or_default(), SentForm::carried(fields).as_ref()))
    };
    let carried = visitor.render(again).await.map_err(IntoResponse::into_response)?.unwrap_or_default();
    let mut response = sign_in_page(visitor, &carried, Some((often.code().row().status, &reason))).await;
    response.headers_mut().insert(header::RETRY_AFTER, wait.into());
    Ok(response)
}

async fn begin(services: &Services, posted: PostedToSignIn, browser: &str) -> PageResult {
    let PostedForm { visitor, fields, .. } = posted;
    let sent = SentForm::carried(&fields);
    let to = fields.get("to").unwrap_or_default();
    let again = || carried(to, sent.as_ref());
    let check = visitor.begin_check().await?;
    let link = match fields.get("link").map(str::parse::<Token>) {
        Some(Ok(link)) => services.sessions.redeem(&link).await.map_err(ApiError::from)?,
        Some(Err(())) | None => None,
    };
    let shown_credential = link.as_ref().map_or_else(|| fields.get("credential").unwrap_or_default().trim(), |link| &link.credential);
    let kind = kind(shown_credential);
    let Some(owner) = owner(&visitor.with_credential(kind, shown_credential), kind, shown_credential).await? else {
        check.fail();
        return Ok(sign_in_page(&visitor, &visitor.render(again).await?, Some((StatusCode::UNAUTHORIZED, WRONG))).await);
    };
    drop(check);
    if let Some(before) = visitor.session() {
        services.sessions.end(&before.owner, &before.name).await.map_err(ApiError::from)?;
    }
    let token = services.sessions.begin(&owner, kind, shown_credential, browser).await.map_err(ApiError::from)?;
    let to = if forms::is_page(to) { to } else { page_frame::home(kind) };
    let mut response = match (sent, services.sessions.open(&token).await.map_err(ApiError::from)?) {
        (Some(sent), Some(session)) => signed_in(&visitor.with_session(session), &sent).await?,
        (Some(_) | None, _) => Redirect::to(to).into_response(),
    };
    response.headers_mut().insert(header::SET_COOKIE, services.cookie.set(&token));
    Ok(response)
}

/// Offers to send the form that was submitted before sign-in.
async fn signed_in(visitor: &Visitor, sent: &SentForm) -> PageResult {
    let main = visitor.render(|| {
        html! {
            p.lead { "You are signed in. The form that you sent before was not processed yet." }
            @if let Some(session) = visitor.session() { (sent.form(session)) }
        }
    });
    Ok(visitor.show(Page { unlisted: true, ..Page::new(Area::SignIn, "Send it again", main.await?) }).await)
}

/// `POST /dashboard/sign-out`: ends the session of this browser.
pub(crate) async fn sign_out(State(services): State<Arc<Services>>, posted: PostedForm) -> PageResult {
    if let Some(session) = posted.visitor.session() {
        services.sessions.end(&session.owner, &session.name).await.map_err(ApiError::from)?;
    }
    Ok(forgotten(&services, Redirect::to("/dashboard").into_response()))
}

/// Adds headers that delete all cookies of this host from the browser.
pub(super) fn forgotten(services: &Services, mut response: Response) -> Response {
    for cookie in [services.cookie.clone(), services.cookie.companion("play"), services.cookie.companion("try")] {
        response.headers_mut().append(header::SET_COOKIE, cookie.clear());
    }
    response
}

/// Returns the kind of a credential, by its format.
fn kind(credential: &str) -> SessionKind {
    match credential {
        key if key.starts_with(KEY_PREFIX) => SessionKind::Builder,
        token if token.starts_with(CREDIT_PREFIX) => SessionKind::Holder,
        _ => SessionKind::Admin,
    }
}

/// Returns the owner of a credential, or `None` if it is invalid. Suspended builders can sign in
/// too, to read their earnings.
async fn owner(visitor: &Visitor, kind: SessionKind, credential: &str) -> Result<Option<String>, ApiRefusal> {
    if kind == SessionKind::Holder {
        return match visitor.get::<CreditHistory>(own(kind)).await {
            Err(refused) if refused.is(Code::Unauthorized) => Ok(None),
            credit => Ok(Some(credit?.credit.credit_id.to_string())),
        };
    }
    match visitor.get::<Value>(own(kind)).await {
        Err(refused) if refused.is(Code::Unauthorized) => return Ok(None),
        Err(refused) if refused.is(Code::BuilderSuspended) => {}
        answer => _ = answer?,
    }
    Ok(match kind {
        SessionKind::Admin => Some("admin".to_owned()),
        SessionKind::Builder | SessionKind::Holder => credential::parts(KEY_PREFIX, credential).map(|(id, _)| format!("bld_{id}")),
    })
}

/// Returns hidden fields with the requested page and the carried form.
fn carried(to: &str, sent: Option<&SentForm>) -> Markup {
    html! { input type="hidden" name="to" value=(to); @if let Some(sent) = sent { (sent.carry()) } }
}

/// Shows the page, with the error of the last attempt.
async fn sign_in_page(visitor: &Visitor, carried: &Markup, wrong: Option<(StatusCode, &str)>) -> Response {
    let main = html! {
        p.lead { "Enter your builder key, the token of a credit, or the admin token. The host stores it encrypted, and only this browser can decrypt it." }
        (sign_in_form(visitor, carried, wrong.map(|(_, reason)| reason)))
        section aria-labelledby="new" {
            h2 #new { "New here?" }
            p { "Builders publish tools and are paid for each call that succeeds." }
            p { a.button href="/dashboard/register" { "Register as a builder" } }
        }
        (kinds())
    };
    let status = wrong.map_or(StatusCode::OK, |(status, _)| status);
    visitor.show(Page { status, unlisted: true, ..Page::new(Area::SignIn, "Sign in", main) }).await
}

/// Describes the three kinds of credentials and their sources.
fn kinds() -> Markup {
    html! {
        section aria-labelledby="kinds" {
            h2 #kinds { "What each credential gives access to" }
            dl.facts {
                div { dt { code { "bk_…" } } dd { "A builder's key: your tools, what they earn, your payouts. It was shown once, when you registered." } }
                div { dt { code { "dc_…" } } dd { "The token of a developer credit: its balance and what was paid from it. An admin of this host mints credits." } }
                div { dt { "Admin token" } dd { "The whole host. The token is in the file " code { "admin-token" } " in the host's data folder, unless the operator set another token." } }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kind_of_credential_is_known_by_its_prefix() {
        for (credential, requested) in
            [("bk_1_2", SessionKind::Builder), ("dc_1_2", SessionKind::Holder), ("abc", SessionKind::Admin), ("", SessionKind::Admin)]
        {
            assert_eq!(kind(credential), requested, "{credential}");
        }
    }
}

//! `/dashboard/account`: the current user, their sessions, and actions on them.

use std::sync::Arc;

use maud::{Markup, html};
use tollhouse_account::session::{OpenSession, Session, SessionKind, SessionName};
use tollhouse_api::{Builder, BuilderResponse};
use tollhouse_front::{ApiError, Code};

use super::sign_in::forgotten;
use crate::{
    Area, IntoResponse as _, Page, PageResult, PostedBySession, PostedForm, Redirect, Services, SignedIn, State, Visitor, Words, facts,
    first, form, moment, plain, table, word, words,
};

/// Maximum length of a browser's user agent.
const BROWSER: usize = 120;

pub(crate) async fn page(State(services): State<Arc<Services>>, SignedIn(visitor): SignedIn) -> PageResult {
    let Some(session) = visitor.session() else { return Err(ApiError::from(Code::Unauthorized).into()) };
    let sessions = services.sessions.list(&session.owner).await.map_err(ApiError::from)?;
    let answer = match session.kind {
        SessionKind::Builder => match visitor.get::<BuilderResponse>("/ai/builders/me").await {
            // A suspended builder can read only their earnings.
            Err(refused) if refused.is(Code::BuilderSuspended) => None,
            answer => Some(answer?),
        },
        SessionKind::Admin | SessionKind::Holder => None,
    };
    let main = html! {
        (identity(session, answer.as_ref().map(|answer| &answer.builder)))
        @if session.kind == SessionKind::Builder { (key(&visitor)) }
        (listed(&visitor, session, &sessions))
        form.form method="post" action="/dashboard/sign-out" { (form::token(&visitor)) button { "Sign out" } }
    };
    Ok(visitor.show(Page { style: Some("make.css"), ..Page::new(Area::Account, "Account", main) }).await)
}

/// `POST /dashboard/sessions/end`: ends the session in `name`, or all sessions.
pub(crate) async fn end(State(services): State<Arc<Services>>, posted: PostedBySession) -> PageResult {
    let PostedBySession(PostedForm { visitor, fields, .. }) = posted;
    let Some(session) = visitor.session() else { return Err(ApiError::from(Code::Unauthorized).into()) };
    let Some(name) = fields.get("name").filter(|name| !name.is_empty()) else {
        services.sessions.end_all(&session.owner).await.map_err(ApiError::from)?;
        return Ok(forgotten(&services, Redirect::to("/dashboard/sign-in").into_response()));
    };
    services.sessions.end(&session.owner, name).await.map_err(ApiError::from)?;
    Ok(Redirect::to("/dashboard/account#sessions").into_response())
}

fn identity(session: &OpenSession, builder: Option<&Builder>) -> Markup {
    let kind = match session.kind {
        SessionKind::Admin => "admin of this host",
        SessionKind::Builder => "builder",
        SessionKind::Holder => "holder of a developer credit",
    };
    facts::list(&[
        ("Signed in as", Some(html! { (kind) })),
        ("Name", builder.map(|builder| words(&builder.name))),
        ("Contact", builder.and_then(|builder| builder.contact.as_deref()).map(words)),
        ("Id", (session.kind != SessionKind::Admin).then(|| facts::id(&session.owner))),
        ("Registered", builder.map(|builder| moment(builder.created_at))),
        ("Key created", builder.map(|builder| moment(builder.key_created_at))),
        ("Tier", builder.map(|builder| words(word(builder.tier)))),
    ])
}

fn key(visitor: &Visitor) -> Markup {
    html! {
        section aria-labelledby="key" {
            h2 #key { "Key" }
            p.words { "A new key replaces the current one, which stops working. All sessions that use the current key end, including this one." }
            (form::operation(visitor, "rotateBuilderKey", &[], "/dashboard/sign-in", html! { button { "Create a new key" } }))
        }
    }
}

/// Returns browser and system of a user agent, or the user agent itself if neither is known.
fn browser(named: &str) -> Markup {
    let found = |known: &[(&str, &'static str)]| known.iter().find(|(sign, _)| named.contains(sign)).map(|(_, name)| *name);
    // Most user agents also contain names of other browsers, after their own.
    let kinds =
        [("Edg/", "Edge"), ("OPR/", "Opera"), ("Firefox/", "Firefox"), ("Chrome/", "Chrome"), ("Safari/", "Safari"), ("curl/", "curl")];
    let systems =
        [("Android", "Android"), ("iPhone", "iOS"), ("iPad", "iOS"), ("Windows", "Windows"), ("Mac OS", "macOS"), ("Linux", "Linux")];
    html! {
        @match (found(&kinds), found(&systems)) {
            (Some(kind), Some(system)) => { (kind) " on " (system) },
            (Some(kind), None) => (kind),
            (None, _) if named.is_empty() => "unknown browser",
            (None, _) => (first(named, BROWSER)),
        }
    }
}

fn listed(visitor: &Visitor, own: &OpenSession, sessions: &[(SessionName, Session)]) -> Markup {
    let row = |(name, session): &(SessionName, Session)| {
        let [created, seen] = [&session.created_at, &session.seen_at].map(moment);
        let end = html! {
            @if *name == own.name { "this browser" } @else {
                form method="post" action="/dashboard/sessions/end" {
                    (form::token(visitor))
                    input type="hidden" name="name" value=(name);
                    button { "End" span.aside { " the session of " (created) } }
                }
            }
        };
        [html! { span title=(plain(&session.browser)) { (browser(&session.browser)) } }, created, seen, end]
    };
    html! {
        section aria-labelledby="sessions" {
            h2 #sessions { "Sessions" }
            (table("Sessions", ["Session", "Signed in", "Last used", "End"].map(Words), sessions.iter().map(row)))
            form.form method="post" action="/dashboard/sessions/end" { (form::token(visitor)) button { "Sign out everywhere" } }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn browser_has_its_usual_name() {
        let chrome = "Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 (KHTML, like Gecko) HeadlessChrome/156.0.0.0 Safari/537.36";
        for (named, rendered) in [
            (chrome, "Chrome on Linux"),
            ("Mozilla/5.0 (Macintosh; Intel Mac OS X 15.0; rv:140.0) Gecko/20100101 Firefox/140.0", "Firefox on macOS"),
            ("curl/8.0", "curl"),
            ("", "unknown browser"),
            ("<b>", "<bdi>&lt;b&gt;</bdi>"),
        ] {
            assert_eq!(browser(named).into_string(), rendered);
        }
    }
}

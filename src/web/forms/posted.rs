//! A submitted form, verified to come from a page of this host.

use std::sync::Arc;

use axum::{
    extract::{FromRequest, FromRequestParts as _, Request},
    http::header,
    response::{IntoResponse as _, Response},
};
use maud::html;
use subtle::ConstantTimeEq as _;
use tollhouse_account::session::Opened;
use tollhouse_front::{Code, Fault, body, peer};

use super::{
    again::{CARRIED_SENT, Sent},
    fields::Fields,
    places::is_page,
};
use crate::{
    page::{Area, Page},
    parts::sign_in::sign_in,
    services::Services,
    visitor::{Refused, Visitor},
};

/// Maximum size of a form without a session, in bytes. Large enough for a form whose session ended
/// while it was filled in.
const MOST_BYTES: usize = 1 << 20;

/// Maximum fields of a form. On the page that carries it, an empty field takes a hundred times its
/// size.
const MOST_FIELDS: usize = 4_096;

/// Maximum size in bytes and fields of the sign-in form: its own fields, and a complete carried
/// form with the prefix of each field.
const SIGN_IN_BYTES: usize = body::SMALL_BODY_BYTES + body::MANAGEMENT_BODY_BYTES + MOST_FIELDS * CARRIED_SENT.len();
const SIGN_IN_FIELDS: usize = SIGN_IN_OWN + MOST_FIELDS;

/// The sign-in form's own fields: the session token, the carried address, the return address, and
/// the credential.
const SIGN_IN_OWN: usize = 4;

/// A submitted form with its sender. The limits on bytes and fields apply to senders without a
/// session.
pub(crate) struct Posted<const MOST: usize = MOST_BYTES, const FIELDS: usize = MOST_FIELDS> {
    pub(crate) visitor: Visitor,
    pub(crate) fields: Fields,
    /// The address that it was sent to.
    action: String,
}

/// A form from a signed-in visitor. Without a session, the form is kept until the visitor signs in.
pub(crate) struct PostedBySession(pub(crate) Posted);

/// The sign-in form, which may carry any other form.
pub(crate) type PostedToSignIn = Posted<SIGN_IN_BYTES, SIGN_IN_FIELDS>;

/// A sign-in form that carries at most a few short fields.
pub(crate) type PostedInBrief = Posted<{ body::SMALL_BODY_BYTES }, MOST_FIELDS>;

impl<const MOST: usize, const FIELDS: usize> FromRequest<Arc<Services>> for Posted<MOST, FIELDS> {
    type Rejection = Response;

    async fn from_request(request: Request, services: &Arc<Services>) -> Result<Self, Response> {
        let (mut parts, body) = request.into_parts();
        let visitor = Visitor::from_request_parts(&mut parts, services).await.map_err(fault)?;
        let media = parts.headers.get(header::CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
        if media.split(';').next().unwrap_or_default().trim() != "application/x-www-form-urlencoded" {
            return Err(fault(Fault::new(Code::UnsupportedMediaType, "a form is sent as `application/x-www-form-urlencoded`")));
        }
        // Escaped, a source of maximum size may be three times as long.
        let most = if visitor.session().is_some() { body::MANAGEMENT_BODY_BYTES } else { MOST };
        let intake = &services.shared.intake;
        let bytes = body::read(intake, peer(&parts.extensions), &parts.headers, body, most).await.map_err(fault)?;
        if bytes.iter().filter(|byte| **byte == b'&').count() >= FIELDS {
            return Err(fault(Fault::bad_request(format!("a form has at most {FIELDS} fields"))));
        }
        let fields = visitor.made(|| Fields::read(&bytes)).await.map_err(Refused::into_response)?;
        let posted = Self { visitor, fields, action: parts.uri.path().to_owned() };
        match posted.visitor.session().map(|session| genuine(session, posted.fields.get("csrf").unwrap_or_default())) {
            Some(Err(other)) => Err(posted.again(other).await),
            Some(Ok(())) | None => Ok(posted),
        }
    }
}

impl FromRequest<Arc<Services>> for PostedBySession {
    type Rejection = Response;

    async fn from_request(request: Request, services: &Arc<Services>) -> Result<Self, Response> {
        let posted = Posted::from_request(request, services).await?;
        let Posted { visitor, .. } = &posted;
        if visitor.session().is_some() && !visitor.end_session().await {
            return Ok(Self(posted));
        }
        Err(posted.again(Code::Unauthorized.into()).await)
    }
}

impl<const MOST: usize, const FIELDS: usize> Posted<MOST, FIELDS> {
    /// Returns the page to send the form again: directly if the session was replaced, or after
    /// sign-in. Returns the fault itself if the form must not be kept.
    pub(crate) async fn again(&self, why: Fault) -> Response {
        let Some(sent) = Sent::of(&self.action, &self.fields) else { return fault(why) };
        let nobody = self.visitor.unsigned();
        let (visitor, title) = match why.code() {
            Code::Unauthorized => (&nobody, "Sign in to go on"),
            _ => (&self.visitor, "Send it again"),
        };
        let back = self.fields.get("back").filter(|back| is_page(back)).unwrap_or_default();
        let view = || match visitor.session() {
            Some(session) => html! {
                p.lead { "What you sent is of a session that has ended, and it was not done. It can be sent by the one that you have now." }
                (sent.form(session))
            },
            None => html! {
                p.lead { "You are not signed in any more, and what you sent was not done. It is kept on this page: sign in, and send it from there." }
                (sign_in(visitor, &html! { input type="hidden" name="to" value=(back); (sent.carry()) }, None))
            },
        };
        match visitor.made(view).await {
            Ok(main) => {
                let status = why.code().row().status;
                visitor.show(Page { status, unlisted: true, ..Page::new(Area::SignIn, title, main) }).await
            }
            Err(refused) => refused.into_response(),
        }
    }
}

fn fault(fault: Fault) -> Response {
    fault.into_response()
}

/// Checks the form token, which only pages of this session know.
pub(crate) fn genuine(session: &Opened, shown: &str) -> Result<(), Fault> {
    match shown.as_bytes().ct_eq(session.form_token.as_bytes()).into() {
        true => Ok(()),
        false => Err(Fault::new(Code::Forbidden, "this form is of another session").hint("open the page again, and send it from there")),
    }
}

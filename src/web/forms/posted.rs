//! A submitted form, verified to come from a page of this host.

use std::sync::Arc;

use axum::extract::{FromRequest, FromRequestParts as _};
use maud::html;
use subtle::ConstantTimeEq as _;
use tollhouse_account::session::OpenSession;
use tollhouse_front::{ApiError, Code, body, peer};

use super::{
    fields::Fields,
    form_urls::is_page,
    resubmit::{CARRIED_SENT, SentForm},
};
use crate::{ApiRefusal, Area, IntoResponse, Page, Request, Response, Services, Visitor, header, parts::sign_in::sign_in};

/// Maximum size of a form without a session, in bytes. Large enough for a form whose session ended
/// while it was filled in.
const MAX_BYTES: usize = 1 << 20;

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
pub(crate) struct PostedForm<const MOST: usize = MAX_BYTES, const FIELDS: usize = MOST_FIELDS> {
    pub(crate) visitor: Visitor,
    pub(crate) fields: Fields,
    /// The address that it was sent to.
    action: String,
}

/// A form from a signed-in visitor. Without a session, the form is kept until the visitor signs in.
pub(crate) struct PostedBySession(pub(crate) PostedForm);

/// The sign-in form, which may carry any other form.
pub(crate) type PostedToSignIn = PostedForm<SIGN_IN_BYTES, SIGN_IN_FIELDS>;

/// A sign-in form that carries at most a few short fields.
pub(crate) type PostedInBrief = PostedForm<{ body::SMALL_BODY_BYTES }, MOST_FIELDS>;

impl<const MOST: usize, const FIELDS: usize> FromRequest<Arc<Services>> for PostedForm<MOST, FIELDS> {
    type Rejection = Response;

    async fn from_request(request: Request, services: &Arc<Services>) -> Result<Self, Response> {
        let (mut parts, body) = request.into_parts();
        let visitor = Visitor::from_request_parts(&mut parts, services).await.map_err(IntoResponse::into_response)?;
        let media = parts.headers.get(header::CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
        if media.split(';').next().unwrap_or_default().trim() != "application/x-www-form-urlencoded" {
            return Err(
                ApiError::new(Code::UnsupportedMediaType, "a form must be sent as `application/x-www-form-urlencoded`").into_response()
            );
        }
        // Escaped, a source of maximum size may be three times as long.
        let max = if visitor.session().is_some() { body::MANAGEMENT_BODY_BYTES } else { MOST };
        let intake = &services.shared.intake;
        let bytes = body::read(intake, peer(&parts.extensions), &parts.headers, body, max).await.map_err(IntoResponse::into_response)?;
        if bytes.iter().filter(|byte| **byte == b'&').count() >= FIELDS {
            return Err(ApiError::bad_request(format!("a form can have at most {FIELDS} fields")).into_response());
        }
        let fields = visitor.render(|| Fields::read(&bytes)).await.map_err(ApiRefusal::into_response)?;
        let posted = Self { visitor, fields, action: parts.uri.path().to_owned() };
        match posted.visitor.session().map(|session| check_form_token(session, posted.fields.get("csrf").unwrap_or_default())) {
            Some(Err(other)) => Err(posted.again(other).await),
            Some(Ok(())) | None => Ok(posted),
        }
    }
}

impl FromRequest<Arc<Services>> for PostedBySession {
    type Rejection = Response;

    async fn from_request(request: Request, services: &Arc<Services>) -> Result<Self, Response> {
        let posted = PostedForm::from_request(request, services).await?;
        let PostedForm { visitor, .. } = &posted;
        if visitor.session().is_some() && !visitor.end_session().await {
            return Ok(Self(posted));
        }
        Err(posted.again(Code::Unauthorized.into()).await)
    }
}

impl<const MOST: usize, const FIELDS: usize> PostedForm<MOST, FIELDS> {
    /// Returns the page to send the form again: directly if the session was replaced, or after
    /// sign-in. Returns the error itself if the form must not be kept.
    pub(crate) async fn again(&self, reason: ApiError) -> Response {
        let Some(sent) = SentForm::from_fields(&self.action, &self.fields) else { return reason.into_response() };
        let nobody = self.visitor.without_session();
        let (visitor, title) = match reason.code() {
            Code::Unauthorized => (&nobody, "Sign in to continue"),
            _ => (&self.visitor, "Send it again"),
        };
        let back = self.fields.get("back").filter(|back| is_page(back)).unwrap_or_default();
        let view = || match visitor.session() {
            Some(session) => html! {
                p.lead { "The session of this form has ended, so nothing was done. You can send it again in your current session." }
                (sent.form(session))
            },
            None => html! {
                p.lead { "You are no longer signed in, so nothing was done. This page keeps your form. Sign in, then send it again." }
                (sign_in(visitor, &html! { input type="hidden" name="to" value=(back); (sent.carry()) }, None))
            },
        };
        match visitor.render(view).await {
            Ok(main) => {
                let status = reason.code().row().status;
                visitor.show(Page { status, unlisted: true, ..Page::new(Area::SignIn, title, main) }).await
            }
            Err(refused) => refused.into_response(),
        }
    }
}

/// Checks the form token, which only pages of this session know.
pub(crate) fn check_form_token(session: &OpenSession, shown: &str) -> Result<(), ApiError> {
    match shown.as_bytes().ct_eq(session.form_token.as_bytes()).into() {
        true => Ok(()),
        false => Err(ApiError::new(Code::Forbidden, "this form belongs to another session")
            .hint("open the page again, then send the form from there")),
    }
}

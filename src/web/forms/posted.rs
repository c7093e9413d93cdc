//! What a form sent, once it is sure that a page of this host sent it.

use std::sync::Arc;

use axum::{
    extract::{FromRequest, FromRequestParts as _, Request},
    http::header,
    response::{IntoResponse as _, Response},
};
use subtle::ConstantTimeEq as _;

use super::fields::Fields;
use crate::{
    account::session::Opened,
    front::{Code, Fault, body, peer},
    web::{services::Services, visitor::Visitor},
};

/// What a form sent, and who sent it: at most so many bytes of a stranger.
pub(in crate::web) struct Posted<const MOST: usize = { body::SMALL_BODY_BYTES }> {
    pub(in crate::web) visitor: Visitor,
    pub(in crate::web) fields: Fields,
}

impl<const MOST: usize> FromRequest<Arc<Services>> for Posted<MOST> {
    type Rejection = Response;

    async fn from_request(request: Request, services: &Arc<Services>) -> Result<Self, Response> {
        let (mut parts, body) = request.into_parts();
        let visitor = Visitor::from_request_parts(&mut parts, services).await.map_err(fault)?;
        let media = parts.headers.get(header::CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
        if media.split(';').next().unwrap_or_default().trim() != "application/x-www-form-urlencoded" {
            return Err(fault(Fault::new(Code::UnsupportedMediaType, "a form is sent as `application/x-www-form-urlencoded`")));
        }
        // Escaped, a source at its ceiling may be three times as long.
        let most = if visitor.session().is_some() { body::MANAGEMENT_BODY_BYTES } else { MOST };
        let bytes = body::read(&services.shared.intake, peer(&parts.extensions), body, most).await.map_err(fault)?;
        let fields = Fields::read(&bytes);
        if let Some(session) = visitor.session() {
            genuine(session, fields.get("csrf").unwrap_or_default()).map_err(fault)?;
        }
        Ok(Self { visitor, fields })
    }
}

fn fault(fault: Fault) -> Response {
    fault.into_response()
}

/// Whether a page of this session asks: nobody else knows the token.
pub(in crate::web) fn genuine(session: &Opened, shown: &str) -> Result<(), Fault> {
    match shown.as_bytes().ct_eq(session.form_token.as_bytes()).into() {
        true => Ok(()),
        false => Err(Fault::new(Code::Forbidden, "this form is of another session").hint("open the page again, and send it from there")),
    }
}

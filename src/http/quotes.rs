//! `/ai/quote`: what a call costs all in, at a price that holds for a while.

use std::sync::Arc;

use axum::{
    Json,
    extract::State,
    http::HeaderValue,
    response::{IntoResponse as _, Response},
};
use serde::Deserialize;
use serde_json::json;

use super::{
    endpoints::{Body, Subject},
    services::Quoting,
    turn::ProcessorTurn,
};
use crate::{
    call::CalledBy,
    front::{Code, Fault, body::SMALL_BODY_BYTES, names},
};

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct Wanted {
    slug: String,
}

impl Subject for Wanted {
    const CODE: Code = Code::InvalidMember;
}

/// `POST /ai/quote`.
pub(super) async fn quote(
    State(quoting): State<Arc<Quoting>>,
    ProcessorTurn(turn): ProcessorTurn,
    Body(Wanted { slug }): Body<Wanted, SMALL_BODY_BYTES>,
) -> Result<Response, Fault> {
    let terms = if slug == quoting.registration.slug.as_str() {
        Arc::clone(&quoting.registration)
    } else {
        Arc::clone(&quoting.calls.find(&slug, |_| CalledBy::Anyone)?.0.terms)
    };
    let quote = turn.work(|| quoting.calls.quote(&terms));
    let mut told = quote.json();
    told["ok"] = json!(true);
    let mut response = Json(told).into_response();
    if let Ok(id) = HeaderValue::from_str(&quote.quote_id) {
        response.headers_mut().insert(&names::QUOTE_ID, id);
    }
    Ok(response)
}

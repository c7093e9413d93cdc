//! Documents for programs that look for what they can call: `/openapi.json` and `/.well-known/x402`.
//!
//! They tell what a stranger may see. The first page of each is made once for each change of the catalogue, and each minute; it says where the next one is.

mod kept;
mod openapi;
mod operations;
mod paged;
mod resources;
mod tool;

use std::{sync::Arc, time::Instant};

use axum::{
    extract::State,
    http::{HeaderMap, HeaderValue, header},
    response::{IntoResponse, Response},
};
use serde::Deserialize;
use serde_json::Value;

use self::kept::{Document, Kept};
pub use self::{
    kept::Documents,
    operations::{OPERATIONS, Operation, Takes},
};
use super::{page::QueryParams, services::Offering, turn::ProcessorTurn};
use crate::catalog::Snapshot;

/// Which tools are wanted.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Wanted {
    /// Those behind this one; from the beginning without it.
    after: Option<String>,
}

/// Makes the page of a document behind a slug.
type Make = fn(&Offering, &Snapshot, &str) -> Value;

pub(super) async fn openapi(
    State(offering): State<Arc<Offering>>,
    ProcessorTurn(turn): ProcessorTurn,
    QueryParams(wanted): QueryParams<Wanted>,
    headers: HeaderMap,
) -> Response {
    turn.work(|| page(&offering, &wanted, &offering.documents.openapi, openapi::made)).told(&headers)
}

pub(super) async fn well_known(
    State(offering): State<Arc<Offering>>,
    ProcessorTurn(turn): ProcessorTurn,
    QueryParams(wanted): QueryParams<Wanted>,
    headers: HeaderMap,
) -> Response {
    turn.work(|| page(&offering, &wanted, &offering.documents.well_known, resources::made)).told(&headers)
}

/// A sign of the host, for registries that show one: a gate, half open.
const SIGN: &str = r##"<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 32 32"><path fill="#234" d="M4 6h5v22H4z"/><path fill="#c52" d="M9 12 29 4v5L9 17z"/></svg>"##;

pub(super) async fn sign() -> impl IntoResponse {
    let kept = (header::CACHE_CONTROL, HeaderValue::from_static("public, max-age=86400"));
    ([(header::CONTENT_TYPE, HeaderValue::from_static("image/svg+xml")), kept], SIGN)
}

fn page(offering: &Offering, wanted: &Wanted, kept: &Kept, make: Make) -> Document {
    // Counted before it is read: what changes in between is read again.
    let changes = *offering.catalog.changes().borrow();
    let made = |after: &str| make(offering, &offering.catalog.all(), after);
    match &wanted.after {
        Some(after) => Document::of(&made(after)),
        None => kept.first(changes, Instant::now(), || made("")),
    }
}

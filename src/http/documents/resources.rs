//! `/.well-known/x402`: nobody's standard, and read by directories all the same.

use serde_json::{Value, json};

use super::paged::{ADDRESSES, paid};
use crate::{catalog::Snapshot, http::services::Offering, money::WireVersion};

/// The page behind `after`.
pub(super) fn made(offering: &Offering, all: &Snapshot, after: &str) -> Value {
    let tools: Vec<_> = paid(all, after).take(ADDRESSES + 1).collect();
    let page = &tools[..tools.len().min(ADDRESSES)];
    let base = &offering.base_url;
    // What is the same for each of them.
    let mut accepts = page.first().map_or_else(Vec::new, |live| offering.gate.accepts(&live.terms, WireVersion::V2));
    for entry in accepts.iter_mut().filter_map(Value::as_object_mut) {
        entry.retain(|name, _| !matches!(name.as_str(), "amount" | "maxTimeoutSeconds"));
    }
    let mut told = json!({
        "version": 1,
        "x402Version": 2,
        "resources": page.iter().map(|live| &live.terms.resource_url).collect::<Vec<_>>(),
        "accepts": accepts,
        "openapi": format!("{base}/openapi.json"),
        "manifest": format!("{base}/ai/manifest"),
    });
    if let Some(last) = page.last().filter(|_| tools.len() > page.len()) {
        told["next"] = json!(format!("{base}/.well-known/x402?after={}", last.endpoint.slug));
    }
    told
}

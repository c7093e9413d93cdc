//! `/.well-known/x402`: a list of paid resources that directories read, although no standard defines it.

use std::{collections::HashSet, sync::Arc};

use serde_json::Value;
use tollhouse_api::Resources;
use tollhouse_catalog::{ShownEndpoint, Snapshot};
use tollhouse_money::WireVersion;
use tollhouse_store::StoreError;

use super::paged::{ADDRESSES, paid};
use crate::Services;

/// Builds the page after the slug `after`.
pub(super) async fn build(http: &Services, all: &Snapshot, after: &str) -> Result<Resources, StoreError> {
    let mut page = Vec::new();
    let take = |shown| {
        let fits = page.len() < ADDRESSES;
        if fits {
            page.push(shown);
        }
        fits
    };
    let more = http.catalog.fill(paid(all, after), take).await?.more;
    let base = &http.base_url;
    let accepts = accepted(http, &page);
    let last = page.last().filter(|_| more);
    Ok(Resources {
        version: 1,
        x402_version: 2,
        resources: page.iter().map(|live| live.terms.resource_url.clone()).collect(),
        accepts,
        openapi: format!("{base}/openapi.json"),
        manifest: format!("{base}/ai/manifest"),
        next: last.map(|last| format!("{base}/.well-known/x402?after={}", last.endpoint.slug)),
    })
}

/// Returns each way to pay that one of the tools accepts, without tool-specific fields.
fn accepted(http: &Services, tools: &[Arc<ShownEndpoint>]) -> Vec<Value> {
    let (mut alike, mut accepts) = (HashSet::new(), Vec::new());
    for live in tools {
        let terms = &live.terms;
        if !alike.insert((terms.metered, terms.settle, &terms.accepts, terms.wall)) {
            continue;
        }
        for mut entry in http.payments.accepts(terms, WireVersion::V2) {
            if let Some(entry) = entry.as_object_mut() {
                entry.retain(|name, _| !matches!(name.as_str(), "amount" | "maxTimeoutSeconds"));
            }
            if !accepts.contains(&entry) {
                accepts.push(entry);
            }
        }
    }
    accepts
}

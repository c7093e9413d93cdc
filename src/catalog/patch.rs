//! The body of an update request.

use std::sync::Arc;

use serde::Deserialize;
use serde_json::{Map, Value};
use tollhouse_api::SafetyAttestation;
use tollhouse_protocol::{Isolation, Limits};
use tollhouse_tool::{Capabilities, ChangedVia, Endpoint, MicroUsd, SettleTime, StaticResponse, Status};

use super::{
    PublishError,
    draft::{HandlerDraft, KeepsResponse, field_problems},
    limits::limits_over,
};

/// The body of `PATCH /ai/endpoints/{slug}`. Only named fields change.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
pub struct Patch {
    pub status: Option<Status>,
    pub title: Option<String>,
    pub description: Option<String>,
    pub price_usd: Option<MicroUsd>,
    /// Maximum price of a call. 0 makes the price fixed.
    pub max_price_usd: Option<MicroUsd>,
    pub tags: Option<Vec<String>>,
    pub input_schema: Option<Arc<Value>>,
    pub output_schema: Option<Arc<Value>>,
    pub capabilities: Option<Capabilities>,
    pub handler: Option<HandlerDraft>,
    /// An earlier version to roll back to, instead of `handler`.
    pub version: Option<String>,
    /// Limits that replace the previous ones.
    pub limits: Option<Map<String, Value>>,
    pub allowed_hosts: Option<Vec<String>>,
    pub isolation: Option<Isolation>,
    /// Accepted ways to pay that replace the previous ones.
    pub accepts: Option<Vec<String>>,
    pub settle: Option<SettleTime>,
    /// Cron expressions that replace the previous ones.
    pub schedules: Option<Vec<String>>,
    /// Media types that replace the previous ones.
    pub request_types: Option<Vec<String>>,
    /// Header names that replace the previous ones.
    pub request_headers: Option<Vec<String>>,
    pub refund_broken_streams: Option<bool>,
    /// Attestation of a builder for a new handler.
    pub safety_attestation: Option<SafetyAttestation>,
    /// Note about the new version. Empty removes it.
    pub note: Option<String>,
    /// The interface of the request. Set by the interface itself, not in the body.
    #[serde(skip)]
    pub via: Option<ChangedVia>,
}

impl KeepsResponse for Patch {
    fn keep_response(&mut self, response: StaticResponse) {
        self.handler.keep_response(response);
    }
}

impl Patch {
    /// Returns whether it contains anything that needs a worker or a scan.
    pub(super) fn is_looked_at(&self) -> bool {
        let texts = self.title.is_some() || self.description.is_some() || self.tags.is_some();
        // Only a worker finds whether the handler exports `scheduled`.
        texts
            || self.schedules.is_some()
            || self.handler.is_some()
            || self.version.is_some()
            || self.input_schema.is_some()
            || self.output_schema.is_some()
    }

    /// Returns the names of the changed fields, except `status`, which has its own events.
    pub(super) fn changed(&self) -> Vec<&'static str> {
        let all = [
            ("title", self.title.is_some()),
            ("description", self.description.is_some()),
            ("priceUsd", self.price_usd.is_some()),
            ("maxPriceUsd", self.max_price_usd.is_some()),
            ("tags", self.tags.is_some()),
            ("inputSchema", self.input_schema.is_some()),
            ("outputSchema", self.output_schema.is_some()),
            ("capabilities", self.capabilities.is_some()),
            ("handler", self.handler.is_some()),
            ("version", self.version.is_some()),
            ("limits", self.limits.is_some()),
            ("allowedHosts", self.allowed_hosts.is_some()),
            ("isolation", self.isolation.is_some()),
            ("accepts", self.accepts.is_some()),
            ("settle", self.settle.is_some()),
            ("schedules", self.schedules.is_some()),
            ("requestTypes", self.request_types.is_some()),
            ("requestHeaders", self.request_headers.is_some()),
            ("refundBrokenStreams", self.refund_broken_streams.is_some()),
            ("safetyAttestation", self.safety_attestation.is_some()),
            ("note", self.note.is_some()),
        ];
        all.into_iter().filter_map(|(name, named)| named.then_some(name)).collect()
    }

    /// Applies the patch to `endpoint`, except its handler and capabilities.
    pub(super) fn apply(&self, endpoint: &mut Endpoint, ceilings: &Limits) -> Result<(), PublishError> {
        set(&mut endpoint.status, self.status.as_ref());
        set(&mut endpoint.title, self.title.as_ref());
        set(&mut endpoint.description, self.description.as_ref());
        set(&mut endpoint.price_usd, self.price_usd.as_ref());
        set(&mut endpoint.max_price_usd, self.max_price_usd.as_ref());
        set(&mut endpoint.tags, self.tags.as_ref());
        set(&mut endpoint.input_schema, self.input_schema.as_ref());
        set(&mut endpoint.output_schema, self.output_schema.as_ref());
        set(&mut endpoint.isolation, self.isolation.as_ref());
        set(&mut endpoint.accepts, self.accepts.as_ref());
        set(&mut endpoint.settle, self.settle.as_ref());
        set(&mut endpoint.schedules, self.schedules.as_ref());
        set(&mut endpoint.request_types, self.request_types.as_ref());
        set(&mut endpoint.request_headers, self.request_headers.as_ref());
        set(&mut endpoint.refund_broken_streams, self.refund_broken_streams.as_ref());
        if let Some(changed) = &self.limits {
            endpoint.own_limits = limits_over(Limits::default(), changed, ceilings)?;
        }
        field_problems(endpoint, self.note.as_deref().unwrap_or_default()).into_iter().next().map_or(Ok(()), Err)
    }
}

fn set<T: Clone>(field: &mut T, value: Option<&T>) {
    if let Some(value) = value {
        field.clone_from(value);
    }
}

//! The body of an update request.

use std::sync::Arc;

use serde::Deserialize;
use serde_json::{Map, Value};
use tollhouse_protocol::{Isolation, Limits};
use tollhouse_tool::{Capabilities, ChangedVia, Endpoint, MicroUsd, SettleTime, StaticResponse, Status};

use super::{
    PublishError,
    draft::{HandlerDraft, KeepsResponse, SafetyAttestation, check_input, check_most, check_note, check_settle, text_problems},
    limits::limits_over,
};

/// The body of `PATCH /ai/endpoints/{slug}`. Only named fields change.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
pub struct Patch {
    /// Whether it accepts calls.
    pub status: Option<Status>,
    /// Title for people.
    pub title: Option<String>,
    /// Description for people, and for models that choose a tool.
    pub description: Option<String>,
    /// Price of a call.
    pub price_usd: Option<MicroUsd>,
    /// Maximum price of a call. 0 makes the price fixed.
    pub max_price_usd: Option<MicroUsd>,
    /// Tags for search.
    pub tags: Option<Vec<String>>,
    /// Schema of inputs.
    pub input_schema: Option<Arc<Value>>,
    /// Schema of results.
    pub output_schema: Option<Arc<Value>>,
    /// Requested capabilities.
    pub capabilities: Option<Capabilities>,
    /// The handler.
    pub handler: Option<HandlerDraft>,
    /// An earlier version to roll back to, instead of `handler`.
    pub version: Option<String>,
    /// Limits that replace the previous ones.
    pub limits: Option<Map<String, Value>>,
    /// Hosts for `httpGetJson`.
    pub allowed_hosts: Option<Vec<String>>,
    /// Whether a process may serve several calls.
    pub isolation: Option<Isolation>,
    /// Accepted ways to pay that replace the previous ones.
    pub accepts: Option<Vec<String>>,
    /// When a call is charged: before its handler runs, or after.
    pub settle: Option<SettleTime>,
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
        texts || self.handler.is_some() || self.version.is_some() || self.input_schema.is_some() || self.output_schema.is_some()
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
            ("safetyAttestation", self.safety_attestation.is_some()),
            ("note", self.note.is_some()),
        ];
        all.into_iter().filter_map(|(name, named)| named.then_some(name)).collect()
    }

    /// Applies the patch to `endpoint`, except its handler and capabilities.
    pub(super) fn apply(&self, endpoint: &mut Endpoint, ceilings: &Limits) -> Result<(), PublishError> {
        let Self { status, title, description, price_usd, tags, input_schema, output_schema, .. } = self.clone();
        endpoint.status = status.unwrap_or(endpoint.status);
        endpoint.price_usd = price_usd.unwrap_or(endpoint.price_usd);
        endpoint.max_price_usd = self.max_price_usd.unwrap_or(endpoint.max_price_usd);
        check_most(endpoint.handler_type, endpoint.price_usd, endpoint.max_price_usd)?;
        endpoint.settle = self.settle.unwrap_or(endpoint.settle);
        check_settle(endpoint.settle, endpoint.max_price_usd)?;
        endpoint.isolation = self.isolation.unwrap_or(endpoint.isolation);
        replace(&mut endpoint.accepts, self.accepts.clone());
        replace(&mut endpoint.title, title);
        replace(&mut endpoint.description, description);
        replace(&mut endpoint.tags, tags);
        replace(&mut endpoint.input_schema, input_schema);
        replace(&mut endpoint.output_schema, output_schema);
        if let Some(input) = &self.input_schema {
            check_input(input)?;
        }
        check_note(self.note.as_deref().unwrap_or_default())?;
        if let Some(changed) = &self.limits {
            endpoint.own_limits = limits_over(Limits::default(), changed, ceilings)?;
        }
        text_problems(&endpoint.title, &endpoint.description, &endpoint.tags).into_iter().next().map_or(Ok(()), Err)
    }
}

fn replace<T>(position: &mut T, value: Option<T>) {
    if let Some(value) = value {
        *position = value;
    }
}

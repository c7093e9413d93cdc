//! The body of update: what of an endpoint changes.

use std::sync::Arc;

use serde::Deserialize;
use serde_json::{Map, Value};
use tollhouse_protocol::{Isolation, Limits};
use tollhouse_tool::{Capabilities, Endpoint, MicroUsd, SettleTime, Status, Via};

use super::{
    PublishError,
    draft::{HandlerDraft, SafetyAttestation, check_input, check_most, check_note, check_settle, text_problems},
    limits::limits_over,
};

/// The body of `PATCH /ai/endpoints/{slug}`: what is named changes.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
pub struct Patch {
    /// Whether it is to take calls.
    pub status: Option<Status>,
    /// For people.
    pub title: Option<String>,
    /// For people and for models that choose a tool.
    pub description: Option<String>,
    /// What one call is to cost.
    pub price_usd: Option<MicroUsd>,
    /// What one call is to cost at most; 0 has the price fixed again.
    pub max_price_usd: Option<MicroUsd>,
    /// For who searches.
    pub tags: Option<Vec<String>>,
    /// What an input must fit.
    pub input_schema: Option<Arc<Value>>,
    /// What an answer must fit.
    pub output_schema: Option<Arc<Value>>,
    /// What it is to touch.
    pub capabilities: Option<Capabilities>,
    /// What answers.
    pub handler: Option<HandlerDraft>,
    /// An earlier version to roll back to, in place of `handler`.
    pub version: Option<String>,
    /// In place of those it had.
    pub limits: Option<Map<String, Value>>,
    /// Hosts that `httpGetJson` is to reach.
    pub allowed_hosts: Option<Vec<String>>,
    /// Whether a process may serve more than one call.
    pub isolation: Option<Isolation>,
    /// What it is paid in, in place of what it was.
    pub accepts: Option<Vec<String>>,
    /// When a call is charged: before its handler runs, or after.
    pub settle: Option<SettleTime>,
    /// What builders vouch for, of a new handler.
    pub safety_attestation: Option<SafetyAttestation>,
    /// What is said of the version that runs then; nothing, where that is empty.
    pub note: Option<String>,
    /// By which front it is asked for: that says so, and no body.
    #[serde(skip)]
    pub via: Option<Via>,
}

impl Patch {
    /// Whether it brings anything that a worker looks at, or that is scanned.
    pub(super) fn is_looked_at(&self) -> bool {
        let texts = self.title.is_some() || self.description.is_some() || self.tags.is_some();
        texts || self.handler.is_some() || self.version.is_some() || self.input_schema.is_some() || self.output_schema.is_some()
    }

    /// The names of the fields that it changes, but for `status`, which has events of its own.
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

    /// Changes `endpoint` as the patch says, all but its handler and what it may touch.
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

fn replace<T>(place: &mut T, value: Option<T>) {
    if let Some(value) = value {
        *place = value;
    }
}

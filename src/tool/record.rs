//! The record of a hosted tool as everybody and its owner see it.

use serde_json::{Map, Value, json};
use tollhouse_protocol::Limits;

use super::{
    Endpoint, Owner, Runtime,
    endpoint::{Availability, Status},
    review::ContentSafety,
};

/// The format of a catalog record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CatalogForm {
    /// With `contentSafety` and `limits`.
    Newer,
    /// Without them, as before they were added.
    Older,
}

/// A catalog record, encoded once for all readers.
#[derive(Debug, Clone)]
pub struct Record {
    /// The older format.
    older: Box<str>,
    /// The fields that the newer format adds, as a JSON object.
    added: Box<str>,
}

impl Record {
    /// Returns its approximate size in bytes.
    pub fn bytes(&self) -> usize {
        self.older.len() + self.added.len()
    }

    /// Appends the record as JSON.
    pub fn write(&self, form: CatalogForm, out: &mut Vec<u8>) {
        out.extend_from_slice(self.older.as_bytes());
        if form == CatalogForm::Newer {
            // Replace the closing brace of the one object and the opening brace of the other.
            out.pop();
            out.push(b',');
            out.extend_from_slice(&self.added.as_bytes()[1..]);
        }
    }
}

impl Endpoint {
    /// Returns the encoded catalog record.
    pub fn record(&self, base_url: &str) -> Record {
        Record { older: self.public(base_url, CatalogForm::Older).to_string().into(), added: json!(self.newer_fields()).to_string().into() }
    }

    /// Returns the catalog record.
    pub fn public(&self, base_url: &str, form: CatalogForm) -> Value {
        let free_builtin = self.handler_type.runtime() == Runtime::ManagedBuiltin && self.max_usd().is_zero();
        let mut record = json!({
            "slug": self.slug,
            "id": self.id,
            "title": self.title,
            "description": self.description,
            "status": self.shown_status(),
            "priceUsd": self.price_usd,
            "handlerType": self.handler_type,
            "runtime": self.handler_type.runtime(),
            "pricingMode": self.pricing_mode(),
            "url": format!("{base_url}/tools/{}", self.slug),
            "method": "POST",
            "tags": self.tags,
            "inputSchema": *self.input_schema,
            "outputSchema": *self.output_schema,
            "capabilities": if free_builtin { json!({}) } else { json!(self.capabilities) },
            "createdAt": self.created_at,
            "updatedAt": self.updated_at,
        });
        if self.metered() {
            record["maxPriceUsd"] = json!(self.max_price_usd);
        }
        if !self.settle.is_after() {
            record["settle"] = json!(self.settle);
        }
        if !self.request_types.is_empty() {
            record["requestTypes"] = json!(self.request_types);
        }
        if !self.request_headers.is_empty() {
            record["requestHeaders"] = json!(self.request_headers);
        }
        if self.refund_broken_streams {
            record["refundBrokenStreams"] = json!(true);
        }
        if let (CatalogForm::Newer, Some(fields)) = (form, record.as_object_mut()) {
            fields.extend(self.newer_fields());
        }
        record
    }

    /// Returns the fields that the newer format adds. Of the limits, callers need the time of a call, and the size of a body
    /// that is not JSON.
    fn newer_fields(&self) -> Map<String, Value> {
        let mut limits = json!({ "wallMs": self.limits.wall_ms });
        if !self.request_types.is_empty() {
            limits["bodyBytes"] = json!(self.limits.body_bytes);
        }
        Map::from_iter([("contentSafety".to_owned(), self.public_safety()), ("limits".to_owned(), limits)])
    }

    /// Returns the content safety field, which is null for the platform's own tools: the operator vouches for them.
    fn public_safety(&self) -> Value {
        let scanned = self.content_safety.as_ref().filter(|_| self.owner != Owner::Platform);
        scanned.map_or(Value::Null, ContentSafety::public)
    }

    /// Returns the record for its owner and for admins, with everything except the source.
    pub fn owned(&self, base_url: &str) -> Value {
        let mut record = self.public(base_url, CatalogForm::Newer);
        let more = json!({
            "version": self.version,
            "versions": self.versions,
            "revision": self.revision,
            "owner": self.owner.share(),
            "requestedCapabilities": self.requested_capabilities,
            "allowedHosts": self.allowed_hosts,
            "requestedHosts": self.requested_hosts,
            "limits": self.changed_limits(),
            "ownLimits": changed(&self.own_limits),
            "limitCaps": self.limit_caps,
            "tier": self.tier,
            "tierCap": self.tier_cap,
            "isolation": self.isolation,
            "accepts": self.accepts,
            "settle": self.settle,
            "contentSafety": self.content_safety.as_ref().map(ContentSafety::public),
            "review": self.review_for_owner(),
        });
        if let (Some(record), Value::Object(more)) = (record.as_object_mut(), more) {
            record.extend(more);
        }
        if !self.schedules.is_empty() {
            record["schedules"] = json!(self.schedules);
        }
        record
    }

    /// Returns the tool's entry in a list for its owner or for admins, without schemas and findings.
    pub fn brief(&self, base_url: &str) -> Value {
        json!({
            "slug": self.slug,
            "id": self.id,
            "title": self.title,
            "description": self.description,
            "status": self.shown_status(),
            "state": self.state(),
            "ownerSuspended": self.owner_suspended,
            "priceUsd": self.price_usd,
            "maxPriceUsd": self.metered().then_some(self.max_price_usd),
            "pricingMode": self.pricing_mode(),
            "handlerType": self.handler_type,
            "url": format!("{base_url}/tools/{}", self.slug),
            "tags": self.tags,
            "owner": self.owner.share(),
            "version": self.version,
            "approvedVersion": self.review.approved_version,
            "revision": self.revision,
            "tier": self.tier,
            "capabilities": self.capabilities,
            "requestedCapabilities": self.requested_capabilities,
            "allowedHosts": self.allowed_hosts,
            "requestedHosts": self.requested_hosts,
            "since": self.review.since(),
            "decision": self.review.last,
            "createdAt": self.created_at,
            "updatedAt": self.updated_at,
        })
    }

    /// Returns `active` or `paused`, whoever paused it.
    fn shown_status(&self) -> Status {
        match self.availability() {
            Availability::Active => Status::Active,
            Availability::Paused | Availability::OwnerSuspended | Availability::UnderReview | Availability::TakenDown => Status::Paused,
        }
    }

    /// Returns the state of reviews: `state`, since when, findings, and the last decision.
    fn review_for_owner(&self) -> Value {
        let state = match (self.availability(), &self.review.hold) {
            (Availability::TakenDown, _) => "taken_down",
            (_, Some(hold)) => hold.kind.as_str(),
            (Availability::OwnerSuspended, None) => "owner_suspended",
            (_, None) if self.asks() => "capabilities_requested",
            (_, None) => "none",
        };
        let findings = self.content_safety.iter().flat_map(|safety| &safety.findings).filter(|finding| finding.is_shown());
        let findings: Vec<_> = findings.map(|finding| finding.for_owner()).collect();
        json!({
            "state": state,
            "since": self.review.since(),
            "findings": findings,
            "decision": self.review.last,
            "approvedVersion": self.review.approved_version,
            "approvedFields": self.approved_fields(),
        })
    }

    /// Returns the effective limits that differ from the defaults.
    pub fn changed_limits(&self) -> Map<String, Value> {
        changed(&self.limits)
    }
}

/// Returns the limits that differ from the defaults.
pub(super) fn changed(limits: &Limits) -> Map<String, Value> {
    let defaults = Limits::default();
    tollhouse_protocol::limits::TABLE
        .iter()
        .filter_map(|row| {
            let value = limits.get(row.name)?;
            (defaults.get(row.name) != Some(value)).then(|| (row.name.to_owned(), json!(value)))
        })
        .collect()
}

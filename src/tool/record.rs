//! The hosted endpoint record as others see it: everyone, and its owner.

use serde_json::{Map, Value, json};
use tollhouse_protocol::Limits;

use super::{
    Endpoint, Owner, Runtime,
    endpoint::{Availability, Status},
    review::ContentSafety,
};

/// Which form of the catalogue a record is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CatalogForm {
    /// With `contentSafety`.
    Newer,
    /// Before `contentSafety` was added.
    Older,
}

/// The record of the catalogue as it is sent: made once, read by everyone.
#[derive(Debug, Clone)]
pub struct Record {
    /// The older form.
    older: Box<str>,
    /// What the newer form has besides, as JSON.
    content_safety: Box<str>,
}

impl Record {
    /// How long it is, about.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.older.len() + self.content_safety.len()
    }

    /// Writes the record as JSON.
    pub fn write(&self, form: CatalogForm, out: &mut Vec<u8>) {
        out.extend_from_slice(self.older.as_bytes());
        if form == CatalogForm::Newer {
            // In place of the closing brace.
            out.pop();
            out.extend_from_slice(br#","contentSafety":"#);
            out.extend_from_slice(self.content_safety.as_bytes());
            out.push(b'}');
        }
    }
}

impl Endpoint {
    /// The hosted endpoint record of the catalogue, ready to be sent.
    #[must_use]
    pub fn record(&self, base_url: &str) -> Record {
        Record {
            older: self.public(base_url, CatalogForm::Older).to_string().into(),
            content_safety: self.public_safety().to_string().into(),
        }
    }

    /// The hosted endpoint record of the catalogue.
    #[must_use]
    pub fn public(&self, base_url: &str, form: CatalogForm) -> Value {
        let free_builtin = self.handler_type.runtime() == Runtime::ManagedBuiltin && self.most_usd().is_zero();
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
        if form == CatalogForm::Newer {
            record["contentSafety"] = self.public_safety();
        }
        record
    }

    /// Null for the platform's own endpoints, which are vouched for by who runs the host.
    fn public_safety(&self) -> Value {
        let scanned = self.content_safety.as_ref().filter(|_| self.owner != Owner::Platform);
        scanned.map_or(Value::Null, ContentSafety::public)
    }

    /// The record for its owner and for admins: all of it but the source.
    #[must_use]
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
        record
    }

    /// What a list of one's own endpoints, or of all, says of each: neither schemas nor findings.
    #[must_use]
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

    /// `active` or `paused`, whoever paused it.
    fn shown_status(&self) -> Status {
        match self.availability() {
            Availability::Active => Status::Active,
            Availability::Paused | Availability::OwnerSuspended | Availability::UnderReview | Availability::TakenDown => Status::Paused,
        }
    }

    /// What an admin has decided or is to decide: `state`, since when, what was found, the last decision.
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

    /// The limits in force that are not the defaults.
    #[must_use]
    pub fn changed_limits(&self) -> Map<String, Value> {
        changed(&self.limits)
    }
}

/// Those that are not the defaults.
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

//! The state of a tool that an admin has approved: for each field that has changed since, its approved value.
//!
//! A field's value is kept from its first change after the approval. A tool that is unchanged since its approval keeps
//! nothing.

use serde_json::{Map, Value, json};

use super::{Endpoint, record::changed};

/// A field that admins review.
struct ReviewedField {
    /// Its name in records.
    name: &'static str,
    differs: fn(&Endpoint, &Endpoint) -> bool,
    shown: fn(&Endpoint) -> Value,
}

macro_rules! fields {
    ($($name:literal $field:ident $told:expr;)*) => {
        const FIELDS: &[ReviewedField] = &[$(ReviewedField { name: $name, differs: |one, other| one.$field != other.$field, shown: $told },)*];
    };
}

fields! {
    "title" title |endpoint| json!(endpoint.title);
    "description" description |endpoint| json!(endpoint.description);
    "priceUsd" price_usd |endpoint| json!(endpoint.price_usd);
    "maxPriceUsd" max_price_usd |endpoint| json!(endpoint.max_price_usd);
    "tags" tags |endpoint| json!(endpoint.tags);
    "inputSchema" input_schema |endpoint| json!(endpoint.input_schema);
    "outputSchema" output_schema |endpoint| json!(endpoint.output_schema);
    "capabilities" capabilities |endpoint| json!(endpoint.capabilities);
    "allowedHosts" allowed_hosts |endpoint| json!(endpoint.allowed_hosts);
    "ownLimits" own_limits |endpoint| json!(changed(&endpoint.own_limits));
    "isolation" isolation |endpoint| json!(endpoint.isolation);
    "accepts" accepts |endpoint| json!(endpoint.accepts);
    "settle" settle |endpoint| json!(endpoint.settle);
    "schedules" schedules |endpoint| json!(endpoint.schedules);
    "requestTypes" request_types |endpoint| json!(endpoint.request_types);
    "requestHeaders" request_headers |endpoint| json!(endpoint.request_headers);
    "refundBrokenStreams" refund_broken_streams |endpoint| json!(endpoint.refund_broken_streams);
}

/// The reviewed fields that the content scan reads, in addition to the handler.
const CONTENT: [&str; 5] = ["title", "description", "tags", "inputSchema", "outputSchema"];

fn differing(one: &Endpoint, other: &Endpoint) -> Vec<&'static ReviewedField> {
    FIELDS.iter().filter(|field| (field.differs)(one, other)).collect()
}

impl Endpoint {
    /// Marks the current state as approved.
    pub fn approve(&mut self) {
        self.review.approved_version = Some(self.version.clone());
        self.review.approved_fields.clear();
    }

    /// Withdraws the approval, because an admin has rejected what was approved.
    pub fn disapprove(&mut self) {
        self.review.approved_version = None;
        self.review.approved_fields.clear();
    }

    /// Returns whether handler, texts and schemas are those that an admin approved last.
    pub fn has_approved_content(&self) -> bool {
        let changed = self.approved_fields();
        self.review.approved_version.as_ref() == Some(&self.version) && !CONTENT.iter().any(|name| changed.contains_key(*name))
    }

    /// Keeps the values in `before` that were approved and have changed.
    pub fn keep_approved(&mut self, before: &Self) {
        if self.review.approved_version.is_none() {
            return;
        }
        for field in differing(before, self) {
            self.review.approved_fields.entry(field.name).or_insert_with(|| (field.shown)(before));
        }
    }

    /// Marks changes since `before` as approved, because an admin made them.
    pub fn approve_changes(&mut self, before: &Self) {
        for field in differing(before, self) {
            self.review.approved_fields.remove(field.name);
        }
    }

    /// Undoes the last approval, which replaced an approval of `version`. `fields` had changed since that earlier
    /// approval and count again, in addition to what has changed since.
    pub fn reopen_approved(&mut self, version: Option<String>, fields: Map<String, Value>) {
        self.review.approved_version = version;
        self.review.approved_fields.extend(fields);
        if self.review.approved_version.is_none() {
            self.review.approved_fields.clear();
        }
    }

    /// Returns the approved value of each field that has changed. The version is reported separately.
    pub fn approved_fields(&self) -> Map<String, Value> {
        let then = |field: &ReviewedField| self.review.approved_fields.get(field.name).filter(|then| **then != (field.shown)(self));
        FIELDS.iter().filter_map(|field| Some((field.name.to_owned(), then(field)?.clone()))).collect()
    }
}

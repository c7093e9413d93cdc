//! What an admin has approved, beside what an endpoint is now: of each field that has changed since, what it was then.
//!
//! Kept is a field's value from the first change behind an approval on: an endpoint that stays as it was approved keeps nothing.

use serde_json::{Map, Value, json};

use super::{Endpoint, record::changed};

/// A field that admins look at.
struct Field {
    /// As records say it.
    name: &'static str,
    differs: fn(&Endpoint, &Endpoint) -> bool,
    told: fn(&Endpoint) -> Value,
}

macro_rules! fields {
    ($($name:literal $field:ident $told:expr;)*) => {
        const FIELDS: &[Field] = &[$(Field { name: $name, differs: |one, other| one.$field != other.$field, told: $told },)*];
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
}

fn differing(one: &Endpoint, other: &Endpoint) -> Vec<&'static Field> {
    FIELDS.iter().filter(|field| (field.differs)(one, other)).collect()
}

impl Endpoint {
    /// It is approved as it is.
    pub fn approve(&mut self) {
        self.review.approved_version = Some(self.version.clone());
        self.review.approved_fields.clear();
    }

    /// Keeps of `before` what was approved and is no longer so.
    pub fn keep_approved(&mut self, before: &Self) {
        if self.review.approved_version.is_none() {
            return;
        }
        for field in differing(before, self) {
            self.review.approved_fields.entry(field.name).or_insert_with(|| (field.told)(before));
        }
    }

    /// An admin made of `before` what it is now: what differs is as an admin wants it.
    pub fn approve_changes(&mut self, before: &Self) {
        for field in differing(before, self) {
            self.review.approved_fields.remove(field.name);
        }
    }

    /// The last approval, of `version`, is undone, behind which `fields` had changed: these count again, beside what has changed since.
    pub fn reopen_approved(&mut self, version: Option<String>, fields: Map<String, Value>) {
        self.review.approved_version = version;
        self.review.approved_fields.extend(fields);
        if self.review.approved_version.is_none() {
            self.review.approved_fields.clear();
        }
    }

    /// Of each field that is not as it was approved, what it was then. The version is told apart.
    #[must_use]
    pub fn approved_fields(&self) -> Map<String, Value> {
        let then = |field: &Field| self.review.approved_fields.get(field.name).filter(|then| **then != (field.told)(self));
        FIELDS.iter().filter_map(|field| Some((field.name.to_owned(), then(field)?.clone()))).collect()
    }
}

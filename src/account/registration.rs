//! Registration: the applicant, and the rows of the commit that makes them a builder.

use serde::{Deserialize, Serialize};
use tollhouse_base::{
    clock::Timestamp,
    id::{BuilderId, RequestId},
};
use tollhouse_store::Batch;

use super::{
    audit::{Action, Actor, Entry},
    builder::Builder,
};

/// A person who applies for registration.
pub struct Applicant {
    pub name: String,
    /// How the operator reaches them.
    pub contact: Option<String>,
    /// The request's id, for the audit trail.
    pub request: RequestId,
}

impl Applicant {
    /// Returns the applicant as the new `builder`.
    pub fn registrant(&self, builder: Builder, now: Timestamp) -> Registrant {
        let contact = self.contact.as_ref().map(|_| "contact".to_owned());
        let fields = ["name".to_owned()].into_iter().chain(contact).collect();
        Registrant { entry: entry(&builder.id, self.request.clone(), fields, now), builder }
    }
}

/// Returns the audit entry of a completed registration: its payment was replayed and got a new key.
pub fn completed(builder: &BuilderId, request: RequestId, now: Timestamp) -> Batch {
    entry(builder, request, vec![], now).stored()
}

fn entry(builder: &BuilderId, request_id: RequestId, fields: Vec<String>, now: Timestamp) -> Entry {
    let action = Action {
        actor: Actor::Builder { builder_id: builder.clone() },
        method: "POST".to_owned(),
        path: "/ai/builders/register".to_owned(),
        slug: None,
        builder_id: None,
        subject: Some(builder.to_string()),
        request_id,
        fields,
    };
    Entry::done(action, now)
}

/// A builder who registers with a payment, with the audit entry.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Registrant {
    builder: Builder,
    entry: Entry,
}

impl Registrant {
    /// Returns the rows that make them a builder.
    pub fn stored(&self) -> Batch {
        self.builder.stored().and(self.entry.stored())
    }
}

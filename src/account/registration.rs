//! Registering: who applies, and what the commit that makes them a builder says.

use serde::{Deserialize, Serialize};

use super::{
    audit::{Action, Actor, Entry},
    builder::Builder,
};
use crate::{
    base::{clock::Timestamp, id::RequestId},
    store::Batch,
};

/// Who applies.
pub(crate) struct Applicant {
    pub(crate) name: String,
    pub(crate) contact: Option<String>,
    /// The request, as the audit trail names it.
    pub(crate) request: RequestId,
}

impl Applicant {
    /// The applicant as the `builder` that they become.
    pub(crate) fn registrant(&self, builder: Builder, now: Timestamp) -> Registrant {
        Registrant { entry: self.entry(&builder, now), builder }
    }

    fn entry(&self, builder: &Builder, now: Timestamp) -> Entry {
        let contact = self.contact.as_ref().map(|_| "contact".to_owned());
        let action = Action {
            actor: Actor::Builder { builder_id: builder.id.clone() },
            method: "POST".to_owned(),
            path: "/ai/builders/register".to_owned(),
            slug: None,
            builder_id: None,
            request_id: self.request.clone(),
            fields: ["name".to_owned()].into_iter().chain(contact).collect(),
        };
        Entry::done(action, now)
    }
}

/// Who becomes a builder by a payment, and the entry of it in the audit trail.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Registrant {
    builder: Builder,
    entry: Entry,
}

impl Registrant {
    pub(crate) fn stored(&self) -> Batch {
        self.builder.stored().and(self.entry.stored())
    }
}

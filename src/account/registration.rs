//! Registering: who applies, and what the commit that makes them a builder says.

use serde::{Deserialize, Serialize};

use super::{
    audit::{Action, Actor, Entry},
    builder::Builder,
};
use crate::{
    base::{
        clock::Timestamp,
        id::{BuilderId, RequestId},
    },
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
        entry(&builder.id, self.request.clone(), ["name".to_owned()].into_iter().chain(contact).collect(), now)
    }
}

/// The entry in the audit trail of a registration that was completed: its payment was shown again, and given a new key.
pub(crate) fn completed(builder: &BuilderId, request: RequestId, now: Timestamp) -> Batch {
    entry(builder, request, vec![], now).stored()
}

fn entry(builder: &BuilderId, request_id: RequestId, fields: Vec<String>, now: Timestamp) -> Entry {
    let action = Action {
        actor: Actor::Builder { builder_id: builder.clone() },
        method: "POST".to_owned(),
        path: "/ai/builders/register".to_owned(),
        slug: None,
        builder_id: None,
        request_id,
        fields,
    };
    Entry::done(action, now)
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

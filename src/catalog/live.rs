//! A tool as calls take it: one version of an endpoint, with all that answers a call of it.

use std::{
    any::Any,
    fmt,
    sync::{Arc, OnceLock},
};

use bytes::Bytes;
use tollhouse_protocol::Bundle;

use crate::{
    base::share::UsualCost,
    capability::Grant,
    money::Terms,
    tool::{Endpoint, Record, Runs, Shape},
};

/// An endpoint that can be called: the record and all that is made from it once.
#[derive(Clone)]
pub struct Live {
    /// As it is stored, with the limits in force.
    pub endpoint: Endpoint,
    /// What runs when it is called.
    pub runs: Runs,
    /// What can be told of its input without its worker.
    pub input: Shape,
    /// What can be told of its answer without its worker.
    pub output: Shape,
    /// What the sandbox loads: code, and the schemas that are checked there. Absent where there is neither.
    pub bundle: Option<Arc<Bundle>>,
    /// What is always answered, made by the first call.
    pub fixed: OnceLock<Fixed>,
    /// What a run of it takes of the processor.
    pub usual_cost: UsualCost,
    /// What calls may touch, now: shared by all versions, so that a revocation reaches running calls.
    pub grant: Arc<Grant>,
    /// What a call costs, and the words of its challenge.
    pub terms: Arc<Terms>,
    /// The record of the catalogue, ready to be sent.
    pub record: Record,
    /// What a front has made of it to keep, if it shows it at all.
    pub form: Option<Form>,
}

/// What a front makes of an endpoint, once for each change of it.
pub type Form = Arc<dyn Any + Send + Sync>;

/// Makes a front's form of an endpoint.
pub type MakeForm = Box<dyn Fn(&Live) -> Option<Form> + Send + Sync>;

impl fmt::Debug for Live {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Live").field("slug", &self.endpoint.slug).field("version", &self.endpoint.version).finish_non_exhaustive()
    }
}

/// What a tool without code always answers.
#[derive(Debug, Clone)]
pub struct Fixed {
    /// JSON.
    pub body: Bytes,
    /// Of its canonical form.
    pub hash: String,
}

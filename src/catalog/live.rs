//! A tool as calls take it: one version of an endpoint, with all that answers a call of it.

use std::{
    any::Any,
    fmt,
    ops::Deref,
    sync::{Arc, OnceLock},
};

use bytes::Bytes;
use tollhouse_base::{ready::KeptShared, share::UsualCost};
use tollhouse_capability::Grant;
use tollhouse_money::Terms;
use tollhouse_protocol::Bundle;
use tollhouse_tool::{Endpoint, Record, Runs, Shape};

/// An endpoint as it is told of: the record, and what is made of it for lists and challenges.
#[derive(Clone)]
pub struct Shown {
    /// As it is stored, with the limits in force.
    pub endpoint: Endpoint,
    /// What a call costs, and the words of its challenge.
    pub terms: Arc<Terms>,
    /// The record of the catalogue, ready to be sent.
    pub record: Record,
    /// What a front has made of it to keep, if it shows it at all.
    pub form: Option<Form>,
}

/// An endpoint that can be called: as it is told of, and all that is made from it once to run it.
#[derive(Clone)]
pub struct Live {
    /// As it is told of.
    pub shown: Arc<Shown>,
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
}

/// What a front makes of an endpoint, once for each change of it.
pub type Form = Arc<dyn Any + Send + Sync>;

/// Makes a front's form of an endpoint.
pub type MakeForm = Box<dyn Fn(&Shown) -> Option<Form> + Send + Sync>;

/// What an endpoint takes in memory besides what is counted, in bytes: about.
const BESIDES: usize = 4 << 10;

/// How much more JSON takes in memory than it is long, with what else is made of it: about, and rather too much than too little.
const IN_MEMORY: usize = 10;

impl Deref for Live {
    type Target = Shown;

    fn deref(&self) -> &Shown {
        &self.shown
    }
}

impl Live {
    /// Whether it was made of this record.
    pub(super) fn is_of(&self, stored: &Endpoint) -> bool {
        self.endpoint.id == stored.id && self.endpoint.revision == stored.revision
    }

    /// Whether it was made without its source: it is changed as it is, and read by the next call.
    pub(super) fn lacks_source(&self) -> bool {
        matches!(self.runs, Runs::Js) && self.bundle.as_ref().is_none_or(|bundle| bundle.source.is_none())
    }
}

/// Tests make other endpoints of one that is there.
#[cfg(any(test, feature = "testing"))]
impl std::ops::DerefMut for Live {
    fn deref_mut(&mut self) -> &mut Shown {
        Arc::make_mut(&mut self.shown)
    }
}

impl fmt::Debug for Shown {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Shown").field("slug", &self.endpoint.slug).field("revision", &self.endpoint.revision).finish_non_exhaustive()
    }
}

impl fmt::Debug for Live {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Live").field("slug", &self.endpoint.slug).field("version", &self.endpoint.version).finish_non_exhaustive()
    }
}

impl KeptShared for Shown {
    fn bytes(&self) -> usize {
        BESIDES + IN_MEMORY * self.record.bytes()
    }

    fn is_in_use(&self, _holders: usize) -> bool {
        false
    }
}

impl KeptShared for Live {
    fn bytes(&self) -> usize {
        let code = self.bundle.as_ref().and_then(|bundle| bundle.source.as_ref()).map_or(0, |source| source.text.len());
        let answer = match &self.runs {
            Runs::Static(response) => IN_MEMORY * response.to_string().len(),
            Runs::Builtin(_) | Runs::Js => 0,
        };
        self.shown.bytes() + code + answer
    }

    /// A version before this one, whose calls are not at their end, has the same grant: what is taken back reaches them only as long as
    /// no other grant is made.
    fn is_in_use(&self, holders: usize) -> bool {
        holders > 1 || Arc::strong_count(&self.grant) > 1
    }

    fn is_whole(&self) -> bool {
        !self.lacks_source()
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

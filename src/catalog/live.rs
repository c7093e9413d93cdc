//! A tool for calls: one version of an endpoint, with everything needed to answer.

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

/// An endpoint for lists and challenges: its record, and data derived from it.
#[derive(Clone)]
pub struct Shown {
    /// The stored record, with the limits in force.
    pub endpoint: Endpoint,
    /// The price, and the texts of its challenge.
    pub terms: Arc<Terms>,
    /// The public record as JSON.
    pub record: Record,
    /// Cached data of a front end, if it lists the endpoint.
    pub form: Option<Form>,
}

/// An endpoint for calls: its public data, and everything that is created once to run it.
#[derive(Clone)]
pub struct Live {
    /// Its public data.
    pub shown: Arc<Shown>,
    /// The code that runs.
    pub runs: Runs,
    /// Checks of its input that need no worker.
    pub input: Shape,
    /// Checks of its result that need no worker.
    pub output: Shape,
    /// The bundle for the sandbox: code and schemas. Absent if there are neither.
    pub bundle: Option<Arc<Bundle>>,
    /// The fixed answer, created by the first call.
    pub fixed: OnceLock<Fixed>,
    /// Typical processor time of a run.
    pub usual_cost: UsualCost,
    /// Current access rights of calls. All versions share it, so that a revocation reaches running
    /// calls.
    pub grant: Arc<Grant>,
}

/// Data that a front end derives from an endpoint, once per change.
pub type Form = Arc<dyn Any + Send + Sync>;

/// Creates a front end's data for an endpoint.
pub type MakeForm = Box<dyn Fn(&Shown) -> Option<Form> + Send + Sync>;

/// Approximate additional memory of an endpoint that is not counted, in bytes.
const BESIDES: usize = 4 << 10;

/// Approximate memory of JSON as a multiple of its length, including derived data. Rather too high
/// than too low.
const IN_MEMORY: usize = 10;

impl Deref for Live {
    type Target = Shown;

    fn deref(&self) -> &Shown {
        &self.shown
    }
}

impl Live {
    /// Returns whether it was created from this record.
    pub(super) fn is_of(&self, stored: &Endpoint) -> bool {
        self.endpoint.id == stored.id && self.endpoint.revision == stored.revision
    }

    /// Returns whether it lacks its source. It can be changed that way, and the next call reads the
    /// source.
    pub(super) fn lacks_source(&self) -> bool {
        matches!(self.runs, Runs::Js) && self.bundle.as_ref().is_none_or(|bundle| bundle.source.is_none())
    }
}

/// Tests derive other endpoints from an existing one.
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
            Runs::Static(response) => IN_MEMORY * response.text().len(),
            Runs::Builtin(_) | Runs::Js => 0,
        };
        self.shown.bytes() + code + answer
    }

    /// An earlier version with running calls shares the grant. A revocation reaches those calls
    /// only as long as no other grant is created.
    fn is_in_use(&self, holders: usize) -> bool {
        holders > 1 || Arc::strong_count(&self.grant) > 1
    }

    fn is_whole(&self) -> bool {
        !self.lacks_source()
    }
}

/// The fixed answer of a tool without code.
#[derive(Debug, Clone)]
pub struct Fixed {
    /// JSON.
    pub body: Bytes,
    /// Hash of its canonical form, or of the body if a number in it is beyond the range of doubles.
    pub hash: String,
}

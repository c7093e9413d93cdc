//! A tool for calls: one version of an endpoint, with everything needed to answer.

use std::{
    any::Any,
    fmt,
    ops::Deref,
    sync::{Arc, OnceLock},
};

use bytes::Bytes;
use tollhouse_base::{cache::SharedCacheKey, cpu_share::UsualCost};
use tollhouse_capability::Grant;
use tollhouse_money::CallTerms;
use tollhouse_protocol::Bundle;
use tollhouse_tool::{Endpoint, EndpointCode, Record, Shape};

/// An endpoint for lists and challenges: its record, and data derived from it.
#[derive(Clone)]
pub struct ShownEndpoint {
    /// The stored record, with the limits in force.
    pub endpoint: Endpoint,
    /// The price, and the texts of its challenge.
    pub terms: Arc<CallTerms>,
    /// The public record as JSON.
    pub record: Record,
    /// Cached data of a front end, if it lists the endpoint.
    pub form: Option<FrontForm>,
}

/// An endpoint for calls: its public data, and everything that is created once to run it.
#[derive(Clone)]
pub struct LiveEndpoint {
    pub shown: Arc<ShownEndpoint>,
    pub runs: EndpointCode,
    /// Checks of its input that need no worker.
    pub input: Shape,
    /// Checks of its result that need no worker.
    pub output: Shape,
    /// The bundle for the sandbox: code and schemas. Absent if there are neither.
    pub bundle: Option<Arc<Bundle>>,
    /// The fixed answer, created by the first call.
    pub fixed: OnceLock<FixedAnswer>,
    /// Typical processor time of a run.
    pub usual_cost: UsualCost,
    /// Current access rights of calls. All versions share it, so that a revocation reaches running
    /// calls.
    pub grant: Arc<Grant>,
}

/// Data that a front end derives from an endpoint, once per change.
pub type FrontForm = Arc<dyn Any + Send + Sync>;

/// Creates a front end's data for an endpoint.
pub type MakeForm = Box<dyn Fn(&ShownEndpoint) -> Option<FrontForm> + Send + Sync>;

/// Approximate additional memory of an endpoint that is not counted, in bytes.
const OVERHEAD_BYTES: usize = 4 << 10;

/// Approximate memory of JSON as a multiple of its length, including derived data. Rather too high
/// than too low.
const JSON_MEMORY_FACTOR: usize = 10;

impl Deref for LiveEndpoint {
    type Target = ShownEndpoint;

    fn deref(&self) -> &ShownEndpoint {
        &self.shown
    }
}

impl LiveEndpoint {
    /// Returns whether it was created from this record.
    pub(super) fn is_of(&self, stored: &Endpoint) -> bool {
        self.endpoint.id == stored.id && self.endpoint.revision == stored.revision
    }

    /// Returns whether the source was not read yet. The endpoint can be changed without its source, which
    /// the next call then reads.
    pub(super) fn lacks_source(&self) -> bool {
        matches!(self.runs, EndpointCode::Js) && self.bundle.as_ref().is_none_or(|bundle| bundle.source.is_none())
    }
}

/// Tests derive other endpoints from an existing one.
#[cfg(any(test, feature = "testing"))]
impl std::ops::DerefMut for LiveEndpoint {
    fn deref_mut(&mut self) -> &mut ShownEndpoint {
        Arc::make_mut(&mut self.shown)
    }
}

impl fmt::Debug for ShownEndpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Shown").field("slug", &self.endpoint.slug).field("revision", &self.endpoint.revision).finish_non_exhaustive()
    }
}

impl fmt::Debug for LiveEndpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Live").field("slug", &self.endpoint.slug).field("version", &self.endpoint.version).finish_non_exhaustive()
    }
}

impl SharedCacheKey for ShownEndpoint {
    fn bytes(&self) -> usize {
        OVERHEAD_BYTES + JSON_MEMORY_FACTOR * self.record.bytes()
    }

    fn is_in_use(&self, _holders: usize) -> bool {
        false
    }
}

impl SharedCacheKey for LiveEndpoint {
    fn bytes(&self) -> usize {
        let code = self.bundle.as_ref().and_then(|bundle| bundle.source.as_ref()).map_or(0, |source| source.text.len());
        let answer = match &self.runs {
            EndpointCode::Static(response) => JSON_MEMORY_FACTOR * response.text().len(),
            EndpointCode::Builtin(_) | EndpointCode::Js => 0,
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
pub struct FixedAnswer {
    /// JSON.
    pub body: Bytes,
    /// Hash of its canonical form, or of the body if a number in it is beyond the range of doubles.
    pub hash: String,
}

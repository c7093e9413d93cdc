//! Outcomes of a call.

use bytes::Bytes;
use serde::{Deserialize, Serialize};

use crate::{MAX_PROBLEMS, Problem, Side, frame::bounded_list};

/// Maximum headers of a reply, more than the limit on their bytes permits.
pub(crate) const MAX_HEADERS: usize = 64 << 10;

/// The outcome of one call.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Outcome {
    /// The handler returned.
    Returned(ToolReply),
    /// The handler threw, or returned a value without a JSON form.
    Threw(Thrown),
    /// The input or the result does not match its schema. The list has at least one and at most
    /// [`MAX_PROBLEMS`] problems.
    Invalid(Side, #[serde(deserialize_with = "bounded_list::<_, _, MAX_PROBLEMS>")] Vec<Problem>),
    /// The call was stopped before the handler ended.
    Stopped(StopReason),
}

/// The answer of a handler.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ToolReply {
    /// HTTP status. 200 for a plain JSON value.
    pub status: u16,
    /// Headers as given to `new Response`. Empty for a plain JSON value. The host sends only
    /// allowed ones.
    #[serde(deserialize_with = "bounded_list::<_, _, MAX_HEADERS>")]
    pub headers: Vec<(String, String)>,
    /// The body of the answer.
    pub body: ReplyBody,
}

/// Media type of an answer that consists of MCP content blocks: `{content, structuredContent}`. The
/// output schema applies to the structured content only.
const BLOCKS: &str = "application/vnd.mcp.tool-result+json";

/// The field of such an answer that contains the structured result.
pub const STRUCTURED: &str = "structuredContent";

/// The field of such an answer that reports a failure if it is `true`. A failure has no structured
/// result.
pub const FAILED: &str = "isError";

/// Returns whether an answer with these headers consists of MCP content blocks.
#[must_use]
pub fn are_blocks(headers: &[(String, String)]) -> bool {
    // If there are several, the last one is sent.
    let media = headers.iter().rfind(|(name, _)| name.eq_ignore_ascii_case("content-type")).map_or("", |(_, value)| value);
    media.split(';').next().unwrap_or_default().trim().eq_ignore_ascii_case(BLOCKS)
}

/// The body of an answer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum ReplyBody {
    /// JSON text, made by `JSON.stringify` in the worker and parsed again by the host.
    Json(Bytes),
    /// A `Response` body that is not JSON.
    Raw(Bytes),
    /// All chunks were sent with [`StreamOpen`](crate::OpRequest::StreamOpen) and
    /// [`StreamWrite`](crate::OpRequest::StreamWrite), with status and headers, and the host has accepted them.
    Streamed,
}

impl ReplyBody {
    /// Returns the bytes of the body. Those of a streamed one are already on their way.
    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        match self {
            Self::Json(bytes) | Self::Raw(bytes) => bytes,
            Self::Streamed => &[],
        }
    }
}

/// A value that a handler threw, as text made by the host's own script.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Thrown {
    /// Name and message, cut to the limit. The payer sees it.
    pub message: String,
    /// Stack, only for the builder's log.
    pub stack: String,
}

/// Why a call was stopped. This list is closed. The timer, callback or counter that stopped the
/// call creates the reason. It is never parsed from an engine's message.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
pub enum StopReason {
    /// The call computed for too long.
    #[error("the handler used up its {limit_ms} ms of CPU time")]
    CpuTime {
        /// Limit in milliseconds.
        limit_ms: u64,
    },
    /// The call took too long in total.
    #[error("the handler did not answer within {limit_ms} ms")]
    WallTime {
        /// Limit in milliseconds.
        limit_ms: u64,
    },
    /// The heap, the buffers or the process grew too large.
    #[error("the handler needed more than its {limit_bytes} bytes of memory")]
    Memory {
        /// Limit in bytes.
        limit_bytes: u64,
    },
    /// The schema used up the time, not the handler.
    #[error("validation against `{side}` used up the rest of {limit_ms} ms of CPU time")]
    SchemaTime {
        /// The schema.
        side: Side,
        /// Limit in milliseconds.
        limit_ms: u64,
    },
    /// The schema used up the memory, not the handler.
    #[error("validation against `{side}` needed more than {limit_bytes} bytes of memory")]
    SchemaMemory {
        /// The schema.
        side: Side,
        /// Limit in bytes.
        limit_bytes: u64,
    },
    /// The value is invalid, but listing its problems exceeded the limits for that. The pool turns
    /// it into [`Outcome::Invalid`], so nobody else sees this variant.
    #[error("the value does not match `{side}`, and listing the differences took too long")]
    Unlisted {
        /// The schema.
        side: Side,
    },
    /// The answer is too large.
    #[error("the result is larger than {limit_bytes} bytes")]
    OutputSize {
        /// Limit in bytes.
        limit_bytes: u64,
    },
    /// The answer is nested too deep.
    #[error("the nesting of the result exceeds its maximum depth of {limit}")]
    OutputDepth {
        /// Limit in levels.
        limit: u64,
    },
    /// The handler made too many requests to the host.
    #[error("the handler made more than {limit} {what}")]
    Ops {
        /// The kind of request, for the error message.
        what: String,
        /// The maximum number of such requests per call.
        limit: u64,
    },
    /// Every promise waits for another, so nothing can wake the handler.
    #[error("the handler waits for a promise that nothing can resolve")]
    Deadlock,
    /// The process is gone or broke the protocol. Only the host creates this reason.
    #[error("the sandbox ended unexpectedly")]
    Crashed,
}

/// The resources that a call used. From the worker this is a claim. The host enforces limits by its
/// own clocks.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Spent {
    /// Processor time, in microseconds.
    pub cpu_us: u64,
    /// Time from start to end, in microseconds.
    pub wall_us: u64,
    /// Heap and buffers at the end, in bytes.
    pub heap_bytes: u64,
    /// Number of requests to the host.
    pub ops: u64,
}

//! How a call can end.

use bytes::Bytes;
use serde::{Deserialize, Serialize};

use crate::{MAX_PROBLEMS, Problem, Side, frame::few};

/// Headers of a reply: beyond what the limit on their bytes lets through.
pub(crate) const MAX_HEADERS: usize = 64 << 10;

/// The end of one call.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Outcome {
    /// The handler answered.
    Returned(ToolReply),
    /// The handler threw, or answered what has no JSON form.
    Threw(Thrown),
    /// The input, or the result, does not fit its schema: how, at least once and at most [`MAX_PROBLEMS`] times.
    Unfit(Side, #[serde(deserialize_with = "few::<_, _, MAX_PROBLEMS>")] Vec<Problem>),
    /// It was ended before the handler had.
    Stopped(StopReason),
}

/// What a handler answered.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ToolReply {
    /// As of HTTP; 200 for a plain JSON value.
    pub status: u16,
    /// As given to `new Response`; empty for a plain JSON value. The host allow-lists.
    #[serde(deserialize_with = "few::<_, _, MAX_HEADERS>")]
    pub headers: Vec<(String, String)>,
    /// What it says.
    pub body: ReplyBody,
}

/// Media type of an answer that is made of MCP's own blocks: `{content, structuredContent}`. Its result proper, which the
/// schema speaks of, is the structured content.
const BLOCKS: &str = "application/vnd.mcp.tool-result+json";

/// The member of such an answer that is its result proper.
pub const STRUCTURED: &str = "structuredContent";

/// The member of such an answer by which, where it is `true`, the tool says that it failed: there is no result proper then.
pub const FAILED: &str = "isError";

/// Whether an answer with these headers is made of MCP's own blocks.
#[must_use]
pub fn are_blocks(headers: &[(String, String)]) -> bool {
    // Of several the last is sent.
    let media = headers.iter().rfind(|(name, _)| name.eq_ignore_ascii_case("content-type")).map_or("", |(_, value)| value);
    media.split(';').next().unwrap_or_default().trim().eq_ignore_ascii_case(BLOCKS)
}

/// What an answer says.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum ReplyBody {
    /// JSON text, made by `JSON.stringify` in the worker; parsed again by the host.
    Json(Bytes),
    /// A `Response` body that is not JSON.
    Raw(Bytes),
}

/// What a handler threw, as text made by the host's own script.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Thrown {
    /// Name and message, cut to the limit. The payer sees it.
    pub message: String,
    /// For the builder's log only.
    pub stack: String,
}

/// Why a call was stopped: the closed list. Made by the timer, callback or counter that did it,
/// never read back from an engine's message.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
pub enum StopReason {
    /// It computed for too long.
    #[error("handler used its {limit_ms} ms of processor time")]
    CpuTime {
        /// In milliseconds.
        limit_ms: u64,
    },
    /// It took too long, whatever it did.
    #[error("handler did not answer within {limit_ms} ms")]
    WallTime {
        /// In milliseconds.
        limit_ms: u64,
    },
    /// Its heap, its buffers or its process grew too large.
    #[error("handler needed more than its {limit_bytes} bytes of memory")]
    Memory {
        /// In bytes.
        limit_bytes: u64,
    },
    /// A schema's check took the time, not the handler.
    #[error("`{side}` used what was left of {limit_ms} ms of processor time")]
    SchemaTime {
        /// Which schema.
        side: Side,
        /// In milliseconds.
        limit_ms: u64,
    },
    /// A schema's check took the memory, not the handler.
    #[error("`{side}` needed more than {limit_bytes} bytes of memory")]
    SchemaMemory {
        /// Which schema.
        side: Side,
        /// In bytes.
        limit_bytes: u64,
    },
    /// The check was done and the answer is no, but to list why took more than that may. The pool makes it
    /// [`Outcome::Unfit`]: nobody else sees this one.
    #[error("the value does not fit `{side}`, and listing why took too much")]
    Unlisted {
        /// Which schema.
        side: Side,
    },
    /// Its answer is too long.
    #[error("result is larger than {limit_bytes} bytes")]
    OutputSize {
        /// In bytes.
        limit_bytes: u64,
    },
    /// Its answer is nested too deep.
    #[error("result is nested deeper than {limit} levels")]
    OutputDepth {
        /// In levels.
        limit: u64,
    },
    /// It asked for too much of the host.
    #[error("handler made more than {limit} {what}")]
    Ops {
        /// Of what, as the sentence goes on.
        what: String,
        /// How many it may make.
        limit: u64,
    },
    /// Every promise waits for another: nothing can wake the handler.
    #[error("handler waits for a promise that nothing can resolve")]
    Deadlock,
    /// The process is gone or broke the protocol. Only the host makes this one.
    #[error("sandbox ended unexpectedly")]
    Crashed,
}

/// What a call used. From the worker it is a claim; limits are kept by the host's own clocks.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Spent {
    /// Processor time, in microseconds.
    pub cpu_us: u64,
    /// Time from start to end, in microseconds.
    pub wall_us: u64,
    /// Heap and buffers at the end, in bytes.
    pub heap_bytes: u64,
    /// What was asked of the host.
    pub ops: u64,
}

//! The messages of both directions and their contents.

use bytes::Bytes;
use serde::{Deserialize, Serialize};

use crate::{JailReport, Limits, OpFailure, OpRequest, OpValue, Outcome, SchemaFault, Schemas, Side, Spent, StopReason};

/// A message from the host to a worker.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub enum ToWorker {
    /// The code that this process will run for the rest of its life. Sent once.
    Load(Load),
    /// Starts a call. Sent only after [`ToHost::Loaded`] with `Ok`. Calls run one at a time: a call
    /// that arrives while another runs waits in the socket until that one has ended, or it is
    /// [declined](ToHost::Declined).
    Call(Start),
    /// The answer to the [`ToHost::Op`] with the same number.
    Reply {
        /// The number of the op.
        op: u32,
        /// The result of the op, or why it failed.
        result: Result<OpValue, OpFailure>,
    },
    /// Compiled code of the source that follows in [`ToWorker::Load`]: that of [`ToHost::Compiled`],
    /// from a worker of the same tool, bundle and tier.
    Code(Bytes),
}

/// A message from a worker to the host. Hostile input.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub enum ToHost {
    /// The worker is booted, hardened and jailed, and waits for a bundle.
    Ready {
        /// The layers that are in force, and those that are not.
        jail: JailReport,
    },
    /// The bundle is loaded, or why not.
    Loaded(Result<Loaded, LoadFault>),
    /// The input is valid and the handler starts. Sent only for [`Start::announced`], before any
    /// other message of the call.
    Begun,
    /// The running call requests an op.
    Op {
        /// A number unique in this worker, higher than all before it.
        op: u32,
        /// The requested op.
        request: OpRequest,
    },
    /// A log line of the running call.
    Log(LogLine),
    /// The call has nothing to compute until a [`ToWorker::Reply`] arrives.
    Waiting,
    /// The running call waits, so the worker declines a [`ToWorker::Call`] that has arrived. Each
    /// message declines the oldest call that was neither run nor declined.
    Declined,
    /// The call has ended.
    Done {
        /// How it ended.
        outcome: Outcome,
        /// The resources it used, by the worker's own clocks.
        spent: Spent,
    },
    /// A progress message of the running call.
    Progress(ProgressMessage),
    /// The handler has answered, and the call goes on with the work that it passed to
    /// `ctx.waitUntil`. Sent at most once, only for [`Work::Handle`]. [`ToHost::Done`] follows, and
    /// its outcome is that of this work: [`Outcome::Stopped`], or an empty reply.
    Answered {
        /// How the handler ended. Never [`Outcome::Stopped`].
        outcome: Outcome,
        /// The resources used so far, by the worker's own clocks.
        spent: Spent,
    },
    /// Compiled code of a source of at least [`COMPILED_SOURCE_BYTES`](crate::limits::COMPILED_SOURCE_BYTES).
    /// Sent as the first message after [`ToWorker::Load`], before any of the handler's code runs, unless
    /// there was a [`ToWorker::Code`]. Empty if there is none to keep.
    Compiled(Bytes),
}

/// A handler's code, its name in stack traces, and the schemas of its input and result.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Bundle {
    /// SHA-256 of source and language, in hex. Calls and receipts refer to it. A worker is bound to
    /// the whole bundle.
    pub version: String,
    /// Synthetic URL of the module, `tool:/<slug>/<first 12 of version>`.
    pub specifier: String,
    /// `None` if the host itself answers: the worker then only [checks](Work::Check).
    pub source: Option<Source>,
    /// The schemas that validate input and result.
    pub schemas: Schemas,
}

/// Source code of a handler.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Source {
    /// The code as uploaded, or as returned in [`Checked::source`].
    pub text: Bytes,
    /// The language of `text`.
    pub language: Language,
}

/// Contents of [`ToWorker::Load`]: a bundle, and the limits of loading it.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Load {
    /// The bundle to load.
    pub bundle: Bundle,
    /// The process's limits for its whole life: memory and start-up.
    pub limits: Limits,
}

/// The result of loading a bundle.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Loaded {
    /// The checked bundle.
    pub checked: Checked,
    /// The resources that loading used.
    pub spent: Spent,
}

/// A bundle that has loaded: its code as JavaScript.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Checked {
    /// JavaScript with TypeScript's types blanked out, with lines and columns as uploaded. Empty if
    /// the upload was JavaScript.
    pub source: Bytes,
    /// Whether the module exports `scheduled`.
    pub scheduled: bool,
}

/// Why a bundle does not load.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum LoadFault {
    /// The source does not load.
    Handler(LoadError),
    /// One of the schemas is not usable.
    Schema(SchemaFault),
    /// The bundle exceeded the limits of loading.
    Stopped(StopReason),
}

impl From<LoadError> for LoadFault {
    fn from(error: LoadError) -> Self {
        Self::Handler(error)
    }
}

impl From<SchemaFault> for LoadFault {
    fn from(fault: SchemaFault) -> Self {
        Self::Schema(fault)
    }
}

/// Why a source does not load, for its builder. `line` and `column` count from 1.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[error("{message}")]
pub struct LoadError {
    /// Description of the error.
    pub message: String,
    /// Line, if the engine reports it.
    pub line: Option<u32>,
    /// Column, if the engine reports it.
    pub column: Option<u32>,
}

/// The language of a handler.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema), schemars(inline))]
pub enum Language {
    /// JavaScript.
    Js,
    /// TypeScript whose types can be blanked out.
    Ts,
}

/// The processes that can serve a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema), schemars(inline))]
pub enum Isolation {
    /// A process that may have served this endpoint version before. Its module state persists.
    #[default]
    Warm,
    /// A process that has served no call before and serves none after.
    Fresh,
}

/// Contents of [`ToWorker::Call`]: everything that a call needs to start.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Start {
    /// Id of the call, `call_…`, for log lines and error texts.
    pub call: String,
    /// The work to do.
    pub work: Work,
    /// Whether the worker must report when the handler [begins](ToHost::Begun).
    pub announced: bool,
    /// Whether the caller can take a streamed answer. Otherwise the worker reads a stream to its end,
    /// and answers with the whole.
    pub streams: bool,
    /// `req` without `body`, as a JSON object: `method`, `url`, `path`, `query`, `headers`,
    /// `caller`.
    pub head: Bytes,
    /// `req.body` as JSON text, exactly as the caller sent it, or the value to check.
    pub body: Bytes,
    /// Size of a body that is not JSON. The handler reads it with [`OpRequest::BodyRead`]. Then
    /// `body` is empty, and the schema of the input does not apply.
    pub body_bytes: Option<u64>,
    /// Contents of `ctx.env`: names and values of the granted secrets.
    pub env: Vec<(String, String)>,
    /// Wall clock at the start, in milliseconds since 1970, for `Date.now()`.
    pub now_ms: u64,
    /// The call's effective limits.
    pub limits: Limits,
}

/// The work of a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Work {
    /// Check the input, run the handler, check its result.
    Handle,
    /// Only check the body. A valid body is answered with `null`.
    Check(Side),
    /// Run the export `scheduled`. The body is its event. The answer is `null`.
    Scheduled,
}

/// A log line as the handler wrote it. The host strips control characters and redacts secrets.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct LogLine {
    /// Severity of the line.
    pub level: LogLevel,
    /// Text of the line.
    pub message: String,
    /// Fields as the text of a JSON object, or empty.
    pub fields: String,
}

/// A progress message of a handler for its caller, as the handler wrote it. The host strips control
/// characters and redacts secrets.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ProgressMessage {
    /// Text of the message.
    pub message: String,
    /// Completed fraction, from 0 to 1.
    pub fraction: Option<f64>,
}

/// Severity of a log line.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema), schemars(inline))]
pub enum LogLevel {
    /// For debugging.
    Debug,
    /// Informational.
    Info,
    /// A possible problem.
    Warn,
    /// A failure.
    Error,
}

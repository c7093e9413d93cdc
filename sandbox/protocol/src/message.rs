//! The messages of both directions, and what they carry.

use bytes::Bytes;
use serde::{Deserialize, Serialize};

use crate::{JailReport, Limits, OpFailure, OpRequest, OpValue, Outcome, SchemaFault, Schemas, Side, Spent, StopReason};

/// From the host to a worker.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub enum ToWorker {
    /// The code this process will run for the rest of its life. Sent once.
    Load(Load),
    /// One call. Sent only after [`ToHost::Loaded`] with `Ok`. Calls run one at a time: one that is sent while another
    /// runs waits in the socket until that one has ended, or is [declined](ToHost::Declined).
    Call(Start),
    /// The answer to the [`ToHost::Op`] with the same number.
    Reply {
        /// The number.
        op: u32,
        /// What the host did, or why not.
        result: Result<OpValue, OpFailure>,
    },
}

/// From a worker to the host. Hostile input.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub enum ToHost {
    /// Booted, hardened and jailed; waiting for a bundle.
    Ready {
        /// The layers that are in force, and those that are not.
        jail: JailReport,
    },
    /// The bundle is loaded, or why not.
    Loaded(Result<Loaded, LoadFault>),
    /// The input fits and the handler starts: said where [`Start::announced`], before anything else of the call.
    Begun,
    /// The running call asks for something of the world outside.
    Op {
        /// A number of its own, above those before.
        op: u32,
        /// What is asked for.
        request: OpRequest,
    },
    /// A line of the running call's log.
    Log(LogLine),
    /// The call has nothing to compute until a [`ToWorker::Reply`] comes.
    Waiting,
    /// The running call waits, and a [`ToWorker::Call`] came: it will not be run here. Each stands for the oldest of those
    /// that were neither run nor declined.
    Declined,
    /// The call has ended.
    Done {
        /// How.
        outcome: Outcome,
        /// What it used, by the worker's own clocks.
        spent: Spent,
    },
    /// The running call says how far it is.
    Progress(Said),
}

/// A handler's code, the name its stack traces show, and what its input and result are held against.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Bundle {
    /// SHA-256 of source and language, in hex: what a call and a receipt are bound to. A worker is bound to the whole bundle.
    pub version: String,
    /// Synthetic URL of the module, `tool:/<slug>/<first 12 of version>`.
    pub specifier: String,
    /// `None` where the host itself answers: the worker then only [checks](Work::Check).
    pub source: Option<Source>,
    /// What input and result are held against.
    pub schemas: Schemas,
}

/// Code of a handler.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Source {
    /// As uploaded, or as [`Checked::source`] gave it back.
    pub text: Bytes,
    /// What `text` is written in.
    pub language: Language,
}

/// [`ToWorker::Load`]: a bundle, and the limits of loading it.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Load {
    /// What is loaded.
    pub bundle: Bundle,
    /// The process's limits for its whole life: memory and start-up.
    pub limits: Limits,
}

/// What loading found out.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Loaded {
    /// The bundle.
    pub checked: Checked,
    /// What loading used.
    pub spent: Spent,
}

/// A bundle that loads: its code as JavaScript.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Checked {
    /// JavaScript with TypeScript's types blanked out, lines and columns as uploaded. Empty when
    /// the language was JavaScript already.
    pub source: Bytes,
}

/// Why a bundle does not load.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum LoadFault {
    /// Its source does not.
    Handler(LoadError),
    /// One of its schemas cannot be used.
    Schema(SchemaFault),
    /// It took more than loading may.
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

/// Why a source does not load. Shown to its builder; `line` and `column` count from 1.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[error("{message}")]
pub struct LoadError {
    /// What is wrong.
    pub message: String,
    /// Where the engine says.
    pub line: Option<u32>,
    /// Where the engine says.
    pub column: Option<u32>,
}

/// What a handler is written in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Language {
    /// JavaScript.
    Js,
    /// TypeScript whose types can be blanked out.
    Ts,
}

/// Which process may serve a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Isolation {
    /// One that has served this endpoint version before; its module state lives on.
    #[default]
    Warm,
    /// One that has served nobody, and serves nobody after.
    Fresh,
}

/// [`ToWorker::Call`]: all that a call knows when it starts.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Start {
    /// `call_…`, for log lines and error texts.
    pub call: String,
    /// What is to be done.
    pub work: Work,
    /// Whether the host wants to be told that the handler [begins](ToHost::Begun).
    pub announced: bool,
    /// Everything of `req` but `body`, as a JSON object: `method`, `url`, `path`, `query`,
    /// `headers`, `caller`.
    pub head: Bytes,
    /// `req.body` as JSON text, exactly as the caller sent it; or what is to be checked.
    pub body: Bytes,
    /// What `ctx.env` holds: the granted secrets' names and values.
    pub env: Vec<(String, String)>,
    /// Wall clock at the start, in milliseconds since 1970: what `Date.now()` says.
    pub now_ms: u64,
    /// The call's limits, narrowed already.
    pub limits: Limits,
}

/// What a call is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Work {
    /// The input is checked, the handler runs, its result is checked.
    Handle,
    /// The body is checked and nothing runs. A body that fits is answered with `null`.
    Check(Side),
}

/// A log line, as the handler wrote it. The host strips control characters and redacts.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct LogLine {
    /// How much it matters.
    pub level: LogLevel,
    /// The line.
    pub message: String,
    /// A JSON object as text, or empty.
    pub fields: String,
}

/// What a handler lets its caller hear, as it said it. The host strips control characters and redacts.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Said {
    /// In the handler's words.
    pub message: String,
    /// How much is done, from 0 to 1.
    pub fraction: Option<f64>,
}

/// How much a log line matters.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum LogLevel {
    /// For who looks for a fault.
    Debug,
    /// For who wants to know.
    Info,
    /// Something is odd.
    Warn,
    /// Something failed.
    Error,
}

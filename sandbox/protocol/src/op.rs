//! What a running call may ask of the host, and what it gets.
//!
//! The host decides by the grants of the call that asks, never by what the worker says.

use bytes::Bytes;
use serde::{Deserialize, Serialize};

/// One request of a running call. The worker's JavaScript makes it as JSON with the field `op`
/// naming the variant; between the processes it travels as postcard.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub enum OpRequest {
    /// → [`OpValue::Json`] or [`OpValue::None`].
    KvGet {
        key: String,
    },
    /// `value` is JSON text. → [`OpValue::None`].
    KvSet {
        key: String,
        value: Bytes,
        ttl_ms: Option<u64>,
    },
    /// → [`OpValue::None`], whether the key was there or not.
    KvDelete {
        key: String,
    },
    /// → [`OpValue::Json`]: `{"entries":[{"key","value"}],"cursor":string|null}`.
    KvList {
        prefix: String,
        limit: u32,
        cursor: Option<String>,
    },
    /// All writes or none. → [`OpValue::Json`]: `{"ok":bool}`, false when a check failed.
    KvAtomic {
        checks: Vec<AtomicCheck>,
        writes: Vec<AtomicWrite>,
    },
    /// → [`OpValue::Bytes`] or [`OpValue::None`].
    FileRead {
        path: String,
    },
    FileWrite {
        path: String,
        content: Bytes,
    },
    FileDelete {
        path: String,
    },
    /// → [`OpValue::Json`]: `{"files":[{"path","size","modifiedAt"}],"cursor":string|null}`.
    FileList {
        prefix: String,
        limit: u32,
        cursor: Option<String>,
    },
    /// `ctx.httpGetJson`. → [`OpValue::Json`]: `{"status","headers","json"}`.
    HttpGetJson {
        url: String,
        headers: Vec<(String, String)>,
        timeout_ms: Option<u64>,
        auth: Option<HeaderFromEnv>,
    },
    /// A timer: answered with [`OpValue::None`] after `ms`.
    Sleep {
        ms: u64,
    },
}

/// A check of `ctx.kv.atomic()`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct AtomicCheck {
    pub key: String,
    /// The JSON text that must be there now; `None` wants the key absent.
    pub value: Option<Bytes>,
}

/// A write of `ctx.kv.atomic()`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub enum AtomicWrite {
    Set {
        key: String,
        value: Bytes,
        ttl_ms: Option<u64>,
    },
    Delete {
        key: String,
    },
    /// Adds to an integer (absent counts as 0). Never loses an update.
    Add {
        key: String,
        by: i64,
    },
}

/// `auth` of `ctx.httpGetJson`: the host sends the secret, the handler never sees it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct HeaderFromEnv {
    pub header: String,
    pub env: String,
}

/// What an op answers.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum OpValue {
    None,
    /// JSON text.
    Json(Bytes),
    Bytes(Bytes),
}

/// Why an op did not do what was asked. Rejects the handler's promise with a `ToolError` whose
/// `code` and `message` are these.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[error("{message}")]
pub struct OpFailure {
    /// `not_granted`, `quota_exceeded`, `invalid_argument`, `forbidden_address`, `timeout`, …
    pub code: String,
    pub message: String,
}

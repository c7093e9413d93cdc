//! What a running call may ask of the host, and what it gets.
//!
//! The host decides by the grants of the call that asks, never by what the worker says.

use bytes::Bytes;
use serde::{Deserialize, Serialize};

/// One request of a running call. Each is made by an op of the worker's scripts; between the processes it travels as
/// postcard.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub enum OpRequest {
    /// → [`OpValue::Json`] or [`OpValue::None`].
    KvGet {
        /// Which one.
        key: String,
    },
    /// `value` is JSON text. → [`OpValue::None`].
    KvSet {
        /// Which one.
        key: String,
        /// JSON text.
        value: Bytes,
        /// After how many milliseconds it is gone; never where there is none.
        ttl_ms: Option<u64>,
    },
    /// → [`OpValue::None`], whether the key was there or not.
    KvDelete {
        /// Which one.
        key: String,
    },
    /// → [`OpValue::Json`]: `{"entries":[{"key","value"}],"cursor":string|null}`.
    KvList {
        /// What the keys begin with.
        prefix: String,
        /// Most entries, at most [`LIST_LIMIT`](crate::limits::LIST_LIMIT).
        limit: u32,
        /// Where the page before ended.
        cursor: Option<String>,
    },
    /// All writes or none. → [`OpValue::Json`]: `{"ok":bool}`, false when a check failed.
    KvAtomic {
        /// What has to hold.
        checks: Vec<AtomicCheck>,
        /// What is done then.
        writes: Vec<AtomicWrite>,
    },
    /// → [`OpValue::Bytes`] or [`OpValue::None`].
    FileRead {
        /// Which one.
        path: String,
    },
    /// → [`OpValue::None`].
    FileWrite {
        /// Which one.
        path: String,
        /// All of it.
        content: Bytes,
    },
    /// → [`OpValue::None`], whether the file was there or not.
    FileDelete {
        /// Which one.
        path: String,
    },
    /// → [`OpValue::Json`]: `{"files":[{"path","size","modifiedAt"}],"cursor":string|null}`.
    FileList {
        /// What the paths begin with.
        prefix: String,
        /// Most entries, at most [`LIST_LIMIT`](crate::limits::LIST_LIMIT).
        limit: u32,
        /// Where the page before ended.
        cursor: Option<String>,
    },
    /// `ctx.httpGetJson`. → [`OpValue::Json`]: `{"status","headers","json"}`.
    HttpGetJson {
        /// As the handler gave it.
        url: String,
        /// What the handler wants sent. The host drops what is not its to say.
        headers: Vec<(String, String)>,
        /// In milliseconds, at most the limit of the call.
        timeout_ms: Option<u64>,
        /// A secret to be sent.
        auth: Option<HeaderFromEnv>,
    },
    /// A timer: answered with [`OpValue::None`] after `ms`.
    Sleep {
        /// In milliseconds.
        ms: u64,
    },
}

/// A check of `ctx.kv.atomic()`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct AtomicCheck {
    /// Which one.
    pub key: String,
    /// The JSON text that must be there now; `None` wants the key absent.
    pub value: Option<Bytes>,
}

/// A write of `ctx.kv.atomic()`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub enum AtomicWrite {
    /// As [`OpRequest::KvSet`].
    Set {
        /// Which one.
        key: String,
        /// JSON text.
        value: Bytes,
        /// After how many milliseconds it is gone; never where there is none.
        ttl_ms: Option<u64>,
    },
    /// As [`OpRequest::KvDelete`].
    Delete {
        /// Which one.
        key: String,
    },
    /// Adds to an integer (absent counts as 0). Never loses an update.
    Add {
        /// Which one.
        key: String,
        /// What is added.
        by: i64,
    },
}

/// `auth` of `ctx.httpGetJson`: the host sends the secret, the handler never sees it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct HeaderFromEnv {
    /// Name of the header.
    pub header: String,
    /// Name of the secret that is its value.
    pub env: String,
}

/// What an op answers.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum OpValue {
    /// Nothing, or that there is none.
    None,
    /// JSON text.
    Json(Bytes),
    /// Content of a file.
    Bytes(Bytes),
}

/// Why an op did not do what was asked. Rejects the handler's promise with a `ToolError` whose
/// `code` and `message` are these.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[error("{message}")]
pub struct OpFailure {
    /// `not_granted`, `quota_exceeded`, `invalid_argument`, `forbidden_address`, `timeout`, …
    pub code: String,
    /// For the builder.
    pub message: String,
}

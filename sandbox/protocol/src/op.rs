//! Requests of a running call to the host, and their results.
//!
//! The host decides by the grants of the requesting call, never by what the worker claims.

use bytes::Bytes;
use serde::{Deserialize, Serialize};

use crate::{
    frame::bounded_list,
    heap_size::HeapSize,
    limits::{BODY_CHUNK_BYTES, CALL_BYTES, FETCH_CHUNK_BYTES, LIST_BYTES, Limits},
};

/// Maximum items in the lists of a request. An item can be as short as two bytes in a frame, but an
/// honest worker never sends items that need more memory than the bytes in transit of a call.
const MAX_CHECKS: usize = CALL_BYTES / size_of::<AtomicCheck>();
const MAX_WRITES: usize = CALL_BYTES / size_of::<AtomicWrite>();
const MAX_HEADERS: usize = CALL_BYTES / size_of::<(String, String)>();

/// Passes the table of ops to the macro `$then`. This module declares [`OpRequest`] from it, the
/// worker defines the ops that scripts call, and the host performs them.
///
/// The position of a row is its number on the wire, and in `tests/fuzz/seeds/to-host`: add rows at the end. A row consists
/// of:
///
/// - the capability of the op, and the method of the host that performs it
/// - the name of the op in scripts
/// - the request, whose fields have an argument type: `text` (JSON if the field is not a string),
///   `number` (`u32` or an optional `u64`; others need `HeapSize` and the worker's `Argument`), `page` (a list limit, reduced
///   to the maximum of a page) or `buffer`
/// - `writes`, if the op changes stored data: the call does not end before the op is done
#[macro_export]
macro_rules! ops {
    ($then:ident) => {
        $then! {
            /// → [`OpValue::Json`] or [`OpValue::None`].
            kv.get op_kv_get KvGet {
                /// The key.
                key: String = text,
            };
            /// `value` is JSON text. → [`OpValue::None`].
            kv.set op_kv_set KvSet {
                /// The key.
                key: String = text,
                /// JSON text.
                value: Bytes = text,
                /// Time to live in milliseconds. `None` means forever.
                ttl_ms: Option<u64> = number,
            } writes;
            /// → [`OpValue::None`], whether the key existed or not.
            kv.delete op_kv_delete KvDelete {
                /// The key.
                key: String = text,
            } writes;
            /// → [`OpValue::Json`]: `{"entries":[{"key","value"}],"cursor":string|null}`.
            kv.list op_kv_list KvList {
                /// Prefix of the keys.
                prefix: String = text,
                /// Maximum entries, at most [`LIST_LIMIT`](crate::limits::LIST_LIMIT).
                limit: u32 = page,
                /// End of the previous page.
                cursor: Option<String> = text,
            };
            /// All writes or none. → [`OpValue::Json`]: `{"ok":bool}`, false if a check failed.
            kv.atomic op_kv_atomic KvAtomic {
                /// Conditions for the writes.
                #[serde(deserialize_with = "bounded_list::<_, _, MAX_CHECKS>")]
                checks: Vec<AtomicCheck> = text,
                /// Writes to perform if all checks hold.
                #[serde(deserialize_with = "bounded_list::<_, _, MAX_WRITES>")]
                writes: Vec<AtomicWrite> = text,
            } writes;
            /// → [`OpValue::Bytes`] or [`OpValue::None`].
            files.read op_file_read FileRead {
                /// The path.
                path: String = text,
            };
            /// → [`OpValue::None`].
            files.write op_file_write FileWrite {
                /// The path.
                path: String = text,
                /// The complete content.
                content: Bytes = buffer,
            } writes;
            /// → [`OpValue::None`], whether the file existed or not.
            files.delete op_file_delete FileDelete {
                /// The path.
                path: String = text,
            } writes;
            /// → [`OpValue::Json`]: `{"files":[{"path","size","modifiedAt"}],"cursor":string|null}`.
            files.list op_file_list FileList {
                /// Prefix of the paths.
                prefix: String = text,
                /// Maximum entries, at most [`LIST_LIMIT`](crate::limits::LIST_LIMIT).
                limit: u32 = page,
                /// End of the previous page.
                cursor: Option<String> = text,
            };
            /// `ctx.httpGetJson`. → [`OpValue::Json`]: `{"status","headers","json"}`.
            http_get_json.get op_http_get_json HttpGetJson {
                /// The URL as the handler wrote it.
                url: String = text,
                /// Headers that the handler wants to send. The host drops those that a handler must not set.
                #[serde(deserialize_with = "bounded_list::<_, _, MAX_HEADERS>")]
                headers: Vec<(String, String)> = text,
                /// Time-out in milliseconds, at most the limit of the call.
                timeout_ms: Option<u64> = number,
                /// A secret to send in a header.
                auth: Option<HeaderFromEnv> = text,
            };
            /// `fetch`. → [`OpValue::Response`], as soon as the head of the response has arrived.
            fetch.send op_fetch Fetch {
                /// The method.
                method: String = text,
                /// The URL.
                url: String = text,
                /// Headers that the handler wants to send. The host ignores those that a handler must not set.
                #[serde(deserialize_with = "bounded_list::<_, _, MAX_HEADERS>")]
                headers: Vec<(String, String)> = text,
                /// The body, at most [`REQUEST_BODY_BYTES`](crate::limits::REQUEST_BODY_BYTES). Empty for none.
                body: Bytes = buffer,
                /// How to handle a redirect.
                redirect: RedirectMode = text,
                /// The number by which [`OpRequest::FetchRead`] and [`OpRequest::FetchCancel`] name the request. No other
                /// one of the call has it.
                id: u32 = number,
            };
        }
    };
}

macro_rules! declare {
    (@writes) => { false };
    (@writes writes) => { true };
    ($($(#[$about:meta])* $part:ident.$method:ident $op:ident $request:ident {
        $($(#[$what:meta])* $field:ident: $kind:ty = $given:ident,)*
    } $($writes:ident)?;)*) => {
        /// One request of a running call, which a script makes with an op.
        #[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
        pub enum OpRequest {
            $($(#[$about])* $request { $($(#[$what])* $field: $kind,)* },)*
            /// A timer: answered with [`OpValue::None`] after `ms`.
            Sleep {
                /// Duration in milliseconds.
                ms: u64,
            },
            /// Sets the price of the call in dollars, as the handler wrote it. The last one counts. → [`OpValue::None`].
            Charge {
                /// [`Start::call`](crate::Start::call) of the call whose `ctx` was used. The host
                /// compares it with the running call, so that no call pays the charge of another.
                call: String,
                /// Decimal number.
                usd: String,
            },
            /// Reads the next bytes of a body that is not JSON, at most
            /// [`BODY_CHUNK_BYTES`](crate::limits::BODY_CHUNK_BYTES). → [`OpValue::Bytes`], or
            /// [`OpValue::None`] at the end.
            BodyRead {
                /// Position of the first byte.
                offset: u64,
            },
            /// Begins a streamed answer with its first chunk. The host answers when the head is on its
            /// way, which can take as long as a payment. → [`OpValue::None`]. A failure ends the stream.
            StreamOpen {
                /// HTTP status.
                status: u16,
                /// Headers as given to `new Response`. The host sends only allowed ones.
                #[serde(deserialize_with = "bounded_list::<_, _, MAX_HEADERS>")]
                headers: Vec<(String, String)>,
                /// The first chunk, with 1 to [`STREAM_CHUNK_BYTES`](crate::limits::STREAM_CHUNK_BYTES) bytes.
                first: Bytes,
            },
            /// Sends the next chunk of a streamed answer. The host answers when it has room for another
            /// one. → [`OpValue::None`]. A failure ends the stream.
            StreamWrite {
                /// The chunk, with 1 to [`STREAM_CHUNK_BYTES`](crate::limits::STREAM_CHUNK_BYTES) bytes.
                chunk: Bytes,
            },
            /// Reads the next bytes of a response's body as soon as there are some. → [`OpValue::Bytes`], or
            /// [`OpValue::None`] at the end.
            FetchRead {
                /// [`OpRequest::Fetch::id`] of its request.
                id: u32,
            },
            /// Ends a request, or the body of its response, without an error if there is none. → [`OpValue::None`].
            FetchCancel {
                /// [`OpRequest::Fetch::id`] of the request.
                id: u32,
            },
        }

        impl OpRequest {
            /// Returns whether the op changes stored data. A call does not end before such an op is done.
            #[must_use]
            pub fn writes(&self) -> bool {
                match self {
                    $(Self::$request { .. } => declare!(@writes $($writes)?),)*
                    // A streamed answer ends only after its last chunk was accepted.
                    Self::StreamOpen { .. } | Self::StreamWrite { .. } => false,
                    Self::Sleep { .. } | Self::BodyRead { .. } | Self::FetchRead { .. } | Self::FetchCancel { .. } => false,
                    // A charge counts even if the handler does not wait for it.
                    Self::Charge { .. } => true,
                }
            }

            /// Returns the size of the request in memory, in bytes. Its frame can be smaller.
            #[must_use]
            pub fn bytes(&self) -> usize {
                let own = match self {
                    $(Self::$request { $($field,)* } => 0 $(+ $field.heap_size())*,)*
                    Self::Sleep { .. } | Self::BodyRead { .. } | Self::FetchRead { .. } | Self::FetchCancel { .. } => 0,
                    Self::Charge { call, usd } => call.heap_size() + usd.heap_size(),
                    Self::StreamOpen { headers, first, .. } => headers.heap_size() + first.heap_size(),
                    Self::StreamWrite { chunk } => chunk.heap_size(),
                };
                size_of::<Self>() + own
            }

            /// Returns a request of each row with default values, for tests that cover every op.
            #[must_use]
            pub fn each() -> Vec<Self> {
                vec![$(Self::$request { $($field: Default::default(),)* },)*]
            }
        }
    };
}

ops!(declare);

/// Bytes of an answer that only reports success or an error.
const FAILURE_BYTES: u64 = 1 << 10;

/// Bytes of a file's line in a list.
const FILE_LINE_BYTES: u64 = 1 << 10;

/// Bytes of a response's head, whose headers and status text have at most 64 KiB before they are JSON.
const RESPONSE_HEAD_BYTES: u64 = 128 << 10;

impl OpRequest {
    /// Returns the chunk of a streamed answer that the request carries.
    #[must_use]
    pub fn chunk(&self) -> Option<&Bytes> {
        match self {
            Self::StreamOpen { first, .. } => Some(first),
            Self::StreamWrite { chunk } => Some(chunk),
            _ => None,
        }
    }

    /// Returns how many bytes the host can hold to answer the request, at most [`CALL_BYTES`].
    #[must_use]
    pub fn answer_bytes(&self, limits: &Limits) -> usize {
        let page = |limit: u32, entry: u64| u64::from(limit).saturating_mul(entry).min(LIST_BYTES as u64);
        let bytes = match self {
            Self::Sleep { .. } | Self::FetchCancel { .. } => 0,
            Self::KvSet { .. } | Self::KvDelete { .. } | Self::FileWrite { .. } | Self::FileDelete { .. } | Self::Charge { .. } => {
                FAILURE_BYTES
            }
            Self::StreamOpen { .. } | Self::StreamWrite { .. } => FAILURE_BYTES,
            Self::KvGet { .. } => limits.kv_value_bytes,
            Self::KvList { limit, .. } => page(*limit, limits.kv_key_bytes + limits.kv_value_bytes),
            // The value at each key is read.
            Self::KvAtomic { checks, writes } => ((checks.len() + writes.len()) as u64).saturating_mul(limits.kv_value_bytes),
            Self::FileRead { .. } => limits.file_bytes,
            Self::BodyRead { .. } => BODY_CHUNK_BYTES as u64,
            // A mark in the place of a secret can be longer than the secret.
            Self::FetchRead { .. } => 2 * FETCH_CHUNK_BYTES as u64,
            Self::FileList { limit, .. } => page(*limit, FILE_LINE_BYTES),
            Self::HttpGetJson { .. } => limits.http_body_bytes,
            Self::Fetch { .. } => limits.http_body_bytes.saturating_add(RESPONSE_HEAD_BYTES),
        };
        usize::try_from(bytes).unwrap_or(CALL_BYTES).min(CALL_BYTES)
    }
}

/// A check of `ctx.kv.atomic()`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct AtomicCheck {
    /// The key.
    pub key: String,
    /// The JSON text that must be the current value. `None` requires that the key is absent.
    pub value: Option<Bytes>,
}

/// A write of `ctx.kv.atomic()`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub enum AtomicWrite {
    /// Sets a value, as [`OpRequest::KvSet`] does.
    Set {
        /// The key.
        key: String,
        /// JSON text.
        value: Bytes,
        /// Time to live in milliseconds. `None` means forever.
        ttl_ms: Option<u64>,
    },
    /// Deletes a value, as [`OpRequest::KvDelete`] does.
    Delete {
        /// The key.
        key: String,
    },
    /// Adds to an integer. An absent value counts as 0. No update is ever lost.
    Add {
        /// The key.
        key: String,
        /// The number to add.
        by: i64,
    },
}

/// `auth` of `ctx.httpGetJson`: the host sends the secret, and the handler never sees it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct HeaderFromEnv {
    /// Name of the header.
    pub header: String,
    /// Name of the secret to send as its value.
    pub env: String,
}

/// `redirect` of `fetch`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub enum RedirectMode {
    /// Follow it.
    #[default]
    Follow,
    /// Return it as the response.
    Manual,
    /// Fail.
    Error,
}

/// The result of an op.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum OpValue {
    /// No value.
    None,
    /// JSON text.
    Json(Bytes),
    /// Content of a file.
    Bytes(Bytes),
    /// The response of a server.
    Response {
        /// JSON text: `{"status","statusText","url","redirected","headers":[[name,value]]}`.
        head: Bytes,
        /// The body, or its beginning.
        body: Bytes,
        /// Whether the body goes on: [`OpRequest::FetchRead`] reads the rest.
        more: bool,
    },
}

/// Why an op failed. The handler's promise is rejected with a `ToolError` with this `code` and `message`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[error("{message}")]
pub struct OpFailure {
    /// `not_granted`, `quota_exceeded`, `invalid_argument`, `forbidden_address`, `timeout`, …
    pub code: String,
    /// Description for the builder.
    pub message: String,
    /// HTTP status of an answer that could not be read. `None` if there was no answer.
    pub status: Option<u16>,
}

impl OpFailure {
    /// Creates a failure without a status.
    #[must_use]
    pub fn new(code: impl Into<String>, message: impl Into<String>) -> Self {
        Self { code: code.into(), message: message.into(), status: None }
    }
}

impl HeapSize for HeaderFromEnv {
    fn heap_size(&self) -> usize {
        self.header.len() + self.env.len()
    }
}

impl HeapSize for RedirectMode {
    fn heap_size(&self) -> usize {
        0
    }
}

impl HeapSize for AtomicCheck {
    fn heap_size(&self) -> usize {
        self.key.len() + self.value.heap_size()
    }
}

impl HeapSize for AtomicWrite {
    fn heap_size(&self) -> usize {
        match self {
            Self::Set { key, value, .. } => key.len() + value.len(),
            Self::Delete { key } | Self::Add { key, .. } => key.len(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: usize = 1 << 20;

    #[test]
    fn request_accounts_for_its_bytes_and_items() {
        let own = size_of::<OpRequest>();
        assert!(OpRequest::each().iter().all(|request| request.bytes() == own));
        let set = OpRequest::KvSet { key: "key".into(), value: "value".into(), ttl_ms: Some(1) };
        assert_eq!(set.bytes(), own + 8);
        let check = AtomicCheck { key: "k".into(), value: Some("1".into()) };
        let writes = vec![AtomicWrite::Set { key: "k".into(), value: "2".into(), ttl_ms: None }, AtomicWrite::Delete { key: "d".into() }];
        let positions = size_of::<AtomicCheck>() + 2 * size_of::<AtomicWrite>();
        assert_eq!(OpRequest::KvAtomic { checks: vec![check], writes }.bytes(), own + positions + 5);
        let headers = vec![(String::new(), String::new()); 1_000];
        let get = OpRequest::HttpGetJson { url: "u".into(), headers, timeout_ms: None, auth: None };
        assert_eq!(get.bytes(), own + 1 + 1_000 * size_of::<(String, String)>(), "2 bytes in a frame need more memory");
        let (method, url) = ("PUT".to_owned(), "u".to_owned());
        let fetch = OpRequest::Fetch { method, url, headers: vec![], body: "body".into(), redirect: RedirectMode::Follow, id: 1 };
        assert_eq!(fetch.bytes(), own + 8);
        let open = OpRequest::StreamOpen { status: 200, headers: vec![("a".into(), "b".into())], first: "abc".into() };
        assert_eq!(open.bytes(), own + size_of::<(String, String)>() + 5);
        assert_eq!(OpRequest::StreamWrite { chunk: "abcd".into() }.bytes(), own + 4);
    }

    #[test]
    fn answer_has_the_size_of_its_limit() {
        let limits = Limits { http_body_bytes: 100 * MIB as u64, ..Limits::default() };
        let (method, url, redirect) = ("GET".to_owned(), "u".to_owned(), RedirectMode::Follow);
        let fetch = OpRequest::Fetch { method, url, headers: vec![], body: Bytes::new(), redirect, id: 1 };
        assert_eq!(fetch.answer_bytes(&Limits::default()), MIB + (128 << 10));
        let list = |limit| OpRequest::KvList { prefix: String::new(), limit, cursor: None };
        let atomic = |checks: usize, writes: usize| OpRequest::KvAtomic {
            checks: vec![AtomicCheck { key: "k".into(), value: None }; checks],
            writes: vec![AtomicWrite::Delete { key: "k".into() }; writes],
        };
        for (request, bytes) in [
            (OpRequest::Sleep { ms: 1 }, 0),
            (OpRequest::KvGet { key: "k".into() }, 64 << 10),
            (list(1_000), MIB),
            (list(1), (64 << 10) + 512),
            (OpRequest::KvDelete { key: "k".into() }, 1 << 10),
            (atomic(3, 2), 5 * (64 << 10)),
            (OpRequest::FileList { prefix: String::new(), limit: 3, cursor: None }, 3 << 10),
            (OpRequest::FileRead { path: "p".into() }, MIB),
            (OpRequest::BodyRead { offset: 1 }, 256 << 10),
            (OpRequest::StreamWrite { chunk: "a".into() }, 1 << 10),
            (OpRequest::FetchRead { id: 1 }, 128 << 10),
            (OpRequest::FetchCancel { id: 1 }, 0),
            (OpRequest::HttpGetJson { url: "u".into(), headers: vec![], timeout_ms: None, auth: None }, CALL_BYTES),
            (fetch, CALL_BYTES),
        ] {
            assert_eq!(request.answer_bytes(&limits), bytes, "{request:?}");
        }
    }
}

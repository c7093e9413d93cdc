//! What a running call may ask of the host, and what it gets.
//!
//! The host decides by the grants of the call that asks, never by what the worker says.

use bytes::Bytes;
use serde::{Deserialize, Serialize};

use crate::{frame::few, held::Held, limits::CALL_BYTES};

/// Items of the lists of a request, of which each may be two bytes of a frame: no worker sends one of which these alone take more than
/// a call may have under way.
const MAX_CHECKS: usize = CALL_BYTES / size_of::<AtomicCheck>();
const MAX_WRITES: usize = CALL_BYTES / size_of::<AtomicWrite>();
const MAX_HEADERS: usize = CALL_BYTES / size_of::<(String, String)>();

/// Hands the table of ops to the macro `$then`: here it declares [`OpRequest`], in the worker it makes what the scripts call,
/// in the host it performs what was asked.
///
/// A row is the capability that the op is of and the method of its part of the host that performs it, the name that scripts call it by, and the request
/// with what its fields are given as: `text` (JSON where the field is no text), `number`, `page` (how much of a list, within what one page
/// may have) or `buffer`. Behind it stands whether it `writes`: it changes what is kept, so that the call does not end before it is done.
#[macro_export]
macro_rules! ops {
    ($then:ident) => {
        $then! {
            /// → [`OpValue::Json`] or [`OpValue::None`].
            kv.get op_kv_get KvGet {
                /// Which one.
                key: String = text,
            };
            /// `value` is JSON text. → [`OpValue::None`].
            kv.set op_kv_set KvSet {
                /// Which one.
                key: String = text,
                /// JSON text.
                value: Bytes = text,
                /// After how many milliseconds it is gone; never where there is none.
                ttl_ms: Option<u64> = number,
            } writes;
            /// → [`OpValue::None`], whether the key was there or not.
            kv.delete op_kv_delete KvDelete {
                /// Which one.
                key: String = text,
            } writes;
            /// → [`OpValue::Json`]: `{"entries":[{"key","value"}],"cursor":string|null}`.
            kv.list op_kv_list KvList {
                /// What the keys begin with.
                prefix: String = text,
                /// Most entries, at most [`LIST_LIMIT`](crate::limits::LIST_LIMIT).
                limit: u32 = page,
                /// Where the page before ended.
                cursor: Option<String> = text,
            };
            /// All writes or none. → [`OpValue::Json`]: `{"ok":bool}`, false when a check failed.
            kv.atomic op_kv_atomic KvAtomic {
                /// What has to hold.
                #[serde(deserialize_with = "few::<_, _, MAX_CHECKS>")]
                checks: Vec<AtomicCheck> = text,
                /// What is done then.
                #[serde(deserialize_with = "few::<_, _, MAX_WRITES>")]
                writes: Vec<AtomicWrite> = text,
            } writes;
            /// → [`OpValue::Bytes`] or [`OpValue::None`].
            files.read op_file_read FileRead {
                /// Which one.
                path: String = text,
            };
            /// → [`OpValue::None`].
            files.write op_file_write FileWrite {
                /// Which one.
                path: String = text,
                /// All of it.
                content: Bytes = buffer,
            } writes;
            /// → [`OpValue::None`], whether the file was there or not.
            files.delete op_file_delete FileDelete {
                /// Which one.
                path: String = text,
            } writes;
            /// → [`OpValue::Json`]: `{"files":[{"path","size","modifiedAt"}],"cursor":string|null}`.
            files.list op_file_list FileList {
                /// What the paths begin with.
                prefix: String = text,
                /// Most entries, at most [`LIST_LIMIT`](crate::limits::LIST_LIMIT).
                limit: u32 = page,
                /// Where the page before ended.
                cursor: Option<String> = text,
            };
            /// `ctx.httpGetJson`. → [`OpValue::Json`]: `{"status","headers","json"}`.
            http_get_json.get op_http_get_json HttpGetJson {
                /// As the handler gave it.
                url: String = text,
                /// What the handler wants sent. The host drops what is not its to say.
                #[serde(deserialize_with = "few::<_, _, MAX_HEADERS>")]
                headers: Vec<(String, String)> = text,
                /// In milliseconds, at most the limit of the call.
                timeout_ms: Option<u64> = number,
                /// A secret to be sent.
                auth: Option<HeaderFromEnv> = text,
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
        /// One request of a running call. Each is made by an op of the worker's scripts; between the processes it travels as
        /// postcard.
        #[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
        pub enum OpRequest {
            $($(#[$about])* $request { $($(#[$what])* $field: $kind,)* },)*
            /// A timer: answered with [`OpValue::None`] after `ms`.
            Sleep {
                /// In milliseconds.
                ms: u64,
            },
            /// What the call is to cost, in dollars, as the handler wrote it: the last one counts. → [`OpValue::None`].
            Charge {
                /// [`Start::call`](crate::Start::call) of the call whose `ctx` it came through. The host holds it against the call that
                /// it runs: no call pays what another one says.
                call: String,
                /// Decimal.
                usd: String,
            },
        }

        impl OpRequest {
            /// Whether it changes what is kept: a call does not end before it is done.
            #[must_use]
            pub fn writes(&self) -> bool {
                match self {
                    $(Self::$request { .. } => declare!(@writes $($writes)?),)*
                    Self::Sleep { .. } => false,
                    // What is not waited for counts too.
                    Self::Charge { .. } => true,
                }
            }

            /// Bytes that it holds in memory, whatever it takes in a frame.
            #[must_use]
            pub fn bytes(&self) -> usize {
                let own = match self {
                    $(Self::$request { $($field,)* } => 0 $(+ $field.held())*,)*
                    Self::Sleep { .. } => 0,
                    Self::Charge { call, usd } => call.held() + usd.held(),
                };
                size_of::<Self>() + own
            }

            /// Each row of the table, asking for nothing in particular: for tests that every op has to pass.
            #[must_use]
            pub fn each() -> Vec<Self> {
                vec![$(Self::$request { $($field: Default::default(),)* },)*]
            }
        }
    };
}

ops!(declare);

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
    /// The status of an answer over HTTP that could not be read; none where there was no answer.
    pub status: Option<u16>,
}

impl OpFailure {
    /// A failure that has no status.
    #[must_use]
    pub fn new(code: impl Into<String>, message: impl Into<String>) -> Self {
        Self { code: code.into(), message: message.into(), status: None }
    }
}

impl Held for HeaderFromEnv {
    fn held(&self) -> usize {
        self.header.len() + self.env.len()
    }
}

impl Held for AtomicCheck {
    fn held(&self) -> usize {
        self.key.len() + self.value.held()
    }
}

impl Held for AtomicWrite {
    fn held(&self) -> usize {
        match self {
            Self::Set { key, value, .. } => key.len() + value.len(),
            Self::Delete { key } | Self::Add { key, .. } => key.len(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn request_holds_what_it_says_and_a_place_for_each_item() {
        let own = size_of::<OpRequest>();
        assert!(OpRequest::each().iter().all(|request| request.bytes() == own));
        let set = OpRequest::KvSet { key: "key".into(), value: "value".into(), ttl_ms: Some(1) };
        assert_eq!(set.bytes(), own + 8);
        let check = AtomicCheck { key: "k".into(), value: Some("1".into()) };
        let writes = vec![AtomicWrite::Set { key: "k".into(), value: "2".into(), ttl_ms: None }, AtomicWrite::Delete { key: "d".into() }];
        let places = size_of::<AtomicCheck>() + 2 * size_of::<AtomicWrite>();
        assert_eq!(OpRequest::KvAtomic { checks: vec![check], writes }.bytes(), own + places + 5);
        let headers = vec![(String::new(), String::new()); 1_000];
        let get = OpRequest::HttpGetJson { url: "u".into(), headers, timeout_ms: None, auth: None };
        assert_eq!(get.bytes(), own + 1 + 1_000 * size_of::<(String, String)>(), "what is 2 bytes in a frame is more here");
    }
}

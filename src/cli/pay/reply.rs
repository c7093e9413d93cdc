//! The response of a seller, or the reason that there is none.

use reqwest::header::HeaderMap;
use serde::Deserialize;
use serde_json::Value;

/// A response, read completely.
#[derive(Debug, Default)]
pub(crate) struct Reply {
    pub(crate) status: u16,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Vec<u8>,
    /// Further members of the last event of a stream.
    pub(crate) extras: ResultExtras,
    /// Whether the body was reported piece by piece, as [`Arrival::Piece`].
    pub(crate) is_reported: bool,
}

/// A part of a response that arrives before the whole.
pub(crate) enum Arrival<'a> {
    Progress(Progress),
    /// The next bytes of a streamed body. The head has no body.
    Piece {
        head: &'a Reply,
        bytes: &'a [u8],
    },
}

/// Takes the parts of a response as they arrive.
pub(crate) type Report<'a> = dyn FnMut(Arrival<'_>) + 'a;

/// The reason for a missing response.
#[derive(Debug)]
pub(crate) enum LostReply {
    /// Nothing was sent.
    Unsent(String),
    /// The request was sent, but its outcome is unknown.
    Sent(String),
    /// As `Sent`, and the time for the call is used up.
    Late,
    /// The response is too large to read. Holds its head.
    TooLarge(Box<Reply>),
    /// The response broke off after pieces of it were reported, so that it cannot be read again. Holds its head.
    BrokenOff(Box<Reply>),
}

impl LostReply {
    pub(crate) fn reason(&self) -> &str {
        match self {
            Self::Unsent(reason) | Self::Sent(reason) => reason,
            Self::Late => "timed out",
            Self::TooLarge(_) => "the answer is larger than 64 MiB",
            Self::BrokenOff(_) => "the answer broke off, so it is incomplete",
        }
    }
}

/// A progress report.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(crate) struct Progress {
    pub(crate) message: Option<String>,
    pub(crate) fraction: Option<f64>,
    pub(crate) elapsed_ms: u64,
}

/// Members that the last event of a stream has beside its result.
#[derive(Debug, Default)]
pub(crate) struct ResultExtras {
    pub(crate) receipt: Option<Value>,
    pub(crate) settlement: Option<Value>,
}

impl Reply {
    /// Returns a header's value if it is text.
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name)?.to_str().ok()
    }

    pub(crate) fn is_success(&self) -> bool {
        (200..300).contains(&self.status)
    }
}

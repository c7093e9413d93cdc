//! What a seller answered, or why nothing came.

use reqwest::header::HeaderMap;
use serde_json::Value;

/// An answer, read to its end.
#[derive(Debug, Default)]
pub(crate) struct Reply {
    pub(crate) status: u16,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Vec<u8>,
    /// What the last event of a stream says beside its result.
    pub(crate) beside: Beside,
}

/// Why there is none.
#[derive(Debug)]
pub(crate) enum Lost {
    /// Nothing was sent.
    Unsent(String),
    /// What became of what was sent is not known.
    Sent(String),
    /// The same, and the time for it is over.
    Late,
    /// It is more than is read; its head was.
    TooLarge(Box<Reply>),
}

impl Lost {
    pub(crate) fn why(&self) -> &str {
        match self {
            Self::Unsent(why) | Self::Sent(why) => why,
            Self::Late => "no answer came in time",
            Self::TooLarge(_) => "its answer is larger than 64 MiB",
        }
    }
}

/// Something that is told on the way.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Progress {
    pub(crate) message: Option<String>,
    pub(crate) fraction: Option<f64>,
    pub(crate) elapsed_ms: u64,
}

/// What the last event says beside its result.
#[derive(Debug, Default)]
pub(crate) struct Beside {
    pub(crate) receipt: Option<Value>,
    pub(crate) settlement: Option<Value>,
}

/// The last cause, which says most.
pub(super) fn cause(error: &reqwest::Error) -> String {
    let last = std::iter::successors(std::error::Error::source(error), |&cause| cause.source()).last();
    last.map_or_else(|| error.to_string(), ToString::to_string)
}

impl Reply {
    /// A header, where it is text.
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name)?.to_str().ok()
    }

    pub(crate) fn is_success(&self) -> bool {
        (200..300).contains(&self.status)
    }
}

//! The position of a line in its tool's log.

use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use tollhouse_base::{clock::Timestamp, id::EndpointId};
use tollhouse_event::feed::Position;
use tollhouse_store::{CountedText, KeyPosition, Table, schema};

use super::entry::LogEntry;

pub(crate) const LOGS: Table<(CountedText<EndpointId>, Timestamp, u64), LogEntry> = schema::LOGS.holding();

/// The position of a line in its tool's log: its time, then a number that distinguishes lines of the same time.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct LogPosition(pub(super) Timestamp, pub(super) u64);

impl Position for LogPosition {
    fn start_of(at: Timestamp) -> Self {
        Self(at, 0)
    }

    fn at(&self) -> Timestamp {
        self.0
    }

    fn from_cursor(text: &str) -> Option<Self> {
        let (at, number) = KeyPosition::of_bytes(URL_SAFE_NO_PAD.decode(text).ok()?).parts()?;
        Some(Self(at, number))
    }

    fn to_cursor(&self) -> String {
        URL_SAFE_NO_PAD.encode(KeyPosition::of(&(self.0, self.1)).as_bytes())
    }
}

//! The position of an event in its owner's feed.

use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use tollhouse_base::{clock::Timestamp, id::EventId};
use tollhouse_store as store;

use super::feed::Position;

/// The position of an event among those of its owner: its time, then its id.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct EventPosition(pub(super) store::KeyPosition);

impl EventPosition {
    /// Returns the position of an event.
    pub fn of(id: &EventId) -> Self {
        Self(store::KeyPosition::of(&(id.made_at(), id.clone())))
    }
}

impl Position for EventPosition {
    fn start_of(at: Timestamp) -> Self {
        Self(store::KeyPosition::of(&at))
    }

    fn at(&self) -> Timestamp {
        self.0.split().map_or(Timestamp(0), |(at, _)| at)
    }

    fn from_cursor(text: &str) -> Option<Self> {
        let position = URL_SAFE_NO_PAD.decode(text).ok().filter(|position| (8..=64).contains(&position.len()));
        position.map(|position| Self(store::KeyPosition::of_bytes(position)))
    }

    fn to_cursor(&self) -> String {
        URL_SAFE_NO_PAD.encode(self.0.as_bytes())
    }
}

//! The position of a call in the history of its tool.

use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use tollhouse_base::{
    clock::Timestamp,
    id::{EndpointId, RequestId},
};
use tollhouse_event::feed::Position;
use tollhouse_store::{KeyPosition, TerminatedText};

/// The position of a call in the history of its tool.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct CallPosition {
    /// The time of its pack.
    pub(super) at: Timestamp,
    /// Name and number of the pack, and the call's index in it. `None` is before all calls of that time.
    pub(super) call: Option<(RequestId, u32, u32)>,
}

impl CallPosition {
    pub(super) fn within(at: Timestamp, pack: RequestId, part: u32, number: u32) -> Self {
        Self { at, call: Some((pack, part, number)) }
    }

    /// Returns the key of its pack for the tool `own`.
    pub(super) fn pack(&self, own: TerminatedText<EndpointId>) -> Option<(TerminatedText<EndpointId>, Timestamp, RequestId, u32)> {
        let (pack, part, _) = self.call.clone()?;
        Some((own, self.at, pack, part))
    }
}

impl Position for CallPosition {
    fn start_of(at: Timestamp) -> Self {
        Self { at, call: None }
    }

    fn at(&self) -> Timestamp {
        self.at
    }

    fn from_cursor(text: &str) -> Option<Self> {
        let (at, pack, part, number) = KeyPosition::of_bytes(URL_SAFE_NO_PAD.decode(text).ok()?).parts()?;
        Some(Self::within(at, pack, part, number))
    }

    fn to_cursor(&self) -> String {
        let position = match self.call.clone() {
            Some((pack, part, number)) => KeyPosition::of(&(self.at, pack, part, number)),
            None => KeyPosition::of(&self.at),
        };
        URL_SAFE_NO_PAD.encode(position.as_bytes())
    }
}

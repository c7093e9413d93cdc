//! Parses the fields of a JSON-RPC message that this front end needs. rmcp parses only messages that no fast path
//! answers.

use std::borrow::Cow;

use axum::body::Bytes;
use rmcp::model::{MetaObject, RequestId};
use serde::Deserialize;
use serde_json::value::RawValue;

use super::arguments::Arguments;

pub(super) const CALL: &str = "tools/call";
pub(super) const CANCELLED: &str = "notifications/cancelled";
pub(super) const DISCOVER: &str = "server/discover";
pub(super) const INITIALIZE: &str = "initialize";
pub(super) const LIST: &str = "tools/list";
pub(super) const LISTEN: &str = "subscriptions/listen";

/// A request or notification. The default has no method.
#[derive(Deserialize, Default)]
pub(super) struct Message<'a> {
    #[serde(borrow)]
    jsonrpc: Cow<'a, str>,
    /// `None` for a notification.
    pub(super) id: Option<RequestId>,
    #[serde(borrow)]
    pub(super) method: Cow<'a, str>,
    #[serde(borrow, default)]
    pub(super) params: Params<'a>,
}

/// The parameters of all methods. Others are ignored.
#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct Params<'a> {
    /// The name of the tool in [`CALL`].
    pub(super) name: Option<String>,
    #[serde(borrow)]
    arguments: Option<&'a RawValue>,
    #[serde(borrow)]
    cursor: Option<&'a RawValue>,
    #[serde(rename = "_meta")]
    pub(super) meta: MetaObject,
    /// The filter of [`LISTEN`].
    pub(super) notifications: ListenFilter,
    /// The request that [`CANCELLED`] names.
    pub(super) request_id: Option<RequestId>,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct ListenFilter {
    pub(super) tools_list_changed: Option<bool>,
}

impl<'a> Message<'a> {
    /// Parses a message. Returns the default for anything else, which rmcp rejects. For duplicate fields too, of which
    /// rmcp uses the last.
    pub(super) fn parse(body: &'a [u8]) -> Self {
        serde_json::from_slice(body).ok().filter(|message: &Self| message.jsonrpc == "2.0").unwrap_or_default()
    }
}

impl Params<'_> {
    /// Returns the arguments of a call in `body`, from which they were parsed. Returns `None` if they are not an object.
    pub(super) fn arguments(&self, body: &Bytes) -> Option<Arguments> {
        let Some(text) = self.arguments else { return Some(Arguments::default()) };
        text.get().starts_with('{').then(|| Arguments(body.slice_ref(text.get().as_bytes())))
    }

    /// Returns whether there is a cursor. Some clients request the first page with `null`.
    pub(super) fn has_cursor(&self) -> bool {
        self.cursor.is_some()
    }

    /// Returns the cursor, or `None` if it is not text.
    pub(super) fn cursor(&self) -> Option<String> {
        serde_json::from_str(self.cursor?.get()).ok()
    }
}

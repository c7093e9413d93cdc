//! Parses the fields of a JSON-RPC message that this front end needs. rmcp parses only messages that no fast path
//! answers.

use std::borrow::Cow;

use axum::body::Bytes;
use rmcp::model::{MetaObject, RequestId};
use serde::{Deserialize, de::DeserializeOwned};
use serde_json::value::RawValue;
use tollhouse_front::ApiError;

use super::arguments::Arguments;

pub(super) const CALL: &str = "tools/call";
pub(super) const CANCELLED: &str = "notifications/cancelled";
pub(super) const DISCOVER: &str = "server/discover";
pub(super) const INITIALIZE: &str = "initialize";
pub(super) const LIST: &str = "tools/list";
pub(super) const LISTEN: &str = "subscriptions/listen";

/// Maximum id and maximum `_meta`, in bytes. They become trees, which are many times larger than the text if it has many
/// short values.
pub(super) const MAX_FIELD_BYTES: usize = 64 << 10;

/// A request or notification. The default has no method.
#[derive(Default)]
pub(super) struct Message<'a> {
    /// `None` for a notification.
    pub(super) id: Option<RequestId>,
    pub(super) method: Cow<'a, str>,
    pub(super) params: Params<'a>,
}

/// The parameters of all methods. Others are ignored.
#[derive(Default)]
pub(super) struct Params<'a> {
    /// The name of the tool in [`CALL`].
    pub(super) name: Option<String>,
    arguments: Option<&'a RawValue>,
    cursor: Option<&'a RawValue>,
    pub(super) meta: MetaObject,
    /// The filter of [`LISTEN`].
    pub(super) notifications: ListenFilter,
    /// The request that [`CANCELLED`] names.
    pub(super) request_id: Option<RequestId>,
}

/// A [`Message`] whose fields of unknown size are still text.
#[derive(Deserialize)]
struct MessageText<'a> {
    #[serde(borrow)]
    jsonrpc: Cow<'a, str>,
    #[serde(borrow)]
    id: Option<&'a RawValue>,
    #[serde(borrow)]
    method: Cow<'a, str>,
    #[serde(borrow, default)]
    params: ParamsText<'a>,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
struct ParamsText<'a> {
    name: Option<String>,
    #[serde(borrow)]
    arguments: Option<&'a RawValue>,
    #[serde(borrow)]
    cursor: Option<&'a RawValue>,
    #[serde(rename = "_meta", borrow)]
    meta: Option<&'a RawValue>,
    notifications: ListenFilter,
    #[serde(borrow)]
    request_id: Option<&'a RawValue>,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct ListenFilter {
    pub(super) tools_list_changed: Option<bool>,
}

impl<'a> Message<'a> {
    /// Parses a message. Returns the default for anything else, which rmcp rejects. For duplicate fields too, of which
    /// rmcp uses the last.
    ///
    /// # Errors
    ///
    /// 400 if a field is longer than [`MAX_FIELD_BYTES`].
    pub(super) fn parse(body: &'a [u8]) -> Result<Self, ApiError> {
        // serde also takes an array of the fields' values for a structure.
        let is_object = body.trim_ascii_start().starts_with(b"{");
        let Some(text) = is_object.then(|| serde_json::from_slice::<MessageText<'a>>(body).ok()).flatten() else {
            return Ok(Self::default());
        };
        for (name, field) in [("id", text.id), ("params._meta", text.params.meta), ("params.requestId", text.params.request_id)] {
            if let Some(bytes) = field.map(|field| field.get().len()).filter(|bytes| *bytes > MAX_FIELD_BYTES) {
                return Err(ApiError::bad_request(format!("`{name}` has {bytes} bytes, and the maximum is {MAX_FIELD_BYTES}")));
            }
        }
        Ok(text.read().unwrap_or_default())
    }
}

impl<'a> MessageText<'a> {
    /// Parses the fields that are still text. Returns `None` if one has another type, or the version is not 2.0.
    fn read(self) -> Option<Message<'a>> {
        let Self { jsonrpc, id, method, params: ParamsText { name, arguments, cursor, meta, notifications, request_id } } = self;
        let (id, request_id, meta) = (field(id)?, field(request_id)?, field(meta)?.unwrap_or_default());
        (jsonrpc == "2.0").then_some(Message { id, method, params: Params { name, arguments, cursor, meta, notifications, request_id } })
    }
}

/// Parses a field. Returns `Some(None)` if it is absent, and `None` if it has another type.
fn field<T: DeserializeOwned>(text: Option<&RawValue>) -> Option<Option<T>> {
    text.map(|text| serde_json::from_str(text.get()).ok()).map_or(Some(None), |value| value.map(Some))
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_that_become_trees_have_a_maximum() {
        let long = format!("[{}0]", "0,".repeat(MAX_FIELD_BYTES / 2));
        let is_refused = |id: &str, field: &str, value: &str| {
            let text = format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"tools/call","params":{{"{field}":{value}}}}}"#);
            Message::parse(text.as_bytes()).is_err()
        };
        assert!(is_refused("1", "_meta", &long) && is_refused("1", "requestId", &long) && is_refused(&long, "name", "null"));
        assert!(!is_refused("1", "arguments", &long) && !is_refused("1", "other", &long), "these stay text");
        assert!(!is_refused("1", "_meta", &format!(r#"{{"a":"{}"}}"#, "x".repeat(MAX_FIELD_BYTES - 8))));
    }

    #[test]
    fn fields_of_another_type_leave_the_message_to_rmcp() {
        let method = |text: &str| Message::parse(text.as_bytes()).unwrap().method.into_owned();
        assert_eq!(method(r#"{"jsonrpc":"2.0","id":"a","method":"m","params":{"_meta":{},"requestId":1}}"#), "m");
        for other in [
            r#"{"jsonrpc":"2.0","id":{},"method":"m"}"#,
            r#"{"jsonrpc":"1.0","id":1,"method":"m"}"#,
            r#"{"jsonrpc":"2.0","id":1,"method":"m","params":{"_meta":[]}}"#,
            r#"{"jsonrpc":"2.0","id":1,"method":"m","method":"n"}"#,
            r#"["2.0",1,"m"]"#,
        ] {
            assert_eq!(method(other), "", "{other}");
        }
    }
}

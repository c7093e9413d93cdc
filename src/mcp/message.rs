//! Parses the fields of a JSON-RPC message that this front end needs. rmcp parses only messages that no fast path
//! answers.

use std::borrow::Cow;

use axum::body::Bytes;
use rmcp::model::{MetaObject, RequestId};
use serde::{Deserialize, de::DeserializeOwned};
use serde_json::value::RawValue;
use tollhouse_base::deserialize_error::ByName;
use tollhouse_front::ApiError;

use super::arguments::Arguments;

pub(super) const CALL: &str = "tools/call";
pub(super) const CANCELLED: &str = "notifications/cancelled";
pub(super) const DISCOVER: &str = "server/discover";
pub(super) const INITIALIZE: &str = "initialize";
pub(super) const LIST: &str = "tools/list";
pub(super) const LISTEN: &str = "subscriptions/listen";

/// Maximum `_meta`, in bytes. It becomes a tree, which is many times larger than the text if it has many short values.
const MAX_META_BYTES: usize = 64 << 10;

/// Maximum id of a request, and maximum progress token, in bytes of JSON. Each answer and each progress notification
/// repeats them.
pub(super) const MAX_ID_BYTES: usize = 1 << 10;

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
    params: ByName<ParamsText<'a>>,
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
    #[serde(borrow)]
    notifications: Option<&'a RawValue>,
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
    /// 400 if `_meta` is longer than [`MAX_META_BYTES`], or an id than [`MAX_ID_BYTES`].
    pub(super) fn parse(body: &'a [u8]) -> Result<Self, ApiError> {
        let Ok(ByName(message)) = serde_json::from_slice::<ByName<MessageText<'a>>>(body) else { return Ok(Self::default()) };
        let ByName(params) = &message.params;
        check_length("id", message.id, MAX_ID_BYTES)?;
        check_length("params.requestId", params.request_id, MAX_ID_BYTES)?;
        check_length("params._meta", params.meta, MAX_META_BYTES)?;
        Ok(message.read().unwrap_or_default())
    }

    /// Returns whether [`parse`](Self::parse) left the message to rmcp.
    pub(super) fn is_unparsed(&self) -> bool {
        self.method.is_empty()
    }
}

impl<'a> MessageText<'a> {
    /// Parses the fields that are still text. Returns `None` if one that the method has is invalid, or the version is
    /// not 2.0.
    fn read(self) -> Option<Message<'a>> {
        let Self { jsonrpc, id, method, params: ByName(params) } = self;
        let ParamsText { name, arguments, cursor, meta, notifications, request_id } = params;
        let notifications = field(notifications.filter(|_| method == LISTEN))?.unwrap_or_default();
        let request_id = field(request_id.filter(|_| method == CANCELLED))?;
        let (id, meta) = (field(id)?, field(meta)?.unwrap_or_default());
        (jsonrpc == "2.0").then_some(Message { id, method, params: Params { name, arguments, cursor, meta, notifications, request_id } })
    }
}

fn check_length(name: &str, field: Option<&RawValue>, max: usize) -> Result<(), ApiError> {
    match field.map_or(0, |field| field.get().len()) {
        bytes if bytes > max => Err(ApiError::bad_request(format!("`{name}` has {bytes} bytes, and the maximum is {max}"))),
        _ => Ok(()),
    }
}

/// Parses a field. Returns `Some(None)` if it is absent or null, and `None` if it has another type.
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

    fn message(id: &str, method: &str, params: &str) -> String {
        format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"{method}","params":{params}}}"#)
    }

    #[test]
    fn fields_that_become_trees_have_a_maximum() {
        let long = format!("[{}0]", "0,".repeat(MAX_META_BYTES / 2));
        let is_refused = |id: &str, params: &str| Message::parse(message(id, CALL, params).as_bytes()).is_err();
        assert!(is_refused("1", &format!(r#"{{"_meta":{long}}}"#)));
        assert!(is_refused("1", &format!(r#"{{"requestId":{long}}}"#)));
        assert!(is_refused(&format!(r#""{}""#, "x".repeat(MAX_ID_BYTES)), "{}"));
        assert!(!is_refused("1", &format!(r#"{{"arguments":{long},"other":{long}}}"#)), "these stay text");
        assert!(!is_refused("1", &format!(r#"{{"_meta":{{"a":"{}"}}}}"#, "x".repeat(MAX_META_BYTES - 8))));
    }

    #[test]
    fn null_is_the_default_and_fields_of_other_methods_are_ignored() {
        for params in [r#"{"name":"a","_meta":null,"notifications":null}"#, r#"{"name":"a","requestId":{},"notifications":7}"#] {
            let text = message(r#""a""#, CALL, params);
            assert_eq!(Message::parse(text.as_bytes()).unwrap().params.name.as_deref(), Some("a"), "{params}");
        }
    }

    #[test]
    fn other_messages_are_left_to_rmcp() {
        for other in [
            message("{}", "m", "{}"),
            message("1", "m", r#"{"_meta":[]}"#),
            message("1", "m", r#"["a",{},null,{}]"#),
            message("1", CANCELLED, r#"{"requestId":{}}"#),
            message("1", "m", "{}").replace("2.0", "1.0"),
            r#"{"jsonrpc":"2.0","id":1,"method":"m","method":"n"}"#.to_owned(),
            r#"["2.0",1,"m"]"#.to_owned(),
            "[]".to_owned(),
        ] {
            assert!(Message::parse(other.as_bytes()).unwrap().is_unparsed(), "{other}");
        }
    }
}

//! Batches of JSON-RPC messages, which only revision 2025-03-26 has.
//!
//! The messages are answered one after another, in order. So a batch runs one call at a time, like single messages, and
//! a call can depend on the one before it.

use std::fmt;

use axum::{body::Bytes, http::HeaderMap};
use rmcp::model::{ProtocolVersion, RequestId};
use serde::{
    Deserialize, Deserializer,
    de::{IgnoredAny, SeqAccess, Visitor},
};
use serde_json::value::RawValue;
use tollhouse_base::{deserialize_error::ByName, plural::plural};

use super::{message::MAX_ID_BYTES, revision::sole};

#[derive(Debug, PartialEq)]
pub(super) enum Member {
    Request(Bytes),
    /// A notification or a response, which gets no answer.
    Silent(Bytes),
    /// A message that is invalid in a batch, with its id.
    Wrong(&'static str, Option<RequestId>),
}

/// Splits `body` into messages. Returns `None` if it is not a batch or its revision has no batches; then it is handled
/// as a single message.
///
/// # Errors
///
/// The batch has more than `max` messages.
pub(super) fn members(headers: &HeaderMap, body: &Bytes, max: usize) -> Option<Result<Vec<Member>, String>> {
    let revision = ProtocolVersion::V_2025_03_26;
    // Without a header, the revision is the oldest.
    let has_batches = !headers.contains_key("mcp-protocol-version") || sole(headers, "mcp-protocol-version") == Some(revision.as_str());
    if !body.trim_ascii_start().starts_with(b"[") || !has_batches {
        return None;
    }
    let mut body_text = serde_json::Deserializer::from_slice(body);
    let members = body_text.deserialize_seq(AtMost(max)).ok().filter(|_| body_text.end().is_ok())?;
    let Some(members) = members else { return Some(Err(format!("a batch can have at most {}", plural(max, "message")))) };
    if members.is_empty() {
        return None;
    }
    Some(Ok(members.into_iter().map(|member| Member::read(member.get(), body)).collect()))
}

/// Parses an array of at most this many values. The result of a longer one is `None`.
struct AtMost(usize);

impl<'de> Visitor<'de> for AtMost {
    type Value = Option<Vec<&'de RawValue>>;

    fn expecting(&self, expected: &mut fmt::Formatter<'_>) -> fmt::Result {
        expected.write_str("an array")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut values: A) -> Result<Self::Value, A::Error> {
        let mut first = Vec::new();
        while first.len() < self.0 {
            match values.next_element()? {
                Some(value) => first.push(value),
                None => return Ok(Some(first)),
            }
        }
        if values.next_element::<IgnoredAny>()?.is_none() {
            return Ok(Some(first));
        }
        while values.next_element::<IgnoredAny>()?.is_some() {}
        Ok(None)
    }
}

/// The fields of a message that say what it is. Duplicate fields are errors.
#[derive(Deserialize)]
struct MemberText<'a> {
    #[serde(default, borrow, deserialize_with = "present")]
    id: Option<&'a RawValue>,
    #[serde(default, borrow, deserialize_with = "present")]
    method: Option<&'a RawValue>,
    #[serde(default, deserialize_with = "is_present")]
    result: bool,
    #[serde(default, deserialize_with = "is_present")]
    error: bool,
}

/// Parses a field that is present, even if it is null.
fn present<'de, D: Deserializer<'de>>(field: D) -> Result<Option<&'de RawValue>, D::Error> {
    Deserialize::deserialize(field).map(Some)
}

fn is_present<'de, D: Deserializer<'de>>(field: D) -> Result<bool, D::Error> {
    IgnoredAny::deserialize(field).map(|_| true)
}

impl Member {
    /// Parses a message. `text` is a part of `body`.
    fn read(text: &str, body: &Bytes) -> Self {
        let Ok(ByName(member)) = serde_json::from_str::<ByName<MemberText<'_>>>(text) else {
            return Self::Wrong("every entry of a batch must be a JSON-RPC message", None);
        };
        let id = || member.id.filter(|id| id.get().len() <= MAX_ID_BYTES).and_then(|id| serde_json::from_str(id.get()).ok());
        let method = member.method.map(|method| serde_json::from_str::<String>(method.get()).unwrap_or_default());
        match method.as_deref() {
            Some("initialize") => Self::Wrong("`initialize` cannot be part of a batch", id()),
            Some(_) if member.id.is_some() => Self::Request(body.slice_ref(text.as_bytes())),
            None if !member.result && !member.error => {
                Self::Wrong("every entry of a batch must be a request, a notification or a response", id())
            }
            Some(_) | None => Self::Silent(body.slice_ref(text.as_bytes())),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(revision: Option<&'static str>, body: &'static str) -> Option<Result<Vec<Member>, String>> {
        let mut headers = HeaderMap::new();
        if let Some(revision) = revision {
            headers.insert("mcp-protocol-version", revision.parse().unwrap());
        }
        members(&headers, &Bytes::from_static(body.as_bytes()), 4)
    }

    #[test]
    fn members_are_distinguished() {
        let body = r#" [ {"id":1,"method":"a"}, {"method":"b"}, {"id":1,"result":{}}, [1,"a"] ]"#;
        let members = read(None, body).unwrap().unwrap();
        assert_eq!(members[0], Member::Request(Bytes::from_static(br#"{"id":1,"method":"a"}"#)));
        assert!(members[1..3].iter().all(|member| matches!(member, Member::Silent(_))), "{members:?}");
        assert!(matches!(members[3], Member::Wrong(_, None)));
        let body = r#"[{"id":null,"method":"a"},{"id":1,"method":"in\u0069tialize"},{"id":1},1]"#;
        let members = read(Some("2025-03-26"), body).unwrap().unwrap();
        assert!(matches!(members[0], Member::Request(_)), "it is refused as any other request with this id");
        assert!(members[1..].iter().all(|member| matches!(member, Member::Wrong(..))), "{members:?}");
        assert!(matches!(members[2], Member::Wrong(_, Some(RequestId::Number(1)))), "{members:?}");
    }

    #[test]
    fn only_one_revision_has_batches() {
        for revision in ["2025-06-18", "2025-11-25", "2026-07-28", "nonsense"] {
            assert!(read(Some(revision), "[{}]").is_none(), "{revision}");
        }
        for no_batch in ["{}", "[]", "[", "", "[{}] x"] {
            assert!(read(None, no_batch).is_none(), "{no_batch}");
        }
        assert!(read(None, "[1,1,1,1]").unwrap().is_ok());
        assert!(read(None, "[1,1,1,1,1]").unwrap().is_err());
        assert!(read(None, "[1,1,1,1,1").is_none() && read(None, "[1,1,1,1,1,]").is_none(), "it is not JSON");
    }
}

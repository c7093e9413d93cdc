//! Classifies the body of an answer. All fronts use it, so that they return the same.

use std::{borrow::Cow, collections::BTreeMap};

use bytes::Bytes;
use serde_json::{Value, value::RawValue};
use tollhouse_money::StoredAnswer;

/// The default media type of an answer.
const JSON: &str = "application/json";

/// The body of an answer, by media type and content.
#[derive(Debug)]
pub enum Content<'a> {
    /// The handler's JSON text, with its original spacing and digits.
    Json { media_type: Cow<'a, str>, json: &'a RawValue },
    /// `text/*` in UTF-8.
    Text { media_type: Cow<'a, str>, text: &'a str },
    /// Any other content.
    Bytes { media_type: Cow<'a, str>, bytes: &'a [u8] },
    /// The status allows no body.
    Nothing,
}

impl<'a> Content<'a> {
    /// Classifies an answer by its content type.
    pub fn of(answer: &'a StoredAnswer) -> Self {
        Self::new(answer.status, &answer.headers, &answer.body)
    }

    /// Classifies `bytes` by status and headers.
    pub fn new(status: u16, headers: &'a [(String, String)], bytes: &'a [u8]) -> Self {
        if bodiless(status) {
            return Self::Nothing;
        }
        let content_type = content_type(headers).unwrap_or(JSON);
        let media_type = mime_essence(content_type);
        if is_json(&media_type)
            && let Ok(json) = serde_json::from_slice(bytes)
        {
            return Self::Json { media_type, json };
        }
        // Invalid JSON is a text too.
        let is_text = media_type.starts_with("text/") && to_utf8(content_type) || is_json(&media_type);
        match str::from_utf8(bytes) {
            Ok(text) if is_text => Self::Text { media_type, text },
            _ => Self::Bytes { media_type, bytes },
        }
    }
}

/// Returns the headers that the handler set, with lower-case names. The content type is left out if it is just JSON.
pub fn chosen_headers(answer: &StoredAnswer) -> BTreeMap<String, &str> {
    let headers = answer.headers.iter().map(|(name, value)| (name.to_ascii_lowercase(), value.as_str()));
    headers.filter(|(name, value)| name != "content-type" || !value.eq_ignore_ascii_case(JSON)).collect()
}

/// Returns whether an answer with this status has no body.
pub fn bodiless(status: u16) -> bool {
    matches!(status, 204 | 205 | 304)
}

/// Returns whether a content type is JSON, as defined by the MIME Sniffing Standard.
pub fn is_json_type(content_type: &str) -> bool {
    is_json(&mime_essence(content_type))
}

pub fn content_type(headers: &[(String, String)]) -> Option<&str> {
    let message = headers.iter().rfind(|(name, _)| name.eq_ignore_ascii_case("content-type")).map(|(_, value)| value.as_str());
    message.filter(|message| !message.trim().is_empty())
}

/// Returns `type/subtype` in lower case.
fn mime_essence(content_type: &str) -> Cow<'_, str> {
    let essence = content_type.split(';').next().unwrap_or_default().trim();
    if essence.bytes().any(|byte| byte.is_ascii_uppercase()) { Cow::Owned(essence.to_ascii_lowercase()) } else { Cow::Borrowed(essence) }
}

fn is_json(essence: &str) -> bool {
    matches!(essence, JSON | "text/json") || essence.ends_with("+json")
}

/// Returns whether the charset is compatible with UTF-8 or missing.
fn to_utf8(content_type: &str) -> bool {
    let charset = content_type.split(';').skip(1).filter_map(|parameter| parameter.split_once('='));
    let mut charset = charset.filter(|(name, _)| name.trim().eq_ignore_ascii_case("charset"));
    charset.next().is_none_or(|(_, charset)| {
        let charset = charset.trim().trim_matches('"');
        ["utf-8", "utf8", "us-ascii", "ascii"].iter().any(|known| charset.eq_ignore_ascii_case(known))
    })
}

/// Encodes a JSON value for an answer.
pub fn json_bytes(value: &Value) -> Bytes {
    Bytes::from(value.to_string())
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;

    use super::*;

    fn answer(status: u16, content_type: Option<&str>, body: &'static [u8]) -> StoredAnswer {
        let headers = content_type.map(|value| ("Content-Type".to_owned(), value.to_owned())).into_iter().collect();
        StoredAnswer { status, headers, body: Bytes::from_static(body), receipt_id: String::new(), settlement: None }
    }

    #[test]
    fn a_body_is_classified_by_media_type_and_bytes() {
        let cases: &[(Option<&str>, &'static [u8], &str)] = &[
            (None, b"{\"a\": 1}", "json {\"a\": 1}"),
            (Some("Application/Problem+JSON; v=1"), b" 12345678901234567890.10 ", "json 12345678901234567890.10"),
            (Some("text/json"), b"null", "json null"),
            (Some("application/json"), b"{", "text application/json {"),
            (Some("application/json"), b"\xff", "bytes application/json"),
            (Some("application/jsonl"), b"{}", "bytes application/jsonl"),
            (Some("text/plain"), b"42", "text text/plain 42"),
            (Some("text/plain"), b"", "text text/plain "),
            (Some("text/CSV;charset=\"UTF-8\""), b"a,b", "text text/csv a,b"),
            (Some("text/plain; charset=iso-8859-1"), b"plain", "bytes text/plain"),
            (Some("text/plain"), b"\xed\xa0\x80", "bytes text/plain"),
            (Some("image/png"), b"{}", "bytes image/png"),
        ];
        for (content_type, body, requested) in cases {
            let answer = answer(200, *content_type, body);
            let found = match Content::of(&answer) {
                Content::Json { json, .. } => format!("json {}", json.get()),
                Content::Text { media_type, text } => format!("text {media_type} {text}"),
                Content::Bytes { media_type, bytes } => {
                    assert_eq!(bytes, *body);
                    format!("bytes {media_type}")
                }
                Content::Nothing => "nothing".to_owned(),
            };
            assert_eq!(found, *requested, "{content_type:?}");
        }
        assert!(matches!(Content::of(&answer(204, None, b"")), Content::Nothing));
    }

    #[test]
    fn the_content_type_of_plain_json_is_left_out() {
        assert!(chosen_headers(&answer(200, Some("application/json"), b"1")).is_empty());
        let chosen = answer(200, Some("application/problem+json"), b"1");
        assert_eq!(chosen_headers(&chosen), BTreeMap::from([("content-type".to_owned(), "application/problem+json")]));
    }
}

//! Reads a streamed response: progress reports, and at the end the same reply as without a stream.

use std::collections::BTreeMap;

use base64::{Engine as _, engine::general_purpose::STANDARD};
use reqwest::header::{CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue, RETRY_AFTER};
use serde::Deserialize;
use serde_json::{Value, value::RawValue};
use tollhouse_front::Code;

use super::{Arrival, LostReply, Reply, Report, reply::ResultExtras};
use crate::base::{
    cause,
    sse::{Event, Reader},
};

/// Maximum number of events of a stream.
const MAX_EVENTS: usize = 10_000;

/// Maximum number of headers in an event: hosts send a handful.
const MOST_HEADERS: usize = 256;

/// Data of the event `result`.
#[derive(Deserialize)]
struct ResultEvent {
    status: Option<u16>,
    #[serde(default)]
    headers: BTreeMap<String, String>,
    result: Box<RawValue>,
    receipt: Option<Value>,
    settlement: Option<Value>,
}

/// A result that is not JSON.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawResult {
    #[serde(rename = "mediaType")]
    _media_type: String,
    text: Option<String>,
    base64: Option<String>,
}

/// Reads events up to the last one.
pub(super) async fn read(
    mut response: reqwest::Response,
    status: u16,
    headers: HeaderMap,
    report: &mut Report<'_>,
) -> Result<Reply, LostReply> {
    let mut stream = Stream::new(status, headers);
    while let Some(chunk) = response.chunk().await.map_err(|error| LostReply::Sent(cause(&error)))? {
        if let Some(reply) = stream.take(&chunk, report)? {
            return Ok(reply);
        }
    }
    Err(LostReply::Sent("the stream ended without a result".to_owned()))
}

/// The state of a stream that is being read. It takes pieces of any size, and returns the reply at the end.
pub(super) struct Stream {
    status: u16,
    headers: HeaderMap,
    reader: Reader,
    count: usize,
}

impl Stream {
    /// Creates the state for a response with this head.
    pub(super) fn new(status: u16, headers: HeaderMap) -> Self {
        Self { status, headers, reader: Reader::default(), count: 0 }
    }

    /// Takes the next bytes. Returns the reply if they complete it.
    pub(super) fn take(&mut self, bytes: &[u8], report: &mut Report<'_>) -> Result<Option<Reply>, LostReply> {
        let events = self.reader.take(bytes).map_err(|_| LostReply::Sent("an event is too large".to_owned()))?;
        for event in events {
            self.count += 1;
            if self.count > MAX_EVENTS {
                return Err(LostReply::Sent("too many events".to_owned()));
            }
            let headers = || self.headers.clone();
            match &*event.name {
                "progress" => report(Arrival::Progress(serde_json::from_str(&event.data).unwrap_or_default())),
                "result" => {
                    let read = result(&event.data, self.status, headers());
                    return read.map(Some).ok_or_else(|| LostReply::Sent("the result is not valid".to_owned()));
                }
                "error" => return Ok(Some(error(event, headers()))),
                _ => {}
            }
        }
        Ok(None)
    }
}

/// Returns the reply that would have been sent without a stream.
fn result(data: &str, status: u16, mut headers: HeaderMap) -> Option<Reply> {
    let ResultEvent { status: own, headers: chosen, result, receipt, settlement } = serde_json::from_str(data).ok()?;
    // A `HeaderMap` panics beyond its capacity.
    if chosen.len() > MOST_HEADERS {
        return None;
    }
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    for (name, value) in &chosen {
        headers.insert(HeaderName::try_from(name.as_str()).ok()?, HeaderValue::try_from(value.as_str()).ok()?);
    }
    // A result without a content type is JSON, whatever it looks like.
    let is_other = chosen.contains_key("content-type");
    let body = match serde_json::from_str::<RawResult>(result.get()) {
        Ok(RawResult { text: Some(text), base64: None, .. }) if is_other => text.into_bytes(),
        Ok(RawResult { text: None, base64: Some(base64), .. }) if is_other => STANDARD.decode(base64).ok()?,
        Ok(_) | Err(_) => result.get().as_bytes().to_vec(),
    };
    Some(Reply { status: own.unwrap_or(status), headers, body, extras: ResultExtras { receipt, settlement }, is_reported: false })
}

/// Returns an error as a reply, with the status and the `Retry-After` that it would have had without a stream.
fn error(event: Event, mut headers: HeaderMap) -> Reply {
    let reported: Value = serde_json::from_str(&event.data).unwrap_or_default();
    if let Some(seconds) = reported["error"]["retryAfterSeconds"].as_u64() {
        headers.insert(RETRY_AFTER, seconds.into());
    }
    // A challenge has a different envelope.
    let code = reported["error"]["code"].as_str().or(reported["accepts"].is_array().then_some("payment_required")).unwrap_or_default();
    let known = Code::ALL.iter().find(|known| known.row().name == code);
    let status = known.map_or(500, |code| code.row().status.as_u16());
    let alongside = ResultExtras { receipt: reported.get("receipt").cloned(), settlement: reported.get("settlement").cloned() };
    Reply { status, headers, body: event.data.into_bytes(), extras: alongside, is_reported: false }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reply(data: &str) -> Reply {
        result(data, 200, HeaderMap::new()).unwrap()
    }

    #[test]
    fn streamed_result_equals_the_plain_body() {
        let json = reply(
            r#"{"ok":true,"result":{"n": 1.50, "z":12345678901234567890},"receipt":{"receiptId":"r"},"settlement":{"success":true}}"#,
        );
        assert_eq!(json.body, br#"{"n": 1.50, "z":12345678901234567890}"#);
        assert_eq!((json.status, json.header("content-type")), (200, Some("application/json")));
        assert_eq!(json.extras.settlement.unwrap()["success"], true);
        let text =
            reply(r#"{"ok":true,"status":201,"headers":{"content-type":"text/plain"},"result":{"mediaType":"text/plain","text":"hi\n"}}"#);
        assert_eq!((text.status, &*text.body), (201, &b"hi\n"[..]));
        let bytes = reply(r#"{"ok":true,"headers":{"content-type":"image/png"},"result":{"mediaType":"image/png","base64":"AAH/"}}"#);
        assert_eq!(bytes.body, [0, 1, 255]);
        let alike = reply(r#"{"ok":true,"result":{"mediaType":"text/plain","text":"hi"}}"#);
        assert_eq!(alike.body, br#"{"mediaType":"text/plain","text":"hi"}"#);
        assert!(result("{}", 200, HeaderMap::new()).is_none());
    }

    #[test]
    fn streamed_error_has_its_status_and_its_wait() {
        let read = |wait: &str| {
            let data = format!(r#"{{"ok":false,"error":{{"code":"rate_limited","charged":false{wait}}}}}"#);
            let mut stream = Stream::new(200, HeaderMap::new());
            stream.take(format!("event: error\ndata: {data}\n\n").as_bytes(), &mut |_| {}).unwrap().unwrap()
        };
        let reply = read(r#","retryAfterSeconds":64"#);
        assert_eq!((reply.status, reply.header("retry-after")), (429, Some("64")));
        assert_eq!(read("").header("retry-after"), None);
    }

    #[test]
    fn result_with_too_many_headers_is_rejected() {
        let named = |count: usize| (0..count).map(|n| (format!("h{n}"), String::new())).collect::<BTreeMap<_, _>>();
        let describe = |count| serde_json::json!({ "headers": named(count), "result": 1 }).to_string();
        assert_eq!(reply(&describe(MOST_HEADERS)).headers.len(), MOST_HEADERS + 1);
        for count in [MOST_HEADERS + 1, 40_000] {
            assert!(result(&describe(count), 200, HeaderMap::new()).is_none(), "{count}");
        }
    }
}

//! Reads request bodies, within limits of size, time and total memory. Nothing else reads them.
//!
//! A body counts against the memory limit from its first chunk until its last copy is dropped. A body that arrives in
//! one chunk is not counted, because it fits into the buffer that each connection has anyway.

use std::{net::IpAddr, time::Duration};

use axum::{
    body::{Body, BodyDataStream, HttpBody as _},
    http::{HeaderMap, header},
};
use bytes::Bytes;
use futures_util::StreamExt as _;
use serde::{Deserialize, de::DeserializeOwned};
use serde_json::value::RawValue;
use tokio::time::{Instant, timeout_at};
use tollhouse_base::{
    deserialize_error::{self, DeserializeError},
    offload::{DropOffThread, run_blocking},
};
use tollhouse_call::CallError;
use tollhouse_tool::{has_reserved_key, parse_json};

use super::{api_error::ApiError, error_codes::Code, memory_budget::MemoryBudget, quota::QuotaShare};

/// Maximum body of a management request, in bytes: the largest handler source, escaped as JSON.
pub const MANAGEMENT_BODY_BYTES: usize = 4 << 20;

/// Maximum body of an unauthenticated request other than a call, in bytes.
pub const SMALL_BODY_BYTES: usize = 16 << 10;

/// Maximum bytes of a rejected body to read and discard, and the maximum time for that.
const DRAIN_BYTES: usize = 8 << 20;
const DRAIN: Duration = Duration::from_secs(2);

/// The byte order mark of UTF-8.
const MARK: &[u8] = "\u{feff}".as_bytes();

/// Minimum buffer for a body of several chunks, in bytes.
const LEAST_ROOM: usize = 16 << 10;

/// Why a body was not read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum BodyError {
    TooLarge { limit: usize },
    TooSlow,
    EndedEarly,
}

impl From<BodyError> for ApiError {
    fn from(unread: BodyError) -> Self {
        match unread {
            BodyError::TooLarge { limit } => CallError::BodyTooLarge { limit: limit as u64 }.into(),
            BodyError::TooSlow => Code::BodyTooSlow.into(),
            BodyError::EndedEarly => Self::bad_request("the body ended early"),
        }
    }
}

/// Reads the whole body of a request from `peer`, up to `limit` bytes.
///
/// After a rejection, some more of the body is read and discarded. A client that is still sending when the connection
/// closes would never see the error. A client that waits for `100 Continue` has sent nothing yet and gets the error
/// instead.
pub async fn read(intake: &MemoryBudget, peer: IpAddr, headers: &HeaderMap, body: Body, limit: usize) -> Result<Bytes, ApiError> {
    let settings = &intake.bodies;
    let mut stream = body.into_data_stream();
    if stream.size_hint().lower() > limit as u64 {
        if !waits(headers) {
            _ = tokio::time::timeout(DRAIN, drain(stream)).await;
        }
        return Err(BodyError::TooLarge { limit }.into());
    }
    let whole = settings.time.map(|time| Instant::now() + time);
    let mut gathered: Option<BodyBuffer> = None;
    loop {
        let stall = settings.stall.map(|stall| Instant::now() + stall);
        let next = match whole.into_iter().chain(stall).min() {
            Some(by) => timeout_at(by, stream.next()).await.map_err(|_| BodyError::TooSlow)?,
            None => stream.next().await,
        };
        let Some(chunk) = next.transpose().map_err(|_| BodyError::EndedEarly)? else { break };
        if gathered.is_none() && stream.is_end_stream() && chunk.len() <= limit {
            return Ok(without_mark(chunk));
        }
        let gathered = gathered.get_or_insert_default();
        if let Err(unread) = gathered.push(&chunk, limit, &stream, |bytes| intake.hold(peer, bytes)) {
            gathered.clear();
            _ = tokio::time::timeout(DRAIN, drain(stream)).await;
            return Err(unread);
        }
    }
    Ok(without_mark(gathered.map_or_else(Bytes::new, Bytes::from_owner)))
}

/// Removes a byte order mark, which JSON parsers may ignore (RFC 8259, section 8.1).
fn without_mark(text: Bytes) -> Bytes {
    if text.starts_with(MARK) { text.slice(MARK.len()..) } else { text }
}

/// Returns whether the client waits for `100 Continue` before it sends the body (RFC 9110, section 10.1.1).
pub(crate) fn waits(headers: &HeaderMap) -> bool {
    headers.get(header::EXPECT).is_some_and(|expected| expected.as_bytes().eq_ignore_ascii_case(b"100-continue"))
}

async fn drain(mut stream: BodyDataStream) {
    let mut remaining = DRAIN_BYTES;
    while let Some(Ok(chunk)) = stream.next().await
        && chunk.len() < remaining
    {
        remaining -= chunk.len();
    }
}

/// The chunks of a body received so far, with their share of the memory for bodies.
#[derive(Default)]
struct BodyBuffer {
    bytes: Vec<u8>,
    /// Bytes that the share covers.
    room: usize,
    share: Option<QuotaShare>,
}

impl BodyBuffer {
    /// Appends a chunk, and gets a share of the memory for bodies from `hold`. The share includes the remaining length
    /// announced by `stream`, but no more than the bytes received so far.
    fn push(
        &mut self,
        chunk: &[u8],
        limit: usize,
        stream: &BodyDataStream,
        hold: impl FnOnce(usize) -> Result<QuotaShare, ApiError>,
    ) -> Result<(), ApiError> {
        let len = self.bytes.len() + chunk.len();
        if len > limit {
            return Err(BodyError::TooLarge { limit }.into());
        }
        if len > self.room {
            let message = stream.size_hint().upper().and_then(|remaining| usize::try_from(remaining).ok());
            let max = message.map_or(limit, |remaining| len.saturating_add(remaining).min(limit));
            let room = (self.room * 2).max(LEAST_ROOM).clamp(len, max);
            let more = hold(room - self.room)?;
            match &mut self.share {
                Some(share) => share.join(more),
                none => *none = Some(more),
            }
            self.bytes.reserve_exact(room - self.bytes.len());
            self.room = room;
        }
        self.bytes.extend_from_slice(chunk);
        Ok(())
    }

    /// Drops the bytes and the share.
    fn clear(&mut self) {
        *self = Self::default();
    }
}

impl AsRef<[u8]> for BodyBuffer {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

/// Checks that a body is declared as JSON, uncompressed and UTF-8.
pub fn check_json(headers: &HeaderMap) -> Result<(), ApiError> {
    if !headers.contains_key(header::CONTENT_TYPE) {
        // Pages of other sites can send a body without a type and without a preflight.
        return Err(unsupported("the body has no `Content-Type`; send `application/json`"));
    }
    check_call(headers)
}

/// Like [`check_json`], for the input of a call, where `Content-Type` is optional.
pub fn check_call(headers: &HeaderMap) -> Result<(), ApiError> {
    let texts = |name: header::HeaderName| headers.get_all(name).into_iter().map(|value| value.to_str().unwrap_or_default());
    let codings = texts(header::CONTENT_ENCODING).flat_map(|value| value.split(',')).map(str::trim);
    if let Some(coding) = codings.filter(|coding| !coding.is_empty()).find(|coding| !coding.eq_ignore_ascii_case("identity")) {
        return Err(unsupported(format!("the body has the content coding `{coding}`; send it as it is")));
    }
    for value in texts(header::CONTENT_TYPE) {
        let mut words = value.split(';').map(str::trim);
        let media = words.next().unwrap_or_default().to_ascii_lowercase();
        let is_json = matches!(media.as_str(), "application/json" | "text/json") || media.contains('/') && media.ends_with("+json");
        if !is_json {
            return Err(CallError::UnsupportedMediaType(media).into());
        }
        let charset = words.filter_map(|word| word.split_once('=')).find(|(name, _)| name.trim().eq_ignore_ascii_case("charset"));
        let charset = charset.map(|(_, charset)| charset.trim().trim_matches('"').to_ascii_lowercase());
        if let Some(charset) = charset.filter(|charset| !matches!(charset.as_str(), "" | "utf-8" | "utf8" | "us-ascii" | "ascii")) {
            return Err(unsupported(format!("the body is in `{charset}`; JSON is sent as UTF-8 (RFC 8259, 8.1)")));
        }
    }
    Ok(())
}

fn unsupported(message: impl Into<String>) -> ApiError {
    ApiError::new(Code::UnsupportedMediaType, message)
}

/// Parses a body as JSON. A long one is parsed off the runtime's threads.
pub async fn json(text: &Bytes) -> Result<DropOffThread, ApiError> {
    let parsed = run_blocking(text.len(), || parse_json(text)).await;
    parsed.map(DropOffThread::new).map_err(|reason| ApiError::new(Code::InvalidJson, format!("the body is not JSON: {reason}")))
}

/// A field that stays raw JSON text, so that its numbers keep digits that a double cannot hold.
#[derive(Debug, Deserialize)]
#[serde(transparent)]
pub struct VerbatimJson(Box<RawValue>);

impl From<VerbatimJson> for Bytes {
    fn from(VerbatimJson(text): VerbatimJson) -> Self {
        Box::<str>::from(text).into_string().into()
    }
}

/// Deserializes a body with [`VerbatimJson`] fields. If that fails, deserializes it again as `Told` to get a readable
/// error.
pub async fn verbatim<T: DeserializeOwned, Told: DeserializeOwned>(text: &Bytes, code: Code) -> Result<T, ApiError> {
    // A reserved key is reported as for other bodies.
    let read = || if has_reserved_key(text) { None } else { serde_json::from_slice(text).ok() };
    if let Some(read) = run_blocking(text.len(), read).await {
        return Ok(read);
    }
    let value = json(text).await?;
    let misfit = run_blocking(text.len(), || deserialize_error::json::<Told>(&value)).await.err();
    let DeserializeError { message, pointer } = misfit.ok_or_else(|| ApiError::bad_request("the body does not fit"))?;
    Err(ApiError::invalid(code, message, &pointer))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use axum::http::HeaderValue;

    use super::*;
    use crate::quota::Quota;

    const ADDRESS: IpAddr = IpAddr::V4(std::net::Ipv4Addr::LOCALHOST);

    fn unknown_length() -> BodyDataStream {
        Body::from_stream(futures_util::stream::pending::<Result<Bytes, std::io::Error>>()).into_data_stream()
    }

    fn hold(quota: &Arc<Quota>) -> impl Fn(usize) -> Result<QuotaShare, ApiError> {
        move |bytes| {
            let mut share = quota.share(ADDRESS);
            share.take(bytes).map_err(|_| ApiError::from(Code::Busy))?;
            Ok(share)
        }
    }

    fn code(pushed: Result<(), ApiError>) -> Option<Code> {
        pushed.err().map(|fault| fault.code())
    }

    #[test]
    fn what_is_held_is_counted_as_it_grows_and_until_its_last_copy_is_gone() {
        let quota = Quota::new(Some(1 << 20), None);
        let (mut body, stream) = (BodyBuffer::default(), unknown_length());
        body.push(&[1; 10], 1 << 20, &stream, hold(&quota)).unwrap();
        assert_eq!(quota.taken(), LEAST_ROOM);
        for _ in 0..8 {
            body.push(&[2; 10_000], 1 << 20, &stream, hold(&quota)).unwrap();
        }
        assert!((80_010..200_000).contains(&quota.taken()), "{}", quota.taken());
        let room = quota.taken();
        let bytes = Bytes::from_owner(body);
        let copy = bytes.slice(10..20);
        drop(bytes);
        assert_eq!((quota.taken(), &copy[..]), (room, &[2; 10][..]));
        drop(copy);
        assert_eq!(quota.taken(), 0);
    }

    #[test]
    fn no_body_takes_more_than_there_is_nor_more_than_it_may() {
        let quota = Quota::new(Some(100_000), None);
        let stream = unknown_length();
        let (mut one, mut other) = (BodyBuffer::default(), BodyBuffer::default());
        one.push(&[0; 60_000], 1 << 20, &stream, hold(&quota)).unwrap();
        assert_eq!(code(other.push(&[0; 60_000], 1 << 20, &stream, hold(&quota))), Some(Code::Busy));
        assert_eq!(code(other.push(&[0; 60_000], 59_999, &stream, hold(&quota))), Some(Code::BodyTooLarge));
        one.clear();
        other.push(&[0; 60_000], 60_000, &stream, hold(&quota)).unwrap();
        assert_eq!(quota.taken(), 60_000, "not a byte beyond its limit");
    }

    #[test]
    fn a_body_of_known_length_gets_no_more_room_than_that() {
        let quota = Quota::new(None, None);
        let mut body = BodyBuffer::default();
        // The stream announces 7 more bytes.
        let stream = Body::from("the end").into_data_stream();
        body.push(&[0; 5_000], 1 << 20, &stream, hold(&quota)).unwrap();
        assert_eq!(quota.taken(), 5_007);
    }

    #[test]
    fn a_body_is_json_in_utf_8_and_not_compressed() {
        let headers = |fields: &[(&'static str, &'static str)]| -> HeaderMap {
            fields.iter().map(|(name, value)| (name.parse().unwrap(), HeaderValue::from_static(value))).collect()
        };
        for fine in [
            "application/json",
            "Application/JSON; charset=UTF-8",
            "text/json",
            "application/ld+json;charset=\"utf-8\"",
            "application/json; charset=us-ascii",
        ] {
            assert!(check_json(&headers(&[("content-type", fine)])).is_ok(), "{fine}");
            assert!(check_json(&headers(&[("content-type", fine), ("content-encoding", "Identity,")])).is_ok(), "{fine}");
        }
        let refused = |fields: &[(&'static str, &'static str)], word: &str| {
            let fault = check_json(&headers(fields)).unwrap_err();
            assert!(fault.code() == Code::UnsupportedMediaType && fault.message().contains(word), "{fields:?}: {}", fault.message());
        };
        let json = ("content-type", "application/json");
        refused(&[("content-type", "application/json;charset=utf-16")], "utf-16");
        refused(&[("content-type", "text/plain")], "text/plain");
        refused(&[json, ("content-type", "text/plain")], "text/plain");
        refused(&[json, ("content-encoding", "gzip")], "gzip");
        refused(&[json, ("content-encoding", "identity"), ("content-encoding", "br")], "br");
        refused(&[], "Content-Type");
        assert!(check_call(&headers(&[])).is_ok());
    }

    /// Regression test: the value that the host checked was not the text that a handler parsed.
    #[tokio::test]
    async fn bodies_with_a_reserved_key_are_rejected() {
        #[derive(Deserialize)]
        struct Call {
            #[serde(rename = "input")]
            _input: VerbatimJson,
        }
        let plain = r#"{"input":{"$serde_json::private::RawValue":"[1,2]"}}"#;
        let escaped = r#"{"input":[{"\u0024serde_json::private::RawValue":"1"}]}"#;
        for text in [plain, escaped] {
            let text = Bytes::from_static(text.as_bytes());
            let read = json(&text).await.map(|_| ());
            let verbatim = verbatim::<Call, serde::de::IgnoredAny>(&text, Code::InvalidMember).await.map(|_| ());
            for fault in [read.unwrap_err(), verbatim.unwrap_err()] {
                assert!(fault.code() == Code::InvalidJson && fault.message().contains("reserved key"), "{}", fault.message());
            }
        }
        let fine = Bytes::from_static(br#"{"input":{"a":"$serde_json::private::RawValue"}}"#);
        assert!(verbatim::<Call, serde::de::IgnoredAny>(&fine, Code::InvalidMember).await.is_ok());
    }

    #[test]
    fn a_byte_order_mark_is_no_part_of_a_body() {
        assert_eq!(without_mark(Bytes::from_static(b"\xef\xbb\xbf{}")), "{}");
        assert_eq!(without_mark(Bytes::from_static(b"{}")), "{}");
        assert_eq!(without_mark(Bytes::from_static(b"\xef\xbb")), &b"\xef\xbb"[..]);
    }
}

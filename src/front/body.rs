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
    boxed,
    deserialize_error::{self, ByName, DeserializeError},
    offload::{DropOffThread, run_blocking},
};
use tollhouse_call::CallError;
use tollhouse_tool::{has_reserved_key, is_json_media, listed_types, media_type, parse_json, takes_type};

use super::{api_error::ApiError, error_codes::Code, memory_budget::MemoryBudget, quota::QuotaShare};

/// Maximum body of a management request, in bytes: the largest handler source, escaped as JSON.
pub const MANAGEMENT_BODY_BYTES: usize = 9 << 20;

/// Maximum body of an unauthenticated request other than a call, in bytes.
pub const SMALL_BODY_BYTES: usize = 16 << 10;

/// Maximum bytes of a rejected body to read and discard, and the maximum time for that.
const DRAIN_BYTES: usize = 8 << 20;
const DRAIN: Duration = Duration::from_secs(2);

/// The byte order mark of UTF-8.
const BYTE_ORDER_MARK: &[u8] = "\u{feff}".as_bytes();

/// Minimum buffer for a body of several chunks, in bytes.
const MIN_CAPACITY: usize = 16 << 10;

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
#[boxed]
pub async fn read(intake: &MemoryBudget, peer: IpAddr, headers: &HeaderMap, body: Body, limit: usize) -> Result<Bytes, ApiError> {
    let settings = &intake.bodies;
    let mut stream = body.into_data_stream();
    if stream.size_hint().lower() > limit as u64 {
        if !expects_continue(headers) {
            discard(stream).await;
        }
        return Err(BodyError::TooLarge { limit }.into());
    }
    let whole = settings.time.map(|time| Instant::now() + time);
    let mut buffer: Option<BodyBuffer> = None;
    loop {
        let stall = settings.stall.map(|stall| Instant::now() + stall);
        let next = match whole.into_iter().chain(stall).min() {
            Some(by) => timeout_at(by, stream.next()).await.map_err(|_| BodyError::TooSlow)?,
            None => stream.next().await,
        };
        let Some(chunk) = next.transpose().map_err(|_| BodyError::EndedEarly)? else { break };
        if buffer.is_none() && stream.is_end_stream() && chunk.len() <= limit {
            return Ok(without_byte_order_mark(chunk));
        }
        let buffer = buffer.get_or_insert_default();
        if let Err(unread) = buffer.push(&chunk, limit, &stream, |bytes| intake.hold(peer, bytes)) {
            buffer.clear();
            discard(stream).await;
            return Err(unread);
        }
    }
    Ok(without_byte_order_mark(buffer.map_or_else(Bytes::new, Bytes::from_owner)))
}

/// Removes a byte order mark, which JSON parsers may ignore (RFC 8259, section 8.1).
fn without_byte_order_mark(text: Bytes) -> Bytes {
    if text.starts_with(BYTE_ORDER_MARK) { text.slice(BYTE_ORDER_MARK.len()..) } else { text }
}

/// Returns whether the client waits for `100 Continue` before it sends the body (RFC 9110, section 10.1.1).
pub(crate) fn expects_continue(headers: &HeaderMap) -> bool {
    headers.get(header::EXPECT).is_some_and(|expected| expected.as_bytes().eq_ignore_ascii_case(b"100-continue"))
}

/// Reads some of the body of a refused request, so that its client gets the error. A client that waits for `100 Continue`
/// has sent nothing.
pub async fn discard_unread(headers: &HeaderMap, body: Body) {
    if !expects_continue(headers) {
        discard(body.into_data_stream()).await;
    }
}

/// Reads some more of a rejected body, so that its client gets the error.
pub(crate) async fn discard(stream: BodyDataStream) {
    _ = tokio::time::timeout(DRAIN, drain(stream)).await;
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
            let room = (self.room * 2).max(MIN_CAPACITY).clamp(len, max);
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
    kind(headers, &[]).map(drop)
}

/// The kind of a call's body.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum BodyKind {
    /// JSON, or nothing.
    Json,
    /// Another type, with its parameters.
    Other(String),
}

/// Returns the kind of the body of a call to a tool that takes `types` beside JSON.
///
/// # Errors
///
/// 415 for a body of another type, with the types that the tool takes, and for a content coding.
pub fn kind(headers: &HeaderMap, types: &[String]) -> Result<BodyKind, ApiError> {
    let texts = |name: header::HeaderName| headers.get_all(name).into_iter().map(|value| value.to_str().unwrap_or_default());
    let codings = texts(header::CONTENT_ENCODING).flat_map(|value| value.split(',')).map(str::trim);
    if let Some(coding) = codings.filter(|coding| !coding.is_empty()).find(|coding| !coding.eq_ignore_ascii_case("identity")) {
        return Err(unsupported(format!("the body has the content coding `{coding}`; send it without one")));
    }
    let is_single = texts(header::CONTENT_TYPE).nth(1).is_none();
    for value in texts(header::CONTENT_TYPE) {
        let media = media_type(value);
        if is_single && takes_type(types, &media) {
            return Ok(BodyKind::Other(value.trim().to_owned()));
        }
        let words = value.split(';').map(str::trim).skip(1);
        if !is_json_media(&media) {
            return Err(CallError::UnsupportedMediaType { media, takes: listed_types(types) }.into());
        }
        let charset = words.filter_map(|word| word.split_once('=')).find(|(name, _)| name.trim().eq_ignore_ascii_case("charset"));
        let charset = charset.map(|(_, charset)| charset.trim().trim_matches('"').to_ascii_lowercase());
        if let Some(charset) = charset.filter(|charset| !matches!(charset.as_str(), "" | "utf-8" | "utf8" | "us-ascii" | "ascii")) {
            return Err(unsupported(format!("the body is in `{charset}`; send JSON as UTF-8 (RFC 8259, section 8.1)")));
        }
    }
    Ok(BodyKind::Json)
}

fn unsupported(message: impl Into<String>) -> ApiError {
    ApiError::new(Code::UnsupportedMediaType, message)
}

/// Parses a body as JSON. A long one is parsed off the runtime's threads.
pub async fn json(text: &Bytes) -> Result<DropOffThread, ApiError> {
    let parsed = run_blocking(text.len(), || parse_json(text)).await;
    parsed.map(DropOffThread::new).map_err(|reason| ApiError::new(Code::InvalidJson, reason))
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

/// Deserializes a body with [`VerbatimJson`] fields, which must be an object. If that fails, deserializes it again as
/// `Described` to get a readable error.
pub async fn verbatim<T: DeserializeOwned, Described: DeserializeOwned>(text: &Bytes, code: Code) -> Result<T, ApiError> {
    // A reserved key is reported as for other bodies.
    let read = || if has_reserved_key(text) { None } else { serde_json::from_slice(text).ok() };
    if let Some(ByName(read)) = run_blocking(text.len(), read).await {
        return Ok(read);
    }
    let value = json(text).await?;
    let error = run_blocking(text.len(), || deserialize_error::json::<Described>(&value)).await.err();
    let DeserializeError { message, pointer } = error.ok_or_else(|| ApiError::bad_request("the body does not have the expected format"))?;
    Err(ApiError::invalid(code, message, &pointer))
}

#[cfg(test)]
mod tests;

//! Compresses lists and documents with gzip for clients that accept it. Answers of calls are never compressed.
//!
//! The answer of a call can contain a secret beside input chosen by the caller. Its compressed length would leak
//! information about the secret.

use std::io::Write as _;

use axum::{
    body::{Body, HttpBody as _, to_bytes},
    extract::Request,
    http::{HeaderMap, HeaderValue, Method, header},
    response::Response,
};
use bytes::Bytes;
use flate2::{Compression, write::GzEncoder};
use tokio::sync::Semaphore;

/// Minimum size to compress, in bytes. A smaller answer fits into one or two network packets anyway.
const LEAST_BYTES: u64 = 1 << 10;

/// Maximum bytes to compress on a runtime thread, which takes well below a millisecond.
const AT_ONCE: usize = 16 << 10;
/// Limits how many larger answers are compressed at once. Beyond that, answers are sent uncompressed instead of
/// waiting.
static LARGE: Semaphore = Semaphore::const_new(2);

/// Paths of calls. An answer there is compressed only if it is marked as a [`DocumentMark`].
const NEVER: [&str; 3] = ["/tools/", "/ai/invoke", "/ai/mcp"];

/// Marks an answer as a list or a document on a path that also serves calls.
#[derive(Debug, Clone, Copy)]
pub struct DocumentMark;

/// The properties of a request that decide whether to compress its answer.
#[derive(Debug, Clone, Copy)]
pub(crate) struct EncodingRequest {
    /// The client accepts gzip.
    takes_gzip: bool,
    /// Only an answer marked as a [`DocumentMark`] can be compressed.
    marked_only: bool,
}

/// Reads the properties of a request that decide whether to compress its answer.
pub(crate) fn encoding_request(request: &Request) -> EncodingRequest {
    let path = request.uri().path();
    let marked_only = request.method() != Method::GET || NEVER.iter().any(|start| path.starts_with(start));
    EncodingRequest { takes_gzip: takes_gzip(request.headers()), marked_only }
}

/// Returns whether the client accepts gzip.
pub fn takes_gzip(headers: &HeaderMap) -> bool {
    let (mut gzip, mut any) = (None, false);
    let values = headers.get_all(header::ACCEPT_ENCODING).into_iter().filter_map(|value| value.to_str().ok());
    for coding in values.flat_map(|value| value.split(',')) {
        let mut words = coding.split(';').map(str::trim);
        let name = words.next().unwrap_or_default();
        let is_accepted = !words.filter_map(|word| word.strip_prefix("q=")).any(|weight| weight.parse() == Ok(0.0_f32));
        if name.eq_ignore_ascii_case("gzip") || name.eq_ignore_ascii_case("x-gzip") {
            gzip = Some(is_accepted);
        } else if name == "*" {
            any = is_accepted;
        }
    }
    gzip.unwrap_or(any)
}

/// Returns the answer, compressed if the client accepts it and it is worthwhile.
pub(crate) async fn compressed(mut response: Response, request: EncodingRequest) -> Response {
    let EncodingRequest { takes_gzip, marked_only } = request;
    if marked_only && response.extensions().get::<DocumentMark>().is_none() || !is_document(&response) {
        return response;
    }
    response.headers_mut().append(header::VARY, HeaderValue::from_static("accept-encoding"));
    let Some(length) = response.body().size_hint().exact().filter(|length| takes_gzip && *length >= LEAST_BYTES) else { return response };
    let (mut parts, body) = response.into_parts();
    // The length is known, so the body is already in memory.
    let Ok(bytes) = to_bytes(body, usize::try_from(length).unwrap_or(usize::MAX)).await else {
        return Response::from_parts(parts, Body::empty());
    };
    let Some(packed) = packed(bytes.clone()).await else { return Response::from_parts(parts, Body::from(bytes)) };
    parts.headers.insert(header::CONTENT_ENCODING, HeaderValue::from_static("gzip"));
    parts.headers.remove(header::CONTENT_LENGTH);
    // The compressed bytes are another representation, so the entity tag becomes weak.
    if let Some(weak) = parts.headers.get(header::ETAG).and_then(weak_etag) {
        parts.headers.insert(header::ETAG, weak);
    }
    Response::from_parts(parts, Body::from(packed))
}

fn is_document(response: &Response) -> bool {
    let json = |value: &HeaderValue| value.as_bytes().starts_with(b"application/json");
    response.headers().get(header::CONTENT_TYPE).is_some_and(json) && !response.headers().contains_key(header::CONTENT_ENCODING)
}

fn weak_etag(etag: &HeaderValue) -> Option<HeaderValue> {
    let strong = etag.to_str().ok().filter(|etag| etag.starts_with('"'))?;
    HeaderValue::from_str(&format!("W/{strong}")).ok()
}

/// Returns the compressed bytes, or `None` if too many answers are being compressed.
async fn packed(bytes: Bytes) -> Option<Vec<u8>> {
    if bytes.len() <= AT_ONCE {
        return gzip(&bytes);
    }
    let turn = LARGE.try_acquire().ok()?;
    let packing = tokio::task::spawn_blocking(move || {
        let packed = gzip(&bytes);
        drop(turn);
        packed
    });
    packing.await.ok()?
}

fn gzip(bytes: &[u8]) -> Option<Vec<u8>> {
    let mut encoder = GzEncoder::new(Vec::with_capacity(bytes.len() / 4), Compression::fast());
    encoder.write_all(bytes).ok()?;
    encoder.finish().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gzip_is_used_if_the_client_accepts_it() {
        for (value, requested) in [
            ("gzip", true),
            ("br, GZIP;q=0.5, zstd", true),
            ("x-gzip", true),
            ("*", true),
            ("identity", false),
            ("gzip;q=0", false),
            ("gzip; q=0.000, *", false),
            ("*;q=0", false),
            ("deflate, br", false),
            ("", false),
        ] {
            let headers = HeaderMap::from_iter([(header::ACCEPT_ENCODING, HeaderValue::from_static(value))]);
            assert_eq!(takes_gzip(&headers), requested, "{value}");
        }
        assert!(!takes_gzip(&HeaderMap::new()));
    }
}

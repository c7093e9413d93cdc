//! Answers as gzip, to who asks for it: lists and documents, never calls.
//!
//! A call's answer is its tool's, and may hold a secret beside what a caller chose: its length would tell of both.

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

/// What is smaller is not compressed: it fits into a packet or two as it is.
const LEAST_BYTES: u64 = 1 << 10;

/// Most bytes that are compressed on a runtime's thread: that takes well below a millisecond.
const AT_ONCE: usize = 16 << 10;
/// Larger answers that are compressed at once. While so many are, further ones go out as they are: nobody waits for it.
static LARGE: Semaphore = Semaphore::const_new(2);

/// Where calls are: no answer there is compressed but those that are marked.
const NEVER: [&str; 3] = ["/tools/", "/ai/invoke", "/ai/mcp"];

/// Mark of an answer that is a list or a document, where the request does not say so: on a path that has calls as well.
#[derive(Debug, Clone, Copy)]
pub struct Document;

/// What a request says of its answer's form.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Asked {
    /// The client takes gzip.
    takes_gzip: bool,
    /// Only an answer with the mark of a [`Document`] is one.
    marked_only: bool,
}

/// What the request says of its answer's form.
pub(crate) fn asked(request: &Request) -> Asked {
    let path = request.uri().path();
    let marked_only = request.method() != Method::GET || NEVER.iter().any(|start| path.starts_with(start));
    Asked { takes_gzip: takes_gzip(request.headers()), marked_only }
}

/// Whether who asks takes gzip.
pub fn takes_gzip(headers: &HeaderMap) -> bool {
    let (mut gzip, mut any) = (None, false);
    let values = headers.get_all(header::ACCEPT_ENCODING).into_iter().filter_map(|value| value.to_str().ok());
    for coding in values.flat_map(|value| value.split(',')) {
        let mut words = coding.split(';').map(str::trim);
        let name = words.next().unwrap_or_default();
        let taken = !words.filter_map(|word| word.strip_prefix("q=")).any(|weight| weight.parse() == Ok(0.0_f32));
        if name.eq_ignore_ascii_case("gzip") || name.eq_ignore_ascii_case("x-gzip") {
            gzip = Some(taken);
        } else if name == "*" {
            any = taken;
        }
    }
    gzip.unwrap_or(any)
}

/// The answer, compressed where that is asked for and worth it.
pub(crate) async fn compressed(mut response: Response, asked: Asked) -> Response {
    let Asked { takes_gzip, marked_only } = asked;
    if marked_only && response.extensions().get::<Document>().is_none() || !is_document(&response) {
        return response;
    }
    response.headers_mut().append(header::VARY, HeaderValue::from_static("accept-encoding"));
    let Some(length) = response.body().size_hint().exact().filter(|length| takes_gzip && *length >= LEAST_BYTES) else { return response };
    let (mut parts, body) = response.into_parts();
    // It lies in memory already: its length is known.
    let Ok(bytes) = to_bytes(body, usize::try_from(length).unwrap_or(usize::MAX)).await else {
        return Response::from_parts(parts, Body::empty());
    };
    let Some(packed) = packed(bytes.clone()).await else { return Response::from_parts(parts, Body::from(bytes)) };
    parts.headers.insert(header::CONTENT_ENCODING, HeaderValue::from_static("gzip"));
    parts.headers.remove(header::CONTENT_LENGTH);
    // Other bytes are another representation: the same record, but not byte for byte.
    if let Some(weak) = parts.headers.get(header::ETAG).and_then(weakened) {
        parts.headers.insert(header::ETAG, weak);
    }
    Response::from_parts(parts, Body::from(packed))
}

fn is_document(response: &Response) -> bool {
    let json = |value: &HeaderValue| value.as_bytes().starts_with(b"application/json");
    response.headers().get(header::CONTENT_TYPE).is_some_and(json) && !response.headers().contains_key(header::CONTENT_ENCODING)
}

fn weakened(etag: &HeaderValue) -> Option<HeaderValue> {
    let strong = etag.to_str().ok().filter(|etag| etag.starts_with('"'))?;
    HeaderValue::from_str(&format!("W/{strong}")).ok()
}

/// `None` when too many are at it.
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
    fn gzip_is_taken_where_it_is_named_and_not_refused() {
        for (value, wanted) in [
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
            assert_eq!(takes_gzip(&headers), wanted, "{value}");
        }
        assert!(!takes_gzip(&HeaderMap::new()));
    }
}

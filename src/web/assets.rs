//! What pages are drawn and moved by: one style sheet, a few scripts. Named by the hash of all of them, compressed once, kept for ever.

use std::{io::Write as _, sync::LazyLock};

use axum::{
    body::Body,
    http::{HeaderMap, HeaderValue, header},
    response::{IntoResponse as _, Response},
};
use flate2::{Compression, write::GzEncoder};
use sha2::{Digest as _, Sha256};

use super::doors::seal;
use crate::front::{Code, Fault, PathParams, takes_gzip};

/// Hex digits of the hash in their addresses.
const DIGITS: usize = 16;

const CSS: &str = "text/css; charset=utf-8";
const SCRIPT: &str = "text/javascript; charset=utf-8";

/// All of them: name, type, text.
const ALL: &[(&str, &str, &str)] = &[
    ("site.css", CSS, include_str!("assets/site.css")),
    ("theme.js", SCRIPT, include_str!("assets/theme.js")),
    ("site.js", SCRIPT, include_str!("assets/site.js")),
    ("slip.js", SCRIPT, include_str!("assets/slip.js")),
];

/// As they are sent to who takes gzip, in their order.
static PACKED: LazyLock<Vec<Vec<u8>>> = LazyLock::new(|| ALL.iter().map(|(_, _, text)| gzip(text.as_bytes())).collect());

/// One hash for all, so that a script imports another one by its name alone.
static HASH: LazyLock<String> = LazyLock::new(|| {
    let mut hash = Sha256::new();
    for (name, _, text) in ALL {
        hash.update(format!("{name} {}\n{text}", text.len()));
    }
    let mut digits = hex::encode(hash.finalize());
    digits.truncate(DIGITS);
    digits
});

/// Where an asset is.
pub(super) fn address(name: &str) -> String {
    format!("/assets/{}/{name}", *HASH)
}

pub(super) async fn asset(PathParams((hash, name)): PathParams<(String, String)>, asked: HeaderMap) -> Response {
    let found = ALL.iter().position(|(known, ..)| *known == name).filter(|_| hash == *HASH);
    let Some(place) = found else { return Fault::from(Code::NotFound).into_response() };
    let (_, media, text) = ALL[place];
    let gzip = takes_gzip(&asked);
    let body = if gzip { Body::from(PACKED[place].as_slice()) } else { Body::from(text) };
    let mut response = Response::new(body);
    let headers = response.headers_mut();
    seal(headers);
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(media));
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("public, max-age=31536000, immutable"));
    headers.insert(header::VARY, HeaderValue::from_static("accept-encoding"));
    if gzip {
        headers.insert(header::CONTENT_ENCODING, HeaderValue::from_static("gzip"));
    }
    response
}

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::best());
    encoder.write_all(bytes).and_then(|()| encoder.finish()).expect("memory takes what is written")
}

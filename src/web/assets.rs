//! Assets of pages: one style sheet and a few scripts. Their address contains a common hash. They
//! are compressed once and cached without limit.

mod slim;

use std::{
    borrow::Cow,
    io::Write as _,
    sync::{LazyLock, OnceLock},
};

use flate2::{Compression, write::GzEncoder};
use sha2::{Digest as _, Sha256};
use tollhouse_front::{ApiError, Code, PathParams, takes_gzip};

use crate::{Body, HeaderMap, HeaderValue, IntoResponse as _, Response, header, set_security_headers};

/// Number of hex digits of the hash in addresses.
const DIGITS: usize = 16;

const CSS: &str = "text/css; charset=utf-8";
const SCRIPT: &str = "text/javascript; charset=utf-8";

/// All assets: name, type, text. A constant would be in the binary more than once.
static ALL: &[(&str, &str, &str)] = &[
    // A single file for all pages, fetched once.
    ("site.css", CSS, concat!(include_str!("assets/site.css"), include_str!("assets/figures.css"))),
    ("make.css", CSS, include_str!("assets/make.css")),
    ("docs.css", CSS, include_str!("assets/docs.css")),
    ("theme.js", SCRIPT, include_str!("assets/theme.js")),
    ("site.js", SCRIPT, include_str!("assets/site.js")),
    ("form.js", SCRIPT, include_str!("assets/form.js")),
    ("gauge.js", SCRIPT, include_str!("assets/gauge.js")),
    ("slip.js", SCRIPT, include_str!("assets/slip.js")),
    ("try.js", SCRIPT, include_str!("assets/try.js")),
    ("drafts.js", SCRIPT, include_str!("assets/drafts.js")),
    ("wallet.js", SCRIPT, include_str!("assets/wallet.js")),
    ("edit.js", SCRIPT, include_str!("assets/edit.js")),
    ("live.js", SCRIPT, include_str!("assets/live.js")),
    ("rows.js", SCRIPT, include_str!("assets/rows.js")),
    ("stream.js", SCRIPT, include_str!("assets/stream.js")),
    ("secrets.js", SCRIPT, include_str!("assets/secrets.js")),
    ("codemirror.js", SCRIPT, include_str!("assets/vendor/codemirror.js")),
];

/// The assets as sent: scripts unchanged, styles without comments and extra white space.
static SENT: LazyLock<Vec<Cow<str>>> = LazyLock::new(|| {
    let sent = |(_, media, text): &(_, &str, &'static str)| if *media == CSS { slim::slim(text).into() } else { Cow::Borrowed(*text) };
    ALL.iter().map(sent).collect()
});

/// The assets compressed with gzip, in the same order. Each is compressed on first use.
static PACKED: LazyLock<Vec<OnceLock<Vec<u8>>>> = LazyLock::new(|| ALL.iter().map(|_| OnceLock::new()).collect());

/// A common hash, so that scripts can import each other by name.
static HASH: LazyLock<String> = LazyLock::new(|| {
    let mut hash = Sha256::new();
    for ((name, ..), text) in ALL.iter().zip(&*SENT) {
        hash.update(format!("{name} {}\n{text}", text.len()));
    }
    let mut digits = hex::encode(hash.finalize());
    digits.truncate(DIGITS);
    digits
});

pub(super) fn address(name: &str) -> String {
    format!("/assets/{}/{name}", *HASH)
}

pub(super) async fn asset(PathParams((hash, name)): PathParams<(String, String)>, request: HeaderMap) -> Response {
    let found = ALL.iter().position(|(known, ..)| *known == name).filter(|_| hash == *HASH);
    let Some(position) = found else { return ApiError::from(Code::NotFound).into_response() };
    let (media, text) = (ALL[position].1, &*SENT[position]);
    let packed = takes_gzip(&request);
    let body = if packed { Body::from(PACKED[position].get_or_init(|| gzip(text.as_bytes())).as_slice()) } else { Body::from(text) };
    let mut response = Response::new(body);
    let headers = response.headers_mut();
    set_security_headers(headers);
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(media));
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("public, max-age=31536000, immutable"));
    headers.insert(header::VARY, HeaderValue::from_static("accept-encoding"));
    if packed {
        headers.insert(header::CONTENT_ENCODING, HeaderValue::from_static("gzip"));
    }
    response
}

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::best());
    encoder.write_all(bytes).and_then(|()| encoder.finish()).expect("memory takes what is written")
}

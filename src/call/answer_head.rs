//! Status and headers of a handler's answer, which are untrusted.

use super::error::CallError;

/// Response headers that a handler may set. Others are dropped, because they speak for the host.
const REPLY_HEADERS: &[&str] = &["content-type", "content-language", "content-disposition", "location", "retry-after", "link"];

/// Maximum size of these headers' names and values together, in bytes. Many clients and proxies read at most twice as
/// much for all headers.
pub(super) const REPLY_HEADER_BYTES: usize = 8 << 10;

/// Default media type of an answer in bytes.
pub(super) const BYTES: &str = "application/octet-stream";

/// Checks the status of an answer.
pub(super) fn check_status(status: u16) -> Result<(), CallError> {
    match (200..600).contains(&status) && !matches!(status, 401 | 402 | 407) {
        true => Ok(()),
        false => Err(CallError::Misbehaved(format!("a handler cannot answer with status {status}"))),
    }
}

/// Returns the headers of an answer that its handler may set, or why no answer can have them.
pub(super) fn checked_headers(status: u16, given: Vec<(String, String)>) -> Result<Vec<(String, String)>, CallError> {
    let headers = reply_headers(given);
    if (300..400).contains(&status) && headers.iter().any(|(name, _)| name.eq_ignore_ascii_case("location")) {
        return Err(CallError::Misbehaved(redirect_message(status)));
    }
    let header_bytes: usize = headers.iter().map(|(name, value)| name.len() + value.len()).sum();
    if header_bytes > REPLY_HEADER_BYTES {
        let largest = headers.iter().max_by_key(|(_, value)| value.len()).map_or("", |(name, _)| name);
        let reason =
            format!("the headers of an answer have {header_bytes} bytes, most of them in `{largest}`; the limit is {REPLY_HEADER_BYTES}");
        return Err(CallError::Misbehaved(reason));
    }
    Ok(headers)
}

/// Explains why a redirect is rejected: clients would send the caller's credit, key or signed payment to its target.
fn redirect_message(status: u16) -> String {
    format!(
        "a handler cannot answer with status {status} and `location`: clients would send the caller's credentials to that address; \
         fetch it in the handler, or name it in a body with status 200"
    )
}

/// Returns the headers of an answer. Values of the same name are joined, as HTTP allows. Of several content types, only
/// the last one counts.
pub(super) fn reply_headers(given: Vec<(String, String)>) -> Vec<(String, String)> {
    let mut headers: Vec<(String, String)> = vec![];
    for (name, value) in given.into_iter().filter(|(name, value)| may_set(name, value)) {
        match headers.iter_mut().find(|(known, _)| known.eq_ignore_ascii_case(&name)) {
            Some((_, held)) if name.eq_ignore_ascii_case("content-type") => *held = value,
            Some((_, held)) => *held = format!("{held}, {value}"),
            None => headers.push((name, value)),
        }
    }
    headers
}

/// Returns whether a handler may set the header, and HTTP allows its value.
fn may_set(name: &str, value: &str) -> bool {
    REPLY_HEADERS.iter().any(|known| name.eq_ignore_ascii_case(known))
        && !value.bytes().any(|byte| byte.is_ascii_control() && byte != b'\t')
}

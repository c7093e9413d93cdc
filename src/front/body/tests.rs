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
fn buffered_body_counts_until_its_last_copy_is_dropped() {
    let quota = Quota::new(Some(1 << 20), None);
    let (mut body, stream) = (BodyBuffer::default(), unknown_length());
    body.push(&[1; 10], 1 << 20, &stream, hold(&quota)).unwrap();
    assert_eq!(quota.used(), MIN_CAPACITY);
    for _ in 0..8 {
        body.push(&[2; 10_000], 1 << 20, &stream, hold(&quota)).unwrap();
    }
    assert!((80_010..200_000).contains(&quota.used()), "{}", quota.used());
    let room = quota.used();
    let bytes = Bytes::from_owner(body);
    let copy = bytes.slice(10..20);
    drop(bytes);
    assert_eq!((quota.used(), &copy[..]), (room, &[2; 10][..]));
    drop(copy);
    assert_eq!(quota.used(), 0);
}

#[test]
fn body_stays_within_its_limit_and_the_total_memory() {
    let quota = Quota::new(Some(100_000), None);
    let stream = unknown_length();
    let (mut one, mut other) = (BodyBuffer::default(), BodyBuffer::default());
    one.push(&[0; 60_000], 1 << 20, &stream, hold(&quota)).unwrap();
    assert_eq!(code(other.push(&[0; 60_000], 1 << 20, &stream, hold(&quota))), Some(Code::Busy));
    assert_eq!(code(other.push(&[0; 60_000], 59_999, &stream, hold(&quota))), Some(Code::BodyTooLarge));
    one.clear();
    other.push(&[0; 60_000], 60_000, &stream, hold(&quota)).unwrap();
    assert_eq!(quota.used(), 60_000, "not a byte beyond its limit");
}

#[test]
fn body_of_known_length_reserves_only_that_length() {
    let quota = Quota::new(None, None);
    let mut body = BodyBuffer::default();
    // The stream announces 7 more bytes.
    let stream = Body::from("the end").into_data_stream();
    body.push(&[0; 5_000], 1 << 20, &stream, hold(&quota)).unwrap();
    assert_eq!(quota.used(), 5_007);
}

#[test]
fn body_must_be_uncompressed_json_in_utf_8() {
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

/// Regression test: serde also accepts an array with the fields of a struct in order.
#[tokio::test]
async fn array_is_not_read_as_the_fields_of_a_body() {
    #[derive(Deserialize)]
    struct Call<I> {
        #[serde(rename = "input")]
        _input: I,
    }
    let read = async |text: &'static str| {
        verbatim::<Call<VerbatimJson>, Call<serde::de::IgnoredAny>>(&Bytes::from_static(text.as_bytes()), Code::InvalidMember).await
    };
    for array in [r#"[{"a":1}]"#, " [1]", "[]"] {
        let fault = read(array).await.map(|_| ()).unwrap_err();
        assert_eq!((fault.code(), fault.message()), (Code::InvalidMember, "The whole value is an array, but must be an object"), "{array}");
    }
    assert!(read(r#" {"input":[1]}"#).await.is_ok());
}

#[test]
fn byte_order_mark_is_removed() {
    assert_eq!(without_byte_order_mark(Bytes::from_static(b"\xef\xbb\xbf{}")), "{}");
    assert_eq!(without_byte_order_mark(Bytes::from_static(b"{}")), "{}");
    assert_eq!(without_byte_order_mark(Bytes::from_static(b"\xef\xbb")), &b"\xef\xbb"[..]);
}

use axum::body::Body;

use super::*;

#[test]
fn trailing_slash_of_an_operation_is_ignored() {
    let plain = |uri: &str| without_last_slash(&uri.parse().unwrap()).map(|uri| uri.to_string());
    for (uri, same) in [
        ("/ai/mcp/", "/ai/mcp"),
        ("/tools/a//?q=1/", "/tools/a?q=1/"),
        ("/openapi.json/", "/openapi.json"),
        ("http://a.example/ai/invoke/", "http://a.example/ai/invoke"),
    ] {
        assert_eq!(plain(uri).as_deref(), Some(same));
    }
    for uri in ["/ai/mcp", "/", "/dashboard/", "//ai/mcp", "/tools/a?q=/"] {
        assert_eq!(plain(uri), None, "{uri}");
    }
}

#[test]
fn request_target_sets_the_host() {
    let host = |uri: &str, host: &'static str| {
        let mut request = Request::builder().uri(uri).header(header::HOST, host).body(Body::empty()).unwrap();
        put_host(&mut request).map(|()| request.headers().get(header::HOST).cloned().unwrap()).map_err(|fault| fault.code())
    };
    assert_eq!(host("http://tools.example:81/ai/mcp", "other.example"), Ok(HeaderValue::from_static("tools.example:81")));
    assert_eq!(host("/ai/mcp", "other.example"), Ok(HeaderValue::from_static("other.example")));
    for target in ["http://me@tools.example/", "http://tools.example:port/", "http://tools.example:99999/"] {
        assert!(target.parse::<Uri>().is_err() || host(target, "tools.example") == Err(Code::InvalidRequest), "{target}");
    }
}

fn checked(version: Version, uri: &str, hosts: &[&str]) -> Result<(), String> {
    let request = hosts.iter().fold(Request::builder().version(version).uri(uri), |request, host| request.header(header::HOST, *host));
    check_host(&request.body(Body::empty()).unwrap()).map_err(|fault| fault.message().to_owned())
}

#[test]
fn request_must_have_exactly_one_host() {
    for host in ["tools.example", "tools.example:8443", "127.0.0.1:80", "[::1]:80", "LOCALHOST"] {
        assert_eq!(checked(Version::HTTP_11, "/", &[host]), Ok(()), "{host}");
    }
    for host in ["", "a b", "a/b", "me@tools.example", "tools.example:port", ":80"] {
        assert!(checked(Version::HTTP_11, "/", &[host]).is_err(), "{host}");
    }
    for version in [Version::HTTP_11, Version::HTTP_2] {
        assert!(checked(version, "/", &[]).unwrap_err().contains("does not name its host"));
        assert!(checked(version, "/", &["a", "a"]).unwrap_err().contains("two"));
        assert_eq!(checked(version, "http://tools.example/", &[]), Ok(()), "{version:?}");
        assert_eq!(checked(version, "http://tools.example/", &["tools.example"]), Ok(()), "{version:?}");
        assert!(checked(version, "http://tools.example/", &["tools.example", "other.example"]).is_err());
    }
    assert_eq!(checked(Version::HTTP_10, "/", &[]), Ok(()), "HTTP/1.0 has no such header");
}

#[test]
fn only_the_transfer_coding_chunked_is_accepted() {
    let checked = |values: &[&'static [u8]]| {
        let value = |bytes: &&'static [u8]| (header::TRANSFER_ENCODING, HeaderValue::from_bytes(bytes).unwrap());
        check_transfer_coding(&values.iter().map(value).collect())
    };
    let fine: [&[&[u8]]; 4] = [&[], &[b"chunked"], &[b" Chunked "], &[b"", b"chunked,"]];
    for fine in fine {
        assert!(checked(fine).is_ok(), "{fine:?}");
    }
    let coded: [&[&[u8]]; 5] =
        [&[b"gzip, chunked"], &[b"gzip", b"chunked"], &[b"chunked, chunked"], &[b"identity,chunked"], &[b"\xff", b"chunked"]];
    for coded in coded {
        assert_eq!(checked(coded).map_err(|fault| fault.code()), Err(Code::InvalidRequest), "{coded:?}");
    }
}

#[test]
fn long_list_of_requested_headers_is_not_repeated() {
    let repeated = |bytes: usize| {
        let names = HeaderValue::try_from("a".repeat(bytes)).unwrap();
        let mut headers = HeaderMap::from_iter([(header::ACCESS_CONTROL_REQUEST_HEADERS, names)]);
        bound_mirrored_names(&mut headers);
        headers.get(header::ACCESS_CONTROL_REQUEST_HEADERS).map(HeaderValue::len)
    };
    assert_eq!(repeated(MIRRORED_BYTES), Some(MIRRORED_BYTES));
    assert_eq!(repeated(MIRRORED_BYTES + 1), None);
}

use reqwest::header::{AUTHORIZATION, USER_AGENT};

use super::*;
use crate::{AllowedHosts, secret::Visibility};

const VALUE: &str = "sk-\"live\"/0123 &=ü";

fn secret(name: &str, value: &str, hosts: &[&str], places: &[SecretPlace]) -> Secret {
    let placeholder = Placeholder::generate(AllowedHosts::parse(hosts).unwrap(), places.to_vec());
    Secret { placeholder, ..Secret::new(name, value, Visibility::Hosts) }
}

fn text(secret: &Secret) -> &str {
    secret.in_env().unwrap()
}

fn url(text: &str) -> Url {
    text.parse().unwrap()
}

fn to(url: &Url) -> Destination<'_> {
    Destination { url, is_private: url.scheme() == "https", is_development: false }
}

fn headers(rows: &[(&'static str, &str)]) -> HeaderMap {
    rows.iter().map(|(name, value)| (HeaderName::from_static(name), HeaderValue::from_str(value).unwrap())).collect()
}

/// Sends a header to `at`, and returns its bytes.
fn header(secrets: &[Secret], at: &str, value: &str) -> Result<Vec<u8>, SubstituteError> {
    let at = url(at);
    let filled = Placeholders::of(secrets).unwrap().fill(&to(&at), &headers(&[("authorization", value)]), None)?;
    Ok(filled.headers[AUTHORIZATION].as_bytes().to_vec())
}

fn body(secrets: &[Secret], kind: &str, sent: &str) -> Result<String, SubstituteError> {
    let at = url("https://a.example.com/");
    let filled =
        Placeholders::of(secrets).unwrap().fill(&to(&at), &headers(&[("content-type", kind)]), Some(&Bytes::from(sent.to_owned())))?;
    Ok(String::from_utf8(filled.body.unwrap().to_vec()).unwrap())
}

#[test]
fn placeholders_differ_and_fit_into_any_header() {
    let hosts = || AllowedHosts::parse(&["a.example.com"]).unwrap();
    let texts: std::collections::BTreeSet<_> = (0..100).map(|_| Placeholder::generate(hosts(), vec![]).unwrap().text).collect();
    assert_eq!(texts.len(), 100);
    for text in texts {
        let digits = text.strip_prefix("tollhouse_secret_").unwrap();
        assert!(digits.len() == 32 && digits.bytes().all(|byte| byte.is_ascii_hexdigit() && !byte.is_ascii_uppercase()), "{text}");
    }
    assert!(Placeholders::of(&[Secret::new("KEY", "a long value", Visibility::Env)]).is_none());
}

#[test]
fn value_is_put_into_headers_alone_by_default() {
    let secrets = [
        secret("KEY", VALUE, &["a.example.com"], &[SecretPlace::Header]),
        secret("ID", "id-12345678", &["a.example.com"], &[SecretPlace::Header]),
    ];
    let (key, id) = (text(&secrets[0]), text(&secrets[1]));
    let sent = |value: &str| header(&secrets, "https://a.example.com/x", value).unwrap();
    assert_eq!(sent(&format!("Bearer {key}")), format!("Bearer {VALUE}").as_bytes());
    assert_eq!(sent(&format!("{id}:{key}:{id}")), format!("id-12345678:{VALUE}:id-12345678").as_bytes());
    assert_eq!(sent("Bearer other"), b"Bearer other");
    for scheme in ["Basic ", "basic "] {
        let basic = STANDARD.encode(format!("{id}:{key}"));
        let expected = format!("{scheme}{}", STANDARD.encode(format!("id-12345678:{VALUE}")));
        assert_eq!(sent(&format!("{scheme}{basic}")), expected.as_bytes());
        assert_eq!(sent(&format!("{scheme}{}", basic.trim_end_matches('='))), expected.as_bytes());
    }
    let plain = format!("Basic {}", STANDARD.encode("user:password"));
    assert_eq!(sent(&plain), plain.as_bytes());
    let place = |place| Some(SubstituteError::Place { name: "KEY".to_owned(), place });
    assert_eq!(body(&secrets, "text/plain", key).err(), place("body"));
    assert_eq!(header(&secrets, &format!("https://a.example.com/{key}"), "x").err(), place("url"));
}

#[test]
fn value_fits_the_syntax_of_its_place() {
    let secrets = [secret("KEY", VALUE, &["a.example.com"], &[SecretPlace::Url, SecretPlace::Body])];
    let key = text(&secrets[0]);
    let json = body(&secrets, "application/json; charset=utf-8", &format!("{{\"key\":\"{key}\"}}")).unwrap();
    assert_eq!(json, serde_json::json!({ "key": VALUE }).to_string());
    let form = form_urlencoded::Serializer::new(String::new()).append_pair("key", VALUE).finish();
    assert_eq!(body(&secrets, "application/x-www-form-urlencoded", &format!("key={key}")).unwrap(), form);
    assert_eq!(body(&secrets, "text/plain", &format!("<{key}>")).unwrap(), format!("<{VALUE}>"));
    let at = url(&format!("https://a.example.com/bot{key}/get?key={key}#{key}"));
    let filled = Placeholders::of(&secrets).unwrap().fill(&to(&at), &HeaderMap::new(), None).unwrap();
    let encoded = "sk-%22live%22%2F0123%20%26%3D%C3%BC";
    assert_eq!(filled.url, format!("https://a.example.com/bot{encoded}/get?key={encoded}"));
    let telegram = [secret("KEY", "123456:AbCd-ef@g", &["a.example.com"], &[SecretPlace::Url])];
    let at = url(&format!("https://a.example.com/bot{}/", text(&telegram[0])));
    let placeholders = Placeholders::of(&telegram).unwrap();
    assert_eq!(placeholders.fill(&to(&at), &HeaderMap::new(), None).unwrap().url, "https://a.example.com/bot123456:AbCd-ef@g/");
    assert_eq!(placeholders.named(&at).as_str(), "https://a.example.com/bot$KEY/");
}

#[test]
fn value_goes_to_the_hosts_of_its_secret_alone() {
    let secrets = [secret("KEY", VALUE, &["a.example.com", "*.b.example.com:8443"], &[SecretPlace::Header])];
    let bearer = format!("Bearer {}", text(&secrets[0]));
    for at in ["https://a.example.com/", "https://a.example.com:443/x?y", "https://x.b.example.com:8443/"] {
        assert!(header(&secrets, at, &bearer).is_ok(), "{at}");
    }
    let elsewhere = SubstituteError::Host { name: "KEY".to_owned(), hosts: "`a.example.com`, `*.b.example.com:8443`".to_owned() };
    for at in [
        "https://example.com/",
        "https://a.example.com.evil.net/",
        "https://evil.net/a.example.com",
        "https://a.example.com:8443/",
        "https://x.b.example.com/",
        "https://x.y.b.example.com:8443/",
    ] {
        assert_eq!(header(&secrets, at, &bearer), Err(elsewhere.clone()), "{at}");
        let basic = format!("Basic {}", STANDARD.encode(format!("x:{}", text(&secrets[0]))));
        assert_eq!(header(&secrets, at, &basic), Err(elsewhere.clone()), "{at}");
    }
    assert_eq!(header(&secrets, "http://a.example.com/", &bearer), Err(SubstituteError::Insecure("KEY".to_owned())));
    let at = url("http://localhost:4190/");
    let local = Destination { url: &at, is_private: true, is_development: true };
    let filled = Placeholders::of(&secrets).unwrap().fill(&local, &headers(&[("authorization", bearer.as_str())]), None).unwrap();
    assert_eq!(filled.headers[AUTHORIZATION].as_bytes(), format!("Bearer {VALUE}").as_bytes());
    assert!(filled.headers[AUTHORIZATION].is_sensitive());
}

#[test]
fn smuggled_placeholders_are_refused_or_useless() {
    let all = [SecretPlace::Header, SecretPlace::Url, SecretPlace::Body];
    let secrets = [secret("KEY", VALUE, &["*.example.com"], &all)];
    let key = text(&secrets[0]);
    let at = url("https://a.example.com/");
    let placeholders = Placeholders::of(&secrets).unwrap();
    let named: HeaderMap = [(HeaderName::from_bytes(key.as_bytes()).unwrap(), HeaderValue::from_static("x"))].into_iter().collect();
    assert_eq!(placeholders.fill(&to(&at), &named, None).err(), Some(SubstituteError::Name));
    let host = url(&format!("https://{key}.example.com/"));
    assert_eq!(placeholders.fill(&to(&host), &HeaderMap::new(), None).err(), Some(SubstituteError::Name));
    // In two headers, or cut.
    let (start, end) = key.split_at(30);
    let split = headers(&[("x-start", start), ("x-end", end)]);
    assert_eq!(placeholders.fill(&to(&at), &split, None).unwrap().headers, split);
    // A placeholder of another call.
    let other = [secret("KEY", VALUE, &["*.example.com"], &all)];
    assert_eq!(header(&other, "https://a.example.com/", &format!("Bearer {key}")), Err(SubstituteError::Stale));
    assert_eq!(header(&other, &format!("https://a.example.com/?k={key}"), "x"), Err(SubstituteError::Stale));
    assert_eq!(body(&other, "text/plain", key).unwrap(), key);
    // After a false start.
    let twice = header(&secrets, "https://a.example.com/", &format!("{PREFIX}{key}")).unwrap();
    assert_eq!(twice, format!("{PREFIX}{VALUE}").as_bytes());
    let breaking = [secret("KEY", "a value\r\nx-more: 1", &["a.example.com"], &all)];
    let refused = header(&breaking, "https://a.example.com/", text(&breaking[0]));
    assert_eq!(refused, Err(SubstituteError::HeaderValue("KEY".to_owned())));
}

#[test]
fn a_request_with_values_is_bounded() {
    let all = [SecretPlace::Header, SecretPlace::Url, SecretPlace::Body];
    let secrets = [secret("KEY", &"v".repeat(4_096), &["a.example.com"], &all)];
    let key = text(&secrets[0]);
    assert!(header(&secrets, "https://a.example.com/", &key.repeat(4)).is_ok());
    for (place, refused) in [
        ("header", header(&secrets, "https://a.example.com/", &key.repeat(5)).map(drop)),
        ("url", header(&secrets, &format!("https://a.example.com/{}", key.repeat(3)), "x").map(drop)),
        ("body", body(&secrets, "text/plain", &key.repeat(257)).map(drop)),
    ] {
        assert!(matches!(&refused, Err(SubstituteError::TooLarge { place: at, .. }) if *at == place), "{refused:?}");
    }
    let at = url("https://a.example.com/");
    let thrice = key.repeat(3);
    let many = headers(&[("x-1", thrice.as_str()), ("x-2", thrice.as_str())]);
    let refused = Placeholders::of(&secrets).unwrap().fill(&to(&at), &many, None).err();
    assert_eq!(refused, Some(SubstituteError::TooLarge { place: "header", max: HEADER_BYTES }));
}

#[test]
fn headers_with_placeholders_are_removed_and_values_in_urls_are_found() {
    let secrets = [secret("KEY", VALUE, &["a.example.com"], &[SecretPlace::Url])];
    let placeholders = Placeholders::of(&secrets).unwrap();
    let basic = format!("Basic {}", STANDARD.encode(format!("x:{}", text(&secrets[0]))));
    let mut sent = headers(&[("authorization", basic.as_str()), ("x-key", text(&secrets[0])), ("user-agent", "x")]);
    placeholders.remove_headers(&mut sent);
    assert_eq!((sent.len(), sent.get(USER_AGENT).is_some()), (1, true));
    let mut leaving = url("https://b.example.com/?k=");
    assert_eq!(placeholders.value_for_others(&leaving), None);
    leaving.query_pairs_mut().append_pair("v", VALUE);
    assert_eq!(placeholders.value_for_others(&leaving), Some("KEY"));
    leaving.set_host(Some("a.example.com")).unwrap();
    assert_eq!(placeholders.value_for_others(&leaving), None);
}

use axum::body::Body;

use super::*;

fn allowed(hosts: &[&str], origins: Option<&[&str]>) -> AllowedOrigins {
    let owned = |texts: &[&str]| texts.iter().map(|text| (*text).to_owned()).collect::<Vec<_>>();
    AllowedOrigins::new(&owned(hosts), origins.map(owned).as_deref())
}

fn status(allowed: &AllowedOrigins, headers: &[(&str, &str)]) -> u16 {
    let request = headers.iter().fold(Request::post("/ai/mcp"), |request, (name, value)| request.header(*name, *value));
    allowed.check(&request.body(Body::empty()).unwrap()).map_or_else(|closed| closed.code().row().status.as_u16(), |()| 200)
}

#[test]
fn only_listed_host_names_are_allowed() {
    let own = allowed(&["localhost", "[::1]", "tools.example:8443"], None);
    for (host, requested) in [
        ("localhost", 200),
        ("LocalHost:4020", 200),
        ("[::1]:4020", 200),
        ("tools.example:8443", 200),
        ("tools.example", 403),
        ("tools.example:443", 403),
        ("localhost.evil.example", 403),
        ("evil.example", 403),
        ("a b", 400),
        ("", 400),
    ] {
        assert_eq!(status(&own, &[("host", host)]), requested, "{host}");
    }
    assert_eq!(status(&own, &[]), 400);
    assert_eq!(status(&allowed(&["::1"], None), &[("host", "[::1]:1")]), 200);
    assert_eq!(status(&allowed(&[], None), &[("host", "any.example")]), 200);
}

#[test]
fn origin_is_allowed_by_scheme_name_and_port() {
    let some = allowed(&[], Some(&["http://localhost:*", "https://app.example:443", "https://any.example"]));
    let with = |origin: &'static str| [("host", "h"), ("origin", origin)];
    for (origin, requested) in [
        ("http://localhost", 200),
        ("http://LOCALHOST:6274", 200),
        ("https://localhost:6274", 403),
        ("https://app.example", 200),
        ("https://app.example:443", 200),
        ("https://app.example:444", 403),
        ("http://app.example:443", 403),
        ("https://any.example:9", 200),
        ("https://app.example.evil.example", 403),
        ("null", 403),
        ("nonsense", 403),
        ("", 403),
    ] {
        assert_eq!(status(&some, &with(origin)), requested, "{origin}");
    }
    assert_eq!(status(&some, &[("host", "h")]), 200, "clients other than pages send no origin");
    assert_eq!(status(&allowed(&[], Some(&[])), &with("http://localhost")), 403);
    assert_eq!(status(&allowed(&[], Some(&["null"])), &with("null")), 200);
    assert_eq!(status(&allowed(&[], None), &with("https://evil.example")), 200);
}

//! Redirects as a request wants them: followed with any method, returned, or refused.

use axum::{body::Bytes, http::StatusCode, routing::post};
use hyper::header::{AUTHORIZATION, CONTENT_TYPE, HeaderValue};

use super::*;

/// Answers with the method, the body, and the values of three headers.
async fn received(method: Method, headers: HeaderMap, body: Bytes) -> String {
    let value = |name: &str| headers.get(name).map_or("-", |value| value.to_str().unwrap());
    let body = String::from_utf8(body.to_vec()).unwrap();
    format!("{method} {body} {} {} {}", value("content-type"), value("authorization"), value("x-own"))
}

/// Starts a server that redirects `/<status>` to `target`, and answers `/here`.
async fn redirecting_with(target: String) -> SocketAddr {
    let redirect = |axum::extract::Path(status): axum::extract::Path<u16>, State(target): State<String>| async move {
        (StatusCode::from_u16(status).unwrap(), [(header::LOCATION, target)])
    };
    serve(Router::new().route("/here", any(received)).route("/to/{status}", any(redirect)).with_state(target)).await
}

fn asking(url: &str, method: Method, redirects: Redirects) -> Fetch<'_> {
    let body = (method != Method::GET && method != Method::HEAD).then(|| Bytes::from_static(b"body"));
    let mut request = Fetch { method, redirects, body, ..Fetch::get(url, WALL, 1_000) };
    request.headers.insert(CONTENT_TYPE, HeaderValue::from_static("text/plain"));
    request.headers.insert(AUTHORIZATION, HeaderValue::from_static("secret"));
    request.headers.insert("x-own", HeaderValue::from_static("1"));
    request
}

#[tokio::test]
async fn followed_redirects_change_the_method_and_the_body_as_the_standard_says() {
    let address = redirecting_with("/here".to_owned()).await;
    let guard = allowing(&[address]);
    for (status, method, answer) in [
        (301, Method::POST, "GET  - secret 1"),
        (302, Method::POST, "GET  - secret 1"),
        (303, Method::POST, "GET  - secret 1"),
        (303, Method::PUT, "GET  - secret 1"),
        (301, Method::PUT, "PUT body text/plain secret 1"),
        (302, Method::DELETE, "DELETE body text/plain secret 1"),
        (307, Method::POST, "POST body text/plain secret 1"),
        (308, Method::PATCH, "PATCH body text/plain secret 1"),
        (303, Method::GET, "GET  text/plain secret 1"),
    ] {
        let url = format!("http://{address}/to/{status}");
        let fetched = guard.fetch(asking(&url, method.clone(), Redirects::Follow)).await.unwrap();
        assert_eq!((&*fetched.body, fetched.is_redirected), (answer.as_bytes(), true), "{status} of {method}");
        assert_eq!(fetched.url.path(), "/here");
    }
}

#[tokio::test]
async fn another_origin_gets_the_body_but_no_authorization() {
    let target = serve(Router::new().route("/here", any(received))).await;
    let address = redirecting_with(format!("http://{target}/here")).await;
    let url = format!("http://{address}/to/307");
    let fetched = allowing(&[address, target]).fetch(asking(&url, Method::POST, Redirects::Follow)).await.unwrap();
    assert_eq!(&*fetched.body, b"POST body text/plain - 1");
}

#[tokio::test]
async fn redirects_are_returned_or_refused_where_they_are_not_followed() {
    let address = redirecting_with("/here".to_owned()).await;
    let guard = allowing(&[address]);
    let url = format!("http://{address}/to/302");
    let returned = guard.fetch(asking(&url, Method::GET, Redirects::Return)).await.unwrap();
    assert_eq!(
        (returned.status.as_u16(), returned.is_redirected, &returned.headers[header::LOCATION]),
        (302, false, &HeaderValue::from_static("/here"))
    );
    let refused = guard.fetch(asking(&url, Method::GET, Redirects::Refuse)).await.unwrap_err();
    assert_eq!((refused.code(), refused), ("redirected", FetchError::Redirected));
    let here = format!("http://{address}/here");
    assert!(guard.fetch(asking(&here, Method::GET, Redirects::Refuse)).await.is_ok());
}

#[tokio::test]
async fn a_posted_request_follows_no_redirect_to_where_it_must_not_go() {
    for (target, error) in [("http://127.0.0.1:1/", "forbidden_address"), ("https://10.0.0.1/", "forbidden_address")] {
        let address = redirecting_with(target.to_owned()).await;
        let url = format!("http://{address}/to/307");
        let refused = allowing(&[address]).fetch(asking(&url, Method::POST, Redirects::Follow)).await.unwrap_err();
        assert_eq!(refused.code(), error, "{target}");
    }
    let round = serve(Router::new().route("/to", post(|| async { (StatusCode::TEMPORARY_REDIRECT, [(header::LOCATION, "/to")]) }))).await;
    let url = format!("http://{round}/to");
    let refused = allowing(&[round]).fetch(asking(&url, Method::POST, Redirects::Follow)).await.unwrap_err();
    assert_eq!(refused, FetchError::TooManyRedirects);
}

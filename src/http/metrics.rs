//! `/metrics`: the host's metrics for Prometheus.

use std::net::IpAddr;

use axum::http::uri::Authority;
use tollhouse_front::{ApiError, Code, CredentialCheck, bearer, header_names, peer};
use tollhouse_telemetry::Format;

use crate::{
    FromRequestParts, HeaderMap, Http, IntoResponse as _, Parts, Response, ResponseKind, Route, State, auth::only_admins, header, open,
};

pub(super) fn routes() -> Vec<Route> {
    let what = "what the host counts and measures of itself, as Prometheus and OpenMetrics have it; for admins, for who has the token \
                for it, and where the settings let it for who asks from the host's own machine";
    let route = open::get("/metrics", "scrapeMetrics", what, metrics).responds(ResponseKind::Text(Format::Text.media_type()));
    vec![route.fails(&[Code::Unauthorized, Code::BuilderSuspended, Code::NotOwner])]
}

async fn metrics(Reader: Reader, State(http): State<Http>, headers: HeaderMap) -> Response {
    let accept: Vec<_> = headers.get_all(header::ACCEPT).iter().filter_map(|value| value.to_str().ok()).collect();
    let format = Format::asked_by(&accept.join(","));
    let answer = (http.gather)().await.written(format);
    ([(header::CONTENT_TYPE, format.media_type()), (header::CACHE_CONTROL, "no-store")], answer).into_response()
}

/// A permitted reader of metrics: an admin, a client with the metrics token, or, if the settings allow it, any client
/// on this machine. Tokens come as bearer tokens, because Prometheus cannot send them otherwise. Only here can the
/// admin token come that way.
struct Reader;

impl FromRequestParts<Http> for Reader {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, http: &Http) -> Result<Self, ApiError> {
        let address = peer(&parts.extensions);
        if header_names::shows_caller(&parts.headers) {
            only_admins(parts, http).await?;
        } else if let Some(token) = bearer(&parts.headers) {
            let check = CredentialCheck::begin(&parts.extensions).await?;
            let is_metrics_token = http.metrics_token.as_ref().is_some_and(|own| own.matches(token.as_bytes()));
            if !is_metrics_token && !http.shared.callers.is_admin(token.as_bytes()) {
                check.fail();
                return Err(unauthorized());
            }
        } else if !http.metrics_here || !is_local(address, parts) {
            return Err(unauthorized());
        }
        Ok(Self)
    }
}

fn unauthorized() -> ApiError {
    ApiError::from(Code::Unauthorized).hint("Send the metrics token or the admin token as `Authorization: Bearer TOKEN`")
}

/// Headers that proxies add to forwarded requests, besides those that begin with `x-forwarded-`.
const PROXY_HEADERS: [&str; 8] =
    ["forwarded", "via", "x-real-ip", "x-client-ip", "x-cluster-client-ip", "true-client-ip", "cf-connecting-ip", "fastly-client-ip"];

/// Returns whether a request was made on this machine: over loopback, to a loopback name, not forwarded by a proxy, and
/// not by a page of another origin in a local browser.
fn is_local(peer: IpAddr, parts: &Parts) -> bool {
    let headers = &parts.headers;
    let is_forwarded = headers.keys().any(|name| name.as_str().starts_with("x-forwarded-") || PROXY_HEADERS.contains(&name.as_str()));
    let is_from_page = headers.contains_key(header::ORIGIN)
        || headers.get("sec-fetch-site").is_some_and(|site| !matches!(site.as_bytes(), b"none" | b"same-origin"));
    let request = parts.uri.authority().cloned().or_else(|| headers.get(header::HOST)?.to_str().ok()?.parse().ok());
    peer.is_loopback() && !is_forwarded && !is_from_page && request.is_some_and(|request: Authority| is_loopback(request.host()))
}

fn is_loopback(host: &str) -> bool {
    let address = host.trim_start_matches('[').trim_end_matches(']');
    host.eq_ignore_ascii_case("localhost") || address.parse::<IpAddr>().is_ok_and(|address| address.is_loopback())
}

#[cfg(test)]
mod tests {
    use axum::http::Request;

    use super::*;

    fn is_allowed(peer: &str, headers: &[(&str, &str)]) -> bool {
        let request = headers.iter().fold(Request::get("/metrics"), |request, (name, value)| request.header(*name, *value));
        is_local(peer.parse().unwrap(), &request.body(()).unwrap().into_parts().0)
    }

    #[test]
    fn only_direct_requests_to_a_loopback_name_are_local() {
        for host in ["127.0.0.1:4020", "localhost:4020", "[::1]:4020", "LOCALHOST"] {
            assert!(is_allowed("127.0.0.1", &[("host", host)]) && is_allowed("::1", &[("host", host)]), "{host}");
        }
        assert!(!is_allowed("192.0.2.1", &[("host", "127.0.0.1:4020")]));
        assert!(!is_allowed("127.0.0.1", &[]));
        for host in ["tools.example", "127.0.0.1.example", "0.0.0.0", "", "127.0.0.1:4020, localhost"] {
            assert!(!is_allowed("127.0.0.1", &[("host", host)]), "{host}");
        }
        let message =
            [("x-forwarded-for", "127.0.0.1"), ("X-Forwarded-Anything", ""), ("forwarded", "for=127.0.0.1"), ("via", "1.1 proxy")];
        let pages = [("origin", "null"), ("sec-fetch-site", "cross-site"), ("sec-fetch-site", "same-site"), ("x-real-ip", "127.0.0.1")];
        for header in message.into_iter().chain(pages) {
            assert!(!is_allowed("127.0.0.1", &[("host", "localhost"), header]), "{header:?}");
        }
        assert!(is_allowed("127.0.0.1", &[("host", "localhost"), ("sec-fetch-site", "none")]), "an address typed in the browser");
    }
}

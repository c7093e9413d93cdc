//! Checks of the host name and of the requesting page, and the security headers of every answer.

use std::sync::Arc;

use axum::{http::HeaderName, middleware::Next};

use tollhouse_front::{ApiError, Code, HostCheck};
use url::Url;

use crate::{HeaderMap, HeaderValue, IntoResponse as _, Method, Request, Response, Services, State, header};

/// The relation of the requesting site, which browsers send on trustworthy connections (Fetch
/// Metadata).
static FETCH_SITE: HeaderName = HeaderName::from_static("sec-fetch-site");

/// Content Security Policy: pages can use only resources, forms and scripts of this host, and
/// scripts cannot make markup from text.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; form-action 'self'; \
    base-uri 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types 'none'";

/// Browser features that pages give up.
const PERMISSIONS: &str = "accelerometer=(), camera=(), display-capture=(), geolocation=(), gyroscope=(), magnetometer=(), microphone=(), \
    midi=(), payment=(), usb=(), xr-spatial-tracking=()";

/// Returns the check that requests use one of the host's names. It stops pages that point their own
/// name to this machine (DNS rebinding).
#[must_use]
pub fn host_check(services: &Services) -> HostCheck {
    let origins = Arc::clone(&services.origins);
    HostCheck { covers: is_ours, check: Arc::new(move |request| origins.check_host(request.uri(), request.headers())) }
}

/// Returns whether a path belongs to pages or their assets.
pub(super) fn is_ours(path: &str) -> bool {
    let below = |root: &str| path.strip_prefix(root).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'));
    // A document with a dot in its name is for programs.
    path == "/" || ["/dashboard", "/assets"].into_iter().any(below) || ["/docs", "/guides"].into_iter().any(below) && !path.contains('.')
}

/// Refuses actions that a page of another site requests, and redirects to the host's own address.
pub(super) async fn pass(State(services): State<Arc<Services>>, request: Request, next: Next) -> Response {
    let reads = matches!(*request.method(), Method::GET | Method::HEAD | Method::OPTIONS);
    if !reads && !is_own(request.headers(), &services.base_url) {
        let forged = ApiError::new(Code::Forbidden, "this request did not come from a page of this host");
        return forged.hint("open the page at the host's own address, then send the form from there").into_response();
    }
    let mut response = next.run(request).await;
    services.root.redirect(response.headers_mut());
    response
}

/// Returns whether a page of this host makes the request, as far as the browser reports it: by
/// `Sec-Fetch-Site`, or by the origin if that is missing, as on plain HTTP. Another port of the
/// same machine counts as another site, although browsers send the session's cookie with its forms.
fn is_own(headers: &HeaderMap, base_url: &str) -> bool {
    match headers.get(&FETCH_SITE) {
        Some(site) => site == "same-origin",
        None => headers.get(header::ORIGIN).and_then(|origin| origin.to_str().ok()).is_some_and(|origin| origin == origin_of(base_url)),
    }
}

fn origin_of(url: &str) -> String {
    Url::parse(url).map(|url| url.origin().ascii_serialization()).unwrap_or_default()
}

pub(super) fn set_security_headers(headers: &mut HeaderMap) {
    let rendered = [
        (header::CONTENT_SECURITY_POLICY, POLICY),
        (header::X_FRAME_OPTIONS, "DENY"),
        (header::REFERRER_POLICY, "same-origin"),
        (HeaderName::from_static("cross-origin-opener-policy"), "same-origin"),
        (HeaderName::from_static("cross-origin-resource-policy"), "same-origin"),
        (HeaderName::from_static("permissions-policy"), PERMISSIONS),
    ];
    headers.extend(rendered.map(|(name, value)| (name, HeaderValue::from_static(value))));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn same_site_is_known_by_fetch_metadata_or_origin() {
        let own = |headers: &[(&'static str, &'static str)]| {
            let headers = headers.iter().map(|(name, value)| (HeaderName::from_static(name), HeaderValue::from_static(value)));
            is_own(&HeaderMap::from_iter(headers), "http://Tools.example:4020/below")
        };
        assert!(own(&[("sec-fetch-site", "same-origin")]));
        assert!(own(&[("origin", "http://tools.example:4020")]));
        for forged in [
            &[][..],
            &[("sec-fetch-site", "same-site"), ("origin", "http://tools.example:4020")],
            &[("sec-fetch-site", "cross-site")],
            &[("sec-fetch-site", "none")],
            &[("origin", "null")],
            &[("origin", "http://tools.example:4021")],
            &[("origin", "https://tools.example:4020")],
        ] {
            assert!(!own(forged), "{forged:?}");
        }
    }
}

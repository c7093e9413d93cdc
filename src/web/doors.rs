//! By which name the host was asked, and what every answer says to the browser that gets it.

use std::sync::Arc;

use axum::{
    extract::{Request, State},
    http::{HeaderMap, HeaderName, HeaderValue, header},
    middleware::Next,
    response::{IntoResponse as _, Response},
};

use super::services::Services;

/// What a page may do: show what this host made, send forms to it, and run its scripts, which make no markup out of text.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; form-action 'self'; \
    base-uri 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types 'none'";

/// What a page asks no browser for.
const PERMISSIONS: &str = "accelerometer=(), camera=(), display-capture=(), geolocation=(), gyroscope=(), magnetometer=(), microphone=(), \
    midi=(), payment=(), usb=(), xr-spatial-tracking=()";

/// Lets in who asked for the host by one of its names: a page that made its own name point to this machine (DNS rebinding) did not.
pub(super) async fn check(State(services): State<Arc<Services>>, request: Request, next: Next) -> Response {
    if let Err(closed) = services.origins.check_host(request.uri(), request.headers()) {
        return closed.into_response();
    }
    next.run(request).await
}

/// Puts into the headers of a page what keeps it to itself.
pub(super) fn seal(headers: &mut HeaderMap) {
    let told = [
        (header::CONTENT_SECURITY_POLICY, POLICY),
        (header::X_FRAME_OPTIONS, "DENY"),
        (header::REFERRER_POLICY, "same-origin"),
        (HeaderName::from_static("cross-origin-opener-policy"), "same-origin"),
        (HeaderName::from_static("cross-origin-resource-policy"), "same-origin"),
        (HeaderName::from_static("permissions-policy"), PERMISSIONS),
    ];
    headers.extend(told.map(|(name, value)| (name, HeaderValue::from_static(value))));
}

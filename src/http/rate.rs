//! Refuses addresses that make too many requests.

use std::{net::SocketAddr, sync::Arc};

use axum::{
    extract::{ConnectInfo, Request, State},
    http::{HeaderValue, StatusCode},
    middleware::Next,
    response::{IntoResponse, Response},
};

use super::error::ApiError;
use crate::app::App;

/// Refuses an address that asks too often, before anything is done for it.
pub(super) async fn limit(
    State(app): State<Arc<App>>,
    ConnectInfo(peer): ConnectInfo<SocketAddr>,
    request: Request,
    next: Next,
) -> Response {
    let Some(rate) = &app.rate else { return next.run(request).await };
    let Some(seconds) = rate.wait(&peer.ip().to_canonical()) else { return next.run(request).await };
    let message = format!("more than {} requests per second from your address", rate.per_second());
    let mut response = ApiError::new(StatusCode::TOO_MANY_REQUESTS, "rate_limited", message).retry_after(seconds).into_response();
    // draft-ietf-httpapi-ratelimit-headers
    let headers =
        [("ratelimit-policy", format!("\"address\";q={};w=1", rate.per_second())), ("ratelimit", format!("\"address\";r=0;t={seconds}"))];
    for (name, value) in headers {
        if let Ok(value) = HeaderValue::from_str(&value) {
            response.headers_mut().insert(name, value);
        }
    }
    response
}

//! Refuses addresses that make too many requests.

use std::net::IpAddr;

use axum::{
    http::{HeaderValue, StatusCode},
    response::{IntoResponse, Response},
};

use super::error::ApiError;
use crate::app::App;

/// What an address is told that asks too often, before anything is done for it.
pub(super) fn refusal(app: &App, address: IpAddr) -> Option<Response> {
    let rate = app.rate.as_ref()?;
    let seconds = rate.wait(&address.to_canonical())?;
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
    Some(response)
}

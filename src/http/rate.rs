//! Refuses addresses that make too many requests.

use std::net::IpAddr;

use axum::response::{IntoResponse, Response};

use super::{
    address::network,
    error::{ApiError, Policy},
};
use crate::app::App;

/// What an address is told that asks too often, before anything is done for it.
pub(super) fn refusal(app: &App, address: IpAddr) -> Option<Response> {
    let rate = app.rate.as_ref()?;
    let seconds = wait(app, address)?;
    let message = format!("more than {} requests per second from your address", rate.per_second());
    let policy = Policy { name: "address", most: rate.per_second(), window_secs: 1 };
    Some(ApiError::rate_limited(policy, seconds, message).into_response())
}

/// Counts a request of an address: seconds until it may make it, if it may not now.
pub(crate) fn wait(app: &App, address: IpAddr) -> Option<u64> {
    app.rate.as_ref()?.wait(&network(address))
}

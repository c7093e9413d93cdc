//! Refuses addresses that make too many requests, and slows those whose requests cost too much.

use std::{net::IpAddr, sync::Arc, time::Duration};

use axum::{
    extract::FromRequestParts,
    http::request::Parts,
    response::{IntoResponse, Response},
};

use super::address::{network, peer};
use crate::{
    app::App,
    base::share::Turn,
    call::CallError,
    front::{Fault, Policy},
};

/// What an address is told that asks too often, before anything is done for it.
pub(super) fn refusal(app: &App, address: IpAddr) -> Option<Response> {
    let rate = app.rate.as_ref()?;
    let seconds = wait(app, address)?;
    let message = format!("more than {} requests per second from your address", rate.per_second());
    let policy = Policy { name: "address", most: rate.per_second(), window_secs: 1 };
    Some(Fault::rate_limited(policy, seconds, message).into_response())
}

/// Counts a request of an address: seconds until it may make it, if it may not now.
pub(crate) fn wait(app: &App, address: IpAddr) -> Option<u64> {
    app.rate.as_ref()?.wait(&network(address))
}

/// A turn of the caller's, for what is computed here for it: the handler says what that cost.
pub(super) struct Paced(pub(super) Turn);

impl FromRequestParts<Arc<App>> for Paced {
    type Rejection = Fault;

    async fn from_request_parts(parts: &mut Parts, app: &Arc<App>) -> Result<Self, Fault> {
        Ok(Self(turn(app, peer(&parts.extensions)).await?))
    }
}

/// A turn of an address, of what nobody knows the cost of yet.
pub(crate) async fn turn(app: &App, address: IpAddr) -> Result<Turn, Fault> {
    let turn = app.shares.turn(network(address), Duration::ZERO).await;
    turn.map_err(|over| CallError::from(over).into())
}

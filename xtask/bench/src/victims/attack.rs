//! The parts of attacks, and the tools that they call.

use std::{collections::BTreeMap, net::SocketAddr, sync::Arc, time::Duration};

use serde_json::json;

use crate::{
    Failure,
    client::{Client, Request},
    host::{ADMIN_TOKEN, Host},
    http2::{Flood, HeldRequest},
};

/// The host's default limit for one address, in requests per second.
pub(super) const PACE: f64 = 100.0;
/// Maximum time that an attacker waits for an answer.
pub(super) const TIMEOUT: Duration = Duration::from_secs(2);

/// The tools that the victims call: a built-in one, and a handler.
pub(super) const VICTIM: &str = "receipt-echo-free";
pub(super) const JS_VICTIM: &str = "victim-in-javascript";

/// The action of an attacker, repeated as long as possible.
pub(super) enum Attack {
    /// Sends these requests in turn, at a rate per second.
    Asks(Vec<Request>, f64),
    /// Makes these calls at the same time, each on its own connection, and waits for all of them.
    Calls(Vec<Request>),
    /// Opens a number of connections, sends each these bytes, and then nothing.
    Holds(usize, Vec<u8>),
    /// Sends frames that belong to no request over a number of HTTP/2 connections.
    Floods(usize, Flood),
    /// Sends such frames over a number of connections to a server that is not the host.
    FloodsElsewhere(usize, SocketAddr),
    /// Sends this over HTTP/2 as often as an address can, and reads no answers.
    Hoards(HeldRequest),
    /// Sends this many requests per second, each from another address, which is a key of every limiter.
    Moves(Request, f64),
    /// Does all of these at the same time.
    Together(Vec<Arc<Attack>>),
}

/// The outcome of an attack: answers by status. 0 stands for no answer, and for refused or closed connections.
pub(super) type Met = BTreeMap<u16, usize>;

pub(super) fn publish_with(host: &Host, slug: &str, source: &str, limits: &serde_json::Value) -> Result<(), Failure> {
    publish_at(host, slug, 0.0, source, limits)
}

/// Publishes a handler with this price in USD.
pub(super) fn publish_at(host: &Host, slug: &str, price: f64, source: &str, limits: &serde_json::Value) -> Result<(), Failure> {
    let handler = json!({ "source": source, "language": "js" });
    let tool = json!({ "slug": slug, "title": slug, "priceUsd": price, "handlerType": "js_request_response", "handler": handler, "limits": limits, "inputSchema": { "type": "object" } });
    let publish = Request::post("/ai/endpoints/create", &tool.to_string()).with("x-admin-token", ADMIN_TOKEN);
    Client::connect(host.address())?.expect_ok(&publish)
}

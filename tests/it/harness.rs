//! Helpers of the tests: a host as a process, payers that sign, and facilitators with a given
//! behavior.

mod answer;
pub mod balancer;
pub mod chain;
pub mod documented;
mod earlier;
mod erratic;
mod examples;
mod facilitator;
mod gateway;
mod host;
mod lossy;
mod mcp;
pub mod nginx;
mod payer;
mod payment;
pub mod permit;
pub mod postgres;
mod process;
mod random;
pub mod raw;
pub mod s3;
pub mod stream;
mod waiting;

use std::{
    future::Future,
    net::SocketAddr,
    time::{Duration, Instant},
};

use axum::Router;
use serde_json::{Value, json};
use tokio::net::TcpListener;

pub use self::{
    answer::{Answer, Event},
    chain::Chain,
    erratic::Erratic,
    facilitator::{Facilitator, FacilitatorAnswer, SettleMode},
    gateway::{Gateway, GatewayFault},
    host::{Host, HostBuilder, PAY_TO, micros, tollhouse, within},
    lossy::{LossMode, LossyFacilitator},
    mcp::{Mcp, Replied},
    payer::Payer,
    payment::Payment,
    process::signal,
    random::random,
};

/// Returns the body of `POST /ai/endpoints/create` for a JavaScript tool with kv and logs and the
/// attestation.
pub fn js(slug: &str, price_usd: f64, source: &str) -> Value {
    json!({
        "slug": slug,
        "title": slug,
        "priceUsd": price_usd,
        "handlerType": "js_request_response",
        "capabilities": { "kv": true, "logs": true },
        // Every tool has a different source: a copy of another builder's source would need a
        // review.
        "handler": { "source": format!("{source}\n// {slug}"), "language": "js" },
        "safetyAttestation": { "accepted": true },
    })
}

/// Returns the number of rounds in the variable, which the long forms of `cargo xtask` set.
pub fn rounds_requested(name: &str) -> Option<usize> {
    #[expect(clippy::disallowed_methods, reason = "how the long form asks for more")]
    std::env::var(name).ok().map(|rounds| rounds.parse().unwrap())
}

/// Polls `ask` until it returns an answer. Panics if there is none within `timeout`.
pub async fn eventually<T, F: Future<Output = Option<T>>>(what: &str, timeout: Duration, mut ask: impl FnMut() -> F) -> T {
    let started = Instant::now();
    loop {
        if let Some(answer) = ask().await {
            return answer;
        }
        assert!(started.elapsed() < timeout, "not within {timeout:?}: {what}");
        tokio::time::sleep(Duration::from_millis(15)).await;
    }
}

/// Starts a server. Returns its address.
pub async fn listen(router: Router) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move { axum::serve(listener, router).await });
    address
}

/// Starts a server. Returns its URL, without a slash at the end.
pub async fn serve(router: Router) -> String {
    format!("http://{}", listen(router).await)
}

/// Returns whether these bytes contain a text.
pub fn contains(bytes: &[u8], text: &str) -> bool {
    bytes.windows(text.len()).any(|window| window == text.as_bytes())
}

//! Helpers of the tests: a host as a process, payers that sign, and facilitators with a given
//! behavior.

mod answer;
pub mod balancer;
pub mod chain;
mod documented;
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
#[expect(dead_code, reason = "the tests of the store use more of it")]
pub mod postgres;
mod process;
mod random;
pub mod raw;
pub mod s3;
pub mod stream;

use std::{future::Future, time::Duration};

use serde_json::{Value, json};

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

/// Repeats `ask` until it returns an answer. Panics if there is none within `patience`.
pub async fn eventually<T, F: Future<Output = Option<T>>>(what: &str, timeout: Duration, mut ask: impl FnMut() -> F) -> T {
    let started = std::time::Instant::now();
    loop {
        if let Some(answer) = ask().await {
            return answer;
        }
        assert!(started.elapsed() < timeout, "not within {timeout:?}: {what}");
        tokio::time::sleep(Duration::from_millis(15)).await;
    }
}

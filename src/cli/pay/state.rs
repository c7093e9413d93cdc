//! Asks a host for the outcome of a payment.

use std::time::Duration;

use reqwest::Url;
use serde_json::Value;
use tollhouse_money::PaymentId;

use super::seller::Seller;

/// Longest wait for the response.
const TIMEOUT: Duration = Duration::from_secs(10);

/// The outcome of a payment, as the host reports it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum PaymentState {
    /// It is in progress.
    UnderWay,
    /// The money moved.
    Settled,
    /// Nothing was charged, and nothing will be.
    Untaken,
    /// The host does not know it. A request that is on its way may still arrive.
    Unheard,
    /// Unknown: the host does not respond, or has no such route.
    Untold,
}

/// Asks the host.
pub(crate) async fn ask(seller: &Seller, host: &Url, id: &PaymentId) -> PaymentState {
    let mut url = host.clone();
    match url.path_segments_mut() {
        Ok(mut pieces) => _ = pieces.pop_if_empty().extend(["ai", "payments", id.as_str()]),
        Err(()) => return PaymentState::Untold,
    }
    let Ok(reply) = seller.get(url, TIMEOUT).await else { return PaymentState::Untold };
    let reported: Value = serde_json::from_slice(&reply.body).unwrap_or_default();
    if reply.status == 404 && reported["error"]["code"] == "unknown_payment" {
        return PaymentState::Unheard;
    }
    let payment = &reported["payment"];
    if reply.status != 200 || payment["paymentId"] != id.as_str() {
        return PaymentState::Untold;
    }
    match payment["state"].as_str() {
        Some("settled" | "owed") => PaymentState::Settled,
        Some("refused" | "released") => PaymentState::Untaken,
        Some("reserved" | "settling" | "unresolved") => PaymentState::UnderWay,
        _ => PaymentState::Untold,
    }
}

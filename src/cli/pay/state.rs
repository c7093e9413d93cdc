//! Asks a host for the outcome of a payment.

use std::time::Duration;

use reqwest::Url;
use serde_json::Value;
use tollhouse_api::{self as api, PaymentResponse};
use tollhouse_money::PaymentId;

use super::Seller;

/// Longest wait for the response.
const TIMEOUT: Duration = Duration::from_secs(10);

/// The outcome of a payment, as the host reports it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum PaymentState {
    /// It is in progress.
    InProgress,
    /// The money moved.
    Settled,
    /// Nothing was charged, and nothing will be.
    NotCharged,
    /// The host does not know it. A request that is on its way may still arrive.
    NotFound,
    /// Unknown: the host does not respond, or has no such route.
    Unknown,
}

/// Asks the host.
pub(crate) async fn ask(seller: &Seller, host: &Url, id: &PaymentId) -> PaymentState {
    let Ok(reply) = seller.get(host, &["ai", "payments", id.as_str()], TIMEOUT).await else { return PaymentState::Unknown };
    if reply.status == 404 {
        let body: Value = serde_json::from_slice(&reply.body).unwrap_or_default();
        return if body["error"]["code"] == "unknown_payment" { PaymentState::NotFound } else { PaymentState::Unknown };
    }
    match serde_json::from_slice::<PaymentResponse>(&reply.body) {
        Ok(PaymentResponse { payment, .. }) if reply.status == 200 && payment.payment_id == *id => match payment.state {
            api::PaymentState::Settled | api::PaymentState::Owed => PaymentState::Settled,
            api::PaymentState::Refused | api::PaymentState::Released => PaymentState::NotCharged,
            api::PaymentState::Reserved | api::PaymentState::Settling | api::PaymentState::Unresolved => PaymentState::InProgress,
        },
        _ => PaymentState::Unknown,
    }
}

//! The host's own handlers.

pub(crate) mod readiness;
mod summary;

use serde_json::{Value, json};
use tollhouse_base::offload::run_blocking;
use tollhouse_tool::Builtin;

use self::readiness::ReadinessClient;
use super::{HandlerResult, Task};
use crate::CallError;

/// Answers a call with the host's own code.
pub(super) async fn answer(builtin: Builtin, client: &ReadinessClient, task: &Task<'_>) -> Result<HandlerResult, CallError> {
    match builtin {
        Builtin::ReceiptEcho => run_blocking(task.input.text.len(), || HandlerResult::json(task.live, &receipt_echo(task))).await,
        Builtin::X402ReadinessCheck => {
            let report = Box::pin(readiness_check(client, task)).await;
            HandlerResult::json(task.live, &report)
        }
    }
}

/// Echoes a public-safe summary of the request, and the receipt it will have.
fn receipt_echo(task: &Task<'_>) -> Value {
    let endpoint = &task.live.endpoint;
    json!({
        "ok": true,
        "request": {
            "method": task.head.method,
            "path": task.head.path,
            "input": summary::of(&task.input.value),
        },
        "receipt": {
            "receiptId": task.receipt,
            "slug": endpoint.slug,
            "endpointId": endpoint.id,
            "version": endpoint.version,
            "priceUsd": task.price,
            "kind": if task.is_free() { "free" } else { "paid" },
            "payer": task.payer,
            "startedAt": task.now,
            "url": format!("/ai/receipts/{}", task.receipt),
        },
    })
}

/// Checks a metadata URL, and reports what it provides and what is missing.
async fn readiness_check(client: &ReadinessClient, task: &Task<'_>) -> Value {
    let url = task.input.value.get("url").and_then(Value::as_str).unwrap_or_default();
    let by_a_check = task.head.headers.iter().any(|(name, value)| *name == "user-agent" && value == readiness::request::AGENT);
    if by_a_check { readiness::of_a_check(url) } else { readiness::check(&client.requested_by(task.turn.address()), url).await }
}

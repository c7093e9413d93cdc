//! The host's own handlers.

use serde_json::{Value, json};

use super::{Produced, Task};
use crate::{call::CallError, capability::Guard, readiness, tool::MicroUsd};

/// Echoes a public-safe summary of the request, and the receipt it will have.
pub(super) fn receipt_echo(task: &Task<'_>) -> Produced {
    let endpoint = &task.live.endpoint;
    Produced::json(json!({
        "ok": true,
        "request": {
            "method": task.head.method,
            "path": task.head.path,
            "input": task.input.value,
        },
        "receipt": {
            "receiptId": task.receipt,
            "slug": endpoint.slug,
            "endpointId": endpoint.id,
            "version": endpoint.version,
            "priceUsd": if task.is_free() { MicroUsd::ZERO } else { endpoint.price_usd },
            "kind": if task.is_free() { "free" } else { "paid" },
            "payer": task.payer,
            "startedAt": task.now,
            "url": format!("/ai/receipts/{}", task.receipt),
        },
    }))
}

/// Looks at a metadata URL and says what is there and what is missing.
pub(super) async fn readiness_check(guard: &Guard, task: &Task<'_>) -> Result<Produced, CallError> {
    let url = task.input.value.get("url").and_then(Value::as_str).unwrap_or_default();
    Ok(Produced::json(readiness::check(guard, url).await))
}

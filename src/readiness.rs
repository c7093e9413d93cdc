//! The built-in readiness check: what an agent would find at an MCP or x402 metadata URL.

use serde_json::{Value, json};

use crate::capability::Guard;

pub async fn check(guard: &Guard, url: &str) -> Value {
    let _ = guard;
    json!({"url": url})
}

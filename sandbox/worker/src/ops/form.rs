//! `formData()` of a Request or Response.

use deno_core::op2;
use serde_json::Value;

use crate::multipart;

/// Finds the parts of a multipart body. Returns JSON: rows as `multipart::parts` returns them, or the
/// text of an error.
#[op2]
#[string]
pub(super) fn op_multipart(#[buffer] body: &[u8], #[string] boundary: &str) -> String {
    multipart::parts(body, boundary).map_or_else(Value::from, Value::from).to_string()
}

//! Refusals of what stands in front of `/ai/mcp`, told in JSON-RPC as those of the front itself are.

use axum::{
    http::{HeaderValue, StatusCode, header},
    response::{IntoResponse as _, Response},
};
use rmcp::model::{ErrorCode, ErrorData, JsonRpcError, RequestId};
use serde_json::Value;

use crate::http::is_error;

/// Where this front is.
pub const PATH: &str = "/ai/mcp";

/// Most bytes of an envelope.
const MAX_ENVELOPE: usize = 64 << 10;

/// An answer of [`PATH`] on its way out. The envelope of an error becomes the data of JSON-RPC's; status and headers stay.
pub async fn spoken(response: Response) -> Response {
    if !is_error(&response) {
        return response;
    }
    let (mut head, body) = response.into_parts();
    let envelope = axum::body::to_bytes(body, MAX_ENVELOPE).await.ok().and_then(|body| serde_json::from_slice::<Value>(&body).ok());
    let error = envelope.map(|mut envelope| envelope["error"].take()).unwrap_or_default();
    let message = error["message"].as_str().unwrap_or("refused").to_owned();
    let code = if head.status.is_server_error() { ErrorCode::INTERNAL_ERROR } else { ErrorCode::INVALID_REQUEST };
    head.headers.remove(header::CONTENT_LENGTH);
    head.headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    // The message was not read, so it has no id here.
    let told = refusal(head.status, None, ErrorData::new(code, message, Some(error)));
    Response::from_parts(head, told.into_body())
}

/// An error of JSON-RPC. MCP leaves the id out where it is not known; it is never null there.
pub(super) fn refusal(status: StatusCode, id: Option<RequestId>, error: ErrorData) -> Response {
    (status, axum::Json(JsonRpcError::new(id, error))).into_response()
}

/// The id in a message, if it has one that MCP allows.
pub(super) fn id_of(message: &Value) -> Option<RequestId> {
    serde_json::from_value(message.get("id")?.clone()).ok()
}

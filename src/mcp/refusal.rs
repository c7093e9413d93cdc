//! Refusals of what stands in front of `/ai/mcp`, told in JSON-RPC as those of the front itself are.

use axum::{
    http::{HeaderValue, StatusCode, header},
    response::{IntoResponse as _, Response},
};
use rmcp::model::{ErrorCode, ErrorData, JsonRpcError, RequestId};
use serde_json::Value;

use crate::{
    front::{Code, Fault},
    http::code_of,
};

/// Where this front is.
pub const PATH: &str = "/ai/mcp";

/// Most bytes of an envelope.
const MAX_ENVELOPE: usize = 64 << 10;

/// An answer of [`PATH`] on its way out. The envelope of an error becomes the data of JSON-RPC's; status and headers stay.
pub async fn spoken(response: Response) -> Response {
    let Some(code) = code_of(&response) else { return response };
    let (mut head, body) = response.into_parts();
    let envelope = axum::body::to_bytes(body, MAX_ENVELOPE).await.ok().and_then(|body| serde_json::from_slice::<Value>(&body).ok());
    let error = envelope.map(|mut envelope| envelope["error"].take()).unwrap_or_default();
    let message = error["message"].as_str().unwrap_or(code.row().sentence).to_owned();
    head.headers.remove(header::CONTENT_LENGTH);
    head.headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    // The message was not read, so it has no id here.
    let told = refusal(head.status, None, ErrorData::new(number(code), message, Some(error)));
    Response::from_parts(head, told.into_body())
}

/// A fault as an error of JSON-RPC: the envelope is its data.
pub(super) fn told(fault: &Fault) -> ErrorData {
    ErrorData::new(number(fault.code()), fault.message().to_owned(), Some(fault.error()))
}

/// What JSON-RPC calls a row of the table. MCP says "invalid params" of a name that nothing has.
fn number(code: Code) -> ErrorCode {
    match code.row().status {
        StatusCode::NOT_FOUND => ErrorCode::INVALID_PARAMS,
        status if status.is_server_error() => ErrorCode::INTERNAL_ERROR,
        _ => ErrorCode::INVALID_REQUEST,
    }
}

/// An error of JSON-RPC. MCP leaves the id out where it is not known; it is never null there.
pub(super) fn refusal(status: StatusCode, id: Option<RequestId>, error: ErrorData) -> Response {
    (status, axum::Json(JsonRpcError::new(id, error))).into_response()
}

/// The id in a message, if it has one that MCP allows.
pub(super) fn id_of(message: &Value) -> Option<RequestId> {
    serde_json::from_value(message.get("id")?.clone()).ok()
}

//! Errors of middleware, this front end and rmcp as JSON-RPC errors with the envelope as data.

use std::sync::Arc;

use axum::{
    body::Body,
    http::{HeaderValue, StatusCode, header},
    response::{IntoResponse as _, Response},
};
use rmcp::model::{ErrorCode, ErrorData, JsonRpcError, RequestId};
use serde_json::Value;
use tollhouse_front::{ApiError, Code, ErrorWording, code_of};

use super::unpayable;

pub(super) const PATH: &str = "/ai/mcp";

/// Returns the error format at [`PATH`].
pub fn wording() -> ErrorWording {
    ErrorWording {
        covers: |path| path == PATH,
        writer: Arc::new(|_| Box::new(|response| Box::pin(on_wire(response)))),
        others_may_read: true,
    }
}

const MAX_ENVELOPE: usize = 64 << 10;

/// Converts a response of [`PATH`]. The envelope of an error becomes the data of a JSON-RPC error. Status and headers
/// stay.
async fn on_wire(response: Response) -> Response {
    let Some(code) = code_of(&response) else { return response };
    let (mut head, body) = response.into_parts();
    let envelope = axum::body::to_bytes(body, MAX_ENVELOPE).await.ok().and_then(|body| serde_json::from_slice::<Value>(&body).ok());
    let error = envelope.map(|mut envelope| envelope["error"].take()).unwrap_or_default();
    let message = error["message"].as_str().unwrap_or(code.row().sentence).to_owned();
    head.headers.remove(header::CONTENT_LENGTH);
    head.headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    // The message was not parsed, so its id is unknown.
    let reported = refusal(head.status, None, ErrorData::new(number(code), message, Some(error)));
    Response::from_parts(head, reported.into_body())
}

/// Converts an API error to a JSON-RPC error with the envelope as data.
pub(super) fn error_data(fault: &ApiError) -> ErrorData {
    error_data_as(number(fault.code()), fault)
}

/// Converts an API error for which JSON-RPC or MCP defines a specific code.
pub(super) fn error_data_as(number: ErrorCode, fault: &ApiError) -> ErrorData {
    ErrorData::new(number, unpayable::words(fault.message()).into_owned(), Some(fault.error()))
}

/// Maximum characters of a method name that an error repeats.
const REPEATED: usize = 64;

/// Returns the error for a method that does not exist, or not in the revision of the request.
pub(super) fn no_method(method: &str) -> ApiError {
    ApiError::new(Code::NotFound, format!("there is no method `{}`", method.chars().take(REPEATED).collect::<String>()))
}

/// Returns the JSON-RPC code of an API error. For unknown names, MCP specifies "invalid params".
fn number(code: Code) -> ErrorCode {
    match code.row().status {
        StatusCode::NOT_FOUND => ErrorCode::INVALID_PARAMS,
        status if status.is_server_error() => ErrorCode::INTERNAL_ERROR,
        _ => ErrorCode::INVALID_REQUEST,
    }
}

/// Returns a JSON-RPC error response. MCP omits an unknown id and never sends null.
pub(super) fn refusal(status: StatusCode, id: Option<RequestId>, error: ErrorData) -> Response {
    (status, axum::Json(JsonRpcError::new(id, error))).into_response()
}

/// Returns the error response to a message with this id, with HTTP headers such as `Retry-After`.
pub(super) fn of_message(id: Option<RequestId>, fault: ApiError) -> Response {
    let error = error_data(&fault);
    let (head, _) = fault.into_response().into_parts();
    let mut response = refusal(head.status, id, error);
    let message = head.headers.into_iter().filter_map(|(name, value)| Some((name?, value)));
    response.headers_mut().extend(message.filter(|(name, _)| *name != header::CONTENT_TYPE && *name != header::CONTENT_LENGTH));
    response
}

/// Adds the fields of our envelope to an error of rmcp. Existing fields stay.
pub(super) async fn completed(response: Response) -> Response {
    let (mut head, body) = response.into_parts();
    // rmcp's body is already in memory.
    let body = axum::body::to_bytes(body, usize::MAX).await.unwrap_or_default();
    let mut message: Value = serde_json::from_slice(&body).unwrap_or_default();
    let Some(text) = message["error"]["message"].as_str() else { return Response::from_parts(head, Body::from(body)) };
    let mut envelope = ApiError::new(code_by(head.status), text).error();
    if let (Value::Object(members), Value::Object(data)) = (&mut envelope, message["error"]["data"].take()) {
        members.extend(data);
    }
    message["error"]["data"] = envelope;
    head.headers.remove(header::CONTENT_LENGTH);
    Response::from_parts(head, Body::from(message.to_string()))
}

/// Returns the API code of an rmcp error, of which only the status is known.
pub(super) fn code_by(status: StatusCode) -> Code {
    match status {
        StatusCode::NOT_FOUND => Code::NotFound,
        StatusCode::PAYLOAD_TOO_LARGE => Code::BodyTooLarge,
        StatusCode::UNSUPPORTED_MEDIA_TYPE => Code::UnsupportedMediaType,
        status if status.is_server_error() => Code::Internal,
        _ => Code::InvalidRequest,
    }
}

/// Returns the id of a message, if it has one that MCP allows.
pub(super) fn id_of(message: &Value) -> Option<RequestId> {
    serde_json::from_value(message.get("id")?.clone()).ok()
}

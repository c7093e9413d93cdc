//! From the end of a call to what MCP says of it.

use axum::http::StatusCode;
use base64::{Engine as _, engine::general_purpose::STANDARD};
use rmcp::model::{
    AudioContent, CallToolResult, ContentBlock, EmbeddedResource, ErrorCode, ErrorData, ImageContent, JsonObject, MetaObject,
    ResourceContents,
};
use serde::Deserialize;
use serde_json::{Value, json};

use crate::{
    call::Done,
    http::ApiError,
    payment::{Challenge, StoredAnswer, WireVersion},
};

/// The settle response of x402, in a result's `_meta`.
const SETTLED: &str = "x402/payment-response";
/// The challenge, where Cloudflare's `agents` reads it.
const CHALLENGE: &str = "x402/error";
/// The same challenge on the v1 wire.
const CHALLENGE_V1: &str = "x402/v1";
/// The receipt's id and place.
const RECEIPT: &str = "tollhouse/receipt";
/// The error envelope of the HTTP front.
const ERROR: &str = "tollhouse/error";
/// The status that the tool itself answered with, where that is no success.
const STATUS: &str = "tollhouse/status";

/// What a call answered.
pub(super) fn done(done: &Done, base_url: &str) -> CallToolResult {
    let mut result = content(&done.answer);
    result.is_error = Some(!done.success);
    let mut meta = JsonObject::new();
    let answer = &done.answer;
    if !done.success {
        // A tool's own error is none of its results.
        result.structured_content = None;
        meta.insert(STATUS.to_owned(), json!(answer.status));
    }
    if !answer.receipt_id.is_empty() {
        let url = format!("{base_url}/ai/receipts/{}", answer.receipt_id);
        let mut receipt = json!({ "receiptId": answer.receipt_id, "url": url });
        if let Some(payment) = &done.payment {
            receipt["paymentId"] = json!(payment);
        }
        meta.insert(RECEIPT.to_owned(), receipt);
    }
    if let Some(settled) = answer.settlement.as_ref().and_then(|notice| serde_json::from_str(&notice.body).ok()) {
        meta.insert(SETTLED.to_owned(), settled);
    }
    result.meta = (!meta.is_empty()).then_some(MetaObject(meta));
    result
}

/// What a handler calls an answer that is made of MCP's own blocks: `{content, structuredContent?}`.
const BLOCKS: &str = "application/vnd.mcp.tool-result+json";

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Blocks {
    content: Vec<ContentBlock>,
    structured_content: Option<JsonObject>,
}

/// The blocks of an answer: JSON as text, an object also as structured content; anything else by its media type.
fn content(answer: &StoredAnswer) -> CallToolResult {
    let media = answer.headers.iter().find(|(name, _)| name.eq_ignore_ascii_case("content-type"));
    let media = media.map_or("application/json", |(_, value)| value.split(';').next().unwrap_or_default().trim());
    let text = || String::from_utf8_lossy(&answer.body).into_owned();
    if media == BLOCKS
        && let Ok(blocks) = serde_json::from_slice::<Blocks>(&answer.body)
    {
        let mut result = CallToolResult::success(blocks.content);
        result.structured_content = blocks.structured_content.map(Value::Object);
        return result;
    }
    let block = match media.split_once('/') {
        _ if media == "application/json" || media.ends_with("+json") => {
            let mut result = CallToolResult::success(vec![ContentBlock::text(text())]);
            result.structured_content = serde_json::from_slice(&answer.body).ok().filter(Value::is_object);
            return result;
        }
        Some(("image", _)) => ContentBlock::Image(ImageContent::new(STANDARD.encode(&answer.body), media)),
        Some(("audio", _)) => ContentBlock::Audio(AudioContent::new(STANDARD.encode(&answer.body), media)),
        Some(("text", _)) => ContentBlock::text(text()),
        _ => {
            let blob = ResourceContents::blob(STANDARD.encode(&answer.body), "tollhouse://answer").with_mime_type(media);
            ContentBlock::Resource(EmbeddedResource::new(blob))
        }
    };
    CallToolResult::success(vec![block])
}

/// A call that ended without a result. What a model can mend, it reads as a tool's error; what is wrong with the
/// request or the host is an error of JSON-RPC.
///
/// # Errors
///
/// An unknown tool, and a fault of the host's own.
pub(super) fn failed(error: ApiError, paid_in: Option<WireVersion>) -> Result<CallToolResult, ErrorData> {
    match error.into_challenge() {
        Ok(challenge) => Ok(challenged(&challenge, paid_in)),
        Err(error) => {
            let envelope = error.body()["error"].take();
            match error.status() {
                StatusCode::NOT_FOUND => Err(ErrorData::invalid_params(error.message().to_owned(), Some(envelope))),
                StatusCode::INTERNAL_SERVER_ERROR => {
                    Err(ErrorData::new(ErrorCode::INTERNAL_ERROR, error.message().to_owned(), Some(envelope)))
                }
                _ => Ok(refused(&envelope)),
            }
        }
    }
}

/// The envelope as a tool's error: told in words, and whole in `_meta`.
fn refused(envelope: &Value) -> CallToolResult {
    let word = |name: &str| envelope[name].as_str().unwrap_or_default();
    let mut text = format!("{}: {}", word("code"), word("message"));
    for problem in envelope["problems"].as_array().into_iter().flatten() {
        let pointer = problem["pointer"].as_str().filter(|pointer| !pointer.is_empty()).unwrap_or("/");
        text += &format!("\n{pointer}: {}", problem["message"].as_str().unwrap_or_default());
    }
    if !word("hint").is_empty() {
        text += &format!("\n{}", word("hint"));
    }
    text += if envelope["charged"] == false { "\nNot charged." } else { "\nIt is not known yet whether this was charged." };
    let mut result = CallToolResult::error(vec![ContentBlock::text(text)]);
    result.meta = Some(meta([(ERROR, envelope.clone())]));
    result
}

/// An x402 challenge, in every place where a client looks for it. On the wire that the refused payment spoke.
pub(super) fn challenged(challenge: &Challenge, paid_in: Option<WireVersion>) -> CallToolResult {
    let told = if paid_in == Some(WireVersion::V1) { &challenge.v1 } else { &challenge.v2 };
    let mut result = CallToolResult::error(vec![ContentBlock::text(told.to_string())]);
    result.structured_content = Some(told.clone());
    result.meta = Some(meta([(CHALLENGE, latin(told)), (CHALLENGE_V1, challenge.v1.clone())]));
    result
}

/// Whether a result with this `_meta` is a challenge: what tools answer has none of its own.
pub(super) fn is_challenge(meta: &MetaObject) -> bool {
    meta.contains_key(CHALLENGE)
}

/// A challenge without the words that may not be Latin: Cloudflare's `agents` sends it back through `btoa`, which takes
/// no others.
fn latin(challenge: &Value) -> Value {
    let mut latin = json!({ "x402Version": challenge["x402Version"], "error": challenge["error"], "accepts": challenge["accepts"] });
    if let Some(resource) = challenge.get("resource") {
        latin["resource"] = json!({ "url": resource["url"], "mimeType": resource["mimeType"] });
    }
    latin
}

fn meta<const N: usize>(entries: [(&str, Value); N]) -> MetaObject {
    MetaObject(entries.into_iter().map(|(name, value)| (name.to_owned(), value)).collect())
}

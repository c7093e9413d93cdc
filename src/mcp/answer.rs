//! From the end of a call to what MCP says of it.

use axum::http::StatusCode;
use base64::{Engine as _, engine::general_purpose::STANDARD};
use rmcp::model::{
    AudioContent, CallToolResult, ContentBlock, EmbeddedResource, ErrorData, ImageContent, JsonObject, MetaObject, ResourceContents,
};
use serde_json::{Value, json, value::RawValue};
use tollhouse_protocol::{STRUCTURED, are_blocks};

use super::{call::Era, offer::Dialect, refusal::told};
use crate::{
    call::{Content, Done, chosen_headers},
    front::Fault,
    money::{Challenge, SettlementNotice, StoredAnswer, WireVersion},
};

/// The settle response of x402, in a result's `_meta`.
const SETTLED: &str = "x402/payment-response";
/// The same, where Vercel's `x402-mcp` reads it.
const DOTTED_SETTLED: &str = "x402.payment-response";
/// The challenge, where Cloudflare's `agents` reads it.
const CHALLENGE: &str = "x402/error";
/// The same challenge on the v1 wire.
const CHALLENGE_V1: &str = "x402/v1";
/// The receipt's id and place.
const RECEIPT: &str = "tollhouse/receipt";
/// The error envelope of the HTTP front.
const ERROR: &str = "tollhouse/error";
/// The status that the tool itself answered with, where that is not 200.
const STATUS: &str = "tollhouse/status";
/// The headers that the tool itself chose, its content type among them where that is not plain JSON.
const HEADERS: &str = "tollhouse/headers";

/// What a call answered.
pub(super) fn done(done: &Done, base_url: &str, dialect: Dialect) -> CallToolResult {
    let mut result = content(&done.answer, dialect.era);
    result.is_error = Some(!done.success);
    let mut meta = JsonObject::new();
    let answer = &done.answer;
    if !done.success {
        // A tool's own error is none of its results.
        result.structured_content = None;
    }
    if answer.status != 200 {
        meta.insert(STATUS.to_owned(), json!(answer.status));
    }
    let headers = chosen_headers(answer);
    if !headers.is_empty() {
        meta.insert(HEADERS.to_owned(), json!(headers));
    }
    if !answer.receipt_id.is_empty() {
        let url = format!("{base_url}/ai/receipts/{}", answer.receipt_id);
        let mut receipt = json!({ "receiptId": answer.receipt_id, "url": url });
        if let Some(payment) = &done.payment {
            receipt["paymentId"] = json!(payment);
        }
        meta.insert(RECEIPT.to_owned(), receipt);
    }
    if let Some(notice) = &answer.settlement {
        settled(&mut meta, notice, dialect);
    }
    result.meta = (!meta.is_empty()).then_some(MetaObject(meta));
    result
}

/// Puts a settle response where the payer looks for it.
fn settled(meta: &mut JsonObject, notice: &SettlementNotice, dialect: Dialect) {
    let Ok(told) = serde_json::from_str::<Value>(&notice.body) else { return };
    if dialect.dotted {
        meta.insert(DOTTED_SETTLED.to_owned(), told.clone());
    }
    meta.insert(SETTLED.to_owned(), told);
}

/// The blocks of an answer: JSON as text and as structured content, which before 2026-07-28 is an object or not there;
/// anything else by its media type.
fn content(answer: &StoredAnswer, era: Era) -> CallToolResult {
    let block = match Content::of(answer) {
        Content::Json { json, .. } if are_blocks(&answer.headers) => return blocks(json, era),
        Content::Json { json, .. } => return json_content(json, era),
        Content::Text { text, .. } => ContentBlock::text(text),
        Content::Bytes { media_type, bytes } => binary(&media_type, bytes),
        Content::Nothing => return CallToolResult::success(vec![]),
    };
    CallToolResult::success(vec![block])
}

/// An answer that is made of MCP's own blocks: `{content, structuredContent?}`. A block that is not whole is text.
fn blocks(json: &RawValue, era: Era) -> CallToolResult {
    let mut envelope: Value = serde_json::from_str(json.get()).unwrap_or_default();
    let block = |block: &Value| serde_json::from_value(block.clone()).unwrap_or_else(|_| ContentBlock::text(block.to_string()));
    let mut result = CallToolResult::success(envelope["content"].as_array().into_iter().flatten().map(block).collect());
    let structured = envelope.get_mut(STRUCTURED).map(Value::take);
    result.structured_content = structured.filter(|value| era == Era::Modern || value.is_object());
    result
}

fn json_content(json: &RawValue, era: Era) -> CallToolResult {
    let mut result = CallToolResult::success(vec![ContentBlock::text(json.get())]);
    result.structured_content = serde_json::from_str(json.get()).ok().filter(|value: &Value| era == Era::Modern || value.is_object());
    result
}

fn binary(media_type: &str, bytes: &[u8]) -> ContentBlock {
    let data = STANDARD.encode(bytes);
    match media_type.split_once('/') {
        Some(("image", _)) => ContentBlock::Image(ImageContent::new(data, media_type)),
        Some(("audio", _)) => ContentBlock::Audio(AudioContent::new(data, media_type)),
        _ => ContentBlock::Resource(EmbeddedResource::new(ResourceContents::blob(data, "tollhouse://answer").with_mime_type(media_type))),
    }
}

/// What was refused, or ended without a result. What a model can mend, it reads as a tool's error; what is wrong with the
/// request or the host is an error of JSON-RPC. A payment that was made for another request is asked for anew, as any other
/// that does not admit the call: clients here pay when they read a challenge, and at no other error.
///
/// # Errors
///
/// An unknown tool, and a fault of the host's own.
pub(super) fn failed(fault: &Fault, dialect: Dialect) -> Result<CallToolResult, ErrorData> {
    if let Some(challenge) = fault.challenge() {
        return Ok(challenged(challenge, dialect));
    }
    match fault.code().row().status {
        StatusCode::NOT_FOUND | StatusCode::INTERNAL_SERVER_ERROR => Err(told(fault)),
        _ => Ok(refused(fault)),
    }
}

/// A fault as a tool's error: told in words, and whole in `_meta`.
pub(super) fn refused(fault: &Fault) -> CallToolResult {
    let envelope = fault.error();
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
    result.meta = Some(meta([(ERROR, envelope)]));
    result
}

/// An x402 challenge, in every place where a client looks for it. On the wire that the refused payment spoke.
fn challenged(challenge: &Challenge, dialect: Dialect) -> CallToolResult {
    let told = if dialect.wire == Some(WireVersion::V1) { &challenge.v1 } else { &challenge.v2 };
    // Clients read the first block as JSON; the second is for people.
    let blocks = [told.to_string(), challenge.sentence.clone()].map(ContentBlock::text);
    let mut result = CallToolResult::error(blocks.to_vec());
    result.structured_content = Some(told.clone());
    let mut meta = meta([(CHALLENGE, latin(told)), (CHALLENGE_V1, challenge.v1.clone())]);
    if let Some(notice) = &challenge.failed {
        settled(&mut meta.0, notice, dialect);
    }
    result.meta = Some(meta);
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

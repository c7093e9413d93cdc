//! Converts the outcome of a call to MCP results and errors.
//!
//! JSON of the handler stays text throughout, so that numbers keep their digits and duplicate fields are preserved.

use std::{borrow::Cow, collections::BTreeMap};

use axum::http::StatusCode;
use base64::{Engine as _, engine::general_purpose::STANDARD};
use rmcp::model::{
    AudioContent, CallToolResponse, CallToolResult, ClientCapabilities, ContentBlock, EmbeddedResource, ErrorData, ImageContent,
    JsonObject, MetaObject, ResourceContents, ServerResult,
};
use serde::Serialize;
use serde_json::{Value, json, value::RawValue};
use tollhouse_call::{CompletedCall, Content, chosen_headers};
use tollhouse_front::ApiError;
use tollhouse_money::{SettlementNotice, StoredAnswer, WireVersion, X402Challenge};
use tollhouse_protocol::{STRUCTURED, are_blocks};

use super::{dialect::Dialect, refusal::error_data, revision::Era, unpayable};

/// The key of x402's settlement response in `_meta` of a result.
const SETTLED: &str = "x402/payment-response";
/// The key under which Vercel's `x402-mcp` reads the settlement response.
const DOTTED_SETTLED: &str = "x402.payment-response";
/// The key under which Cloudflare's `agents` reads the challenge.
const CHALLENGE: &str = "x402/error";
/// The key of the same challenge in x402 v1.
const CHALLENGE_V1: &str = "x402/v1";
/// The key of the receipt's id and URL.
const RECEIPT: &str = "tollhouse/receipt";
/// The key of the HTTP API's error envelope.
const ERROR: &str = "tollhouse/error";
/// The key of the tool's status, if it is not 200.
const STATUS: &str = "tollhouse/status";
/// The key of the tool's headers, including the content type if it is not plain JSON.
const HEADERS: &str = "tollhouse/headers";

/// The name of x402's extension for MCP, by which clients and this server declare it. For clients that declare it, a
/// challenge is a separate kind of result.
pub(super) const EXTENSION: &str = "org.x402/payment";

/// Returns whether a client declares x402's extension.
pub(super) fn declares_extension(client: &ClientCapabilities) -> bool {
    client.extensions.as_ref().is_some_and(|extensions| extensions.contains_key(EXTENSION))
}

/// The response to a call.
#[derive(Debug)]
pub(super) struct ToolAnswer {
    pub(super) response: CallToolResponse,
    /// The structured content of a handler. `response` then contains none.
    pub(super) structured: Option<Box<RawValue>>,
}

/// The response as it is sent.
#[derive(Debug, Serialize)]
#[serde(untagged)]
#[expect(clippy::large_enum_variant, reason = "each call has one, and writes it at once")]
pub(super) enum AnswerBody {
    Result {
        #[serde(flatten)]
        result: ServerResult,
        #[serde(rename = "structuredContent", skip_serializing_if = "Option::is_none")]
        structured: Option<Box<RawValue>>,
    },
    /// A challenge in the form of x402's extension.
    Challenge(Value),
}

impl From<CallToolResult> for ToolAnswer {
    fn from(result: CallToolResult) -> Self {
        Self { response: result.into(), structured: None }
    }
}

impl ToolAnswer {
    /// Converts the response for a client of `era` that knows x402's extension or not.
    pub(super) fn written(self, era: Era, extension: bool) -> AnswerBody {
        if let Some(challenge) = extension.then(|| extension_challenge(&self.response)).flatten() {
            return AnswerBody::Challenge(challenge);
        }
        let mut result = ServerResult::from(self.response);
        if era == Era::Legacy {
            result.strip_result_type_for_legacy_peer();
        }
        AnswerBody::Result { result, structured: self.structured }
    }

    /// Returns the approximate size to write and to drop, in bytes.
    pub(super) fn bytes(&self) -> usize {
        self.structured.as_ref().map_or(0, |structured| structured.get().len())
    }
}

/// Converts the answer of a completed call.
pub(super) fn done(done: &CompletedCall, base_url: &str, dialect: Dialect) -> ToolAnswer {
    let (mut result, structured) = content(&done.answer, dialect.era);
    // An error of a tool has no structured content, which has the schema of results.
    let structured = structured.filter(|_| done.success);
    // Clients do not pay for a result in which this is `false`.
    result.is_error = Some(!done.success);
    let mut meta = JsonObject::new();
    if !done.success && unpayable::disarm_blocks(&mut result.content) {
        meta.insert(unpayable::QUOTED.to_owned(), json!(true));
    }
    let answer = &done.answer;
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
    ToolAnswer { structured, ..result.into() }
}

/// Adds a settlement response where the payer expects it.
fn settled(meta: &mut JsonObject, notice: &SettlementNotice, dialect: Dialect) {
    let Ok(reported) = serde_json::from_str::<Value>(&notice.body) else { return };
    if dialect.dotted {
        meta.insert(DOTTED_SETTLED.to_owned(), reported.clone());
    }
    meta.insert(SETTLED.to_owned(), reported);
}

/// Converts an answer to content blocks. JSON becomes text and structured content, which before 2026-07-28 must be an
/// object. Other content is converted by its media type.
fn content(answer: &StoredAnswer, era: Era) -> (CallToolResult, Option<Box<RawValue>>) {
    let (blocks, json) = match Content::of(answer) {
        Content::Json { json, .. } if are_blocks(&answer.headers) => blocks(json),
        Content::Json { json, .. } => (vec![ContentBlock::text(json.get())], Some(json)),
        Content::Text { text, .. } => (vec![ContentBlock::text(text)], None),
        Content::Bytes { media_type, bytes } => (vec![binary(&media_type, bytes)], None),
        Content::Nothing => (vec![], None),
    };
    let structured = json.filter(|json| era == Era::Modern || json.get().starts_with('{')).map(on_one_line);
    (CallToolResult::success(blocks), structured)
}

/// Converts an answer made of MCP content blocks: `{content, structuredContent?}`. An invalid block becomes text.
fn blocks(json: &RawValue) -> (Vec<ContentBlock>, Option<&RawValue>) {
    let envelope: BTreeMap<Cow<'_, str>, &RawValue> = serde_json::from_str(json.get()).unwrap_or_default();
    let given: Vec<&RawValue> = envelope.get("content").and_then(|content| serde_json::from_str(content.get()).ok()).unwrap_or_default();
    let block = |block: &RawValue| serde_json::from_str(block.get()).unwrap_or_else(|_| ContentBlock::text(block.get()));
    (given.into_iter().map(block).collect(), envelope.get(STRUCTURED).copied())
}

/// Replaces line breaks with spaces, because event data has none. In this JSON they occur only between tokens.
fn on_one_line(json: &RawValue) -> Box<RawValue> {
    if !json.get().contains(['\r', '\n']) {
        return json.to_owned();
    }
    RawValue::from_string(json.get().replace(['\r', '\n'], " ")).expect("space for space")
}

fn binary(media_type: &str, bytes: &[u8]) -> ContentBlock {
    let data = STANDARD.encode(bytes);
    match media_type.split_once('/') {
        Some(("image", _)) => ContentBlock::Image(ImageContent::new(data, media_type)),
        Some(("audio", _)) => ContentBlock::Audio(AudioContent::new(data, media_type)),
        _ => ContentBlock::Resource(EmbeddedResource::new(ResourceContents::blob(data, "tollhouse://answer").with_mime_type(media_type))),
    }
}

/// Converts an error. An error that a model can correct becomes a tool error; a fault of the request or the host
/// becomes a JSON-RPC error. A payment for another request gets a challenge, like any payment that does not admit the
/// call, because clients pay only after a challenge.
///
/// # Errors
///
/// An unknown tool, or a fault of the host.
pub(super) fn failed(fault: &ApiError, dialect: Dialect) -> Result<CallToolResult, ErrorData> {
    if let Some(challenge) = fault.challenge() {
        return Ok(challenged(challenge, dialect));
    }
    match fault.code().row().status {
        StatusCode::NOT_FOUND | StatusCode::INTERNAL_SERVER_ERROR => Err(error_data(fault)),
        _ => {
            let mut result = refused(fault);
            if let (Some(unanswered), Some(meta)) = (fault.unanswered(), &mut result.meta) {
                meta.0.insert(RECEIPT.to_owned(), json!({ "receiptId": unanswered.receipt, "paymentId": unanswered.payment }));
                unanswered.notice.iter().for_each(|notice| settled(&mut meta.0, notice, dialect));
            }
            Ok(result)
        }
    }
}

/// Converts an API error to a tool error: in words, and completely in `_meta`. Text that may come from a tool is
/// quoted, so that no client takes it for a challenge.
pub(super) fn refused(fault: &ApiError) -> CallToolResult {
    let envelope = fault.error();
    let word = |name: &str| envelope[name].as_str().unwrap_or_default();
    let mut text = format!("{}: {}", word("code"), unpayable::words(word("message")));
    for problem in envelope["problems"].as_array().into_iter().flatten() {
        let pointer = problem["pointer"].as_str().filter(|pointer| !pointer.is_empty()).unwrap_or("/");
        let message = problem["message"].as_str().unwrap_or_default();
        text += &format!("\n{}: {}", unpayable::words(pointer), unpayable::words(message));
    }
    if !word("hint").is_empty() {
        text += &format!("\n{}", unpayable::words(word("hint")));
    }
    if let Some(seconds) = fault.retry_after_secs() {
        text += &format!("\nRetry in {seconds} s.");
    }
    text += match &envelope["charged"] {
        Value::Bool(false) => "\nNot charged.",
        Value::Bool(true) if fault.unanswered().is_some_and(|reported| reported.runs_left > 0) => {
            "\nCharged. Repeating it with the same payment charges nothing more."
        }
        Value::Bool(true) => "\nCharged before, and not again.",
        _ => "\nIt is not known yet whether this was charged.",
    };
    let mut result = CallToolResult::error(vec![ContentBlock::text(text)]);
    result.meta = Some(meta([(ERROR, envelope)]));
    result
}

/// Adds an x402 challenge in every place where clients look for it, in the version of the rejected payment.
fn challenged(challenge: &X402Challenge, dialect: Dialect) -> CallToolResult {
    let reported = if dialect.wire == Some(WireVersion::V1) { &challenge.v1 } else { &challenge.v2 };
    // Clients parse the first block as JSON. The second is for people.
    let blocks = [reported.to_string(), challenge.sentence.clone()].map(ContentBlock::text);
    let mut result = CallToolResult::error(blocks.to_vec());
    result.structured_content = Some(reported.clone());
    let mut meta = meta([(CHALLENGE, latin(reported)), (CHALLENGE_V1, challenge.v1.clone())]);
    if let Some(notice) = &challenge.failed {
        settled(&mut meta.0, notice, dialect);
    }
    result.meta = Some(meta);
    result
}

/// Converts a challenge in a result to the form of x402's extension. Returns `None` if the result is not a challenge.
fn extension_challenge(response: &CallToolResponse) -> Option<Value> {
    let CallToolResponse::Complete(result) = response else { return None };
    is_challenge(result.meta.as_ref()?)
        .then(|| json!({ "resultType": "payment_required", "paymentRequired": result.structured_content, "_meta": result.meta }))
}

/// Returns whether a result with this `_meta` is a challenge. A tool cannot set this key.
fn is_challenge(meta: &MetaObject) -> bool {
    meta.contains_key(CHALLENGE)
}

/// Removes text that may not be Latin-1, because Cloudflare's `agents` sends the challenge back through `btoa`.
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

//! From the end of a call to what MCP says of it.
//!
//! What the handler wrote as JSON stays text on the way: no number of it loses a digit, and no member its twin.

use std::{borrow::Cow, collections::BTreeMap};

use axum::http::StatusCode;
use base64::{Engine as _, engine::general_purpose::STANDARD};
use rmcp::model::{
    AudioContent, CallToolResponse, CallToolResult, ContentBlock, EmbeddedResource, ErrorData, ImageContent, JsonObject, MetaObject,
    ResourceContents, ServerResult,
};
use serde::Serialize;
use serde_json::{Value, json, value::RawValue};
use tollhouse_call::{Content, Done, chosen_headers};
use tollhouse_front::Fault;
use tollhouse_money::{Challenge, SettlementNotice, StoredAnswer, WireVersion};
use tollhouse_protocol::{STRUCTURED, are_blocks};

use super::{offer::Dialect, refusal::told, revision::Era, unpayable};

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

/// What answers a call.
#[derive(Debug)]
pub(super) struct ToolAnswer {
    pub(super) response: CallToolResponse,
    /// The structured content that a handler wrote; the response itself has none then.
    pub(super) structured: Option<Box<RawValue>>,
}

/// The same as it is sent.
#[derive(Debug, Serialize)]
#[serde(untagged)]
#[expect(clippy::large_enum_variant, reason = "each call has one, and writes it at once")]
pub(super) enum Written {
    Result {
        #[serde(flatten)]
        result: ServerResult,
        #[serde(rename = "structuredContent", skip_serializing_if = "Option::is_none")]
        structured: Option<Box<RawValue>>,
    },
    /// Of x402's extension.
    Challenge(Value),
}

impl From<CallToolResult> for ToolAnswer {
    fn from(result: CallToolResult) -> Self {
        Self { response: result.into(), structured: None }
    }
}

impl ToolAnswer {
    /// As a client of `era` reads it, who knows x402's extension or not.
    pub(super) fn written(self, era: Era, extension: bool) -> Written {
        if let Some(challenge) = extension.then(|| extension_challenge(&self.response)).flatten() {
            return Written::Challenge(challenge);
        }
        let mut result = ServerResult::from(self.response);
        if era == Era::Legacy {
            result.strip_result_type_for_legacy_peer();
        }
        Written::Result { result, structured: self.structured }
    }

    /// How much there is to write and to let go of, about.
    pub(super) fn bytes(&self) -> usize {
        self.structured.as_ref().map_or(0, |structured| structured.get().len())
    }
}

/// What a call answered.
pub(super) fn done(done: &Done, base_url: &str, dialect: Dialect) -> ToolAnswer {
    let (mut result, structured) = content(&done.answer, dialect.era);
    // A tool's own error is none of its results.
    let structured = structured.filter(|_| done.success);
    // Clients pay for no result that says `false`.
    result.is_error = Some(!done.success);
    let mut meta = JsonObject::new();
    if !done.success && unpayable::quote_blocks(&mut result.content) {
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

/// An answer that is made of MCP's own blocks: `{content, structuredContent?}`. A block that is not whole is text.
fn blocks(json: &RawValue) -> (Vec<ContentBlock>, Option<&RawValue>) {
    let envelope: BTreeMap<Cow<'_, str>, &RawValue> = serde_json::from_str(json.get()).unwrap_or_default();
    let given: Vec<&RawValue> = envelope.get("content").and_then(|content| serde_json::from_str(content.get()).ok()).unwrap_or_default();
    let block = |block: &RawValue| serde_json::from_str(block.get()).unwrap_or_else(|_| ContentBlock::text(block.get()));
    (given.into_iter().map(block).collect(), envelope.get(STRUCTURED).copied())
}

/// An event's data has no line breaks. In JSON they are space alone.
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

/// A fault as a tool's error: told in words, and whole in `_meta`. What a tool may have said is told so that nobody pays for it.
pub(super) fn refused(fault: &Fault) -> CallToolResult {
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
    text += match &envelope["charged"] {
        Value::Bool(false) => "\nNot charged.",
        Value::Bool(true) if fault.unanswered().is_some_and(|told| told.runs_left > 0) => {
            "\nCharged. Repeating it with the same payment charges nothing more."
        }
        Value::Bool(true) => "\nCharged before, and not again.",
        _ => "\nIt is not known yet whether this was charged.",
    };
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

/// The challenge in a result, as x402's extension has it; `None` when it is none.
fn extension_challenge(response: &CallToolResponse) -> Option<Value> {
    let CallToolResponse::Complete(result) = response else { return None };
    is_challenge(result.meta.as_ref()?)
        .then(|| json!({ "resultType": "payment_required", "paymentRequired": result.structured_content, "_meta": result.meta }))
}

/// Whether a result with this `_meta` is a challenge: what tools answer has none of its own.
fn is_challenge(meta: &MetaObject) -> bool {
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

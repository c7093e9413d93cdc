//! The MCP front end: protocol versions, lists, payments in every dialect, errors. Common clients
//! are tested in `cargo xtask conformance`.

mod calls;
mod lists;
mod payments;
mod protocol;
mod tasks;

use serde_json::{Value, json};

use crate::harness::{Answer, Payment, js};

const FUNDS: u64 = 1_000_000;
const MICROS: u64 = 10_000;
const PRICE: f64 = 0.01;

/// Counts its runs, and can be slow.
const COUNTER: &str = "export default async (req, ctx) => {
    const runs = ((await ctx.kv.get('runs')) ?? 0) + 1;
    await ctx.kv.set('runs', runs);
    if (req.input.ms) await new Promise((done) => setTimeout(done, req.input.ms));
    return { runs };
};";

/// Ends as its input says.
const MOODY: &str = "export default async (req, ctx) => {
    ctx.log.info('for the owner');
    for (const fraction of req.input.fractions ?? []) ctx.progress('so far', fraction);
    ctx.progress('begun');
    switch (req.input.mood) {
        case 'throws': throw new TypeError('no more');
        case 'wrong': return { answered: 'yes' };
        case 'polite': return Response.json({ error: { code: 'no_such_thing' } }, { status: 422 });
        case 'list': return [1, 2];
        case 'text': return new Response('words', { headers: { 'content-type': 'text/plain' } });
        case 'picture': return new Response(new Uint8Array([1, 2, 3]), { headers: { 'content-type': 'image/png' } });
        case 'headers': return { headers: req.headers, path: req.path, method: req.method };
    }
    await new Promise((done) => setTimeout(done, req.input.ms ?? 0));
    return { answered: 1 };
};";

fn paid_in_meta(payment: &Payment) -> Value {
    json!({ "x402/payment": payment.payload })
}

/// Returns the challenge in a result. Checks that it is in every place where clients look for it.
#[track_caller]
fn challenge(result: &Value) -> Value {
    assert_eq!(result["isError"], true, "{result}");
    let reported = &result["structuredContent"];
    assert!(reported["accepts"].is_array(), "{result}");
    assert_eq!(&serde_json::from_str::<Value>(result["content"][0]["text"].as_str().unwrap()).unwrap(), reported);
    let sentence = result["content"][1]["text"].as_str().unwrap();
    assert!(sentence.contains("USD for each successful call"), "{result}");
    assert_eq!(sentence.starts_with("Not charged"), reported["error"] != "payment required", "{result}");
    let dialect = &result["_meta"]["x402/error"];
    assert_eq!((&dialect["accepts"], &dialect["resource"]["url"]), (&reported["accepts"], &reported["resource"]["url"]));
    assert!(reported["x402Version"] == 1 || dialect.to_string().is_ascii(), "Cloudflare's client sends it through `btoa`: {dialect}");
    reported.clone()
}

/// Returns the error envelope of a tool error.
#[track_caller]
fn refusal(result: &Value, code: &str) -> Value {
    assert_eq!(result["isError"], true, "{result}");
    assert_eq!(result.get("structuredContent"), None, "clients hold it against the outputSchema: {result}");
    let error = &result["_meta"]["tollhouse/error"];
    assert_eq!(error["code"], code, "{result}");
    assert!(result["content"][0]["text"].as_str().unwrap().starts_with(code), "{result}");
    error.clone()
}

/// Returns result, receipt and settlement of a call, for comparison between front ends.
fn bought(answer: &Answer) -> (Value, Value, Value) {
    (answer.json(), json!(answer.receipt_id()), answer.decoded("payment-response"))
}

fn bought_over_mcp(result: &Value) -> (Value, Value, Value) {
    let meta = &result["_meta"];
    (result["structuredContent"].clone(), meta["tollhouse/receipt"]["receiptId"].clone(), meta["x402/payment-response"].clone())
}

/// Returns the capabilities of a client that supports tasks.
fn takes_tasks() -> Value {
    json!({ "extensions": { "io.modelcontextprotocol/tasks": {} } })
}

/// Returns a long-running tool, whose calls become tasks.
fn slow(slug: &str, price: f64) -> Value {
    let mut tool = js(slug, price, COUNTER);
    tool["limits"] = json!({ "wallMs": 20_000 });
    tool
}

//! The same call through each interface: the answer, the receipt and the charge must be the same.
//! Runs `fixtures/ways/cases.jsonc`.

use std::{collections::BTreeMap, fs, path::Path};

use base64::{Engine as _, engine::general_purpose::STANDARD};
use reqwest::{Method, RequestBuilder};
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

use crate::{
    fixtures::jsonc,
    harness::{Answer, Host, Replied, js},
};

const PRICE: f64 = 0.01;
const MICROS: u64 = 10_000;
/// Response headers that the handler may set.
const CHOSEN: [&str; 6] = ["content-type", "content-language", "content-disposition", "location", "retry-after", "link"];

/// The interfaces.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum CallPath {
    Http,
    HttpStream,
    Invoke,
    InvokeStream,
    Mcp,
    McpStream,
    McpEvents,
    McpLegacy,
}

const CALL_PATHS: [CallPath; 8] = [
    CallPath::Http,
    CallPath::HttpStream,
    CallPath::Invoke,
    CallPath::InvokeStream,
    CallPath::Mcp,
    CallPath::McpStream,
    CallPath::McpEvents,
    CallPath::McpLegacy,
];

/// The final result for a caller.
#[derive(Debug, Clone, PartialEq)]
enum CallerResult {
    Answer(NormalizedAnswer),
    Error { code: String, fault: String },
}

/// An answer without the parts that differ between interfaces.
#[derive(Debug, Clone, PartialEq)]
struct NormalizedAnswer {
    status: u16,
    headers: BTreeMap<String, String>,
    body: Body,
    receipt: Option<String>,
}

#[derive(Clone, PartialEq)]
enum Body {
    Json(String),
    Text { media_type: String, text: String },
    Bytes { media_type: String, bytes: Vec<u8> },
    Nothing,
}

impl std::fmt::Debug for Body {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Json(json) => write!(f, "JSON {json}"),
            Self::Text { media_type, text } => {
                write!(f, "{media_type} {:?} ({} bytes)", text.chars().take(40).collect::<String>(), text.len())
            }
            Self::Bytes { media_type, bytes } => write!(f, "{media_type} {:?} ({} bytes)", &bytes[..bytes.len().min(16)], bytes.len()),
            Self::Nothing => f.write_str("nothing"),
        }
    }
}

impl Body {
    fn bytes(&self) -> &[u8] {
        match self {
            Self::Json(text) | Self::Text { text, .. } => text.as_bytes(),
            Self::Bytes { bytes, .. } => bytes,
            Self::Nothing => &[],
        }
    }
}

/// Returns the unparsed text of the field `result`, with all digits.
fn raw_result(document: &str) -> String {
    #[derive(serde::Deserialize)]
    struct Document<'a> {
        #[serde(borrow)]
        result: &'a serde_json::value::RawValue,
    }
    serde_json::from_str::<Document<'_>>(document).unwrap().result.get().to_owned()
}

/// Returns the unparsed text of MCP's structured content.
fn raw_structured(answer: &Answer) -> Option<String> {
    #[derive(serde::Deserialize)]
    struct Document<'a> {
        #[serde(borrow)]
        result: BTreeMap<&'a str, &'a serde_json::value::RawValue>,
    }
    let text = std::str::from_utf8(&answer.body).unwrap();
    let message = text.lines().rev().find_map(|line| line.strip_prefix("data:")).unwrap_or(text);
    serde_json::from_str::<Document<'_>>(message).unwrap().result.get("structuredContent").map(|raw| raw.get().to_owned())
}

/// The data of an event contain no line breaks.
fn on_one_line(json: &str) -> String {
    json.replace(['\r', '\n'], " ")
}

fn is_json_type(content_type: Option<&String>) -> bool {
    content_type.is_none_or(|message| {
        let essence = message.split(';').next().unwrap().trim().to_ascii_lowercase();
        essence == "application/json" || essence.ends_with("+json")
    })
}

/// Returns whether an answer is charged. A case can declare that its body reports a failure.
fn is_success(status: u16, case: &Value) -> bool {
    (200..300).contains(&status) && case["fails"] != true
}

/// Returns the expected result of a case.
fn requested(case: &Value) -> CallerResult {
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    if let Some(error) = case.get("error") {
        return CallerResult::Error { code: text(&error["code"]), fault: text(&error["fault"]) };
    }
    let (is, times) = (&case["is"], case["is"]["times"].as_u64().unwrap_or(1) as usize);
    let media_type = case["mediaType"].as_str().unwrap_or("application/json").to_owned();
    let body = if let Some(json) = is.get("json") {
        Body::Json(text(json))
    } else if let Some(held) = is.get("text") {
        Body::Text { media_type, text: text(held).repeat(times) }
    } else if let Some(held) = is.get("base64") {
        Body::Bytes { media_type, bytes: STANDARD.decode(text(held).repeat(times)).unwrap() }
    } else {
        Body::Nothing
    };
    let headers = serde_json::from_value(case.get("headers").cloned().unwrap_or_else(|| json!({}))).unwrap();
    CallerResult::Answer(NormalizedAnswer { status: case["status"].as_u64().unwrap_or(200) as u16, headers, body, receipt: None })
}

fn request(host: &Host, method: CallPath, slug: &str, input: &Value) -> RequestBuilder {
    match method {
        CallPath::Http => host.request(Method::POST, &format!("/tools/{slug}")).json(input),
        CallPath::HttpStream => request(host, CallPath::Http, slug, input).header("accept", "text/event-stream"),
        CallPath::Invoke => host.request(Method::POST, "/ai/invoke").json(&json!({ "slug": slug, "input": input })),
        CallPath::InvokeStream => host.request(Method::POST, "/ai/invoke").json(&json!({ "slug": slug, "input": input, "stream": true })),
        CallPath::Mcp => host.mcp().request("tools/call", json!({ "name": slug, "arguments": input })),
        CallPath::McpEvents => {
            let mut client = host.mcp();
            client.accept = "text/event-stream";
            client.request("tools/call", json!({ "name": slug, "arguments": input }))
        }
        CallPath::McpStream => {
            host.mcp().request("tools/call", json!({ "name": slug, "arguments": input, "_meta": { "progressToken": "p" } }))
        }
        CallPath::McpLegacy => host.mcp_legacy().request("tools/call", json!({ "name": slug, "arguments": input })),
    }
}

async fn call(host: &Host, method: CallPath, slug: &str, credit: Option<&str>, case: &Value) -> CallerResult {
    let mut request = request(host, method, slug, &case["input"]);
    if let Some(credit) = credit {
        request = request.header("x-developer-credit", credit);
    }
    let answer = host.send(request).await;
    match method {
        CallPath::Http => over_http(&answer, case),
        CallPath::Invoke => {
            let text = std::str::from_utf8(&answer.body).unwrap();
            let got = parse_result(text, case);
            let status = if let CallerResult::Answer(parse_result) = &got { parse_result.status } else { answer.status };
            assert_eq!(answer.status, if matches!(status, 204 | 304) { 200 } else { status }, "{}", case["name"]);
            got
        }
        CallPath::HttpStream | CallPath::InvokeStream => parse_result(&answer.events().last().unwrap().text, case),
        CallPath::Mcp | CallPath::McpStream | CallPath::McpEvents | CallPath::McpLegacy => {
            let replied = Replied::read(&answer);
            assert!(replied.streamed || method != CallPath::McpEvents, "{answer:?}");
            over_mcp(&replied.result(), raw_structured(&answer).as_deref(), case)
        }
    }
}

fn error(document: &Value) -> Option<CallerResult> {
    let error = document.get("error").filter(|_| document["ok"] == false)?;
    assert_eq!(error["charged"], false, "{error}");
    let text = |name: &str| error[name].as_str().unwrap().to_owned();
    Some(CallerResult::Error { code: text("code"), fault: text("fault") })
}

/// Returns the result from `/tools`, whose bytes are the answer. The case says of which type they
/// are; the other interfaces are compared with that.
fn over_http(answer: &Answer, case: &Value) -> CallerResult {
    if let Some(error) = serde_json::from_slice(&answer.body).ok().as_ref().and_then(error) {
        return error;
    }
    let header = |name: &str| answer.header(name).map(|value| (name.to_owned(), value.to_owned()));
    let mut headers: BTreeMap<_, _> = CHOSEN.into_iter().filter_map(header).collect();
    if headers.get("content-type").is_some_and(|message| message == "application/json") {
        headers.remove("content-type");
    }
    let body = match requested(case) {
        CallerResult::Answer(NormalizedAnswer { body: Body::Json(_), .. }) => {
            Body::Json(on_one_line(std::str::from_utf8(&answer.body).unwrap()))
        }
        CallerResult::Answer(NormalizedAnswer { body: Body::Text { media_type, .. }, .. }) => {
            Body::Text { media_type, text: String::from_utf8(answer.body.to_vec()).unwrap() }
        }
        CallerResult::Answer(NormalizedAnswer { body: Body::Bytes { media_type, .. }, .. }) => {
            Body::Bytes { media_type, bytes: answer.body.to_vec() }
        }
        CallerResult::Answer(NormalizedAnswer { body: Body::Nothing, .. }) => {
            assert!(answer.body.is_empty() && answer.header("content-type").is_none(), "{answer:?}");
            Body::Nothing
        }
        CallerResult::Error { .. } => panic!("an error was wanted: {answer:?}"),
    };
    CallerResult::Answer(NormalizedAnswer {
        status: answer.status,
        headers,
        body,
        receipt: answer.header("x-receipt-id").map(str::to_owned),
    })
}

/// Returns the result from the document of `/ai/invoke`, or from the last event of a stream.
fn parse_result(text: &str, case: &Value) -> CallerResult {
    let document: Value = serde_json::from_str(text).unwrap_or_else(|error| panic!("{error}: {text}"));
    if let Some(error) = error(&document) {
        return error;
    }
    let headers: BTreeMap<String, String> = document.get("headers").map_or_else(BTreeMap::new, |headers| {
        assert_ne!(headers, &json!({}));
        serde_json::from_value(headers.clone()).unwrap()
    });
    let result = &document["result"];
    let member = |name: &str| result[name].as_str().map(str::to_owned);
    let status = document.get("status").map_or(200, |status| status.as_u64().unwrap() as u16);
    assert_eq!(document["ok"], is_success(status, case));
    let body = if matches!(status, 204 | 304) {
        assert_eq!(result, &Value::Null);
        Body::Nothing
    } else if is_json_type(headers.get("content-type")) && member("mediaType").as_deref() != Some("application/json") {
        Body::Json(on_one_line(&raw_result(text)))
    } else if let Some(text) = member("text") {
        Body::Text { media_type: member("mediaType").unwrap(), text }
    } else {
        Body::Bytes { media_type: member("mediaType").unwrap(), bytes: STANDARD.decode(member("base64").unwrap()).unwrap() }
    };
    let receipt = document["receipt"]["receiptId"].as_str().map(str::to_owned);
    CallerResult::Answer(NormalizedAnswer { status, headers, body, receipt })
}

fn over_mcp(result: &Value, structured: Option<&str>, case: &Value) -> CallerResult {
    let meta = &result["_meta"];
    if let Some(error) = meta.get("tollhouse/error").and_then(|error| self::error(&json!({ "ok": false, "error": error }))) {
        assert_eq!(result["isError"], true);
        return error;
    }
    let status = meta.get("tollhouse/status").map_or(200, |status| status.as_u64().unwrap() as u16);
    assert_eq!(result["isError"], !is_success(status, case), "{result}");
    let headers: BTreeMap<String, String> =
        meta.get("tollhouse/headers").map_or_else(BTreeMap::new, |headers| serde_json::from_value(headers.clone()).unwrap());
    let receipt = meta["tollhouse/receipt"]["receiptId"].as_str().map(str::to_owned);
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    let blocks = result["content"].as_array().unwrap();
    let body = if let Some(mcp) = case.get("mcp") {
        // The handler provided the content blocks, so they are the answer.
        assert_eq!((&result["content"], structured), (&mcp["content"], mcp["structuredContent"].as_str()));
        Body::Json(text(&case["is"]["json"]))
    } else if blocks.is_empty() {
        Body::Nothing
    } else {
        assert_eq!(blocks.len(), 1, "{result}");
        let block = &blocks[0];
        let essence = || headers["content-type"].split(';').next().unwrap().trim().to_ascii_lowercase();
        let bytes = |data: &Value| STANDARD.decode(data.as_str().unwrap()).unwrap();
        match block["type"].as_str().unwrap() {
            "text" if is_json_type(headers.get("content-type")) => {
                let json = text(&block["text"]);
                match serde_json::from_str::<Value>(&json) {
                    Ok(value) if status == 200 && value.is_object() => assert_eq!(structured, Some(&*on_one_line(&json))),
                    Ok(_) => {}
                    Err(_) => {
                        return CallerResult::Answer(NormalizedAnswer {
                            status,
                            headers,
                            body: Body::Text { media_type: "application/json".to_owned(), text: json },
                            receipt,
                        });
                    }
                }
                Body::Json(on_one_line(&json))
            }
            "text" => Body::Text { media_type: essence(), text: text(&block["text"]) },
            "image" | "audio" => Body::Bytes { media_type: text(&block["mimeType"]), bytes: bytes(&block["data"]) },
            "resource" => Body::Bytes { media_type: text(&block["resource"]["mimeType"]), bytes: bytes(&block["resource"]["blob"]) },
            other => panic!("{other}"),
        }
    };
    CallerResult::Answer(NormalizedAnswer { status, headers, body, receipt })
}

/// Calls `slug` through each interface. Returns the deviations.
async fn wrong(host: &Host, slug: &str, credit: Option<&str>, case: &Value) -> Vec<String> {
    let (name, requested) = (&case["name"], requested(case));
    let mut wrong = vec![];
    let mut hashes = BTreeMap::new();
    for method in CALL_PATHS {
        let before = if let Some(credit) = credit { host.credit_balance(credit).await } else { 0 };
        let mut got = call(host, method, slug, credit, case).await;
        let charged = if let Some(credit) = credit { before - host.credit_balance(credit).await } else { 0 };
        let success = matches!(&got, CallerResult::Answer(parse_result) if is_success(parse_result.status, case));
        if charged != if success && credit.is_some() { MICROS } else { 0 } {
            wrong.push(format!("{slug}: {name}: {method:?}: charged {charged}"));
        }
        if let CallerResult::Answer(parse_result) = &mut got {
            let receipt = parse_result.receipt.take();
            if receipt.is_some() != success {
                wrong.push(format!("{slug}: {name}: {method:?}: its receipt is {receipt:?}"));
            } else if let Some(id) = receipt {
                let hash = host.receipt(&id).await["resultHash"].as_str().unwrap().to_owned();
                if !matches!(parse_result.body, Body::Json(_))
                    && hash != format!("sha256:{}", hex::encode(Sha256::digest(parse_result.body.bytes())))
                {
                    wrong.push(format!("{slug}: {name}: {method:?}: {hash} is not the hash of its bytes"));
                }
                hashes.entry(hash).or_insert_with(Vec::new).push(method);
            }
        }
        if got != requested {
            wrong.push(format!("{slug}: {name}: {method:?}\n    wanted {requested:?}\n    got    {got:?}"));
        }
    }
    if hashes.len() > 1 {
        wrong.push(format!("{slug}: {name}: receipts differ: {hashes:?}"));
    }
    wrong
}

#[tokio::test(flavor = "multi_thread")]
async fn every_way_to_call_gives_the_same_answer_for_the_same_price() {
    // A single credit pays for all failing calls, so the limits on failures are off.
    let host = Host::builder().flag("--payer-failures", 0).flag("--tool-failures", 0).start().await;
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/ways");
    let source = fs::read_to_string(folder.join("handler.js")).unwrap();
    for (slug, price) in [("free", 0.0), ("paid", PRICE)] {
        let mut tool = js(slug, price, &source);
        tool["limits"] = json!({ "outputBytes": 1 << 20 });
        host.publish(&tool).await;
    }
    let credit = host.mint(100.0).await;
    let cases = jsonc(&folder.join("cases.jsonc"));
    let mut all = vec![];
    for case in cases.as_array().unwrap() {
        all.extend(wrong(&host, "free", None, case).await);
        all.extend(wrong(&host, "paid", Some(&credit), case).await);
    }
    assert!(all.is_empty(), "{} wrong:\n{}", all.len(), all.join("\n"));
}

/// Placeholder in a request for [`NUMBER`], which a JSON value in Rust cannot represent.
const PLACE: &str = "the number";
const NUMBER: &str = "0.1000000000000000055511151231257827021181583404541015625";

/// Returns the request with its body rewritten.
fn rewritten(request: RequestBuilder, rewrite: impl FnOnce(&str) -> String) -> RequestBuilder {
    let (client, request) = request.build_split();
    let mut request = request.unwrap();
    let body = rewrite(std::str::from_utf8(request.body().unwrap().as_bytes().unwrap()).unwrap());
    *request.body_mut() = Some(body.into());
    RequestBuilder::from_parts(client, request)
}

#[tokio::test]
async fn a_number_of_an_input_has_all_its_digits_for_the_handler_whichever_way_it_came() {
    let host = Host::start().await;
    host.publish(&js("exact", 0.0, "export default (req) => ({ text: req.inputText });")).await;
    let input = json!({ "n": PLACE });
    let mut batch = host.mcp();
    batch.revision = "2025-03-26";
    let called = || json!({ "name": "exact", "arguments": input });
    let dry = host.request(Method::POST, "/ai/endpoints/exact/run").header("x-admin-token", &host.admin);
    let others = [
        ("a dry run", dry.json(&json!({ "input": input }))),
        ("a batch", rewritten(batch.request("tools/call", called()), |message| format!("[{message}]"))),
    ];
    let options = CALL_PATHS.map(|method| (format!("{method:?}"), request(&host, method, "exact", &input)));
    for (method, request) in options.into_iter().chain(others.map(|(method, request)| (method.to_owned(), request))) {
        let request = rewritten(request, |body| body.replace(&format!("\"{PLACE}\""), NUMBER));
        let answer = host.send(request).await.is(200);
        let body = std::str::from_utf8(&answer.body).unwrap();
        assert!(body.contains(NUMBER), "{method}: {body}");
    }
}

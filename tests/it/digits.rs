//! Static answers keep every digit, from the body that publishes them to each way to read them.

use reqwest::{Method, RequestBuilder};
use serde_json::{Value, json};

use crate::{
    backups::{back_up, folder_with_keys, restore},
    harness::Host,
};

/// Numbers that a double, or a Rust integer, would change.
const RESPONSE: &str = r#"{"a":[12345678901234567890123,0.1000,1e400,-0.0],"b":9007199254740993}"#;
const OTHER: &str = r#"{"a":[12345678901234567890124,0.1000,1e400,-0.0],"b":9007199254740993}"#;
const ROUND: &str = r#"{"a":[0.1],"b":1}"#;

/// Sends a request that must succeed. Returns the text of the answer, which no JSON value can hold.
async fn text(request: RequestBuilder) -> String {
    let answer = request.send().await.unwrap();
    let (status, text) = (answer.status(), answer.text().await.unwrap());
    assert!(status.is_success(), "{status}: {text}");
    text
}

fn managed(host: &Host, method: Method, path: &str, body: String) -> RequestBuilder {
    host.request(method, path).header("x-admin-token", &host.admin).header("content-type", "application/json").body(body)
}

/// Returns the body of a create request. Its white space does not count.
fn tool(response: &str) -> String {
    let spaced = response.replace(',', " ,\n ");
    format!("{{\"slug\":\"exact\",\"title\":\"Exact\",\"handlerType\":\"static_json\",\"handler\":{{ \"response\": {spaced} }}}}")
}

async fn version(host: &Host) -> Value {
    host.manage(Method::GET, "/ai/endpoints/exact", &Value::Null).await.is(200).json()["endpoint"]["version"].clone()
}

/// Asserts that every way to read the answer returns exactly this text.
async fn answers(host: &Host, response: &str) {
    assert_eq!(text(host.request(Method::POST, "/tools/exact").json(&json!({}))).await, response);
    let invoked = text(host.request(Method::POST, "/ai/invoke").json(&json!({ "slug": "exact", "input": {} }))).await;
    assert!(invoked.contains(&format!("\"result\":{response}")), "{invoked}");
    for mcp in [host.mcp(), host.mcp_legacy()] {
        let called = text(mcp.request("tools/call", json!({ "name": "exact", "arguments": {} }))).await;
        assert!(called.contains(&format!("\"structuredContent\":{response}")), "{called}");
    }
    let source = text(managed(host, Method::GET, "/ai/endpoints/exact/source", String::new())).await;
    assert!(source.contains(&format!("\"response\":{response}")), "{source}");
    let ran = text(managed(host, Method::POST, "/ai/endpoints/exact/run", "{}".to_owned())).await;
    assert!(ran.contains(&format!("\"result\":{response}")), "{ran}");
}

#[tokio::test]
async fn static_answer_keeps_its_digits_when_published_changed_and_rolled_back() {
    let host = Host::start().await;
    let checked = text(managed(&host, Method::POST, "/ai/endpoints/check", tool(RESPONSE))).await;
    text(managed(&host, Method::POST, "/ai/endpoints/create", tool(RESPONSE))).await;
    answers(&host, RESPONSE).await;
    let first = version(&host).await;
    assert_eq!(serde_json::from_str::<Value>(&checked).unwrap()["check"]["version"], first);

    let draft = format!("{{\"handler\":{{\"response\":{OTHER}}}}}");
    let ran = text(managed(&host, Method::POST, "/ai/endpoints/exact/run", draft.clone())).await;
    assert!(ran.contains(&format!("\"result\":{OTHER}")), "{ran}");
    text(managed(&host, Method::PATCH, "/ai/endpoints/exact", draft)).await;
    answers(&host, OTHER).await;
    assert_ne!(version(&host).await, first, "one digit makes another version");

    host.change("exact", &json!({ "version": first })).await;
    answers(&host, RESPONSE).await;
    host.change("exact", &serde_json::from_str(&format!("{{\"handler\":{{\"response\":{ROUND}}}}}")).unwrap()).await;
    answers(&host, ROUND).await;

    // Everywhere else, such a number is refused as before.
    let schema = tool(RESPONSE).replace("\"title\"", "\"outputSchema\":{\"maximum\":1e400},\"title\"");
    let refused = managed(&host, Method::POST, "/ai/endpoints/check", schema).send().await.unwrap();
    assert_eq!(refused.status(), 400);
    let unfit = tool(ROUND).replace("\"title\"", "\"outputSchema\":{\"properties\":{\"b\":{\"type\":\"string\"}}},\"title\"");
    host.send(managed(&host, Method::POST, "/ai/endpoints/check", unfit)).await.fails(422, "invalid_endpoint", "caller");
}

#[tokio::test]
async fn static_answer_keeps_its_digits_through_a_restart_and_a_backup() {
    let how = || Host::builder().env("TOLLHOUSE_BASE_URL", "https://tollhouse.example");
    let mut host = how().start().await;
    text(managed(&host, Method::POST, "/ai/endpoints/create", tool(RESPONSE))).await;
    let first = version(&host).await;
    host.restart().await;
    answers(&host, RESPONSE).await;

    let (data, to) = (host.folder().join("data"), tempfile::tempdir().unwrap());
    back_up(&data, to.path()).await.unwrap();
    let folder = folder_with_keys(&data);
    restore(to.path(), &folder.path().join("data"), &[]).await.unwrap();
    let restored = how().start_in(folder).await;
    answers(&restored, RESPONSE).await;
    assert_eq!(version(&restored).await, first);
}

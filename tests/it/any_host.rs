//! The grant of any public host: `*` in `allowedHosts`.

use reqwest::Method;
use serde_json::{Value, json};

use crate::harness::{Answer, Host, js, listen};

const CREATE: &str = "/ai/endpoints/create";

/// A tool that asks the URL in its input, with these allowed hosts.
fn asking(slug: &str, hosts: &[&str]) -> Value {
    let source = "export default async (req) => fetch(req.input.url).then(
        (response) => ({ status: response.status }), ({ cause }) => ({ code: cause.code, message: cause.message }));";
    let mut tool = js(slug, 0.0, source);
    tool["capabilities"] = json!({ "fetch": true });
    tool["allowedHosts"] = json!(hosts);
    tool["safetyAttestation"] = json!({ "accepted": true });
    tool
}

async fn hosts_of(host: &Host, slug: &str) -> Value {
    host.manage(Method::GET, &format!("/ai/endpoints/{slug}"), &Value::Null).await.is(200).json()["endpoint"]["allowedHosts"].clone()
}

async fn list(host: &Host, key: &str, slug: &str, hosts: &[&str]) -> Answer {
    host.as_builder(key, Method::PATCH, &format!("/ai/endpoints/{slug}"), &json!({ "allowedHosts": hosts })).await
}

fn refused(answer: &Answer) {
    let error = answer.fails(422, "invalid_endpoint", "caller");
    assert_eq!(error["pointer"], "/allowedHosts", "{error}");
    assert!(error["message"].as_str().unwrap().contains("ask an admin of this host"), "{error}");
}

#[tokio::test]
async fn builder_lists_any_public_host_only_with_a_grant_for_the_tool() {
    let host = Host::start().await;
    let (_, key) = host.register("Fetcher").await;
    refused(&host.as_builder(&key, Method::POST, CREATE, &asking("fetcher", &["*"])).await);
    host.as_builder(&key, Method::POST, CREATE, &asking("fetcher", &["api.example.com"])).await.is(200);
    refused(&list(&host, &key, "fetcher", &["*"]).await);
    crate::gates::decide(&host, "fetcher", json!({ "decision": "approve", "allowedHosts": ["*"] })).await.is(200);
    list(&host, &key, "fetcher", &["*"]).await.is(200);
    assert_eq!(hosts_of(&host, "fetcher").await, json!(["*"]));
    crate::gates::decide(&host, "fetcher", json!({ "decision": "revoke", "allowedHosts": ["*"] })).await.is(200);
    assert_eq!(hosts_of(&host, "fetcher").await, json!([]));
    refused(&list(&host, &key, "fetcher", &["*"]).await);
}

#[tokio::test]
async fn grant_of_a_builder_is_for_all_tools_and_later_publishes() {
    let host = Host::start().await;
    let (id, key) = host.register("Fetcher").await;
    let judge = async |verdict: Value| host.manage(Method::POST, &format!("/ai/admin/builders/{id}"), &verdict).await;
    for verdict in [
        json!({ "decision": "grant" }),
        json!({ "decision": "grant", "allowedHosts": ["api.example.com"] }),
        json!({ "decision": "suspend", "allowedHosts": ["*"] }),
    ] {
        assert_eq!(judge(verdict.clone()).await.fails(422, "invalid_decision", "caller")["pointer"], "/allowedHosts", "{verdict}");
    }
    let any = |decision: &str| json!({ "decision": decision, "allowedHosts": ["*"], "reason": "converts pages" });
    judge(any("revoke")).await.fails(409, "wrong_state", "caller");
    assert_eq!(judge(any("grant")).await.is(200).json()["builder"]["allowedHosts"], json!(["*"]));
    judge(any("grant")).await.fails(409, "wrong_state", "caller");
    host.as_builder(&key, Method::POST, CREATE, &asking("one", &["*"])).await.is(200);
    host.as_builder(&key, Method::POST, CREATE, &asking("two", &["*", "api.example.com"])).await.is(200);
    assert_eq!(hosts_of(&host, "one").await, json!(["*"]));
    assert_eq!(hosts_of(&host, "two").await, json!(["*"]), "others still wait");
    judge(any("revoke")).await.is(200);
    refused(&host.as_builder(&key, Method::POST, CREATE, &asking("three", &["*"])).await);
    assert_eq!(hosts_of(&host, "one").await, json!(["*"]), "what was granted stays");
    let events = host.as_builder(&key, Method::GET, "/ai/builders/events?limit=200", &Value::Null).await.is(200).json();
    let events = events["events"].as_array().unwrap();
    for kind in ["builder.hosts_granted", "builder.hosts_revoked"] {
        let event = events.iter().find(|event| event["kind"] == kind).unwrap();
        assert_eq!(event["data"], json!({ "reason": "converts pages", "hosts": ["*"] }));
    }
    let audit = host.manage(Method::GET, "/ai/admin/audit", &Value::Null).await.is(200);
    let audit = String::from_utf8_lossy(&audit.body).into_owned();
    assert!(audit.contains("/ai/admin/builders/") && audit.contains(&id), "{audit}");
}

#[tokio::test]
async fn any_public_host_reaches_neither_the_host_nor_what_its_operator_exempts() {
    let exempt = listen(axum::Router::new().fallback(async || "inside")).await;
    let host = Host::builder().flag("--guard-allow", exempt).start().await;
    host.publish(&asking("any", &["*"])).await;
    let ask = async |url: String| host.call("any", &json!({ "url": url })).await.is(200).json();
    for url in [
        format!("http://{exempt}/"),
        format!("{}/health", host.url),
        "https://127.0.0.1/".to_owned(),
        "https://10.0.0.1/".to_owned(),
        "https://169.254.169.254/latest/meta-data/".to_owned(),
        "https://[::1]/".to_owned(),
        "http://example.com/".to_owned(),
        "https://localhost/".to_owned(),
    ] {
        assert_eq!(ask(url.clone()).await["code"], "forbidden_address", "{url}");
    }
    assert_eq!(ask("https://example.com:8443/".to_owned()).await["code"], "forbidden_address");
    host.manage(Method::PATCH, "/ai/endpoints/any", &json!({ "allowedHosts": ["*", "127.0.0.1"] })).await.is(200);
    assert_eq!(ask(format!("http://{exempt}/")).await, json!({ "status": 200 }), "a tool that names it reaches it");
}

#[tokio::test]
async fn any_public_host_does_not_include_the_public_url_of_the_host() {
    let host = Host::builder().flag("--base-url", "https://93.184.216.34").start().await;
    host.publish(&asking("any", &["*"])).await;
    for url in ["https://93.184.216.34/tools/any", "https://0x5db8d822/"] {
        let refused = host.call("any", &json!({ "url": url })).await.is(200).json();
        assert_eq!(refused["code"], "forbidden_address", "{url}");
        assert!(refused["message"].as_str().unwrap().contains("this host"), "{url}: {refused}");
    }
}

//! `tollhouse doctor`: the machine, the settings, and a host as indexers see it.

use std::{
    fs::{self, Permissions},
    os::unix::fs::PermissionsExt as _,
};

use axum::{Router, http::StatusCode, routing};
use serde_json::{Value, json};

use super::{json_of, run, text};
use crate::harness::{Host, PAY_TO, js, serve};

fn levels<'a>(reported: &'a Value, part: &str) -> Vec<&'a str> {
    let of = |finding: &&Value| finding["part"] == part;
    reported["findings"].as_array().unwrap().iter().filter(of).map(|finding| finding["level"].as_str().unwrap()).collect()
}

#[tokio::test]
async fn doctor_reports_each_part_and_ends_with_1_where_something_is_in_the_way() {
    let folder = tempfile::tempdir().unwrap();
    let answer = run(folder.path(), &["doctor", "--json"], &[]).await;
    let reported = json_of(&answer);
    for part in ["engine", "clock", "disk", "limits", "facilitator"] {
        assert!(!levels(&reported, part).is_empty(), "nothing of {part}: {reported}");
    }
    assert!(answer.status.success() && reported["fails"] == 0, "{reported}");
    let with_remedy = |finding: &Value| finding["level"] == "ok" || finding["remedies"] != json!([]);
    assert!(reported["findings"].as_array().unwrap().iter().all(with_remedy), "{reported}");
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0, "it leaves nothing behind");

    // Keys that others can read, a full disk, and an unreachable facilitator.
    let data = folder.path().join("data");
    fs::create_dir(&data).unwrap();
    fs::write(data.join("master-key"), "").unwrap();
    fs::set_permissions(data.join("master-key"), Permissions::from_mode(0o644)).unwrap();
    let env = [
        ("TOLLHOUSE_STORE_FREE_BYTES", "18446744073709551615"),
        ("TOLLHOUSE_FACILITATOR", "http"),
        ("X402_FACILITATOR_URL", "http://127.0.0.1:1"),
        ("TOLLHOUSE_PAY_TO", PAY_TO),
    ];
    let answer = run(folder.path(), &["doctor", "--json"], &env).await;
    let reported = json_of(&answer);
    assert_eq!(answer.status.code(), Some(1));
    assert!(levels(&reported, "keys").contains(&"warn") && levels(&reported, "disk").contains(&"fail"), "{reported}");
    assert_eq!(levels(&reported, "facilitator"), ["fail"]);
    let lines = text(&run(folder.path(), &["doctor"], &env).await.stdout);
    let remedy = |line: &&str| line.starts_with("warn  keys: ") && line.contains(" → chmod 600 ");
    assert!(lines.lines().any(|line| remedy(&line)), "{lines}");
}

#[tokio::test]
async fn doctor_reports_a_worker_of_another_version() {
    let folder = tempfile::tempdir().unwrap();
    let worker = folder.path().join("worker");
    fs::write(&worker, "#!/bin/sh\necho '{\"engine\":\"v8\",\"version\":\"0.0.0\",\"tiers\":[]}'\n").unwrap();
    fs::set_permissions(&worker, Permissions::from_mode(0o755)).unwrap();
    let answer = run(folder.path(), &["doctor"], &[("TOLLHOUSE_WORKER", worker.to_str().unwrap())]).await;
    let lines = text(&answer.stdout);
    assert!(answer.status.code() == Some(1) && lines.starts_with("fail  engine v8: ") && lines.contains(" has version 0.0.0, "), "{lines}");
}

#[tokio::test]
async fn doctor_shows_whether_a_facilitator_settles_on_the_networks_of_the_settings() {
    let supported = json!({ "kinds": [{ "scheme": "exact", "network": "eip155:8453", "x402Version": 2 }] });
    let app = Router::new().route("/supported", routing::get(move || async move { axum::Json(supported) }));
    let url = serve(app).await;
    let folder = tempfile::tempdir().unwrap();
    for (network, levels_of_it, exit) in [("base", vec!["ok"], 0), ("base,polygon", vec!["ok", "fail"], 1)] {
        let env = [
            ("TOLLHOUSE_FACILITATOR", "http"),
            ("X402_FACILITATOR_URL", url.as_str()),
            ("TOLLHOUSE_PAY_TO", PAY_TO),
            ("TOLLHOUSE_NETWORK", network),
        ];
        let answer = run(folder.path(), &["doctor", "--json"], &env).await;
        assert_eq!((levels(&json_of(&answer), "facilitator"), answer.status.code()), (levels_of_it, Some(exit)), "{answer:?}");
    }
}

/// The answers of a node of Base Sepolia.
#[derive(Clone, Copy)]
struct NodeAnswers {
    estimates: bool,
    /// Age of the newest block, in seconds.
    head_age: u64,
    /// Number of settlements whose gas every account can pay.
    settlements: u64,
}

const WELL: NodeAnswers = NodeAnswers { estimates: true, head_age: 2, settlements: 5_000 };

async fn node(with: NodeAnswers) -> String {
    let answer = async move |axum::Json(request): axum::Json<Value>| {
        let message = match request["method"].as_str() {
            Some("eth_chainId") => json!({ "result": "0x14a34" }),
            Some("eth_estimateGas") if with.estimates => json!({ "result": "0x5208" }),
            Some("eth_gasPrice") => json!({ "result": "0x64" }),
            Some("eth_getBalance") => json!({ "result": format!("{:#x}", with.settlements * 110_000 * 0x64) }),
            Some("eth_getBlockByNumber") => {
                let at = tollhouse::base::clock::Clock::default().now().as_secs() - with.head_age;
                json!({ "result": { "number": "0x1", "hash": format!("0x{}", "1".repeat(64)), "timestamp": format!("{at:#x}") } })
            }
            _ => json!({ "error": { "code": -32601, "message": "the method does not exist" } }),
        };
        let mut body = json!({ "jsonrpc": "2.0", "id": request["id"] });
        body.as_object_mut().unwrap().extend(message.as_object().unwrap().clone());
        axum::Json(body)
    };
    serve(Router::new().route("/", routing::post(answer))).await
}

#[tokio::test]
async fn doctor_warns_of_unbounded_gas_and_unreachable_documents() {
    let folder = tempfile::tempdir().unwrap();
    let (well, deaf) = (node(WELL).await, node(NodeAnswers { estimates: false, ..WELL }).await);
    let evm = |url: &str| vec![("TOLLHOUSE_FACILITATOR", "evm".to_owned()), ("TOLLHOUSE_RPC_URL", url.to_owned())];
    let unlimited = [evm(&well), vec![("TOLLHOUSE_BURNED_GAS", "0".to_owned())]].concat();
    let http = vec![("TOLLHOUSE_FACILITATOR", "http".to_owned()), ("X402_FACILITATOR_URL", "http://127.0.0.1:1".to_owned())];
    let looked_up = [http.clone(), vec![("TOLLHOUSE_RPC_URL", well.clone())]].concat();
    let base = |least: &str| {
        let weighed = vec![("TOLLHOUSE_NETWORK", "base".to_owned()), ("TOLLHOUSE_LEAST_SETTLEMENT_USD", least.to_owned())];
        [evm(&well), weighed].concat()
    };
    for (case, env, gas, node) in [
        ("all is well", evm(&well), 0, 0),
        ("gas is weighed", base("0.001"), 0, 0),
        ("gas is not weighed", base("0"), 1, 0),
        ("no bound", unlimited, 1, 0),
        ("no estimate", evm(&deaf), 1, 0),
        ("no node", http, 0, 1),
        ("a node", looked_up, 0, 0),
    ] {
        let key = ("TOLLHOUSE_GAS_KEY", format!("0x{}", "07".repeat(32)));
        let env: Vec<_> = [env, vec![key, ("TOLLHOUSE_PAY_TO", PAY_TO.to_owned())]].concat();
        let env: Vec<_> = env.iter().map(|(name, value)| (*name, value.as_str())).collect();
        let answer = json_of(&run(folder.path(), &["doctor", "--json"], &env).await);
        let [of_gas, of_node] = ["gas", "node"].map(|part| {
            let levels = levels(&answer, part);
            assert!(levels.iter().all(|level| ["ok", "warn"].contains(level)), "{case}: {answer}");
            levels.into_iter().filter(|level| *level == "warn").count()
        });
        assert_eq!((of_gas, of_node), (gas, node), "{case}: {answer}");
    }
}

#[tokio::test]
async fn doctor_fails_if_the_node_does_not_follow_the_chain_or_no_gas_is_left() {
    let supported = json!({ "kinds": [{ "scheme": "exact", "network": "eip155:84532", "x402Version": 2 }] });
    let facilitator = serve(Router::new().route("/supported", routing::get(move || async move { axum::Json(supported) }))).await;
    let (folder, gas_key) = (tempfile::tempdir().unwrap(), "07".repeat(32));
    let doctor = async |kind: &str, network: &str, rpc_url: &str| {
        let env = [
            ("TOLLHOUSE_FACILITATOR", kind),
            ("X402_FACILITATOR_URL", facilitator.as_str()),
            ("TOLLHOUSE_NETWORK", network),
            ("TOLLHOUSE_RPC_URL", rpc_url),
            ("TOLLHOUSE_GAS_KEY", gas_key.as_str()),
            ("TOLLHOUSE_PAY_TO", PAY_TO),
        ];
        json_of(&run(folder.path(), &["doctor", "--json"], &env).await)
    };
    let well = node(WELL).await;
    let stale = node(NodeAnswers { head_age: 3_600, ..WELL }).await;
    for (kind, url, level) in [("http", &well, "ok"), ("http", &stale, "fail"), ("evm", &well, "ok"), ("evm", &stale, "fail")] {
        let reported = doctor(kind, "base-sepolia", url).await;
        assert_eq!((levels(&reported, "facilitator"), levels(&reported, "node")), (vec!["ok"], vec![level]), "{kind}: {reported}");
        assert_eq!(reported["fails"], u64::from(level == "fail"), "{kind}: {reported}");
    }
    // A node that does not answer, and one of another network.
    assert_eq!(levels(&doctor("http", "base-sepolia", "http://127.0.0.1:1").await, "node"), ["fail"]);
    assert_eq!(levels(&doctor("http", "base", &well).await, "node"), ["fail"]);
    for (settlements, level) in [(5_000, "ok"), (999, "warn"), (0, "fail")] {
        let reported = doctor("evm", "base-sepolia", &node(NodeAnswers { settlements, ..WELL }).await).await;
        assert_eq!(levels(&reported, "gas"), [level], "{settlements}: {reported}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn doctor_shows_the_host_as_indexers_see_it() {
    let host = Host::start().await;
    let mut tool = js("paid", 0.001, "export default async () => ({ ok: true });");
    tool["inputSchema"] = json!({ "type": "object", "properties": { "city": { "type": "string" } }, "required": ["city"] });
    host.publish(&tool).await;
    let folder = tempfile::tempdir().unwrap();
    let answer = run(folder.path(), &["doctor", "--public", &host.url], &[]).await;
    let lines = text(&answer.stdout);
    for well in [
        "ok    public /llms.txt: an overview for language models",
        "ok    public /openapi.json: OpenAPI 3.1",
        "ok    public /tools/paid: has a challenge of version 2 in PAYMENT-REQUIRED",
        "ok    public /tools/paid: has a challenge of version 1 in its body",
        "ok    public /tools/paid: the description has at most 500 characters",
        "ok    public /tools/paid: the challenge has the input schema",
        "ok    public /tools/paid: scripts of all sites can call it",
        "ok    public /tools/paid: a call with no input gets 402 before the input is checked",
        "ok    public /tools/paid: a call with the input `{\"not\": \"json\"` gets 402",
        "warn  public: the URL is not https",
    ] {
        assert!(lines.contains(&format!("\n{well}")) || lines.starts_with(well), "`{well}` is not reported:\n{lines}");
    }
    // The host's own documents cause no warnings.
    let warned: Vec<_> = lines.lines().filter(|line| line.starts_with("warn") && !line.contains("not https")).collect();
    assert!(warned.is_empty(), "{warned:?}");
    // On loopback the only failures are about missing https.
    let fails: Vec<_> = lines.lines().filter(|line| line.starts_with("fail")).collect();
    assert!(fails.iter().all(|line| line.contains("without an absolute https URL") && line.contains(" → ")), "{lines}");
    assert_eq!(answer.status.code(), Some(1));
    let away = run(folder.path(), &["doctor", "--public", "http://127.0.0.1:1"], &[]).await;
    assert!(away.status.code() == Some(1) && text(&away.stdout).starts_with("fail  public: "), "{away:?}");
}

#[tokio::test]
async fn doctor_reports_a_proxy_that_validates_before_payment_and_drops_headers() {
    let listed = json!({
        "ok": true, "schema": "", "dashboard": "", "createEndpoint": "", "lifecycle": {}, "builderControls": {}, "supportedHandlerTypes": {},
        "note": "", "total": 1,
        "endpoints": [{
            "slug": "abc", "id": "ep_01KATR3Q6S4B8Z2M5V7X9C1D3F", "title": "A", "description": "", "status": "active", "priceUsd": 1, "handlerType": "static_json",
            "runtime": "managed_builtin_handler", "pricingMode": "fixed_price_success_receipt", "method": "POST", "tags": [],
            "url": "https://elsewhere.example/tools/abc", "inputSchema": {}, "outputSchema": {}, "capabilities": {},
            "createdAt": "2026-11-21T09:58:03.000Z", "updatedAt": "2026-11-21T09:58:03.000Z",
        }],
    });
    let request = async |body: String| {
        // This proxy validates the input before the payment, and drops the header of the challenge.
        if body == "{}" { (StatusCode::PAYMENT_REQUIRED, "{}") } else { (StatusCode::UNPROCESSABLE_ENTITY, "{\"error\":{}}") }
    };
    let app = Router::new()
        .route("/health/live", routing::get(async || "live"))
        .route("/ai/endpoints", routing::get(move || async move { axum::Json(listed) }))
        .route("/tools/abc", routing::post(request));
    let url = serve(app).await;
    let folder = tempfile::tempdir().unwrap();
    let answer = run(folder.path(), &["doctor", "--json", "--public", &url], &[]).await;
    let reported = json_of(&answer);
    let fails: Vec<_> = reported["findings"].as_array().unwrap().iter().filter(|finding| finding["level"] == "fail").collect();
    let told_of = |of: &str, what: &str| fails.iter().any(|fail| fail["of"] == of && fail["text"].as_str().unwrap().contains(what));
    for document in ["/.well-known/x402", "/openapi.json", "/llms.txt"] {
        assert!(fails.iter().any(|fail| fail["of"] == document), "{document} is missing: {reported}");
    }
    assert!(told_of("/tools/abc", "gets 422") && told_of("/tools/abc", "no challenge of version 2"), "{reported}");
    assert!(told_of("/tools/abc", "which does not begin with"), "{reported}");
    assert_eq!(answer.status.code(), Some(1));
}

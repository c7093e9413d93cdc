//! Before a publication: the check of an upload, and test runs of a handler.

use std::time::Duration;

use futures_util::future::join_all;
use reqwest::Method;
use serde_json::{Value, json};
use tollhouse::tool::Capabilities;

use crate::{
    harness::{Answer, Host, contains, eventually},
    revenue::tool,
};

const CREATE: &str = "/ai/endpoints/create";
const CHECK: &str = "/ai/endpoints/check";
const PLAIN: &str = "export default () => ({ plain: true });";
const EVALUATES: &str = "export default () => eval('1');";
/// Counts its calls in kv and in a file, and returns what it finds there.
const COUNTS: &str = "export default async (req, ctx) => {
    ctx.log.info('counting', { token: ctx.env.API_TOKEN ?? null });
    const seen = (await ctx.kv.get('n')) ?? 0;
    await ctx.kv.set('n', seen + 1);
    return { seen, token: ctx.env.API_TOKEN ?? null, free: req.caller.free };
};";
const TOKEN: &str = "a-token-of-the-owner";

async fn check(host: &Host, key: &str, body: &Value) -> Answer {
    host.as_builder(key, Method::POST, CHECK, body).await
}

async fn run(host: &Host, key: &str, slug: &str, body: Value) -> Answer {
    host.as_builder(key, Method::POST, &format!("/ai/endpoints/{slug}/run"), &body).await
}

async fn ran(host: &Host, key: &str, slug: &str, body: Value) -> Value {
    run(host, key, slug, body).await.is(200).json()["run"].clone()
}

async fn counter(host: &Host, key: &str) {
    host.as_builder(key, Method::POST, CREATE, &tool("counts", 0.25, COUNTS)).await.is(200);
    let secret = json!({ "name": "API_TOKEN", "value": TOKEN });
    host.as_builder(key, Method::POST, "/ai/endpoints/counts/secrets", &secret).await.is(200);
}

#[tokio::test]
async fn check_previews_an_upload_and_stores_nothing() {
    let host = Host::start().await;
    let (_, key) = host.register("Checks").await;
    let before = bytes_below(&host.folder().join("data/store"));
    let mut upload = tool("checked", 0.25, "export default async (req, ctx) => { await ctx.files.list({}); return eval('1'); };");
    upload["capabilities"] = json!({ "kv": true, "httpGetJson": true });
    upload["limits"] = json!({ "wallMs": 5_000 });
    let marked = "a-mark-that-nothing-else-has";
    upload["description"] = json!(marked);
    for slug in [json!("checked"), Value::Null] {
        upload["slug"] = slug;
        if upload["slug"].is_null() {
            upload.as_object_mut().unwrap().remove("slug");
        }
        let checked = check(&host, &key, &upload).await.is(200).json()["check"].clone();
        let granted: Capabilities = serde_json::from_value(checked["granted"]["capabilities"].clone()).unwrap();
        assert!(granted.names().eq(["kv"]), "{granted:?}");
        assert_eq!(checked["requested"]["capabilities"]["httpGetJson"], true);
        assert_eq!((&checked["needsReview"], &checked["outcome"]), (&json!(true), &json!("review")));
        assert_eq!((&checked["findings"][0]["rule"], &checked["findings"][0]["line"]), (&json!("code.eval"), &json!(1)));
        assert_eq!((&checked["limits"], &checked["existing"]), (&json!({ "wallMs": 5_000 }), &json!(false)));
        let warnings = checked["warnings"].to_string();
        for word in ["ctx.files", "allowedHosts", "outputSchema"] {
            assert!(warnings.contains(word), "{word}: {warnings}");
        }
    }
    host.manage(Method::GET, "/ai/endpoints/checked", &Value::Null).await.fails(404, "unknown_endpoint", "caller");
    let trail = host.manage(Method::GET, "/ai/admin/audit", &Value::Null).await.is(200).json();
    assert!(trail["entries"].as_array().unwrap().iter().all(|entry| entry["path"] != CHECK), "{trail}");
    let after = bytes_below(&host.folder().join("data/store"));
    assert!(!contains(&after, marked) && !contains(&before, marked) && !host.log().contains(marked));
    // The publication has the result that the check announced.
    upload["slug"] = json!("checked");
    let made = host.as_builder(&key, Method::POST, CREATE, &upload).await.is(200).json()["endpoint"].clone();
    assert_eq!((&made["status"], &made["capabilities"]["kv"]), (&json!("paused"), &json!(true)));
    // For the builder's own slug it is a change; the slug of another builder is taken.
    assert_eq!(check(&host, &key, &upload).await.is(200).json()["check"]["existing"], true);
    let (_, other) = host.register("Other").await;
    check(&host, &other, &upload).await.fails(409, "slug_taken", "caller");
    host.manage(Method::POST, CHECK, &upload).await.is(200);
    host.post(CHECK, &upload).await.fails(401, "unauthorized", "caller");
}

/// Returns the bytes of all files below a folder.
fn bytes_below(folder: &std::path::Path) -> Vec<u8> {
    let mut all = vec![];
    for entry in std::fs::read_dir(folder).unwrap().map(Result::unwrap) {
        let path = entry.path();
        all.extend(if path.is_dir() { bytes_below(&path) } else { std::fs::read(path).unwrap_or_default() });
    }
    all
}

#[tokio::test]
async fn check_lists_all_faults_and_create_the_first() {
    let host = Host::start().await;
    let (_, key) = host.register("Mistakes").await;
    let leak = ["AKIA", "Q3EGRZ7N", "W2LDK5TX"].concat();
    let upload = json!({
        "slug": "mistakes",
        "title": "x".repeat(121),
        "handlerType": "js_request_response",
        "handler": { "source": format!("const key = '{leak}';\nexport default (req => 1;") },
        "tags": ["fine", "\u{7}"],
        "inputSchema": { "type": "no such type" },
        "outputSchema": { "type": 3 },
        "limits": { "wallMs": 0, "nothing": 1 },
        "allowedHosts": ["fine.example", "not a host"],
        "priceUsd": "much",
    });
    let error = check(&host, &key, &upload).await.fails(422, "invalid_endpoint", "caller");
    let problems = error["problems"].as_array().unwrap();
    let has = |code: &str, pointer: &str| {
        problems.iter().any(|p| p["code"] == code && p["pointer"].as_str().unwrap_or_default().starts_with(pointer))
    };
    for pointer in
        ["/priceUsd", "/title", "/tags/1", "/limits/wallMs", "/limits/nothing", "/allowedHosts/1", "/inputSchema", "/outputSchema"]
    {
        assert!(has("invalid_endpoint", pointer), "{pointer}: {error:#}");
    }
    assert!(has("attestation_required", ""));
    let load = problems.iter().find(|problem| problem["code"] == "invalid_handler").unwrap();
    assert_eq!(load["at"]["line"], 2, "{load}");
    let blocked = problems.iter().find(|problem| problem["code"] == "content_blocked").unwrap();
    assert_eq!(blocked["findings"][0]["rule"], "secret.aws-access-key");
    assert!(!error.to_string().contains(&leak));
    assert_eq!((&error["pointer"], &problems[0]["pointer"]), (&json!("/priceUsd"), &json!("/priceUsd")));
    host.as_builder(&key, Method::POST, CREATE, &upload).await.fails(422, "invalid_endpoint", "caller");
    check(&host, &key, &json!([])).await.fails(422, "invalid_endpoint", "caller");
    let mut fits =
        json!({ "title": "static", "handlerType": "static_json", "handler": { "response": 1 }, "outputSchema": { "type": "string" } });
    fits["safetyAttestation"] = json!({ "accepted": true });
    let error = check(&host, &key, &fits).await.fails(422, "invalid_endpoint", "caller");
    assert_eq!(error["pointer"], "/handler/response");
    // Slugs that are paths of the catalog cannot be used.
    for slug in ["check", "create"] {
        host.manage(Method::POST, CREATE, &tool(slug, 0.0, PLAIN)).await.fails(422, "invalid_endpoint", "caller");
    }
}

#[tokio::test]
async fn dry_run_has_its_own_data_and_sells_nothing() {
    let host = Host::start().await;
    let ((_, key), (_, other)) = (host.register("Dry").await, host.register("Other").await);
    counter(&host, &key).await;
    let credit = host.mint(1.0).await;
    host.call_credit("counts", &json!({}), &credit).await.is(200);
    for _ in 0..2 {
        let ran = ran(&host, &key, "counts", json!({})).await;
        assert_eq!(ran["result"], json!({ "seen": 0, "token": "[redacted]", "free": true }), "{ran}");
        assert_eq!((&ran["status"], &ran["log"][0]["message"]), (&json!(200), &json!("counting")));
        assert_eq!(ran["log"][0]["fields"]["token"], "[redacted]");
        assert!(
            ran["spent"]["ops"] == 2 && ran["spent"]["cpuMs"].as_f64().unwrap() > 0.0 && ran["spent"]["heapBytes"].as_u64().unwrap() > 0
        );
        assert!(!ran.to_string().contains(TOKEN));
    }
    assert_eq!(host.call_credit("counts", &json!({}), &credit).await.is(200).json()["seen"], 1, "it saw nothing of the dry runs");
    assert_eq!(host.credit_balance(&credit).await, 500_000);
    // First a draft, which is run without being published. Then a published version, which is run
    // again.
    let draft =
        json!({ "handler": { "source": "export default (req) => ({ shout: req.input.text.toUpperCase() });" }, "input": { "text": "hi" } });
    let first = host.manage(Method::GET, "/ai/endpoints/counts", &Value::Null).await.json()["endpoint"]["version"].clone();
    let shouted = ran(&host, &key, "counts", draft).await;
    assert_eq!(shouted["result"], json!({ "shout": "HI" }));
    assert_ne!(shouted["version"], first);
    host.as_builder(&key, Method::PATCH, "/ai/endpoints/counts", &json!({ "handler": { "source": PLAIN } })).await.is(200);
    assert_eq!(ran(&host, &key, "counts", json!({})).await["result"], json!({ "plain": true }));
    assert_eq!(ran(&host, &key, "counts", json!({ "version": first })).await["result"]["seen"], 0);
    // A draft is not stored.
    run(&host, &key, "counts", json!({ "version": shouted["version"] })).await.fails(404, "unknown_version", "caller");
    run(&host, &key, "counts", json!({ "version": first, "handler": { "source": PLAIN } })).await.fails(400, "invalid_request", "caller");
    run(&host, &other, "counts", json!({})).await.fails(403, "not_owner", "caller");
    host.manage(Method::POST, "/ai/endpoints/counts/run", &json!({})).await.is(200);

    let events = crate::revenue::events(&host, &key, "").await;
    assert_eq!(events.iter().filter(|event| event["kind"] == "call.succeeded").count(), 2, "{events:?}");
    let lines = eventually("the lines of the calls are stored", Duration::from_secs(5), || async {
        let lines = host.as_builder(&key, Method::GET, "/ai/endpoints/counts/logs", &Value::Null).await.is(200).json();
        lines["logs"].as_array().filter(|lines| lines.len() >= 2).cloned()
    })
    .await;
    assert_eq!(lines.len(), 2, "{lines:?}");
    let revenue = host.as_builder(&key, Method::GET, "/ai/builders/revenue", &Value::Null).await.is(200).json();
    assert_eq!((&revenue["totals"]["calls"], &revenue["totals"]["grossUsd"]), (&json!(2), &json!(0.5)));
}

#[tokio::test]
async fn a_dry_run_says_how_a_handler_ended_and_holds_it_against_no_call() {
    let host = Host::start().await;
    let (_, key) = host.register("Fails").await;
    let mut typed = tool("typed", 0.0, PLAIN);
    typed["inputSchema"] = json!({ "type": "object", "required": ["n"] });
    typed["outputSchema"] = json!({ "type": "object" });
    typed["limits"] = json!({ "cpuMs": 100 });
    host.as_builder(&key, Method::POST, CREATE, &typed).await.is(200);
    let tried = async |source: &str| ran(&host, &key, "typed", json!({ "input": { "n": 1 }, "handler": { "source": source } })).await;
    let threw = tried("export default () => { throw new Error('no'); };").await;
    assert_eq!((&threw["error"]["code"], &threw["error"]["message"]), (&json!("handler_failed"), &json!("Handler failed: Error: no")));
    assert!(threw["log"][0]["fields"]["stack"].as_str().unwrap().contains("typed"), "{threw}");
    assert_eq!(tried("export default () => 'text';").await["error"]["code"], "invalid_output");
    let half = tried(r"export default () => ({ a: '\ud800' });").await;
    assert!(half["error"]["message"].as_str().is_some_and(|message| message.contains("half of a surrogate pair")), "{half}");
    let raw =
        tried("export default () => new Response(new Uint8Array([255, 0]), { status: 404, headers: { 'content-type': 'image/x' } });")
            .await;
    assert_eq!((&raw["status"], &raw["result"]), (&json!(404), &json!({ "mediaType": "image/x", "base64": "/wA=" })));
    let error = run(&host, &key, "typed", json!({ "input": {} })).await.fails(422, "invalid_input", "caller");
    assert!(error["problems"].is_array());
    // These runs end five workers. After that, dry runs of the endpoint are refused for a minute,
    // but its calls are not.
    for _ in 0..5 {
        let spun = tried("export default () => { for (;;); };").await;
        assert_eq!(spun["error"]["code"], "cpu_time_exceeded", "{spun}");
        assert!(spun["spent"]["cpuMs"].as_f64().unwrap() > 50.0, "{spun}");
    }
    run(&host, &key, "typed", json!({ "input": { "n": 1 } })).await.fails(503, "busy", "host");
    host.call("typed", &json!({ "n": 1 })).await.is(200);
    let error = run(&host, &key, "typed", json!({ "handler": { "source": "export default (" } })).await;
    assert_eq!(error.fails(422, "invalid_handler", "caller")["at"]["line"], 1);
    let leak = format!("export default () => '{}';", ["AKIA", "Q3EGRZ7N", "W2LDK5TX"].concat());
    run(&host, &key, "typed", json!({ "input": { "n": 1 }, "handler": { "source": leak } })).await.fails(422, "content_blocked", "caller");
}

#[tokio::test]
async fn unreviewed_tool_runs_with_default_grants_only() {
    let host = Host::start().await;
    let (_, key) = host.register("Held").await;
    let looks = "export default async (req, ctx) => {
        const may = async (name, what) => [name, await what().then(() => true, () => false)];
        return Object.fromEntries([await may('kv', () => ctx.kv.get('a')), await may('files', () => ctx.files.list({}))]);
    };";
    let mut held = tool("held", 0.0, looks);
    held["capabilities"] = json!({ "kv": true, "files": true, "logs": true });
    host.as_builder(&key, Method::POST, CREATE, &held).await.is(200);
    let decide = async |verdict: Value| {
        crate::gates::decide(&host, "held", verdict).await.is(200);
    };
    decide(json!({ "decision": "approve" })).await;
    assert_eq!(ran(&host, &key, "held", json!({})).await["result"], json!({ "kv": true, "files": true }));
    let reviewed = json!({ "handler": { "source": looks.replace("const may", "eval('1'); const may") } });
    // `eval` throws there. The test checks only the granted capabilities.
    assert_eq!(ran(&host, &key, "held", reviewed).await["granted"]["files"], false);
    for (decision, files) in [("takedown", false), ("restore", true)] {
        decide(json!({ "decision": decision })).await;
        let ran = ran(&host, &key, "held", json!({})).await;
        assert_eq!(ran["result"], json!({ "kv": true, "files": files }), "{decision}");
    }
    host.as_builder(&key, Method::PATCH, "/ai/endpoints/held", &json!({ "handler": { "source": EVALUATES } })).await.is(200);
    host.as_builder(&key, Method::POST, "/tools/held", &json!({})).await.fails(409, "endpoint_paused", "tool");
    let ran = ran(&host, &key, "held", json!({})).await;
    assert_eq!((&ran["granted"]["kv"], &ran["granted"]["files"]), (&json!(true), &json!(false)), "{ran}");
}

#[tokio::test]
async fn a_builder_has_a_few_dry_runs_at_once() {
    let host = Host::builder().flag("--dry-runs", 2).start().await;
    let ((_, key), (_, other)) = (host.register("Many").await, host.register("Other").await);
    let waits = "export default async () => { await new Promise((resolve) => setTimeout(resolve, 3_000)); return 1; };";
    for (key, slug) in [(&key, "many"), (&other, "other")] {
        host.as_builder(key, Method::POST, CREATE, &tool(slug, 0.0, waits)).await.is(200);
    }
    let many = join_all((0..6).map(|_| run(&host, &key, "many", json!({}))));
    let others = async {
        host.wait_for_calls(2).await;
        run(&host, &other, "other", json!({})).await.is(200);
        host.call("many", &json!({})).await.is(200);
    };
    let (many, ()) = tokio::join!(many, others);
    let refused: Vec<_> = many.iter().filter(|answer| answer.status != 200).collect();
    assert_eq!(refused.len(), 4);
    for answer in refused {
        answer.fails(429, "rate_limited", "caller");
        assert_eq!(answer.has("retry-after"), "1");
    }
    run(&host, &key, "many", json!({})).await.is(200);
}

#[tokio::test]
async fn check_reports_a_limited_number_of_problems() {
    let host = Host::start().await;
    let (_, key) = host.register("Many").await;
    let mut members: serde_json::Map<_, _> = (0..50_000).map(|n| (format!("k{n}"), json!(0))).collect();
    members.insert("n".repeat(100_000), json!(0));
    for body in [Value::Object(members.clone()), json!({ "title": "Many", "handlerType": "receipt_echo", "limits": members })] {
        let answer = host.as_builder(&key, Method::POST, "/ai/endpoints/check", &body).await;
        let error = answer.is(422).json()["error"].take();
        let problems = error["problems"].as_array().unwrap().len();
        assert!((2..=32).contains(&problems) && error.to_string().len() < 20_000, "{problems}");
    }
}

#[tokio::test]
async fn checks_of_drafts_throw_out_no_worker_that_waits_for_calls() {
    let host = Host::start().await;
    let (_, key) = host.register("A").await;
    host.publish(&crate::harness::js("warm", 0.0, "let n = 0; export default () => ++n")).await;
    assert_eq!(host.call("warm", &json!({})).await.is(200).json(), 1);
    for at in 0..34 {
        let draft = json!({ "title": "t", "slug": format!("static-{at}"), "handlerType": "static_json", "outputSchema": { "required": ["a"] },
            "handler": { "response": { "a": 1 } }, "safetyAttestation": { "accepted": true } });
        check(&host, &key, &draft).await.is(200);
    }
    assert_eq!(host.call("warm", &json!({})).await.is(200).json(), 2);
}

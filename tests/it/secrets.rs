//! Secrets: who may set and see them, and that neither the host's files nor its output contain one.

use std::{
    fs,
    path::{Path, PathBuf},
    sync::{Arc, Mutex},
    time::Duration,
};

use axum::{Json, Router, http::HeaderMap, response::Redirect, routing::get};
use base64::{
    Engine as _,
    engine::general_purpose::{STANDARD_NO_PAD, URL_SAFE_NO_PAD},
};
use reqwest::Method;
use serde_json::{Value, json};

use crate::harness::{Answer, Host, eventually, js, tollhouse};

const VALUE: &str = "live/7Qm2xV9pLw4Rt8Zk/é\"";

fn path(slug: &str) -> String {
    format!("/ai/endpoints/{slug}/secrets")
}

async fn set(host: &Host, slug: &str, name: &str, value: &str, visibility: &str) -> Answer {
    host.manage(Method::POST, &path(slug), &json!({ "name": name, "value": value, "visibility": visibility })).await
}

/// Starts a server that records the `x-key` header of each request and returns it, or redirects to
/// `other` on another port.
async fn seller() -> (String, String, Arc<Mutex<Vec<String>>>) {
    let seen = Arc::new(Mutex::new(Vec::new()));
    let stored = Arc::clone(&seen);
    let elsewhere = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let other = elsewhere.local_addr().unwrap().to_string();
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let onward = format!("http://{other}/");
    let answer = |stored: Arc<Mutex<Vec<String>>>| {
        move |headers: HeaderMap| async move {
            let text = |name: &str| headers.get(name).map(|value| String::from_utf8_lossy(value.as_bytes()).into_owned());
            stored.lock().unwrap().push(text("x-key").unwrap_or_default());
            Json(json!({ "key": text("x-key"), "agent": text("user-agent") }))
        }
    };
    let router = Router::new()
        .route("/", get(answer(Arc::clone(&stored))))
        .route("/moved", get(move || async move { Redirect::temporary(&onward) }));
    let onward = Router::new().route("/", get(answer(stored)));
    tokio::spawn(async move { axum::serve(listener, router).await });
    tokio::spawn(async move { axum::serve(elsewhere, onward).await });
    (address, other, seen)
}

#[tokio::test]
async fn a_handler_verifies_webhooks_and_signs_tokens_with_its_secrets() {
    let host = Host::start().await;
    let source = "const utf8 = (text) => new TextEncoder().encode(text);
        export default async (req, ctx) => {
            const hmac = { name: 'HMAC', hash: 'SHA-256' }, ed25519 = { name: 'Ed25519' }, { subtle } = crypto;
            const key = await subtle.importKey('raw', utf8(ctx.env.WEBHOOK_SECRET), hmac, false, ['verify']);
            const signer = await subtle.importKey('jwk', JSON.parse(ctx.env.SIGNING_KEY), ed25519, false, ['sign']);
            const given = Uint8Array.from(req.input.signature.match(/../g), (byte) => parseInt(byte, 16));
            const signature = new Uint8Array(await subtle.sign(ed25519, signer, utf8(req.input.token)));
            return { valid: await subtle.verify(hmac, key, given, utf8(req.input.body)), signed: btoa(String.fromCharCode(...signature)) };
        };";
    host.publish(&js("webhooks", 0.0, source)).await;
    // The example of GitHub's documentation, and the key of RFC 8037, appendix A.
    set(&host, "webhooks", "WEBHOOK_SECRET", "It's a Secret to Everybody", "env").await.is(200);
    let key = json!({
        "kty": "OKP",
        "crv": "Ed25519",
        "d": "nWGxne_9WmC6hEr0kuwsxERJxWl7MmkZcDusAxyuf2A",
        "x": "11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo",
    });
    set(&host, "webhooks", "SIGNING_KEY", &key.to_string(), "env").await.is(200);
    let signature = "757107ea0eb2509fc211221cce984b8a37570b6d7586c22c46f4379c8b043e17";
    let token = "eyJhbGciOiJFZERTQSJ9.RXhhbXBsZSBvZiBFZDI1NTE5IHNpZ25pbmc";
    let signed = "hgyY0il/MGCjP0JzlnLWG1PPOt7+09PGcvMg3AIbQR6dWbhijcNR4ki4iylGjg5BhVsPt9g7sVvpAr/MuM0KAg==";
    for (body, valid) in [("Hello, World!", true), ("Hello, World?", false)] {
        let answer = host.call("webhooks", &json!({ "body": body, "signature": signature, "token": token })).await.is(200).json();
        assert_eq!(answer, json!({ "valid": valid, "signed": signed }));
    }
}

#[tokio::test]
async fn a_handler_reads_what_its_owner_set_until_it_is_removed() {
    let host = Host::start().await;
    let source = "export default (req, ctx) => ({ length: ctx.env.API_KEY?.length ?? 0, names: Object.keys(ctx.env),
        same: ctx.env.API_KEY === req.input.guess, frozen: Object.isFrozen(ctx.env) });";
    host.publish(&js("keeper", 0.0, source)).await;
    assert_eq!(host.call("keeper", &json!({})).await.is(200).json()["length"], 0);
    let first = set(&host, "keeper", "API_KEY", VALUE, "env").await.is(200).json();
    assert_eq!(first["secret"].as_object().unwrap().keys().map(String::as_str).collect::<Vec<_>>().len(), 4, "{first}");
    set(&host, "keeper", "SELLER_KEY", "for servers only", "auth").await.is(200);
    let body = host.call("keeper", &json!({ "guess": VALUE })).await.is(200).json();
    let length = VALUE.encode_utf16().count();
    assert_eq!(body, json!({ "length": length, "names": ["API_KEY"], "same": true, "frozen": true }));
    let replaced = set(&host, "keeper", "API_KEY", "another value", "env").await.is(200).json();
    assert_eq!(replaced["secret"]["createdAt"], first["secret"]["createdAt"]);
    assert_eq!(host.call("keeper", &json!({ "guess": "another value" })).await.is(200).json()["same"], true);
    let listed = host.manage(Method::GET, &path("keeper"), &json!({})).await.is(200).json();
    let names: Vec<_> = listed["secrets"].as_array().unwrap().iter().map(|one| (&one["name"], &one["visibility"])).collect();
    assert_eq!(names, [(&json!("API_KEY"), &json!("env")), (&json!("SELLER_KEY"), &json!("auth"))]);
    host.manage(Method::DELETE, &format!("{}?name=API_KEY", path("keeper")), &json!({})).await.is(200);
    host.manage(Method::DELETE, &format!("{}?name=API_KEY", path("keeper")), &json!({})).await.fails(404, "unknown_secret", "caller");
    assert_eq!(host.call("keeper", &json!({})).await.is(200).json()["length"], 0);
}

#[tokio::test]
async fn invalid_secret_is_rejected_and_not_echoed() {
    let host = Host::start().await;
    host.publish(&js("keeper", 0.0, "export default () => 1;")).await;
    let long = "v".repeat(4_097);
    let refused = [
        (json!({ "name": "key", "value": VALUE }), "invalid_secret", "/name"),
        (json!({ "name": "KEY", "value": "" }), "invalid_secret", "/value"),
        (json!({ "name": "KEY", "value": long }), "invalid_secret", "/value"),
    ];
    for (body, code, pointer) in refused {
        let answer = host.manage(Method::POST, &path("keeper"), &body).await;
        assert_eq!(answer.fails(422, code, "caller")["pointer"], pointer);
    }
    for body in [json!({ "name": "KEY", "value": 840_210_041_275_u64 }), json!({ "name": "KEY", "value": "abc", "more": 1 })] {
        let answer = host.manage(Method::POST, &path("keeper"), &body).await;
        assert_eq!(answer.status, 422);
        assert!(!String::from_utf8_lossy(&answer.body).contains("840210041275"));
    }
    let unnamed = host.manage(Method::DELETE, &path("keeper"), &json!({})).await;
    unnamed.fails(400, "invalid_request", "caller");
}

#[tokio::test]
async fn secrets_are_their_owners_alone() {
    let host = Host::start().await;
    let (_, owner) = host.register("one").await;
    let (_, other) = host.register("two").await;
    let tool = js("keeper", 0.0, "export default (req, ctx) => Object.keys(ctx.env).length;");
    host.as_builder(&owner, Method::POST, "/ai/endpoints/create", &tool).await.is(200);
    let body = json!({ "name": "KEY", "value": VALUE });
    host.as_builder(&owner, Method::POST, &path("keeper"), &body).await.is(200);
    let named = format!("{}?name=KEY", path("keeper"));
    let requests = [(Method::GET, path("keeper")), (Method::POST, path("keeper")), (Method::DELETE, named)];
    for (method, path) in requests {
        host.as_builder(&other, method.clone(), &path, &body).await.fails(403, "not_owner", "caller");
        host.send(host.request(method.clone(), &path).json(&body)).await.fails(401, "unauthorized", "caller");
    }
    let rotate = "/ai/admin/secrets/rotate";
    host.as_builder(&owner, Method::POST, rotate, &json!({})).await.fails(403, "not_owner", "caller");
    host.post(rotate, &json!({})).await.fails(401, "unauthorized", "caller");
    assert_eq!(host.call("keeper", &json!({})).await.is(200).json(), 1);
}

#[tokio::test]
async fn a_server_gets_a_secret_that_the_handler_never_sees() {
    let (address, other, seen) = seller().await;
    let host = Host::builder().flag("--guard-allow", format!("{address},{other}")).start().await;
    let source = "export default async (req, ctx) => {
        const got = await ctx.httpGetJson(req.input.url, { auth: { header: 'X-Key', env: 'SELLER_KEY' } });
        return { env: Object.keys(ctx.env), got: got.json };
    };";
    let mut tool = js("buyer", 0.0, source);
    tool["capabilities"] = json!({ "httpGetJson": true, "logs": true });
    tool["allowedHosts"] = json!(["127.0.0.1"]);
    host.publish(&tool).await;
    let call = async |path: &str| host.call("buyer", &json!({ "url": format!("http://{address}{path}") })).await;
    call("/").await.fails(502, "handler_failed", "tool");
    set(&host, "buyer", "SELLER_KEY", "k-3Zx9Qp7Lm2Vt", "auth").await.is(200);
    let body = call("/").await.is(200).json();
    assert_eq!((&body["env"], &body["got"]["key"]), (&json!([]), &json!("[redacted]")), "{body}");
    assert!(body["got"]["agent"].as_str().unwrap().starts_with("Tollhouse/"));
    // Another host does not get the secret.
    assert_eq!(call("/moved").await.is(200).json()["got"]["key"], Value::Null);
    assert_eq!(*seen.lock().unwrap(), ["k-3Zx9Qp7Lm2Vt", ""]);
}

#[tokio::test]
async fn answers_errors_and_logs_are_redacted() {
    let host = Host::start().await;
    let source = "export default async (req, ctx) => {
        const key = ctx.env.API_KEY;
        switch (req.input.how) {
            case 'json': return { list: [key, `Bearer ${key}`], [key]: btoa('user:pw'), plain: 'kept', b64: btoa(ctx.env.ASCII) };
            case 'raw': return new Response(`<p>${ctx.env.ASCII}</p>`, { headers: { 'content-type': 'text/html', link: ctx.env.ASCII } });
            case 'number': return { n: Number(ctx.env.PIN) };
            case 'throw': throw new Error(`cannot use ${key}`);
            default: ctx.progress(`with ${key} and ${ctx.env.ASCII}`); console.log('using', key, { key }); ctx.log.warn(key, { [ctx.env.ASCII]: 1 });
                await new Promise((done) => setTimeout(done, 50)); return 'logged';
        }
    };";
    host.publish(&js("leaky", 0.0, source)).await;
    for (name, value) in [("API_KEY", VALUE), ("ASCII", "ascii-4Gt7Yb2Nq"), ("PIN", "840210041275")] {
        set(&host, "leaky", name, value, "env").await.is(200);
    }
    let call = async |how: &str| host.call("leaky", &json!({ "how": how })).await;
    let json = call("json").await.is(200).json();
    assert_eq!((&json["list"], &json["plain"]), (&json!(["[redacted]", "Bearer [redacted]"]), &json!("kept")));
    assert!(json["[redacted]"].is_string() && json["b64"].as_str().unwrap().contains("[redacted]"), "{json}");
    let raw = call("raw").await.is(200);
    assert_eq!((&raw.body[..], raw.has("link")), (&b"<p>[redacted]</p>"[..], "[redacted]"));
    assert_eq!(call("number").await.is(200).json()["n"], "[redacted]");
    let threw = call("throw").await.fails(502, "handler_failed", "tool");
    assert!(threw["message"].as_str().unwrap().contains("cannot use [redacted]"), "{threw}");
    call("log").await.is(200);
    let stream = host.post("/ai/invoke", &json!({ "slug": "leaky", "input": { "how": "log" }, "stream": true })).await.is(200);
    assert!(stream.events().iter().any(|event| event.data["message"] == "with [redacted] and [redacted]"));
    let logs = crate::harness::eventually("the lines", std::time::Duration::from_secs(10), async || {
        let logs = host.manage(Method::GET, "/ai/endpoints/leaky/logs", &json!({})).await.is(200);
        let text = String::from_utf8(logs.body.to_vec()).unwrap();
        (text.contains("cannot use [redacted]") && text.matches("using").count() >= 2).then_some(text)
    })
    .await;
    for text in [logs, String::from_utf8(stream.body.to_vec()).unwrap()] {
        for part in ["7Qm2xV9pLw4Rt8Zk", "4Gt7Yb2Nq"] {
            assert!(!text.contains(part), "{text}");
        }
    }
}

/// Returns the forms in which to search for a secret: as it is, in hexadecimal, and the inner
/// digits of its base64 at each offset.
fn forms(secret: &str) -> Vec<String> {
    let mut forms = vec![secret.to_owned(), hex::encode(secret), hex::encode_upper(secret)];
    for shift in 0..3 {
        let shifted = [&vec![b' '; shift][..], secret.as_bytes()].concat();
        for encoded in [STANDARD_NO_PAD.encode(&shifted), URL_SAFE_NO_PAD.encode(&shifted)] {
            forms.push(encoded[4..encoded.len() - 4].to_owned());
        }
    }
    forms
}

/// Returns the names of `secrets` that are in `bytes`.
fn found<'a>(secrets: &'a [(&str, String)], bytes: &[u8]) -> Vec<&'a str> {
    let holds = |secret: &str| aho_corasick::AhoCorasick::new(forms(secret)).unwrap().is_match(bytes);
    secrets.iter().filter(|(_, secret)| holds(secret)).map(|(name, _)| *name).collect()
}

fn files(folder: &Path, into: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).unwrap().flatten() {
        match entry.file_type().unwrap() {
            folder if folder.is_dir() => files(&entry.path(), into),
            file if file.is_file() => into.push(entry.path()),
            // The socket through which commands talk to the host.
            _ => assert_eq!(entry.file_name(), "control"),
        }
    }
}

#[tokio::test]
async fn no_file_log_or_answer_contains_a_credential() {
    let mut host = Host::start().await;
    let (_, builder) = host.register("busy").await;
    let credit = host.mint(10.0).await;
    let (secret, auth) = ("sv-8Hq3Wn6Tz1Kd5Jf9", "sa-2Bv7Xc4Mr0Pg6Ly3");
    let source = "export default async (req, ctx) => {
        await ctx.kv.set('n', req.input.n);
        await ctx.files.write('last.json', { n: req.input.n });
        console.log(`n ${req.input.n}`, ctx.env.SECRET);
        if (req.input.n % 5 === 0) throw new Error(`failed with ${ctx.env.SECRET}`);
        return { n: req.input.n, echoed: ctx.env.SECRET, of: Object.keys(ctx.env), planted: req.input.planted };
    };";
    let mut tool = js("busy", 0.01, source);
    tool["capabilities"] = json!({ "kv": true, "logs": true, "files": true });
    host.publish(&tool).await;
    host.as_builder(&builder, Method::POST, "/ai/endpoints/create", &js("theirs", 0.0, "export default (req, ctx) => ctx.env;"))
        .await
        .is(200);
    set(&host, "busy", "SECRET", secret, "env").await.is(200);
    set(&host, "busy", "AUTH_SECRET", auth, "auth").await.is(200);
    host.as_builder(&builder, Method::POST, &path("theirs"), &json!({ "name": "SECRET", "value": secret })).await.is(200);
    let master = fs::read_to_string(host.folder().join("data/master-key")).unwrap().trim().to_owned();
    let mut credentials = vec![
        ("admin token", host.admin.clone()),
        ("builder key", builder.splitn(3, '_').nth(2).unwrap().to_owned()),
        ("credit", credit.splitn(3, '_').nth(2).unwrap().to_owned()),
        ("secret", secret.to_owned()),
        ("auth secret", auth.to_owned()),
        ("master key", master),
    ];
    let mut message = Vec::new();
    for n in 1..=20 {
        let answer = host.call_credit("busy", &json!({ "n": n }), &credit).await;
        if let Some(receipt) = answer.header("x-receipt-id") {
            message.push(host.get(&format!("/ai/receipts/{receipt}")).await.is(200));
        }
        message.push(answer);
        message.push(host.call("theirs", &json!({})).await.is(200));
    }
    // Refusals also produce answers and log lines.
    let wrong = host.request(Method::GET, &path("busy")).header("x-admin-token", format!("{}x", &host.admin));
    message.push(host.send(wrong).await.is(401));
    message.push(host.as_builder(&builder, Method::GET, &path("busy"), &json!({})).await.is(403));
    message.push(host.call_credit("busy", &json!({ "n": 1 }), &format!("{credit}x")).await.is(401));
    message.push(host.manage(Method::POST, "/ai/admin/secrets/rotate", &json!({})).await.is(200));
    message.push(host.call("theirs", &json!({})).await.is(200));
    for position in
        [path("busy"), "/ai/endpoints/busy".into(), "/ai/endpoints/busy/logs".into(), "/ai/builders/events".into(), "/health".into()]
    {
        message.push(host.manage(Method::GET, &position, &json!({})).await);
    }
    message.push(host.as_builder(&builder, Method::GET, "/ai/builders/events", &json!({})).await.is(200));
    message.push(host.as_builder(&builder, Method::GET, "/ai/builders/me", &json!({})).await.is(200));
    for answer in &message {
        let text = [answer.body.to_vec(), format!("{:?}", answer.headers).into_bytes()].concat();
        assert_eq!(found(&credentials, &text), Vec::<&str>::new(), "{answer:?}");
    }
    // Check the search itself: a plain value that a caller sent and a handler stored is found.
    let planted = "pl-6Zw1Nd8Qk3Hs5Rv7".to_owned();
    let plant = js("plant", 0.0, "export default async (req, ctx) => { await ctx.kv.set('planted', req.input.planted); return 1; };");
    host.publish(&plant).await;
    host.call("plant", &json!({ "planted": planted })).await.is(200);
    // A shutdown writes everything to disk.
    host.terminate();
    eventually("the host has ended", Duration::from_secs(20), async || (!host.lives()).then_some(())).await;
    host.kill9();
    credentials.push(("master key in force", fs::read_to_string(host.folder().join("data/master-key")).unwrap().trim().to_owned()));
    credentials.push(("planted", planted));
    let mut all = Vec::new();
    files(host.folder(), &mut all);
    let mut leaks: Vec<(String, Vec<&str>)> = all
        .iter()
        .map(|file| (file.strip_prefix(host.folder()).unwrap().display().to_string(), found(&credentials, &fs::read(file).unwrap())))
        .filter(|(_, found)| !found.is_empty())
        .collect();
    let planted: Vec<_> = leaks.extract_if(.., |(_, found)| *found == ["planted"]).collect();
    assert!(!planted.is_empty(), "the search finds nothing at all");
    leaks.sort();
    let expected = [("data/admin-token".to_owned(), vec!["admin token"]), ("data/master-key".to_owned(), vec!["master key in force"])];
    assert_eq!(leaks, expected);
    host.restart().await;
    assert_eq!(host.call("theirs", &json!({})).await.is(200).json(), json!({ "SECRET": "[redacted]" }));
}

#[tokio::test]
async fn the_command_rotates_a_running_host_and_a_stopped_one() {
    let mut host = Host::start().await;
    host.publish(&js("keeper", 0.0, "export default (req, ctx) => ctx.env.KEY === req.input.guess;")).await;
    set(&host, "keeper", "KEY", VALUE, "env").await.is(200);
    let file = host.folder().join("data/master-key");
    let mut keys = vec![fs::read_to_string(&file).unwrap()];
    let rotate = |arguments: &[&str], keys: &mut Vec<String>| {
        let mut command = tollhouse();
        let output = command.args(["secrets", "rotate"]).args(arguments).env("TOLLHOUSE_ADMIN_TOKEN", &host.admin).output().unwrap();
        let text = String::from_utf8([output.stdout, output.stderr].concat()).unwrap();
        keys.push(fs::read_to_string(&file).unwrap());
        (output.status.success(), text)
    };
    let (done, text) = rotate(&["--url", &host.url], &mut keys);
    assert!(done && text.starts_with("re-encrypted 1 secret with"), "{text}");
    let data = host.folder().join("data").display().to_string();
    let (done, text) = rotate(&["--data", &data], &mut keys);
    assert!(!done && text.contains("store cannot be opened"), "a running host keeps its store: {text}");
    assert_eq!(keys[1], keys[2]);
    assert_eq!(host.call("keeper", &json!({ "guess": VALUE })).await.is(200).json(), true);
    host.kill9();
    let mut command = tollhouse();
    let output = command.args(["secrets", "rotate", "--data", &data]).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    assert_ne!(keys[2], fs::read_to_string(&file).unwrap());
    host.restart().await;
    assert_eq!(host.call("keeper", &json!({ "guess": VALUE })).await.is(200).json(), true);
}

#[tokio::test]
async fn nobody_reads_the_memory_of_the_host() {
    let host = Host::start().await;
    let limits = fs::read_to_string(format!("/proc/{}/limits", host.pid())).unwrap();
    let core = limits.lines().find(|line| line.starts_with("Max core file size")).unwrap();
    assert_eq!(core.split_whitespace().skip(4).take(2).collect::<Vec<_>>(), ["0", "0"]);
    // In `/proc`, a process that is not dumpable belongs to root. If the tests run as root, this
    // proves nothing.
    let owner = std::os::unix::fs::MetadataExt::uid(&fs::metadata(format!("/proc/{}/environ", host.pid())).unwrap());
    assert_eq!(owner, 0);
}

#[tokio::test]
async fn a_secret_whose_master_key_is_lost_stops_its_tool_and_is_the_hosts_fault() {
    let mut host = Host::start().await;
    host.publish(&js("keeper", 0.0, "export default (req, ctx) => ({ length: ctx.env.API_KEY.length });")).await;
    set(&host, "keeper", "API_KEY", VALUE, "env").await.is(200);
    host.call("keeper", &json!({})).await.is(200);
    host.kill9();
    fs::remove_file(host.folder().join("data/master-key")).unwrap();
    host.restart().await;
    host.call("keeper", &json!({})).await.fails(503, "secrets_unavailable", "host");
    set(&host, "keeper", "API_KEY", VALUE, "env").await.is(200);
    host.call("keeper", &json!({})).await.is(200);
}

#[tokio::test]
async fn a_master_key_that_is_given_is_not_rotated_over_the_wire() {
    let host = Host::builder().env("TOLLHOUSE_MASTER_KEY", "ab".repeat(32)).start().await;
    let refused = host.manage(Method::POST, "/ai/admin/secrets/rotate", &json!({})).await.fails(409, "master_key_given", "caller");
    let message = refused["message"].as_str().unwrap();
    assert!(
        message.contains("`TOLLHOUSE_MASTER_KEY_FILE`") && message.contains("`NEW,OLD`") && !message.contains("`OLD,NEW`"),
        "{message}"
    );
}

//! Secrets with hosts: the handler gets a placeholder, and the host sends the value.

use std::{
    fs,
    os::unix::fs::FileExt as _,
    sync::{Arc, Mutex},
};

use axum::{
    Json, Router,
    http::{HeaderMap, Uri},
    response::Redirect,
    routing::any,
};
use reqwest::Method;
use serde_json::{Value, json};

use crate::harness::{Answer, Host, eventually, js, listen};

const VALUE: &str = "sk-7Qm2xV9pLw4Rt8Zk";

/// The `authorization`, the URL and the body of each request to a server.
type Seen = Arc<Mutex<Vec<(String, String, String)>>>;

/// Starts a server that records requests, repeats the key, and redirects `/moved?URL`.
async fn seller() -> (String, Seen) {
    let seen = Seen::default();
    let stored = Arc::clone(&seen);
    let answer = |uri: Uri, headers: HeaderMap, body: String| async move {
        let key = headers.get("authorization").map(|value| String::from_utf8_lossy(value.as_bytes()).into_owned()).unwrap_or_default();
        stored.lock().unwrap().push((key.clone(), uri.to_string(), body));
        Json(json!({ "key": key, "uri": uri.to_string() }))
    };
    let moved = |uri: Uri| async move { Redirect::temporary(uri.query().unwrap_or_default()) };
    (listen(Router::new().route("/moved", any(moved)).fallback(any(answer))).await.to_string(), seen)
}

/// Publishes a tool that sends a request with the text of its secret, and logs it.
async fn publish(host: &Host) {
    let source = "let last;
    export default async (req, ctx) => {
        const key = ctx.env.SELLER_KEY;
        console.log('using', key);
        const { url, how } = req.input;
        if (how === 'json') return (await ctx.httpGetJson(url, { headers: { authorization: `Bearer ${key}` } })).json;
        const send = (url, init) => fetch(url, init).then(
            async (response) => ({ url: response.url.replace(key, 'KEY'), answer: await response.json() }),
            ({ message, cause }) => ({ code: cause.code, message }),
        );
        switch (how) {
            case 'url': return send(`${url}?key=${key}`);
            case 'body': return send(url, { method: 'POST', body: JSON.stringify({ key }) });
            case 'basic': return send(url, { headers: { authorization: `Basic ${btoa(`user:${key}`)}` } });
            case 'seen': return { length: key.length, prefix: key.slice(0, 17), fresh: last !== (last = key) };
            case 'answer': return { key, text: `it is ${key}` };
            default: return send(url, { headers: { authorization: `Bearer ${key}` } });
        }
    };";
    let mut tool = js("buyer", 0.0, source);
    tool["capabilities"] = json!({ "fetch": true, "httpGetJson": true, "logs": true });
    tool["allowedHosts"] = json!(["127.0.0.1"]);
    host.publish(&tool).await;
}

async fn set(host: &Host, hosts: &[&str], places: &[&str]) -> Answer {
    let secret = json!({ "name": "SELLER_KEY", "value": VALUE, "hosts": hosts, "places": places });
    host.manage(Method::POST, "/ai/endpoints/buyer/secrets", &secret).await
}

async fn call(host: &Host, url: &str, how: &str) -> Value {
    host.call("buyer", &json!({ "url": url, "how": how })).await.is(200).json()
}

#[tokio::test]
async fn the_host_sends_a_value_that_the_handler_never_gets() {
    let (address, seen) = seller().await;
    let host = Host::builder().flag("--guard-allow", &address).start().await;
    publish(&host).await;
    let shown = set(&host, &[&address], &[]).await.is(200).json();
    let expected = (&json!("hosts"), &json!([address]), &json!(["header"]));
    assert_eq!((&shown["secret"]["visibility"], &shown["secret"]["hosts"], &shown["secret"]["places"]), expected);
    let url = format!("http://{address}/");
    for how in ["fetch", "json"] {
        let body = call(&host, &url, how).await;
        assert!(body.to_string().contains("Bearer [redacted]") && !body.to_string().contains(VALUE), "{body}");
    }
    call(&host, &url, "basic").await;
    let basic = format!("Basic {}", base64::Engine::encode(&base64::engine::general_purpose::STANDARD, format!("user:{VALUE}")));
    let keys: Vec<_> = seen.lock().unwrap().iter().map(|(key, ..)| key.clone()).collect();
    assert_eq!(keys, [format!("Bearer {VALUE}"), format!("Bearer {VALUE}"), basic]);
    for _ in 0..2 {
        assert_eq!(call(&host, &url, "seen").await, json!({ "length": 49, "prefix": "tollhouse_secret_", "fresh": true }));
    }
    assert_eq!(call(&host, &url, "answer").await, json!({ "key": "[redacted]", "text": "it is [redacted]" }));
    eventually("the lines", std::time::Duration::from_secs(10), async || {
        let logs = host.manage(Method::GET, "/ai/endpoints/buyer/logs", &json!({})).await.is(200);
        let text = String::from_utf8(logs.body.to_vec()).unwrap();
        assert!(!text.contains("tollhouse_secret_") && !text.contains(VALUE), "{text}");
        text.contains("using [redacted]").then_some(())
    })
    .await;
}

#[tokio::test]
async fn a_value_goes_into_other_places_only_if_its_secret_says_so() {
    let (address, seen) = seller().await;
    let host = Host::builder().flag("--guard-allow", &address).start().await;
    publish(&host).await;
    let url = format!("http://{address}/");
    set(&host, &[&address], &[]).await.is(200);
    for (how, place) in [("url", "url"), ("body", "body")] {
        let refused = call(&host, &url, how).await;
        assert_eq!(refused["code"], "invalid_argument");
        assert!(refused["message"].as_str().unwrap().contains(&format!("set it with `--in {place}`")), "{refused}");
    }
    assert!(seen.lock().unwrap().is_empty());
    set(&host, &[&address], &["url", "body"]).await.is(200);
    let body = call(&host, &url, "url").await;
    assert_eq!(body, json!({ "url": format!("{url}?key=KEY"), "answer": { "key": "", "uri": "/?key=[redacted]" } }));
    call(&host, &url, "body").await;
    assert_eq!(call(&host, &url, "fetch").await["code"], "invalid_argument", "headers were not named");
    let all = seen.lock().unwrap().clone();
    assert_eq!(all[0].1, format!("/?key={VALUE}"));
    assert_eq!(all[1].2, json!({ "key": VALUE }).to_string());
}

#[tokio::test]
async fn no_other_host_gets_a_value_not_even_by_a_redirect() {
    let ((address, seen), (other, elsewhere)) = (seller().await, seller().await);
    let host = Host::builder().flag("--guard-allow", format!("{address},{other}")).start().await;
    publish(&host).await;
    set(&host, &[&address], &["header", "url", "body"]).await.is(200);
    let refused = call(&host, &format!("http://{other}/"), "fetch").await;
    assert_eq!(refused["code"], "not_granted");
    assert!(refused["message"].as_str().unwrap().contains(&format!("can only be sent to `{address}`")), "{refused}");
    assert!(elsewhere.lock().unwrap().is_empty());
    let moved = format!("http://{address}/moved?http://{other}/");
    assert_eq!(call(&host, &moved, "fetch").await["answer"]["key"], "", "the header is not sent");
    assert_eq!(call(&host, &moved, "body").await["code"], "not_granted");
    assert!(elsewhere.lock().unwrap().iter().all(|(key, uri, body)| [key, uri, body].iter().all(|text| !text.contains(VALUE))));
    assert!(seen.lock().unwrap().is_empty());
}

#[tokio::test]
async fn invalid_hosts_of_a_secret_are_refused() {
    let host = Host::start().await;
    publish(&host).await;
    for (hosts, places) in [(vec!["*"], vec![]), (vec!["https://a.example.com"], vec![]), (vec![], vec!["url"])] {
        set(&host, &hosts, &places).await.fails(422, "invalid_secret", "caller");
    }
    let short = json!({ "name": "SELLER_KEY", "value": "short", "hosts": ["api.example.com"] });
    host.manage(Method::POST, "/ai/endpoints/buyer/secrets", &short).await.fails(422, "invalid_secret", "caller");
}

/// Returns the private memory of a process that it can write to, or `None` if this user cannot read it.
fn memory(pid: i32) -> Option<Vec<u8>> {
    let (maps, mem) = (fs::read_to_string(format!("/proc/{pid}/maps")).ok()?, fs::File::open(format!("/proc/{pid}/mem")).ok()?);
    let mut all = vec![];
    for row in maps.lines() {
        let Some((place, _)) = row.split_once(' ').filter(|(_, rights)| rights.starts_with("rw")) else { continue };
        let (start, end) = place.split_once('-').unwrap();
        let [start, end] = [start, end].map(|digits| u64::from_str_radix(digits, 16).unwrap());
        let mut part = vec![0; usize::try_from(end - start).unwrap().min(64 << 20)];
        // A part can be gone by now.
        let read = mem.read_at(&mut part, start).unwrap_or_default();
        all.extend_from_slice(&part[..read]);
    }
    (!all.is_empty()).then_some(all)
}

#[tokio::test]
async fn the_memory_of_a_worker_has_the_placeholder_and_not_the_value() {
    let (address, seen) = seller().await;
    let host = Host::builder().flag("--guard-allow", &address).flag("--sandbox-spares", 0).start().await;
    publish(&host).await;
    set(&host, &[&address], &["header", "url", "body"]).await.is(200);
    for how in ["fetch", "url", "body", "basic", "seen"] {
        call(&host, &format!("http://{address}/"), how).await;
    }
    assert_eq!(seen.lock().unwrap().len(), 4);
    let dumps: Vec<_> = host.descendants().into_iter().filter_map(memory).collect();
    if dumps.is_empty() {
        return;
    }
    let contains = |dump: &Vec<u8>, text: &str| dump.windows(text.len()).any(|part| part == text.as_bytes());
    let holders = |text: &str| dumps.iter().filter(|dump| contains(dump, text)).count();
    assert!(holders("tollhouse_secret_") > 0, "of {} processes", dumps.len());
    assert_eq!((holders(VALUE), holders(&VALUE[4..])), (0, 0));
}

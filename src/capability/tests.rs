use bytes::Bytes;
use serde_json::json;
use tollhouse_base::id::CallId;
use tollhouse_protocol::{Limits, RedirectMode};
use tollhouse_store::{
    faulty::{Fault, FaultyStore},
    memory::MemoryStore,
};
use tollhouse_tool::Capabilities;

use super::{secret::Secret, testing::serve, *};

mod names;

fn services(guard: Guard) -> (Arc<CapabilityServices>, tempfile::TempDir) {
    let folder = tempfile::tempdir().unwrap();
    let store = Arc::new(MemoryStore::new());
    let objects = Objects::in_folder(store.clone(), folder.path());
    let (secrets, replica) = (Arc::new(Secrets::empty(store.clone())), Replica::new(store.clone()));
    (CapabilityServices::new(store, Clock::default(), guard, objects, LogSettings::default(), secrets, replica), folder)
}

fn call(grant: &Arc<Grant>) -> CallGrants {
    let secrets = vec![Secret::new("KEY", "super-secret-value", Visibility::Env)];
    CallGrants {
        owner: tollhouse_tool::Owner::Platform,
        endpoint_id: EndpointId::generate(),
        call_id: CallId::generate(),
        by_owner: false,
        grant: Arc::clone(grant),
        secrets,
        limits: Limits::default(),
    }
}

fn everything() -> Granted {
    Granted { capabilities: Capabilities::ALL, hosts: AllowedHosts::parse(&["127.0.0.1"]).unwrap(), ..Granted::default() }
}

fn requests(url: &str) -> Vec<(&'static str, OpRequest)> {
    vec![
        ("`capabilities.kv: true`", OpRequest::KvGet { key: "a".into() }),
        ("`capabilities.kv: true`", OpRequest::KvSet { key: "a".into(), value: "1".into(), ttl_ms: None }),
        ("`capabilities.kv: true`", OpRequest::KvDelete { key: "a".into() }),
        ("`capabilities.kv: true`", OpRequest::KvList { prefix: String::new(), limit: 1, cursor: None }),
        ("`capabilities.kv: true`", OpRequest::KvAtomic { checks: Vec::new(), writes: Vec::new() }),
        ("`capabilities.files: true`", OpRequest::FileRead { path: "a".into() }),
        ("`capabilities.files: true`", OpRequest::FileWrite { path: "a".into(), content: Bytes::new() }),
        ("`capabilities.files: true`", OpRequest::FileDelete { path: "a".into() }),
        ("`capabilities.files: true`", OpRequest::FileList { prefix: String::new(), limit: 1, cursor: None }),
        (
            "`capabilities.httpGetJson: true` and `allowedHosts`",
            OpRequest::HttpGetJson { url: url.into(), headers: Vec::new(), timeout_ms: None, auth: None },
        ),
        (
            "`capabilities.fetch: true` and `allowedHosts`",
            OpRequest::Fetch {
                method: "GET".into(),
                url: url.into(),
                headers: Vec::new(),
                body: Bytes::new(),
                redirect: RedirectMode::Follow,
                id: 1,
            },
        ),
    ]
}

#[tokio::test]
async fn a_response_is_read_with_a_grant_and_ended_without_one() {
    let (services, _folder) = services(Guard::new(GuardSettings::default()).unwrap());
    let grant = Grant::new(Granted::default());
    let ops = Ops::new(call(&grant), services);
    assert_eq!(ops.op(OpRequest::FetchRead { id: 1 }).await.unwrap_err().code, "not_granted");
    assert_eq!(ops.op(OpRequest::FetchCancel { id: 1 }).await.unwrap(), OpValue::None);
}

#[tokio::test]
async fn every_op_needs_its_grant_and_loses_it_while_the_call_runs() {
    let server = axum::Router::new().route("/", axum::routing::get(|| async { axum::Json(1) }));
    let address = serve(server).await;
    let guard = Guard::new(GuardSettings { allow: vec![address.to_string()], ..GuardSettings::default() }).unwrap();
    let (services, _folder) = services(guard);
    let grant = Grant::new(Granted::default());
    let ops = Ops::new(call(&grant), services);
    let url = format!("http://{address}/");
    for granted in [false, true, false] {
        grant.set(if granted { everything() } else { Granted::default() });
        for (field, request) in requests(&url) {
            match ops.op(request.clone()).await {
                Ok(_) => assert!(granted, "{request:?}"),
                Err(failure) => {
                    assert!(!granted && failure.code == "not_granted" && failure.message.contains(field), "{request:?}: {failure:?}");
                }
            }
        }
    }
}

#[tokio::test]
async fn no_op_of_the_table_is_done_without_a_grant() {
    let (services, _folder) = services(Guard::new(GuardSettings::default()).unwrap());
    let grant = Grant::new(Granted::default());
    let ops = Ops::new(call(&grant), services);
    for request in OpRequest::each() {
        let failure = ops.op(request.clone()).await.unwrap_err();
        assert!(failure.code == "not_granted" && failure.message.contains("`capabilities."), "{request:?}: {failure:?}");
    }
    grant.set(everything());
    for request in OpRequest::each() {
        let code = ops.op(request.clone()).await.err().map(|failure| failure.code);
        assert_ne!(code.as_deref(), Some("not_granted"), "{request:?}");
    }
}

#[tokio::test]
async fn requested_capability_without_a_grant_waits_for_an_admin() {
    let (services, _folder) = services(Guard::new(GuardSettings::default()).unwrap());
    let requested = Capabilities { kv: true, ..Capabilities::default() };
    let grant = Grant::new(Granted { requested, ..Granted::default() });
    let ops = Ops::new(call(&grant), services);
    let failure = ops.op(OpRequest::KvGet { key: "a".into() }).await.unwrap_err();
    assert_eq!((&*failure.code, &*failure.message), ("not_granted", "ctx.kv is not granted yet: `capabilities.kv` waits for an admin"));
    let failure = ops.op(OpRequest::FileDelete { path: "a".into() }).await.unwrap_err();
    assert!(failure.message.contains("request it with `capabilities.files: true`"), "{failure:?}");
    // A grant of one host, and a request for another.
    let requested_hosts = AllowedHosts::parse(&["*.example.com", "ports.dev:8443"]).unwrap();
    grant.set(Granted { requested_hosts, ..everything() });
    let ask = |url: &str| OpRequest::HttpGetJson { url: url.into(), headers: Vec::new(), timeout_ms: None, auth: None };
    for (url, message) in [
        ("https://api.example.com/", "the host `api.example.com` in `allowedHosts` waits for an admin"),
        ("https://ports.dev:8443/", "the host `ports.dev` in `allowedHosts` waits for an admin"),
        ("https://other.example/", "the host `other.example` is not in `allowedHosts` of `tool.json`"),
    ] {
        let failure = ops.op(ask(url)).await.unwrap_err();
        assert_eq!((&*failure.code, &*failure.message), ("not_granted", message));
    }
}

#[tokio::test]
async fn failed_op_differs_from_a_forbidden_one() {
    let folder = tempfile::tempdir().unwrap();
    let store = Arc::new(FaultyStore::new(MemoryStore::new()));
    let (secrets, replica) = (Arc::new(Secrets::empty(store.clone())), Replica::new(store.clone()));
    let guard = Guard::new(GuardSettings::default()).unwrap();
    let objects = Objects::in_folder(store.clone(), folder.path());
    let services = CapabilityServices::new(store.clone(), Clock::default(), guard, objects, LogSettings::default(), secrets, replica);
    let ops = Ops::new(call(&Grant::new(everything())), services);
    let set = |key: &str| OpRequest::KvSet { key: key.into(), value: "1".into(), ttl_ms: None };
    assert_eq!(ops.op(set("")).await.unwrap_err().code, "invalid_argument");
    assert!(!ops.host_failed());
    store.fail_all(Fault::Before);
    assert_eq!(ops.op(set("a")).await.unwrap_err().code, "store_unavailable");
    assert!(ops.host_failed());
}

#[tokio::test]
async fn a_fenced_host_does_nothing_for_calls() {
    let (folder, store) = (tempfile::tempdir().unwrap(), Arc::new(MemoryStore::shared(Clock::default())));
    // A replica that has not read any changes yet is fenced.
    let (secrets, replica) = (Arc::new(Secrets::empty(store.clone())), Replica::new(store.clone()));
    let (guard, objects) = (Guard::new(GuardSettings::default()).unwrap(), Objects::in_folder(store.clone(), folder.path()));
    let services = CapabilityServices::new(store, Clock::default(), guard, objects, LogSettings::default(), secrets, replica);
    let ops = Ops::new(call(&Grant::new(everything())), services);
    let get = OpRequest::KvGet { key: "a".into() };
    assert_eq!(ops.op(get).await.unwrap_err().code, "store_unavailable");
    assert!(ops.host_failed());
}

#[tokio::test]
async fn one_capability_is_revoked_without_the_others() {
    let (services, _folder) = services(Guard::new(GuardSettings::default()).unwrap());
    let grant = Grant::new(everything());
    let ops = Ops::new(call(&grant), services);
    grant.set(Granted { capabilities: Capabilities { kv: false, ..Capabilities::ALL }, ..everything() });
    assert_eq!(ops.op(OpRequest::KvGet { key: "a".into() }).await.unwrap_err().code, "not_granted");
    assert_eq!(ops.op(OpRequest::FileRead { path: "a".into() }).await.unwrap(), OpValue::None);
    let narrowed = AllowedHosts::parse(&["api.example.com"]).unwrap();
    grant.set(Granted { hosts: narrowed, ..everything() });
    let request = OpRequest::HttpGetJson { url: "https://127.0.0.1/".into(), headers: Vec::new(), timeout_ms: None, auth: None };
    assert_eq!(ops.op(request).await.unwrap_err().code, "not_granted");
}

#[test]
fn the_current_grant_can_be_read() {
    let grant = Grant::new(Granted::default());
    grant.set(everything());
    assert_eq!(*grant.now(), everything());
}

#[tokio::test]
async fn a_dry_run_keeps_nothing_of_its_endpoints_and_reports_its_log() {
    let (services, _folder) = services(Guard::new(GuardSettings::default()).unwrap());
    let grant = Grant::new(everything());
    let (stored, dry) = (call(&grant), DryRunStore::new(&Clock::default()));
    let endpoint = stored.endpoint_id.clone();
    let ops = [Ops::new(stored.clone(), Arc::clone(&services)), Ops::new(stored, Arc::clone(&services)).with_dry_run(Arc::clone(&dry))];
    for (ops, content) in ops.iter().zip(["1", "2"]) {
        ops.op(OpRequest::KvSet { key: "a".into(), value: content.into(), ttl_ms: None }).await.unwrap();
        ops.op(OpRequest::FileWrite { path: "a".into(), content: content.into() }).await.unwrap();
        ops.log(LogLine { level: LogLevel::Info, message: content.into(), fields: String::new() });
        ops.report(LogLevel::Info, "ended", json!({}));
    }
    for (ops, content) in ops.iter().zip(["1", "2"]) {
        assert_eq!(ops.op(OpRequest::KvGet { key: "a".into() }).await.unwrap(), OpValue::Json(content.into()));
        assert_eq!(ops.op(OpRequest::FileRead { path: "a".into() }).await.unwrap(), OpValue::Bytes(content.into()));
    }
    services.logs.flush().await;
    let page = services.logs.list(&endpoint, &LogQuery { limit: 10, ..LogQuery::default() }).await.unwrap().unwrap();
    let messages = |entries: &[LogEntry]| entries.iter().map(|entry| entry.message.clone()).collect::<Vec<_>>();
    assert_eq!(messages(&page.entries), ["ended", "1"]);
    assert_eq!(messages(&dry.take_log()), ["2", "ended"]);
}

#[test]
fn dry_run_stores_at_most_as_much_as_a_call() {
    let max = Limits { kv_keys: u64::MAX, kv_bytes: u64::MAX, files_bytes: u64::MAX, ..Limits::default() };
    let narrowed = DryRunStore::narrowed(max);
    assert_eq!((narrowed.kv_keys, narrowed.kv_bytes, narrowed.files_bytes), (1_000, 4_194_304, 4_194_304));
    let least = Limits { kv_keys: 1, kv_bytes: 2, files_bytes: 3, wall_ms: 4, ..Limits::default() };
    assert_eq!(DryRunStore::narrowed(least), least);
}

#[tokio::test]
async fn shutdown_waits_for_pending_writes_of_calls() {
    let (services, _folder) = services(Guard::new(GuardSettings::default()).unwrap());
    let call = call(&Grant::new(everything()));
    let endpoint = call.endpoint_id.clone();
    let ops = Ops::new(call, Arc::clone(&services));
    let mut writing = ops.op(OpRequest::FileWrite { path: "a".into(), content: "1".into() });
    assert!(futures_util::poll!(&mut writing).is_pending());
    drop(writing);
    ops.log(LogLine { level: LogLevel::Info, message: "line".into(), fields: String::new() });
    services.finish().await;
    assert_eq!(ops.op(OpRequest::FileRead { path: "a".into() }).await.unwrap(), OpValue::Bytes("1".into()));
    assert_eq!(services.logs.list(&endpoint, &LogQuery { limit: 10, ..LogQuery::default() }).await.unwrap().unwrap().entries.len(), 1);
}

#[tokio::test]
async fn server_only_secrets_are_hidden_from_the_handler() {
    let server = axum::Router::new().route("/", axum::routing::get(|| async { axum::Json(["super-secret-value", "for servers only"]) }));
    let address = serve(server).await;
    let guard = Guard::new(GuardSettings { allow: vec![address.to_string()], ..GuardSettings::default() }).unwrap();
    let (services, _folder) = services(guard);
    let mut call = call(&Grant::new(everything()));
    call.secrets.push(Secret::new("SELLER_KEY", "for servers only", Visibility::Auth));
    let request = OpRequest::HttpGetJson { url: format!("http://{address}/"), headers: Vec::new(), timeout_ms: None, auth: None };
    let OpValue::Json(answer) = Ops::new(call, services).op(request).await.unwrap() else { panic!("expected JSON") };
    let answer: serde_json::Value = serde_json::from_slice(&answer).unwrap();
    assert_eq!(answer["json"], json!(["super-secret-value", "[redacted]"]));
}

#[tokio::test]
async fn log_lines_go_to_the_store() {
    let (services, _folder) = services(Guard::new(GuardSettings::default()).unwrap());
    let grant = Grant::new(everything());
    let call = call(&grant);
    let endpoint = call.endpoint_id.clone();
    let ops = Ops::new(call, Arc::clone(&services));
    let log = |message: &str| ops.log(LogLine { level: LogLevel::Info, message: message.into(), fields: String::new() });
    log("one");
    log("super-secret-value");
    grant.set(Granted { capabilities: Capabilities { logs: false, ..Capabilities::ALL }, ..everything() });
    log("not granted");
    ops.report(LogLevel::Error, "handler threw super-secret-value", json!({"stack": ["at a", "at super-secret-value"]}));
    services.logs.flush().await;
    let page = services.logs.list(&endpoint, &LogQuery { limit: 10, ..LogQuery::default() }).await.unwrap().unwrap();
    let stored: Vec<_> = page.entries.iter().map(|entry| entry.message.as_str()).collect();
    assert_eq!(stored, ["handler threw [redacted]", "[redacted]", "one"]);
    assert_eq!(json!(page.entries[0].fields), json!({"stack": ["at a", "at [redacted]"]}));
}

#[tokio::test]
async fn progress_is_cleaned_and_rate_limited() {
    let (services, _folder) = services(Guard::new(GuardSettings::default()).unwrap());
    let mut call = call(&Grant::new(Granted::default()));
    call.limits = Limits { progress_per_second: 5, progress_bytes: 24, ..call.limits };
    let (hear, received) = std::sync::mpsc::channel();
    let ops = Ops::new(call, services).with_listener(move |message: ProgressUpdate| hear.send(message).unwrap());
    let messages = ["one", "two\n\u{1b}[31mlines", "super-secret-value", "cut amid a super-sec", "whole: super-sec", "one too many"];
    for message in messages {
        ops.progress(ProgressMessage { message: message.into(), fraction: Some(0.5) });
    }
    let listed: Vec<_> = received.try_iter().map(|received| received.message).collect();
    assert_eq!(listed, ["one", "two lines", "[redacted]", "cut amid a [redacted]", "whole: super-sec"]);
    tokio::time::sleep(Duration::from_millis(1_001)).await;
    ops.progress(ProgressMessage { message: "in the next second".into(), fraction: None });
    assert_eq!(received.try_iter().count(), 1);
}

#[tokio::test(start_paused = true)]
async fn sleep_takes_its_time_and_never_more_than_the_call() {
    let (services, _folder) = services(Guard::new(GuardSettings::default()).unwrap());
    let limits = Limits { wall_ms: 60, ..Limits::default() };
    let ops = Ops::new(CallGrants { limits, ..call(&Grant::new(Granted::default())) }, services);
    for (asked_ms, slept_ms) in [(0, 0), (20, 20), (u64::MAX, 60)] {
        let started = tokio::time::Instant::now();
        assert_eq!(ops.op(OpRequest::Sleep { ms: asked_ms }).await.unwrap(), OpValue::None);
        assert_eq!(started.elapsed(), Duration::from_millis(slept_ms));
    }
}

#[tokio::test]
async fn a_call_reads_its_own_body_and_needs_no_grant() {
    let (services, _folder) = services(Guard::new(GuardSettings::default()).unwrap());
    let body = Arc::new(CallBody::in_memory("name,age".into()));
    let grants = || call(&Grant::new(Granted::default()));
    let with = Ops::new(grants(), Arc::clone(&services)).with_body(Some(body));
    assert_eq!(with.op(OpRequest::BodyRead { offset: 5 }).await.unwrap(), OpValue::Bytes("age".into()));
    assert_eq!(with.op(OpRequest::BodyRead { offset: u64::MAX }).await.unwrap(), OpValue::None);
    let without = Ops::new(grants(), services);
    assert_eq!(without.op(OpRequest::BodyRead { offset: 0 }).await.unwrap(), OpValue::None);
}

/// The answer of a stream, which its caller leaves at an empty chunk.
#[derive(Default)]
struct Received(tollhouse_base::lock::Lock<Vec<String>>);

impl Received {
    fn take(&self, text: String) -> futures_util::future::BoxFuture<'_, Result<(), OpFailure>> {
        let accepted = if text.is_empty() { Err(OpFailure::new("canceled", "the caller is gone")) } else { Ok(()) };
        self.0.lock().push(text);
        Box::pin(async { accepted })
    }
}

impl AnswerStream for Received {
    fn open(&self, head: StreamHead, first: Bytes) -> futures_util::future::BoxFuture<'_, Result<(), OpFailure>> {
        self.take(format!("{} {:?} {}", head.status, head.headers, String::from_utf8_lossy(&first)))
    }

    fn write(&self, chunk: Bytes) -> futures_util::future::BoxFuture<'_, Result<(), OpFailure>> {
        self.take(String::from_utf8_lossy(&chunk).into_owned())
    }
}

#[tokio::test]
async fn an_answer_is_streamed_to_its_caller_and_nowhere_without_one() {
    let (services, _folder) = services(Guard::new(GuardSettings::default()).unwrap());
    let grants = || call(&Grant::new(Granted::default()));
    let open = || OpRequest::StreamOpen { status: 201, headers: vec![("a".into(), "b".into())], first: "one".into() };
    let write = |chunk: &'static str| OpRequest::StreamWrite { chunk: chunk.into() };
    let received = Arc::new(Received::default());
    let with = Ops::new(grants(), Arc::clone(&services)).with_answer_stream(Arc::<Received>::clone(&received));
    assert_eq!(with.op(open()).await.unwrap(), OpValue::None);
    assert_eq!(with.op(write("two")).await.unwrap(), OpValue::None);
    assert_eq!(with.op(write("")).await.unwrap_err().code, "canceled");
    assert_eq!(*received.0.lock(), [r#"201 [("a", "b")] one"#, "two", ""]);
    let without = Ops::new(grants(), services);
    for request in [open(), write("two")] {
        assert_eq!(without.op(request).await.unwrap_err().code, "not_granted");
    }
    assert!(!without.host_failed());
}

#[tokio::test]
async fn a_forgotten_endpoint_leaves_nothing() {
    let (services, folder) = services(Guard::new(GuardSettings::default()).unwrap());
    let call = call(&Grant::new(everything()));
    let endpoint = call.endpoint_id.clone();
    let ops = Ops::new(call, Arc::clone(&services));
    ops.op(OpRequest::KvSet { key: "a".into(), value: "1".into(), ttl_ms: None }).await.unwrap();
    ops.op(OpRequest::FileWrite { path: "a".into(), content: "1".into() }).await.unwrap();
    ops.log(LogLine { level: LogLevel::Info, message: "line".into(), fields: String::new() });
    services.forget(&endpoint).await.unwrap();
    assert_eq!(ops.op(OpRequest::KvGet { key: "a".into() }).await.unwrap(), OpValue::None);
    assert_eq!(ops.op(OpRequest::FileRead { path: "a".into() }).await.unwrap(), OpValue::None);
    assert!(services.logs.list(&endpoint, &LogQuery { limit: 10, ..LogQuery::default() }).await.unwrap().unwrap().entries.is_empty());
    let files = |path: &std::path::Path| std::fs::read_dir(path).unwrap().map(|entry| entry.unwrap().path()).collect::<Vec<_>>();
    assert!(files(folder.path()).iter().all(|shard| files(shard).is_empty()));
}

#[test]
fn secrets_do_not_show_when_a_call_is_printed() {
    let printed = format!("{:?}", call(&Grant::new(everything())));
    assert!(printed.contains("KEY") && !printed.contains("super-secret-value"), "{printed}");
}

#[tokio::test]
async fn charge_for_another_call_is_rejected() {
    let (services, _folder) = services(Guard::new(GuardSettings::default()).unwrap());
    let grant = Grant::new(Granted::default());
    let (own, other) = (call(&grant), CallId::generate().to_string());
    let (id, metered) = (own.call_id.to_string(), Arc::new(MeteredCharge::new(tollhouse_tool::MicroUsd(90_000))));
    let ops = Ops::new(own, services).with_charge(Arc::clone(&metered));
    let charge = |call: &str, usd: &str| ops.op(OpRequest::Charge { call: call.to_owned(), usd: usd.to_owned() });
    charge(&id, "0.01").await.unwrap();
    for call in [other.as_str(), "", "call_1"] {
        assert_eq!(charge(call, "0.09").await.unwrap_err().code, "call_ended", "{call}");
    }
    assert_eq!(metered.charged(), Some(tollhouse_tool::MicroUsd(10_000)));
}

//! Slow names of one tool next to work of another.

use std::sync::atomic::AtomicUsize;

use tollhouse_base::id::BuilderId;
use tollhouse_tool::Owner;

use super::*;
use crate::testing::NameServer;

/// There are few threads for blocking work: a lookup that used one would delay files.
#[test]
fn slow_names_of_one_tool_hold_up_neither_files_nor_names_of_another() {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).max_blocking_threads(4).enable_all().build().unwrap();
    runtime.block_on(async {
        let router = axum::Router::new().route("/", axum::routing::get(|| async { axum::Json(1) }));
        let port = serve(router).await.port();
        let zone = |name: &str, _| (!name.ends_with(".slow.dev")).then(|| vec![([127, 0, 0, 1].into(), 300)]);
        let server = NameServer::start(zone).await;
        let allow = (0..10).map(|number| format!("{number}.quick.dev:{port}")).collect();
        let guard = Guard::new(GuardSettings { allow, lookup: Some(server.lookup()), ..GuardSettings::default() }).unwrap();
        let (services, _folder) = services(guard);
        let hosts = AllowedHosts::parse(&["*.slow.dev", "*.quick.dev"]).unwrap();
        let grant = Grant::new(Granted { capabilities: Capabilities::ALL, hosts, ..Granted::default() });
        let tool = || {
            let call = CallGrants { owner: Owner::Builder(BuilderId::generate()), secrets: Vec::new(), ..call(&grant) };
            Arc::new(Ops::new(call, Arc::clone(&services)))
        };
        let ask = |url: String| OpRequest::HttpGetJson { url, headers: Vec::new(), timeout_ms: None, auth: None };

        let ended = Arc::new(AtomicUsize::new(0));
        let owner = Owner::Builder(BuilderId::generate());
        for number in 0..600 {
            let limits = Limits { http_wall_ms: 30_000, ..Limits::default() };
            let call = CallGrants { owner: owner.clone(), secrets: Vec::new(), limits, ..call(&grant) };
            let (ops, ended) = (Ops::new(call, Arc::clone(&services)), Arc::clone(&ended));
            let request = ask(format!("https://{number}.slow.dev/"));
            tokio::spawn(async move {
                _ = ops.op(request).await;
                ended.fetch_add(1, Ordering::Relaxed);
            });
        }
        server.was_asked(56, ".slow.dev").await;

        let other = tool();
        for number in 0..10 {
            let (path, content) = (format!("{number}.txt"), Bytes::from_static(b"text"));
            other.op(OpRequest::FileWrite { path: path.clone(), content: content.clone() }).await.unwrap();
            assert!(matches!(other.op(OpRequest::FileRead { path }).await, Ok(OpValue::Bytes(read)) if read == content));
            // Each in a separate call, because a call has a limited number of requests.
            tool().op(ask(format!("http://{number}.quick.dev:{port}/"))).await.unwrap();
        }
        assert!(ended.load(Ordering::Relaxed) < 600, "the slow ones were waited for");
    });
    runtime.shutdown_background();
}

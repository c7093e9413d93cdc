//! Fuzz test: requests of arbitrary bytes to a complete host: its own routes, calls, payments,
//! quotes, and MCP.
//!
//! The bytes are HTTP/1.1 requests. No worker can be started, but everything that the host answers
//! itself works.

use std::net::{Ipv4Addr, SocketAddr};

use axum::{
    Router,
    body::{Body, Bytes},
    extract::{ConnectInfo, Request},
    http::{HeaderName, HeaderValue, Response, header},
};
use futures_util::{FutureExt as _, StreamExt as _};
use serde_json::Value;
use tokio::runtime::Runtime;
use tollhouse_config::Flags;
use tower::Service as _;

use super::super::*;

/// Admin token in the seeds.
const ADMIN: &str = "admin-token-of-the-host-that-is-asked-anything";

/// Maximum time for an answer. Longer than every time-out of a request that is waited for.
const TIMEOUT: Duration = Duration::from_secs(8);

/// Maximum size of an answer that is read, because it may be endless.
const READ_BYTES: usize = 1 << 20;

struct Host {
    runtime: Runtime,
    routes: Router,
    _data: tempfile::TempDir,
}

impl Host {
    fn start() -> Self {
        let data = tempfile::tempdir().unwrap();
        let tools = data.path().join("tools");
        std::fs::create_dir(&tools).unwrap();
        let mut flags = Flags::default();
        flags.host.data = Some(data.path().to_owned());
        flags.account.admin_token = Some(ADMIN.to_owned().into());
        flags.sandbox.worker = std::env::current_exe().ok();
        flags.sandbox.sandbox_spares = Some(0);
        flags.catalog.tools = Some(tools);
        (flags.http.rate_limit, flags.http.auth_failures) = (Some(0), Some(u32::MAX));
        let mut settings = flags.resolve().unwrap();
        settings.sandbox.pool.worker = "/bin/false".into();
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
        let routes = runtime.block_on(async {
            let app = App::start(&settings, "http://127.0.0.1:4020".to_owned()).await.unwrap();
            let framed = tollhouse_front::framed_routes(Arc::clone(&app.services.shared), fronts::all(&app.services));
            std::mem::forget(app);
            Router::new().fallback_service(framed)
        });
        Self { runtime, routes, _data: data }
    }

    fn ask(&self, request: Request) {
        let mut routes = self.routes.clone();
        let shown = format!("{} {}", request.method(), request.uri());
        self.runtime.block_on(async {
            let answered = tokio::time::timeout(TIMEOUT, async {
                let response = routes.call(request).await.unwrap_or_else(|never| match never {});
                check(&shown, response).await;
            });
            assert!(answered.await.is_ok(), "{shown} is not answered");
        });
    }
}

/// Parses a request. Returns `None` if no server would accept it.
fn request(bytes: &[u8]) -> Option<Request> {
    let end = bytes.windows(2).position(|two| two == b"\n\n").unwrap_or(bytes.len());
    let (head, body) = (&bytes[..end], bytes.get(end + 2..).unwrap_or_default());
    let mut lines = head.split(|byte| *byte == b'\n');
    let first = str::from_utf8(lines.next()?).ok()?;
    let (method, target) = first.split_once(' ')?;
    let mut request = Request::builder().method(method).uri(target).body(Body::from(Bytes::copy_from_slice(body))).ok()?;
    request.headers_mut().insert(header::HOST, HeaderValue::from_static("127.0.0.1:4020"));
    for line in lines.take(100) {
        let colon = line.iter().position(|byte| *byte == b':')?;
        let name = HeaderName::from_bytes(&line[..colon]).ok()?;
        request.headers_mut().append(name, HeaderValue::from_bytes(line[colon + 1..].trim_ascii()).ok()?);
    }
    request.extensions_mut().insert(ConnectInfo(SocketAddr::from((Ipv4Addr::LOCALHOST, 40_000))));
    Some(request)
}

/// Checks that nothing fails internally, and that refusals are JSON.
async fn check(shown: &str, response: Response<Body>) {
    let status = response.status();
    assert_ne!(status.as_u16(), 500, "{shown}");
    let media = response.headers().get(header::CONTENT_TYPE).map(|media| media.to_str().unwrap_or_default().to_owned()).unwrap_or_default();
    let packed = response.headers().contains_key(header::CONTENT_ENCODING);
    let mut body = Vec::new();
    let mut chunks = response.into_body().into_data_stream();
    while body.len() < READ_BYTES {
        // From a stream that continues, read only what is available.
        let chunk = if media.starts_with("text/event-stream") { chunks.next().now_or_never().flatten() } else { chunks.next().await };
        let Some(chunk) = chunk else { break };
        body.extend_from_slice(&chunk.expect("every answer is sent"));
    }
    if media.starts_with("application/json") && !packed && body.len() < READ_BYTES && !body.is_empty() {
        let json: Value = serde_json::from_slice(&body).unwrap_or_else(|_| panic!("{shown}: {status}: {}", body.escape_ascii()));
        let refused = status.is_client_error() || status.is_server_error();
        assert!(!refused || !json["error"].is_null() || json.is_array(), "{shown}: {status}: {json}");
    }
}

thread_local! {
    static HOST: Host = Host::start();
}

#[test]
fn every_request_is_answered() {
    tollhouse_fuzz::check("request", |bytes| {
        if let Some(request) = request(bytes) {
            HOST.with(|host| host.ask(request));
        }
    });
}

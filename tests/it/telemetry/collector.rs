//! A minimal OpenTelemetry collector. It accepts OTLP as JSON over HTTP, and stores it.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex},
    time::Duration,
};

use axum::{
    Router,
    body::Bytes,
    extract::State,
    http::{HeaderMap, StatusCode},
    response::IntoResponse,
    routing::post,
};
use serde_json::Value;

use crate::harness::eventually;

/// The data that a collector received.
#[derive(Debug, Default)]
struct Collected {
    /// Path, headers, body.
    requests: Vec<(String, HeaderMap, String)>,
    answers: Option<StatusCode>,
}

/// A collector at `url`.
#[derive(Debug, Clone)]
pub struct Collector {
    pub url: String,
    state: Arc<Mutex<Collected>>,
}

/// A received span.
#[derive(Debug, Clone)]
pub struct Span {
    pub json: Value,
}

impl Collector {
    pub async fn start() -> Self {
        let stored = Arc::<Mutex<Collected>>::default();
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let take = |path: &'static str| {
            post(move |State(stored): State<Arc<Mutex<Collected>>>, headers: HeaderMap, body: Bytes| async move {
                let mut stored = stored.lock().unwrap();
                stored.requests.push((path.to_owned(), headers, String::from_utf8(body.to_vec()).unwrap()));
                (stored.answers.unwrap_or(StatusCode::OK), [("content-type", "application/json")], "{}").into_response()
            })
        };
        let router = Router::new().route("/v1/traces", take("traces")).route("/v1/metrics", take("metrics"));
        let router = router.layer(axum::extract::DefaultBodyLimit::disable()).with_state(Arc::clone(&stored));
        tokio::spawn(async move { axum::serve(listener, router).await });
        Self { url, state: stored }
    }

    /// Sets the status of all further answers.
    pub fn answers(&self, status: StatusCode) {
        self.state.lock().unwrap().answers = Some(status);
    }

    /// Returns everything that it received, as text.
    pub fn text(&self) -> String {
        let stored = self.state.lock().unwrap();
        stored.requests.iter().map(|(path, headers, body)| format!("{path} {headers:?} {body}\n")).collect()
    }

    /// Returns the bodies of one kind.
    pub fn bodies(&self, kind: &str) -> Vec<Value> {
        let stored = self.state.lock().unwrap();
        stored.requests.iter().filter(|(path, ..)| path == kind).map(|(_, _, body)| serde_json::from_str(body).unwrap()).collect()
    }

    pub fn spans(&self) -> Vec<Span> {
        let bodies = self.bodies("traces");
        let spans = bodies.iter().flat_map(|body| body["resourceSpans"].as_array().unwrap().iter()).flat_map(|resource| {
            assert!(resource["resource"]["attributes"].to_string().contains("service.name"), "{resource}");
            resource["scopeSpans"].as_array().unwrap().iter()
        });
        spans.flat_map(|scope| scope["spans"].as_array().unwrap()).map(|span| Span { json: span.clone() }).collect()
    }

    /// Waits for the span of a call of this tool. Returns it and the spans below it, in order.
    pub async fn call(&self, slug: &str) -> (Span, Vec<Span>) {
        let look = || async {
            let spans = self.spans();
            let call = spans.iter().find(|span| span.text("name") == "call" && span.attribute("tollhouse.endpoint.slug") == slug)?.clone();
            let mut below: Vec<_> = spans.into_iter().filter(|span| span.json["parentSpanId"] == call.json["spanId"]).collect();
            below.sort_by_key(|span| span.time("startTimeUnixNano"));
            Some((call, below))
        };
        eventually("the span of a call", Duration::from_secs(20), look).await
    }
}

impl Span {
    pub fn text(&self, name: &str) -> &str {
        self.json[name].as_str().unwrap_or_default()
    }

    /// Returns a time in nanoseconds.
    pub fn time(&self, name: &str) -> u64 {
        self.text(name).parse().unwrap()
    }

    pub fn elapsed(&self) -> Duration {
        Duration::from_nanos(self.time("endTimeUnixNano") - self.time("startTimeUnixNano"))
    }

    /// Returns an attribute.
    pub fn attribute(&self, name: &str) -> String {
        let attributes = self.json["attributes"].as_array().into_iter().flatten();
        let listed: BTreeMap<_, _> =
            attributes.map(|one| (one["key"].as_str().unwrap(), one["value"]["stringValue"].as_str().unwrap())).collect();
        listed.get(name).copied().unwrap_or_default().to_owned()
    }
}

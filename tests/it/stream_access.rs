//! An event stream ends with the credential that opened it.

use reqwest::Method;
use serde_json::{Value, json};

use crate::{
    harness::{Host, stream::Stream},
    revenue::tool,
};

const LOGGER: &str = "export default (req, ctx) => { ctx.log.info(`call ${req.input.n}`); return {}; };";
const PATHS: [&str; 3] = ["/ai/builders/events", "/ai/endpoints/followed/logs", "/ai/endpoints/followed/calls"];

/// Publishes a tool, follows it in every way, and calls it. Returns the streams, which have delivered the call.
async fn follow(host: &Host, key: &str) -> Vec<Stream> {
    host.as_builder(key, Method::POST, "/ai/endpoints/create", &tool("followed", 0.0, LOGGER)).await.is(200);
    let mut streams = vec![];
    for path in PATHS {
        streams.push(Stream::open(host.request(Method::GET, path).header("x-builder-key", key)).await);
    }
    host.call("followed", &json!({ "n": 1 })).await.is(200);
    for (stream, name) in streams.iter_mut().zip(["event", "log", "call"]) {
        assert_eq!(stream.next().await.unwrap().name, name);
    }
    streams
}

/// Checks that a stream delivers nothing more than an error with this code.
async fn ends(mut stream: Stream, code: &str) {
    let last = stream.next().await.unwrap();
    assert_eq!((last.name.as_str(), &last.data["error"]["code"]), ("error", &json!(code)), "{last:?}");
    assert!(stream.next().await.is_none(), "nothing comes after the error");
}

/// Regression test: the streams went on for everybody who had the old key.
#[tokio::test]
async fn streams_end_when_their_key_is_replaced() {
    let host = Host::start().await;
    let (_, key) = host.register("Rotated").await;
    let streams = follow(&host, &key).await;
    let rotated = host.as_builder(&key, Method::POST, "/ai/builders/keys", &Value::Null).await.is(200).json();
    host.call("followed", &json!({ "n": 2 })).await.is(200);
    for stream in streams {
        ends(stream, "unauthorized").await;
    }
    let new = rotated["builderKey"].as_str().unwrap();
    for path in PATHS {
        let mut stream = Stream::open(host.request(Method::GET, path).header("x-builder-key", new)).await;
        host.call("followed", &json!({ "n": 3 })).await.is(200);
        assert_ne!(stream.next().await.unwrap().name, "error");
    }
}

#[tokio::test]
async fn streams_end_when_their_builder_is_suspended() {
    let host = Host::start().await;
    let (id, key) = host.register("Suspended").await;
    let streams = follow(&host, &key).await;
    let judge = format!("/ai/admin/builders/{id}");
    host.manage(Method::POST, &judge, &json!({ "decision": "suspend", "reason": "stolen key" })).await.is(200);
    for stream in streams {
        ends(stream, "builder_suspended").await;
    }
}

/// An admin who follows the same tool is not affected.
#[tokio::test]
async fn streams_of_others_continue() {
    let host = Host::start().await;
    let (_, key) = host.register("Rotated").await;
    let streams = follow(&host, &key).await;
    let path = "/ai/endpoints/followed/logs";
    let mut admins = Stream::open(host.request(Method::GET, path).header("x-admin-token", &host.admin)).await;
    host.as_builder(&key, Method::POST, "/ai/builders/keys", &Value::Null).await.is(200);
    for stream in streams {
        ends(stream, "unauthorized").await;
    }
    host.call("followed", &json!({ "n": 2 })).await.is(200);
    assert_eq!(admins.next().await.unwrap().data["message"], "call 2");
}

//! The feed of a builder's events, in pages and live.

use std::{net::Ipv4Addr, time::Duration};

use reqwest::{Client, Method};
use serde_json::{Value, json};

use crate::{
    harness::{Host, eventually, stream::Stream},
    revenue::{events, tool},
};

const ECHO: &str = "export default async (req) => { if (req.input.fail) throw new Error('no'); return { n: req.input.n ?? null }; };";

fn follow(host: &Host, key: &str, query: &str) -> reqwest::RequestBuilder {
    host.request(Method::GET, &format!("/ai/builders/events{query}")).header("x-builder-key", key)
}

async fn builder(host: &Host, slug: &str) -> String {
    let (_, key) = host.register(slug).await;
    host.as_builder(&key, Method::POST, "/ai/endpoints/create", &tool(slug, 0.0, ECHO)).await.is(200);
    key
}

#[tokio::test]
async fn events_are_followed_live_and_from_the_last_id_on() {
    let host = Host::start().await;
    let (key, other) = (builder(&host, "one-tool").await, builder(&host, "other-tool").await);
    let mut stream = Stream::open(follow(&host, &key, "?kind=call.succeeded")).await;
    let mut ids = vec![];
    for n in 0..5 {
        host.call("other-tool", &json!({ "n": n })).await.is(200);
        let answer = host.call("one-tool", &json!({ "n": n })).await.is(200);
        let response = stream.next().await.unwrap();
        assert_eq!(
            (response.name.as_str(), &response.data["kind"], &response.data["endpointSlug"]),
            ("event", &json!("call.succeeded"), &json!("one-tool"))
        );
        assert_eq!((&response.data["id"], &response.data["data"]["receiptId"]), (&json!(response.id), &json!(answer.receipt_id())));
        ids.push(response.id.unwrap());
    }
    drop(stream);
    // Nobody follows the feed yet.
    host.call("one-tool", &json!({ "n": 5 })).await.is(200);
    host.call("one-tool", &json!({ "fail": true })).await.is(502);
    let seen = eventually("six calls are reported", Duration::from_secs(5), || async {
        let seen = events(&host, &key, "&kind=call.succeeded").await;
        (seen.len() == 6).then_some(seen)
    })
    .await;
    let mut stream = Stream::open(follow(&host, &key, "?kind=call.succeeded").header("last-event-id", &ids[1])).await;
    for requested in &ids[2..] {
        assert_eq!(stream.next().await.unwrap().id.as_ref(), Some(requested), "nothing twice, nothing left out");
    }
    let missed = stream.next().await.unwrap();
    assert!(!ids.contains(missed.id.as_ref().unwrap()));
    host.call("one-tool", &json!({ "n": 6 })).await.is(200);
    let live = stream.next().await.unwrap();
    assert!(live.id > missed.id);

    // The stream of the last hour, with the oldest first, equals the pages, with the newest first.
    let mut stream = Stream::open(follow(&host, &key, "?since=1h&kind=call.succeeded")).await;
    for event in seen.iter().rev() {
        assert_eq!(stream.next().await.unwrap().data, *event);
    }
    let others = events(&host, &other, "").await;
    assert!(others.iter().all(|event| event["endpointSlug"] != "one-tool"), "{others:?}");
    host.as_builder(&key, Method::GET, "/ai/builders/events?kind=call.unheard", &Value::Null).await.fails(400, "invalid_request", "caller");
    host.as_builder(&key, Method::GET, "/ai/builders/events?limit=201", &Value::Null).await.fails(400, "invalid_request", "caller");
    host.as_builder(&key, Method::GET, "/ai/builders/events?cursor=%21", &Value::Null).await.fails(400, "invalid_request", "caller");
    let nonsense = follow(&host, &key, "").header("accept", "text/event-stream").header("last-event-id", "7");
    host.send(nonsense).await.fails(400, "invalid_request", "caller");
    host.get("/ai/builders/events").await.fails(401, "unauthorized", "caller");
}

#[tokio::test]
async fn events_are_filtered_by_endpoint_and_kind() {
    let host = Host::start().await;
    let key = builder(&host, "one-tool").await;
    host.as_builder(&key, Method::POST, "/ai/endpoints/create", &tool("two-tool", 0.0, ECHO)).await.is(200);
    for n in 0..3 {
        host.call("one-tool", &json!({ "n": n })).await.is(200);
        host.call("two-tool", &json!({ "fail": true })).await.is(502);
    }
    eventually("six calls are reported", Duration::from_secs(5), || async {
        let (succeeded, failed) = (events(&host, &key, "&kind=call.succeeded").await, events(&host, &key, "&kind=call.failed").await);
        (succeeded.len() == 3 && failed.len() == 3).then_some(())
    })
    .await;
    let two = events(&host, &key, "&endpointSlug=two-tool").await;
    assert!(two.iter().all(|event| event["endpointSlug"] == "two-tool"));
    assert_eq!(two.iter().filter(|event| event["kind"] == "call.failed").count(), 3);
    let times: Vec<_> = two.iter().map(|event| event["at"].as_str().unwrap()).collect();
    assert!(times.is_sorted_by(|newer, older| newer >= older), "{times:?}");
    let before: Vec<_> = two.iter().filter(|event| event["at"].as_str() < two[0]["at"].as_str()).cloned().collect();
    assert_eq!(events(&host, &key, &format!("&endpointSlug=two-tool&until={}", times[0])).await, before);
    let stream = follow(&host, &key, "?until=1h").header("accept", "text/event-stream");
    host.send(stream).await.fails(400, "invalid_request", "caller");
}

/// Streams of all kinds count together for one address. Another address has separate slots.
#[tokio::test]
async fn followers_of_one_address_are_bounded() {
    let host = Host::builder().flag("--address-followers", 3).start().await;
    let key = builder(&host, "one-tool").await;
    let paths = ["/ai/builders/events", "/ai/endpoints/one-tool/logs", "/ai/endpoints/one-tool/calls"];
    let ask = |path| host.request(Method::GET, path).header("x-builder-key", &key).header("accept", "text/event-stream");
    let mut streams = vec![];
    for path in paths {
        streams.push(Stream::open(ask(path)).await);
    }
    for path in paths {
        let refused = host.send(ask(path)).await;
        assert!(refused.has("retry-after").parse::<u64>().unwrap() > 0);
        let error = refused.fails(429, "rate_limited", "caller");
        assert!(error["message"].as_str().unwrap().contains("has reached its limit of 3 event streams"), "{error}");
    }
    let elsewhere = Client::builder().no_proxy().local_address(Some(Ipv4Addr::new(127, 0, 0, 2).into())).build().unwrap();
    for path in paths {
        let request = elsewhere.get(format!("{}{path}", host.url)).header("x-builder-key", &key);
        streams.push(Stream::open(request).await);
    }
    // A stream that ends frees its slot.
    streams.remove(0);
    let free = async || (ask(paths[0]).send().await.unwrap().status() == 200).then_some(());
    eventually("a place is free", Duration::from_secs(20), free).await;
}

/// A long-lived stream counts as a connection, even if HTTP/2 shares one among many.
#[tokio::test]
async fn streams_that_follow_take_places_of_connections() {
    let host = Host::builder().flag("--address-connections", 8).start().await;
    let key = builder(&host, "one-tool").await;
    let mut streams = vec![];
    let refused = loop {
        let request = follow(&host, &key, "").header("accept", "text/event-stream").send().await;
        let Ok(answer) = request else { break 503 };
        match answer.status().as_u16() {
            200 => streams.push(answer),
            other => break other,
        }
    };
    assert!(matches!(refused, 429 | 503), "{refused}");
    assert!(streams.len() <= 4, "each is a connection of its own and a stream that stays: {}", streams.len());
}

/// Followers beyond the limit of an owner are refused, and the existing ones continue.
#[tokio::test]
async fn followers_of_one_feed_are_bounded() {
    let host = Host::start().await;
    let key = builder(&host, "one-tool").await;
    let mut streams = vec![];
    for _ in 0..64 {
        streams.push(Stream::open(follow(&host, &key, "")).await);
    }
    host.send(follow(&host, &key, "").header("accept", "text/event-stream")).await.fails(429, "rate_limited", "caller");
    host.call("one-tool", &json!({ "n": 1 })).await.is(200);
    for stream in &mut streams {
        assert_eq!(stream.next().await.unwrap().data["kind"], "call.succeeded");
    }
}

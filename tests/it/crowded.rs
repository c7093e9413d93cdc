//! Paid calls while strangers use all the memory for bodies that they can.

use std::{cell::Cell, net::Ipv4Addr, time::Duration};

use reqwest::Method;
use serde_json::json;

use crate::harness::{Host, Payer, eventually, js, raw::Raw};

const SECONDS: Duration = Duration::from_secs(20);
const ALL: usize = 4 << 20;
/// Size of a body that is almost complete.
const BODY: usize = 128 << 10;

/// Four addresses could once use all of it. Each paid call with a head above 4 KiB then got a 503.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn paid_call_has_room_despite_strangers_bodies() {
    let host = Host::builder().flag("--body-bytes-held", ALL).flag("--address-body-bytes-held", ALL / 4).start().await;
    host.publish(&js("echo", 0.01, "export default (req) => req.input;")).await;
    host.publish(&js("free", 0.0, "export default (req) => req.input;")).await;
    let payer = Payer::funded(&host, 1.0).await;
    let challenge = host.challenge("echo").await;
    let bytes = async || host.get("/health").await.is(200).json()["intake"]["bodyBytesHeld"].as_u64().unwrap() as usize;

    let mut hoard = vec![];
    for n in 0..ALL / BODY {
        let mut raw = Raw::open_from(&host, Ipv4Addr::new(127, 0, 0, 2 + u8::try_from(n % 4).unwrap())).await;
        let head =
            format!("POST /tools/free HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\ncontent-length: {BODY}\r\n\r\n");
        raw.send(head).await;
        raw.send(vec![b' '; BODY - 16]).await;
        hoard.push(raw);
    }
    // The bytes no longer change when ten polls in a row find the same number.
    let (last, same) = (Cell::new(0), Cell::new(0));
    let held = eventually("strangers hold as many bytes as they can", SECONDS, async || {
        let held = bytes().await;
        same.set(if last.replace(held) == held { same.get() + 1 } else { 0 });
        Some(held).filter(|held| same.get() >= 10 && *held > ALL * 3 / 4)
    })
    .await;
    assert!(held <= ALL, "{held}");

    let pay = || {
        let mut payment = payer.pay(&challenge);
        payment.payload["extensions"] = challenge["extensions"].clone();
        payment
    };
    let http2 = reqwest::Client::builder().http2_prior_knowledge().no_proxy().build().unwrap();
    let url = format!("{}/tools/echo", host.url);
    // More than the head of the largest payment.
    let padding = "p".repeat(8 << 10);
    for n in 0..3 {
        let input = json!({ "n": n });
        let paid = pay();
        host.send(host.paid_request("echo", &input, &paid).header("x-padding", &padding)).await.is(200);
        let paid = pay();
        let request = http2.post(&url).header(paid.header, paid.encoded()).header("x-padding", &padding).json(&input);
        host.send(request).await.is(200);
        let message = json!({ "x402/payment": pay().payload });
        let mcp = host.mcp().with_header("x-padding", &padding);
        let answer = mcp.call("echo", input.clone(), message).await;
        assert_eq!(answer["structuredContent"], input, "{answer}");
    }
    drop(hoard);
    eventually("all of it is given back", SECONDS, || async { (bytes().await == 0).then_some(()) }).await;
}

/// Four addresses could once hold all of it with a few bytes: each body that is not JSON took 256 KiB from its first byte on.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn paid_file_has_room_despite_strangers_files_that_hardly_begin() {
    let host = Host::builder().flag("--body-bytes-held", ALL).flag("--address-body-bytes-held", ALL / 4).start().await;
    for (slug, price_usd) in [("files", 0.01), ("free", 0.0)] {
        let mut tool = js(slug, price_usd, "export default async (req) => (await req.bytes()).length;");
        tool["requestTypes"] = json!(["text/csv"]);
        host.publish(&tool).await;
    }
    let credit = host.mint(1.0).await;
    let mut strangers = vec![];
    for n in 0..20 {
        let mut raw = Raw::open_from(&host, Ipv4Addr::new(127, 0, 0, 2 + n % 4)).await;
        raw.send("POST /tools/free HTTP/1.1\r\nhost: localhost\r\ncontent-type: text/csv\r\ncontent-length: 9000\r\n\r\na").await;
        strangers.push(raw);
    }
    let held = eventually("the bodies have begun", SECONDS, async || {
        let held = host.get("/health").await.is(200).json()["intake"]["bodyBytesHeld"].as_u64().unwrap() as usize;
        Some(held).filter(|held| *held >= 20 * (16 << 10))
    })
    .await;
    for bytes in [BODY, 2 << 20] {
        let request = host.request(Method::POST, "/tools/files").header("content-type", "text/csv").header("x-developer-credit", &credit);
        let answer = host.send(request.body(vec![b'a'; bytes])).await.is(200).json();
        assert_eq!(answer, json!(bytes), "{held} bytes are held");
    }
}

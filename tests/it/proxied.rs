//! Challenges behind a standard reverse proxy: they arrive and are paid, or `doctor --public` names the setting to
//! change.

use std::path::Path;

use serde_json::{Value, json};

use crate::{
    clients::pays_for,
    extensions::biggest,
    harness::{
        Host, Payer, js,
        nginx::{Nginx, Place},
        tollhouse,
    },
};

/// The document with the proxy settings for longer heads.
const SHOWN: &str = include_str!("../../docs/operators.md");

/// Starts a host whose public URL is that of a proxy, with a small paid tool and one of the maximum size.
async fn host(position: &Place, networks: &str) -> (Host, String) {
    let host = Host::builder().flag("--network", networks).flag("--base-url", &position.url).start().await;
    host.publish(&js("small", 0.01, "export default () => ({ ok: true });")).await;
    let slug = host.publish(&biggest()).await["slug"].as_str().unwrap().to_owned();
    (host, slug)
}

/// Returns the findings of `doctor --public` with this level.
async fn examined(url: &str, level: &str) -> Vec<Value> {
    let output = tokio::process::Command::from(tollhouse()).args(["doctor", "--json", "--public", url]).output().await.unwrap();
    let printed: Value = serde_json::from_slice(&output.stdout).unwrap();
    printed["findings"].as_array().unwrap().iter().filter(|finding| finding["level"] == level).cloned().collect()
}

fn of_heads(findings: Vec<Value>) -> Vec<Value> {
    findings.into_iter().filter(|finding| finding["text"].as_str().unwrap().contains("head")).collect()
}

/// Returns the status of an unpaid call through the proxy.
async fn unpaid(position: &Place, slug: &str) -> u16 {
    let url = format!("{}/tools/{slug}", position.url);
    let client = reqwest::Client::builder().no_proxy().build().unwrap();
    let answer = client.post(url).header("origin", "https://a.example").json(&json!({})).send().await.unwrap();
    answer.status().as_u16()
}

async fn is_paid_through(host: &Host, position: &Place, slug: &str) {
    let payer = Payer::funded(host, 1.0).await;
    for script in ["pay.mjs", "pay-v1.mjs"] {
        let request = (format!("{}/tools/{slug}", position.url), json!({}));
        let done = pays_for(request, &[], Path::new("node"), script, Some(&payer)).await.unwrap();
        assert_eq!(done["status"], 200, "{script}: {done}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn challenges_of_two_networks_pass_a_stock_nginx() {
    let position = Place::take();
    let (host, slug) = host(&position, "eip155:84532,eip155:8453").await;
    let _nginx: Nginx = position.serve(&host.url, "");
    for slug in ["small", &slug] {
        assert_eq!(unpaid(&position, slug).await, 402, "{slug}");
        is_paid_through(&host, &position, slug).await;
    }
    let answer = of_heads(examined(&position.url, "ok").await);
    let largest = "the largest headers of 2 challenges have ";
    let describe = |head: &Value| head["text"].as_str().unwrap().starts_with(largest) && head["text"].as_str().unwrap().contains("default");
    assert!(answer.iter().any(describe), "{answer:?}");
    assert!(of_heads(examined(&position.url, "fail").await).is_empty());
}

/// The host leaves out of the head what does not fit there, and repeats it in the body.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn challenges_of_many_networks_pass_a_stock_nginx() {
    let position = Place::take();
    let networks = "eip155:84532,eip155:8453,eip155:137,eip155:42161,eip155:43114,eip155:1,eip155:42220";
    let (host, slug) = host(&position, networks).await;
    let _nginx = position.serve(&host.url, "");
    for slug in ["small", &slug] {
        assert_eq!(unpaid(&position, slug).await, 402, "{slug}");
        is_paid_through(&host, &position, slug).await;
    }
    assert!(of_heads(examined(&position.url, "fail").await).is_empty());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn doctor_says_which_heads_a_smaller_buffer_takes() {
    let position = Place::take();
    let host = Host::builder().flag("--base-url", &position.url).start().await;
    host.publish(&js("small", 0.01, "export default () => ({ ok: true });")).await;
    let fits = of_heads(examined(&host.url, "ok").await)[0]["text"].as_str().unwrap().contains(", and with a buffer of 2k");
    let small = position.serve(&host.url, "proxy_buffer_size 2k; proxy_buffers 8 2k; proxy_busy_buffers_size 4k;");
    assert_eq!(unpaid(&position, "small").await == 402, fits);
    if !fits {
        let heads = of_heads(examined(&position.url, "fail").await);
        let describe = |head: &Value| head["text"].as_str().unwrap().contains("a proxy answers 502");
        assert!(
            heads.iter().any(|head| describe(head) && head["remedies"][0].as_str().unwrap().contains("proxy_buffer_size 16k")),
            "{heads:?}"
        );
    }
    drop(small);
    let shown = SHOWN.split("```nginx\n").nth(1).unwrap().split("```").next().unwrap();
    let _nginx = position.serve(&host.url, shown);
    assert_eq!(unpaid(&position, "small").await, 402);
    is_paid_through(&host, &position, "small").await;
}

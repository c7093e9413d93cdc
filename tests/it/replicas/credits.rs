//! A developer credit that is spent on both hosts at once.

use futures_util::future::join_all;
use reqwest::Method;
use serde_json::json;

use super::Hosts;
use crate::harness::{Host, js, micros};

#[tokio::test]
async fn concurrent_spending_at_both_hosts_stays_within_the_credit() {
    let hosts = Hosts::start().await;
    hosts.manage(0, Method::POST, "/ai/endpoints/create", &js("sold", 0.25, "export default () => ({});")).await.is(200);
    let minted = hosts.manage(1, Method::POST, "/ai/credits", &json!({ "amountUsd": 0.75, "label": "test" })).await.is(200).json();
    let credit = minted["credit"].as_str().unwrap();
    let calls = (0..8).map(|call| {
        let request = hosts.request(call % 2, Method::POST, "/tools/sold").header("x-developer-credit", credit);
        Host::try_send(request.json(&json!({})))
    });
    let answers = join_all(calls).await;
    let bought = answers.iter().filter(|answer| answer.as_ref().unwrap().status == 200).count();
    assert!((1..=3).contains(&bought), "{answers:?}");
    for at in [0, 1] {
        let response = Host::try_send(hosts.request(at, Method::GET, "/ai/credits").header("x-developer-credit", credit)).await.unwrap();
        assert_eq!(micros(&response.is(200).json()["balanceUsd"]), 750_000 - 250_000 * bought as u64);
    }
    hosts.end().await;
}

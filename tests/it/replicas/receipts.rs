//! Receipts of free calls on one host, fetched from the other.

use reqwest::Method;

use super::Hosts;
use crate::harness::{Host, js};

#[tokio::test]
async fn a_receipt_of_a_free_call_is_found_at_the_other_host_when_the_call_is_answered() {
    let hosts = Hosts::start().await;
    hosts.manage(0, Method::POST, "/ai/endpoints/create", &js("free", 0.0, "export default () => ({});")).await.is(200);
    for round in 0..8 {
        let receipt = hosts.call(round % 2, "free").await.is(200).receipt_id();
        let found = Host::try_send(hosts.request((round + 1) % 2, Method::GET, &format!("/ai/receipts/{receipt}"))).await.unwrap();
        assert_eq!(found.is(200).json()["receipt"]["receiptId"], receipt);
    }
    hosts.end().await;
}

//! Limits per address, for both hosts together.

use std::time::Duration;

use reqwest::Method;

use super::{AUTH_FAILURES, Hosts, RECEIVED_WITHIN};
use crate::harness::{Host, eventually};

#[tokio::test]
async fn an_address_with_too_many_wrong_credentials_waits_at_every_host() {
    let hosts = Hosts::start().await;
    let shown = async |at: usize, token: &str| {
        let request = hosts.request(at, Method::GET, "/ai/admin/policy").header("x-admin-token", token);
        Host::try_send(request).await.unwrap()
    };
    // Wait until both hosts have read each other's counts.
    tokio::time::sleep(Duration::from_millis(600)).await;
    shown(1, &hosts.admin).await.is(200);
    for _ in 0..AUTH_FAILURES {
        shown(0, "wrong").await.fails(401, "unauthorized", "caller");
    }
    shown(0, &hosts.admin).await.fails(429, "rate_limited", "caller");
    let waits = || async { Some(shown(1, &hosts.admin).await).filter(|answer| answer.status == 429) };
    eventually("the other host has the counts", RECEIVED_WITHIN, waits).await.fails(429, "rate_limited", "caller");
    hosts.end().await;
}

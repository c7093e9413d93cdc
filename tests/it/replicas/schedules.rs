//! Schedules of a tool on two hosts of one store.

use std::{collections::BTreeSet, time::Duration};

use reqwest::Method;
use serde_json::{Value, json};

use super::Hosts;
use crate::harness::{eventually, js};

/// Counts its runs by time, and reports them to its callers.
const COUNTS: &str = "export default async (req, ctx) => (await ctx.kv.list({ prefix: 'run/' })).entries;
export async function scheduled(event, ctx) {
  await ctx.kv.atomic().sum(`run/${event.scheduledTime}`, 1).commit();
  ctx.log.info('counted', { cron: event.cron });
  ctx.waitUntil(ctx.kv.set('later', true));
}";

async fn hosts(cron: &str) -> Hosts {
    let hosts = Hosts::start().await;
    let mut tool = js("counts", 0.0, COUNTS);
    tool["schedules"] = json!([cron]);
    hosts.manage(0, Method::POST, "/ai/endpoints/create", &tool).await.is(200);
    hosts
}

async fn runs(hosts: &Hosts, at: usize) -> Vec<Value> {
    let calls = hosts.manage(at, Method::GET, "/ai/endpoints/counts/calls?limit=200", &Value::Null).await.is(200).json();
    calls["calls"].as_array().unwrap().iter().filter(|call| call["kind"] == "scheduled").cloned().collect()
}

#[tokio::test]
async fn run_that_is_begun_by_hand_has_a_record_at_both_hosts() {
    let hosts = hosts("0 0 1 1 *").await;
    assert!(hosts.apps[1].run_schedule("counts").await.unwrap());
    assert!(hosts.apps[1].run_schedule("unheard-of").await.is_err());
    for at in [0, 1] {
        let all = eventually("the run is recorded", Duration::from_secs(10), || async {
            let all = runs(&hosts, at).await;
            (all.len() == 1).then_some(all)
        })
        .await;
        assert_eq!((&all[0]["outcome"], &all[0]["schedule"]["cron"]), (&json!("succeeded"), &json!("0 0 1 1 *")));
    }
    let counted = hosts.call(0, "counts").await.is(200).json();
    assert_eq!((counted.as_array().unwrap().len(), &counted[0]["value"]), (1, &json!(1)));
    hosts.end().await;
}

#[tokio::test]
async fn two_live_hosts_run_each_minute_once() {
    let hosts = hosts("* * * * *").await;
    let all = eventually("a minute has passed", Duration::from_secs(90), || async {
        let all = runs(&hosts, 0).await;
        (!all.is_empty()).then_some(all)
    })
    .await;
    let times: BTreeSet<_> = all.iter().map(|run| run["schedule"]["scheduledTime"].to_string()).collect();
    assert_eq!(times.len(), all.len(), "{all:?}");
    let counted = hosts.call(1, "counts").await.is(200).json();
    assert!(counted.as_array().unwrap().iter().all(|run| run["value"] == 1), "{counted}");
    hosts.end().await;
}

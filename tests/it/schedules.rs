//! Tools that run on a schedule: what can be published, and a run of the current minute.

use std::time::Duration;

use reqwest::Method;
use serde_json::{Value, json};

use crate::{
    harness::{Host, eventually, js},
    revenue::tool,
};

/// Longer than a minute, because the host's clock is the real one.
const TIMEOUT: Duration = Duration::from_secs(90);

const TICKS: &str = "export default async (req, ctx) => ({ ran: await ctx.kv.get('ran') });
export async function scheduled(event, ctx) {
  ctx.log.info('ticking', event);
  await ctx.kv.set('ran', { cron: event.cron, time: event.scheduledTime, late: Date.now() - event.scheduledTime });
}";

const FAILS: &str = "export default () => 1;
export const scheduled = async () => { throw new Error('came to nothing'); };";

fn scheduled(mut tool: Value, schedules: &[&str]) -> Value {
    tool["schedules"] = json!(schedules);
    tool
}

async fn calls(host: &Host, key: &str, slug: &str) -> Vec<Value> {
    let path = format!("/ai/endpoints/{slug}/calls");
    host.as_builder(key, Method::GET, &path, &Value::Null).await.is(200).json()["calls"].as_array().unwrap().clone()
}

#[tokio::test]
async fn schedules_and_the_export_are_published_together() {
    let host = Host::start().await;
    let create = async |tool: &Value| host.manage(Method::POST, "/ai/endpoints/create", tool).await;
    let refused = async |tool: &Value, pointer: &str, part: &str| {
        let error = create(tool).await.fails(422, "invalid_endpoint", "caller");
        assert!(error["pointer"] == pointer && error["message"].as_str().unwrap().contains(part), "{error}");
    };
    let plain = "export default () => 1;";
    refused(&js("ticks", 0.0, TICKS), "/schedules", "but the tool has no schedule").await;
    refused(&scheduled(js("ticks", 0.0, plain), &["* * * * *"]), "/schedules", "does not export the function `scheduled`").await;
    refused(&scheduled(js("ticks", 0.0, TICKS), &["* * * *"]), "/schedules/0", "five fields").await;
    refused(&scheduled(js("ticks", 0.0, TICKS), &["0 1 * * *", "0 25 * * *"]), "/schedules/1", "`25` is not a valid hour").await;
    refused(&scheduled(js("ticks", 0.0, TICKS), &["0 0 31 2 *"]), "/schedules/0", "does not exist").await;

    let made = create(&scheduled(js("ticks", 0.0, TICKS), &["0 0 1 1 *"])).await.is(200).json()["endpoint"].clone();
    assert_eq!(made["schedules"], json!(["0 0 1 1 *"]));
    let public = host.get("/ai/endpoints/ticks").await.is(200).json();
    assert!(public["endpoint"]["schedules"].is_null(), "only its owner sees when it runs");
    let patch = async |body: Value| host.manage(Method::PATCH, "/ai/endpoints/ticks", &body).await;
    let error = patch(json!({ "schedules": [] })).await.fails(422, "invalid_endpoint", "caller");
    assert!(error["message"].as_str().unwrap().contains("or remove the export"), "{error}");
    let error = patch(json!({ "handler": { "source": plain } })).await.fails(422, "invalid_endpoint", "caller");
    assert!(error["message"].as_str().unwrap().contains("or remove `schedules`"), "{error}");
    patch(json!({ "schedules": ["0 12 * * mon"] })).await.is(200);
    let both = patch(json!({ "schedules": [], "handler": { "source": plain } })).await.is(200).json();
    assert!(both["endpoint"]["schedules"].is_null());
    let run = async |body: Value| host.manage(Method::POST, "/ai/endpoints/ticks/run", &body).await;
    let ran = run(json!({ "schedule": "*/5 * * * *", "version": made["version"] })).await.is(200).json()["run"].clone();
    assert_eq!((&ran["status"], &ran["result"], &ran["log"][0]["fields"]["cron"]), (&json!(200), &Value::Null, &json!("*/5 * * * *")));
    run(json!({ "schedule": "*/5 * * *" })).await.fails(400, "invalid_request", "caller");
    run(json!({ "schedule": "*/5 * * * *", "input": {} })).await.fails(400, "invalid_request", "caller");
    let ran = run(json!({ "schedule": "*/5 * * * *" })).await.is(200).json()["run"].clone();
    assert!(ran["error"]["message"].as_str().unwrap().contains("does not export the function `scheduled`"), "{ran}");
    // A rollback goes back to the version that needs a schedule.
    let version = made["version"].clone();
    patch(json!({ "version": version })).await.fails(422, "invalid_endpoint", "caller");
    patch(json!({ "version": version, "schedules": ["0 0 1 1 *"] })).await.is(200);
    host.call("ticks", &json!({})).await.is(200);
}

#[tokio::test]
async fn run_of_each_minute_has_a_record_and_a_log_and_costs_nothing() {
    let host = Host::start().await;
    let ((_, key), (_, other)) = (host.register("Ticks").await, host.register("Other").await);
    let create = async |key: &str, tool: &Value| host.as_builder(key, Method::POST, "/ai/endpoints/create", tool).await.is(200);
    create(&key, &scheduled(tool("ticks", 0.25, TICKS), &["* * * * *"])).await;
    create(&other, &scheduled(tool("fails", 0.25, FAILS), &["* * * * *", "*/1 0-23 * * *"])).await;
    let paused = scheduled(tool("paused", 0.25, &format!("{TICKS}\n// paused")), &["* * * * *"]);
    create(&key, &paused).await;
    host.as_builder(&key, Method::PATCH, "/ai/endpoints/paused", &json!({ "status": "paused" })).await.is(200);

    let call = eventually("a run is recorded", TIMEOUT, || async { calls(&host, &key, "ticks").await.first().cloned() }).await;
    let schedule = &call["schedule"];
    assert_eq!((&call["kind"], &call["outcome"], &schedule["cron"]), (&json!("scheduled"), &json!("succeeded"), &json!("* * * * *")));
    assert!(schedule["scheduledTime"].as_str().unwrap().ends_with(":00.000Z"), "{call}");
    assert_eq!((&call["charged"], &call["owner"], call["priceUsd"].as_f64()), (&json!(false), &json!(true), Some(0.0)));
    assert!(call["cpuMs"].as_f64().unwrap() > 0.0 && call["receiptId"].is_null(), "{call}");
    let path = format!("/ai/endpoints/ticks/logs?callId={}", call["callId"].as_str().unwrap());
    let lines = eventually("its log is stored", TIMEOUT, || async {
        let log = host.as_builder(&key, Method::GET, &path, &Value::Null).await.is(200).json();
        log["logs"].as_array().filter(|lines| !lines.is_empty()).cloned()
    })
    .await;
    assert_eq!((&lines[0]["message"], &lines[0]["fields"]["cron"]), (&json!("ticking"), &json!("* * * * *")));

    let failed = eventually("both failures are recorded", TIMEOUT, || async {
        let all = calls(&host, &other, "fails").await;
        (all.len() >= 2).then_some(all)
    })
    .await;
    for call in &failed {
        assert_eq!((&call["outcome"], &call["code"]), (&json!("failed"), &json!("handler_failed")), "{call}");
        assert!(call["error"].as_str().unwrap().contains("came to nothing"), "{call}");
    }
    let mut runs: Vec<_> = failed.iter().map(|call| call["schedule"].to_string()).collect();
    runs.sort_unstable();
    runs.dedup();
    assert_eq!(runs.len(), failed.len(), "each expression runs once a minute: {failed:?}");
    let events = host.as_builder(&other, Method::GET, "/ai/builders/events?kind=call.failed", &Value::Null).await.is(200).json();
    let data = &events["events"][0]["data"];
    assert!(data["charged"] == false && data["schedule"]["failuresInARow"].as_u64() >= Some(2), "{data}");

    assert_eq!(calls(&host, &key, "paused").await, Vec::<Value>::new());
    let metrics = host.as_builder(&key, Method::GET, "/ai/endpoints/ticks/metrics", &Value::Null).await.is(200).json();
    assert!(!metrics["buckets"].as_array().unwrap().iter().any(|bucket| bucket["calls"].as_u64() > Some(0)), "they are no business");
}

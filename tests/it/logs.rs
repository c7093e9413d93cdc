//! The log of an endpoint over HTTP: filters, pages, and followers that do not use up the host's
//! memory.

use std::time::Duration;

use reqwest::Method;
use serde_json::{Value, json};

use crate::{
    harness::{Host, eventually, stream::Stream},
    revenue::tool,
};

const LOGGER: &str = "export default async (req, ctx) => {
    for (let n = 0; n < req.input.lines; n++) ctx.log[req.input.level ?? 'info'](`line ${n}`, { n, pad: 'x'.repeat(req.input.pad ?? 0) });
    return {};
};";

async fn logger(host: &Host) -> String {
    let (_, key) = host.register("Logger").await;
    let mut logger = tool("logger", 0.0, LOGGER);
    logger["limits"] = json!({ "logLines": 1_024, "logBytes": 262_144 });
    host.as_builder(&key, Method::POST, "/ai/endpoints/create", &logger).await.is(200);
    key
}

async fn logs(host: &Host, key: &str, query: &str) -> Vec<Value> {
    let (mut all, mut cursor) = (vec![], String::new());
    loop {
        let path = format!("/ai/endpoints/logger/logs?limit=7{query}{cursor}");
        let page = host.as_builder(key, Method::GET, &path, &Value::Null).await.is(200).json();
        all.extend(page["logs"].as_array().unwrap().iter().cloned());
        match page["nextCursor"].as_str() {
            Some(next) => cursor = format!("&cursor={next}"),
            None => return all,
        }
    }
}

#[tokio::test]
async fn logs_are_read_by_their_owner_by_level_call_and_page() {
    let host = Host::start().await;
    let (key, (_, other)) = (logger(&host).await, host.register("Other").await);
    host.call("logger", &json!({ "lines": 20 })).await.is(200);
    host.call("logger", &json!({ "lines": 3, "level": "error" })).await.is(200);
    let all = eventually("the lines are stored", Duration::from_secs(5), || async {
        let all = logs(&host, &key, "").await;
        (all.len() == 23).then_some(all)
    })
    .await;
    let messages: Vec<_> = all.iter().map(|line| line["message"].as_str().unwrap()).collect();
    assert_eq!(messages[..4], ["line 2", "line 1", "line 0", "line 19"]);
    assert_eq!(all[0].as_object().unwrap().keys().collect::<Vec<_>>(), ["at", "level", "message", "fields", "callId"]);
    assert_eq!(logs(&host, &key, "&level=warn").await, all[..3]);
    let call = all[10]["callId"].as_str().unwrap();
    assert_eq!(logs(&host, &key, &format!("&callId={call}")).await, all[3..]);
    assert_eq!(logs(&host, &key, "&since=1h").await, all);
    assert_eq!(logs(&host, &key, "&since=0s").await, Vec::<Value>::new());
    let admins = host.manage(Method::GET, "/ai/endpoints/logger/logs?limit=1", &json!({})).await.is(200).json();
    assert_eq!(admins["logs"], json!([all[0]]));
    host.as_builder(&other, Method::GET, "/ai/endpoints/logger/logs", &Value::Null).await.fails(403, "not_owner", "caller");
    host.get("/ai/endpoints/logger/logs").await.fails(401, "unauthorized", "caller");
    for bad in ["level=loud", "callId=1", "since=1", "limit=0", "cursor=zz"] {
        let path = format!("/ai/endpoints/logger/logs?{bad}");
        host.as_builder(&key, Method::GET, &path, &Value::Null).await.fails(400, "invalid_request", "caller");
    }
}

#[tokio::test]
async fn a_log_is_followed_from_before_into_the_present() {
    let host = Host::start().await;
    let key = logger(&host).await;
    host.call("logger", &json!({ "lines": 150 })).await.is(200);
    let follow = |query: &str| host.request(Method::GET, &format!("/ai/endpoints/logger/logs{query}")).header("x-builder-key", &key);
    let mut stream = Stream::open(follow("?since=1h")).await;
    let mut last = None;
    for n in 0..150 {
        let answer = stream.next().await.unwrap();
        assert_eq!((answer.name.as_str(), &answer.data["fields"]["n"]), ("log", &json!(n)));
        last = answer.id;
    }
    host.call("logger", &json!({ "lines": 3 })).await.is(200);
    for n in 0..3 {
        assert_eq!(stream.next().await.unwrap().data["fields"]["n"], n);
    }
    let mut again = Stream::open(follow("?level=info").header("last-event-id", last.unwrap())).await;
    for n in 0..3 {
        assert_eq!(again.next().await.unwrap().data["fields"]["n"], n);
    }
    // A host that is shutting down closes the streams.
    drop(again);
}

/// Returns the resident memory of a process, in KiB.
fn resident(pid: u32) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
    line.trim().trim_end_matches(" kB").parse().unwrap()
}

/// Eight followers never read, while a tool logs far more than the host may keep for them.
#[tokio::test]
async fn followers_who_do_not_read_cost_the_host_a_buffer_and_no_more() {
    let host = Host::start().await;
    let key = logger(&host).await;
    let follow = || host.request(Method::GET, "/ai/endpoints/logger/logs").header("x-builder-key", &key);
    let call = json!({ "lines": 60, "pad": 3_900 });
    for _ in 0..40 {
        host.call("logger", &call).await.is(200);
    }
    let mut idle = vec![];
    for _ in 0..8 {
        idle.push(Stream::open(follow()).await);
    }
    for _ in 0..60 {
        host.call("logger", &call).await.is(200);
    }
    let before = resident(host.pid());
    // 60 lines of 4 KB for each of eight: 1.9 MB per call, 570 MB in total.
    for n in 0..300 {
        host.call("logger", &call).await.is(200);
        if n % 50 == 0 {
            host.get("/health/ready").await.is(200);
        }
    }
    let grown = resident(host.pid()).saturating_sub(before);
    println!("{grown} KiB more after 18,000 lines to 8 who do not read; {before} KiB before");
    assert!(grown < 100 * 1_024, "the host grew by {grown} KiB");

    // A follower that finally reads learns how many lines it missed. The lines that come are in
    // order.
    let mut stream = idle.pop().unwrap();
    drop(idle);
    let mut lagged = 0;
    let mut lines = 0_u64;
    // Each time the connection accepts a little more, there is another such message.
    while lines + lagged < 360 * 60 {
        let answer = stream.next().await.unwrap();
        match answer.name.as_str() {
            "lagged" => lagged += answer.data["missed"].as_u64().unwrap(),
            "log" => lines += 1,
            other => panic!("{other}"),
        }
    }
    assert_eq!((lines + lagged, lagged > 0), (360 * 60, true), "every line was sent or counted");
    host.call("logger", &json!({ "lines": 1 })).await.is(200);
    assert_eq!(stream.next().await.unwrap().data["message"], "line 0");
}

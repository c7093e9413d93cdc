//! Lists from a given time, or of one call. If the host does not filter, the command line does.

use std::time::Duration;

use reqwest::Method;
use serde_json::{Value, json};

use super::harness::Shell;
use crate::harness::{Host, Payer, eventually, js};

/// Returns a field of every entry in a list.
fn all<'v>(page: &'v Value, list: &str, member: &str) -> Vec<&'v str> {
    page[list].as_array().unwrap().iter().map(|entry| entry[member].as_str().unwrap()).collect()
}

#[tokio::test]
async fn credits_and_reviews_start_at_the_given_time() {
    let host = Host::start().await;
    let admin = Shell::admin(&host);
    let mut tokens = vec![];
    for _ in 0..3 {
        tokens.push(admin.json(&["credits", "mint", "5"]).await["credit"].as_str().unwrap().to_owned());
    }
    let listed = admin.json(&["credits", "list"]).await;
    let (ids, made) = (all(&listed, "credits", "creditId"), all(&listed, "credits", "createdAt"));
    let later = admin.json(&["credits", "list", "--since", made[1]]).await;
    assert_eq!(all(&later, "credits", "creditId"), ids[1..]);
    // Page by page, without duplicate entries.
    let mut paged = vec![];
    let mut cursor = None;
    loop {
        let mut words = vec!["credits", "list", "--since", made[1], "--limit", "1"];
        words.extend(cursor.iter().flat_map(|cursor: &String| ["--cursor", cursor.as_str()]));
        let page = admin.json(&words).await;
        paged.extend(all(&page, "credits", "creditId").into_iter().map(str::to_owned));
        cursor = page["nextCursor"].as_str().map(str::to_owned);
        if cursor.is_none() {
            break;
        }
    }
    assert_eq!(paged, ids[1..]);
    for (words, status) in [(&["credits", "--since", "soon"][..], 2), (&["credits", "--since", "1h", "list"], 2)] {
        admin.run(words).await.is(status);
    }

    admin.run(&["credits", "top-up", ids[0], "1"]).await.is(0);
    let holder = Shell::at(&host.url).env("TOLLHOUSE_CREDIT", &tokens[0]);
    let moved = holder.json(&["credits"]).await;
    let at = all(&moved, "movements", "at");
    assert!(at.len() == 2 && at[0] > at[1], "the newest comes first: {moved}");
    assert_eq!(all(&holder.json(&["credits", "--since", at[0]]).await, "movements", "at"), at[..1]);
    assert_eq!(all(&holder.json(&["credits", "--since", "1h"]).await, "movements", "at"), at);

    let (_, key) = host.register("Toolsmith").await;
    for slug in ["one", "two"] {
        let mut tool = js(slug, 0.0, "export default () => 1;");
        tool["capabilities"]["httpGetJson"] = json!(true);
        tool["allowedHosts"] = json!(["api.example.com"]);
        host.as_builder(&key, Method::POST, "/ai/endpoints/create", &tool).await.is(200);
    }
    let waiting = admin.json(&["reviews"]).await;
    assert_eq!(all(&waiting, "reviews", "slug"), ["one", "two"]);
    let since = all(&waiting, "reviews", "since");
    assert_eq!(all(&admin.json(&["reviews", "--since", since[1]]).await, "reviews", "slug"), ["two"]);
    assert_eq!(all(&admin.json(&["reviews", "list", "--since", "1h"]).await, "reviews", "slug"), ["one", "two"]);
}

#[tokio::test]
async fn payouts_start_at_the_given_time() {
    let host = Host::start().await;
    let (_, key) = host.register("Toolsmith").await;
    host.as_builder(&key, Method::POST, "/ai/endpoints/create", &js("shout", 0.25, "export default () => 1;")).await.is(200);
    let builder = Shell::builder(&host, &key);
    let settings = ["payouts", "settings", "--address", "0x209693Bc6afc0C5328bA36FaF03C514EF312287C", "--minimum", "0.1"];
    builder.run(&settings).await.is(0);
    let payer = Payer::funded(&host, 1.0).await;
    let challenge = host.challenge("shout").await;
    for _ in 0..2 {
        host.call_paid("shout", &json!({}), &payer.pay(&challenge)).await.is(200);
        builder.run(&["payouts", "make"]).await.is(0);
    }
    let listed = builder.json(&["payouts"]).await;
    let (ids, made) = (all(&listed, "payouts", "id"), all(&listed, "payouts", "createdAt"));
    assert!(ids.len() == 2 && made[0] > made[1], "{listed}");
    for words in [&["payouts", "--since", made[0]][..], &["payouts", "list", "--since", made[0]]] {
        let page = builder.json(words).await;
        assert_eq!((all(&page, "payouts", "id"), &page["nextCursor"]), (ids[..1].to_vec(), &Value::Null));
    }
    assert_eq!(all(&builder.json(&["payouts", "--since", "1h"]).await, "payouts", "id"), ids);
}

#[tokio::test]
async fn calls_and_events_are_read_of_one_call_alone() {
    let host = Host::start().await;
    let (_, key) = host.register("Toolsmith").await;
    host.as_builder(&key, Method::POST, "/ai/endpoints/create", &js("shout", 0.0, "export default () => 1;")).await.is(200);
    for _ in 0..3 {
        host.call("shout", &json!({})).await.is(200);
    }
    let shell = Shell::builder(&host, &key);
    let calls = eventually("the calls are stored", Duration::from_secs(10), async || {
        let calls = shell.json(&["calls", "shout"]).await;
        (calls["calls"].as_array().unwrap().len() == 3).then_some(calls)
    })
    .await;
    for id in all(&calls, "calls", "callId") {
        let own = shell.json(&["calls", "shout", "--call", id]).await;
        assert_eq!((all(&own, "calls", "callId"), &own["nextCursor"]), (vec![id], &Value::Null));
        let events = shell.json(&["events", "--call", id]).await;
        let events = events["events"].as_array().unwrap();
        assert!(events.len() == 1 && events[0]["kind"] == "call.succeeded" && events[0]["data"]["callId"] == *id, "{events:?}");
    }
    let none = "call_01M844ZVZ2RJSJREQ1V8XR79MA";
    shell.run(&["calls", "shout", "--call", none]).await.is(0).stderr_text("").warned("no entries yet");
    shell.run(&["events", "--call", "none"]).await.is(2);
}

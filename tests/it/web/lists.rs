//! The list of tools, and the page of each tool.

use std::{collections::BTreeSet, time::Duration};

use futures_util::future::join_all;
use reqwest::Method;
use serde_json::{Value, json};

use super::{html, page, text, texts, values};
use crate::{
    docs,
    harness::{Host, Payer, eventually, js},
    listing::fixed,
};

/// Returns the slugs of the rows, in order.
fn rows(html: &str) -> Vec<String> {
    let rows = html.split("<ul class=\"rows\">").nth(1).and_then(|rest| rest.split("</ul>").next()).unwrap_or_default();
    values(rows, "href").into_iter().filter_map(|link| link.strip_prefix("/dashboard/tools/").map(str::to_owned)).collect()
}

#[tokio::test]
async fn a_long_list_comes_in_pages_that_have_every_tool_once() {
    let host = Host::start().await;
    let names: Vec<_> = (0..120).map(|n| format!("tool-{n:03}")).collect();
    let (long, host) = (&"Says at length what it is for, as tools do. ".repeat(20), &host);
    for some in names.chunks(10) {
        join_all(some.iter().map(|name| async move {
            let mut tool = fixed(name, &format!("The tool that is called {name}"), 0.01, &["one", "two", "three"]);
            tool["description"] = json!(long);
            host.publish(&tool).await
        }))
        .await;
    }
    let (mut found, mut next, mut pages) = (vec![], Some("/dashboard".to_owned()), 0);
    while let Some(path) = next {
        assert!(pages < 3, "it goes on and on");
        let html = html(&page(host, &path).await.is(200));
        assert!(html.len() <= 40 << 10, "{} bytes", html.len());
        assert!(text(&html).contains("of 120 shown"));
        found.extend(rows(&html));
        let behind = html.split("rel=\"next\"").next().filter(|before| before.len() < html.len());
        next = behind.map(|before| values(&before[before.rfind('<').unwrap()..], "href")[0].clone());
        pages += 1;
    }
    assert_eq!((found, pages), (names, 3));
}

#[tokio::test]
async fn tools_are_searched_filtered_and_sorted_by_the_address() {
    let host = Host::start().await;
    assert!(text(&html(&page(&host, "/dashboard").await.is(200))).contains("No tools yet."));
    for tool in [
        fixed("celsius", "Temperature converter", 0.0, &["units"]),
        fixed("forecast", "Weather forecast", 0.02, &["weather"]),
        fixed("resize", "Image resizer", 0.005, &["images", "a&b=c"]),
    ] {
        host.publish(&tool).await;
    }
    for (query, requested) in [
        ("", &["celsius", "forecast", "resize"][..]),
        ("?q=converting+temperatures", &["celsius"]),
        ("?price=paid", &["forecast", "resize"]),
        ("?price=paid&sort=price", &["resize", "forecast"]),
        ("?sort=newest&utm_source=elsewhere", &["resize", "forecast", "celsius"]),
        ("?tag=a%26b%3Dc", &["resize"]),
        ("?tag=none", &[]),
    ] {
        let html = html(&page(&host, &format!("/dashboard{query}")).await.is(200));
        assert_eq!(rows(&html), requested, "{query}");
        assert!(!requested.is_empty() || text(&html).contains("No matching tools."), "{query}");
    }
    let html = html(&page(&host, "/dashboard").await);
    assert!(values(&html, "href").contains(&"/dashboard?tag=a%26b%3Dc".to_owned()), "a tag's link finds its tools");
    assert!(text(&html).contains("$0.005 simulated"), "an amount says whether it is real");
}

#[tokio::test]
async fn tool_page_matches_its_record() {
    let host = Host::start().await;
    let mut tool = js("said", 0.0025, "export default (req) => req.input;");
    tool["description"] = json!("First `code`.\n\nSecond.");
    tool["inputSchema"] = json!({
        "type": "object", "required": ["word"], "additionalProperties": false,
        "properties": { "word": { "type": "string", "maxLength": 9, "description": "What is said" }, "times": { "type": "integer", "minimum": 1 } },
    });
    host.publish(&tool).await;
    let shown = text(&html(&page(&host, "/dashboard/tools/said").await.is(200)));
    for reported in [
        "said",
        "● active",
        "$0.0025 simulated",
        "First code.",
        "required",
        "at most 9 characters",
        "at least 1",
        "eip155:84532",
        "2500",
        "stores values between calls",
    ] {
        assert!(shown.contains(reported), "{reported}: {shown}");
    }
    host.change("said", &json!({ "status": "paused" })).await;
    let paused = page(&host, "/dashboard/tools/said").await.is(200);
    assert!(text(&html(&paused)).contains("‖ paused"));
    host.manage(Method::POST, "/ai/admin/reviews/said", &json!({ "decision": "takedown" })).await.is(200);
    let removed = html(&page(&host, "/dashboard/tools/said").await.is(404));
    assert!(!removed.contains("First"), "hidden tools are not shown: {removed}");
    host.publish(&fixed("sayings", "What was said", 0.0, &[])).await;
    assert!(
        values(&html(&page(&host, "/dashboard/tools/what-was").await.is(404)), "href").contains(&"/dashboard/tools/sayings".to_owned())
    );
}

#[tokio::test]
async fn everyone_learns_how_a_tool_is_called_and_whose_it_is() {
    let host = Host::start().await;
    let (id, key) = host.register("Ada <& Co>").await;
    host.as_builder(&key, Method::POST, "/ai/endpoints/create", &js("counted", 0.0, "export default (req) => req.input;")).await.is(200);
    for _ in 0..3 {
        host.call("counted", &json!({})).await.is(200);
    }
    let counted =
        async || Some(host.get("/ai/endpoints").await.json()["endpoints"][0].clone()).filter(|tool| tool["usage"]["calls30d"] == 3);
    let listed = eventually("the calls are counted", Duration::from_secs(60), counted).await;
    assert!(listed["usage"]["medianMs"].as_f64() > Some(0.0), "{listed}");
    assert_eq!(listed["builder"], json!({ "id": id, "name": "Ada <& Co>" }));
    let inspected = host.get("/tools/counted?inspect").await.json();
    for one in [host.get("/ai/endpoints/counted").await.json(), inspected] {
        assert_eq!((&one["endpoint"]["usage"], &one["endpoint"]["builder"]), (&listed["usage"], &listed["builder"]));
    }
    let own = host.as_builder(&key, Method::GET, "/ai/endpoints/counted", &json!(null)).await.json();
    assert_eq!((own["endpoint"].get("usage"), own["endpoint"].get("builder")), (None, None), "a record is another one only after a change");
    let older = host.get("/ai/endpoints?form=older").await.json()["endpoints"][0].clone();
    assert_eq!((older.get("usage"), older.get("builder"), older["slug"].as_str()), (None, None, Some("counted")));
    assert_eq!(host.get("/ai/manifest").await.json()["endpoints"]["calls24h"], 3);
    let usage = host.get("/ai/endpoints/counted/usage").await.is(200).json();
    let calls: u64 = usage["days"].as_array().unwrap().iter().map(|day| day["calls"].as_u64().unwrap()).sum();
    assert!(calls == 3 && usage["days"].as_array().unwrap().len() == 30, "{usage}");

    let list = text(&html(&page(&host, "/dashboard").await.is(200)));
    assert!(list.contains("Calls in the last 24 hours3") && list.contains("by Ada <& Co> · 3 calls in 30 days, median"), "{list}");
    let own = text(&html(&page(&host, "/dashboard/tools/counted").await.is(200)));
    assert!(own.contains("3 calls in 30 days. Maximum per day: 3.") && own.contains(&id) && !own.contains("failed."), "{own}");
    host.change("counted", &json!({ "status": "paused" })).await;
    host.get("/ai/endpoints/counted/usage").await.is(200);
    host.manage(Method::POST, "/ai/admin/reviews/counted", &json!({ "decision": "takedown" })).await.is(200);
    host.get("/ai/endpoints/counted/usage").await.fails(404, "unknown_endpoint", "caller");
}

/// Returns the code blocks on a page in a language.
pub(super) fn code(html: &str, language: &str) -> Vec<String> {
    let begin = format!("<code class=\"language-{language}\">");
    html.split(begin.as_str()).skip(1).map(|rest| text(rest.split("</code>").next().unwrap())).collect()
}

#[tokio::test]
async fn the_lines_that_call_a_tool_call_it() {
    let host = Host::builder().with_catalogue().start().await;
    let folder = docs::checkout(&host);
    let clients = folder.path().join("fixtures/clients");
    let listed = host.get("/ai/endpoints").await.json();
    let tools = listed["endpoints"].as_array().unwrap();
    let credit = host.mint(1.0).await;
    for tool in tools {
        let slug = tool["slug"].as_str().unwrap();
        let html = html(&page(&host, &format!("/dashboard/tools/{slug}")).await.is(200));
        let is_free = tool["priceUsd"] == 0;
        let lines = code(&html, "sh");
        assert_eq!(lines.len(), if is_free { 1 } else { 2 }, "{slug}");
        let requested: BTreeSet<u16> =
            if slug == "x402-readiness-check" { [200, 502, 422].into() } else { [if is_free { 200 } else { 402 }].into() };
        let done = docs::run(&lines[0], folder.path()).await;
        let text = String::from_utf8_lossy(&done.stderr).into_owned();
        let statuses: Vec<_> = docs::statuses(&text).collect();
        assert!(
            done.status.success() && !statuses.is_empty() && statuses.iter().all(|status| requested.contains(status)),
            "{slug}: {}\n{text}\n{done:?}",
            lines[0]
        );
        if let Some(line) = lines.get(1) {
            let done = docs::run(&format!("CREDIT={credit}\n{line}"), folder.path()).await;
            let message = String::from_utf8_lossy(&done.stderr).into_owned();
            // A tool that calls other hosts fails without a network. No call is refused.
            let statuses: Vec<_> = docs::statuses(&message).collect();
            let answered = !statuses.is_empty() && statuses.iter().all(|status| matches!(status, 200 | 502));
            assert!(done.status.success() && answered, "{slug}: {line}\n{done:?}");
        }
    }
    let payer = Payer::funded(&host, 1.0).await;
    let html = html(&page(&host, "/dashboard/tools/text-summary").await.is(200));
    for (language, program, file, limit) in
        [("js", "node", "call.mjs", "maxAmountPerPayment: \"$0.002\""), ("py", ".venv/bin/python", "call.py", "max_amount(2000)")]
    {
        let script = code(&html, language)[0].clone();
        assert!(script.contains(limit), "it can sign more than the price: {script}");
        std::fs::write(clients.join(file), script).unwrap();
        let done = docs::run(&format!("cd fixtures/clients && PRIVATE_KEY={} {program} {file}", payer.secret()), folder.path()).await;
        let message = String::from_utf8_lossy(&done.stdout).into_owned();
        assert!(message.starts_with("rcpt_") && message.contains("summary"), "{done:?}");
    }
    let mcp: Value = serde_json::from_str(&code(&html, "json")[0]).unwrap();
    let server = &mcp["mcpServers"]["tollhouse"];
    assert_eq!(
        (server["type"].as_str(), server["url"].as_str().unwrap()),
        (Some("http"), &*format!("{}/ai/mcp?tools=text-summary", host.url))
    );
    let mut client = host.mcp().with_header("x-developer-credit", &credit);
    client.query = "?tools=text-summary";
    assert!(client.tool("text-summary").await.is_some() && client.tool("creator-plan").await.is_none());
    let input = json!({ "text": "One sentence. Another one, which is longer than the first. A third." });
    let called = client.call("text-summary", input, json!({})).await;
    assert!(called["isError"] != true && called["structuredContent"].is_object(), "{called}");
    assert!(texts(&html, "summary").contains(&"Python".to_owned()));
}

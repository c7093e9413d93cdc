//! A builder's pages about calls and money, compared with the API from which they are made.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use reqwest::Method;
use serde_json::{Value, json};

use super::{browser::Browser, html, text, texts, values};
use crate::{
    docs,
    harness::{Host, Payer, eventually},
    revenue::{SOMETIMES, tool},
};

/// Returns the number of table rows on a page, without headings.
fn rows(html: &str) -> usize {
    html.matches("<th scope=\"row\">").count()
}

/// Returns the number of rows on a page and the following ones.
async fn all_rows(browser: &Browser<'_>, path: &str) -> usize {
    let (mut next, mut found) = (Some(path.to_owned()), 0);
    while let Some(path) = next {
        let html = browser.page(&path).await;
        // The table of events or calls is the last one on the page.
        found += rows(html.rsplit("<table").next().unwrap());
        let behind = html.split("rel=\"next\"").next().filter(|before| before.len() < html.len());
        next = behind.map(|before| values(&before[before.rfind('<').unwrap()..], "href")[0].clone());
    }
    found
}

/// Returns the links of the numbers in a row, with their texts.
fn links(html: &str, table: &str, row: &str) -> Vec<(String, String)> {
    let begin = format!("aria-label=\"{table}\"");
    let rows = html.split(begin.as_str()).nth(1).unwrap_or_else(|| panic!("no {table}: {html}")).split("</table>").next().unwrap();
    let row = rows
        .split("<tr>")
        .find(|rest| text(rest.split("</th>").next().unwrap()).contains(row))
        .unwrap_or_else(|| panic!("no {row}: {rows}"));
    let cells = row.split("<td").skip(1);
    cells
        .filter(|cell| cell.contains("<a href"))
        .map(|cell| (values(cell, "href")[0].clone(), text(cell.split_once('>').unwrap().1)))
        .collect()
}

/// Waits until the API has counted this many calls. Returns its report.
async fn report(host: &Host, key: &str, calls: u64) -> Value {
    eventually("all calls are counted", Duration::from_secs(10), || async {
        let report = host.as_builder(key, Method::GET, "/ai/builders/revenue?since=30d", &Value::Null).await.is(200).json();
        (report["totals"]["calls"] == calls).then_some(report)
    })
    .await
}

/// Creates a builder with two tools. One of them was called nine times for money, the other four
/// times free of charge.
async fn sold(host: &Host) -> (String, Value) {
    let (_, key) = host.register("Earner").await;
    for (slug, price) in [("earns", 0.012_345), ("is-free", 0.0)] {
        host.as_builder(&key, Method::POST, "/ai/endpoints/create", &tool(slug, price, SOMETIMES)).await.is(200);
    }
    let (payer, credit) = (Payer::funded(host, 1.0).await, host.mint(1.0).await);
    let challenge = host.challenge("earns").await;
    for n in 0..9 {
        let input = json!({ "n": n, "fail": if n % 3 == 2 { "throws" } else { "" } });
        if n % 2 == 0 {
            host.call_credit("earns", &input, &credit).await;
        } else {
            host.call_paid("earns", &input, &payer.pay(&challenge)).await;
        }
    }
    for n in 0..4 {
        host.call("is-free", &json!({ "n": n, "fail": if n == 0 { "status" } else { "" } })).await;
    }
    let report = report(host, &key, 13).await;
    (key, report)
}

fn usd(amount: &Value) -> String {
    format!("${}", amount.as_f64().unwrap())
}

#[tokio::test]
async fn revenue_page_matches_the_api_and_links_its_details() {
    let host = Host::builder().flag("--fee-bps", 333).start().await;
    let (key, report) = sold(&host).await;
    let totals = &report["totals"];
    let browser = Browser::signed_in(&host, &key).await;
    let page = browser.page("/dashboard/revenue").await;
    let shown = text(&page);
    let sum = format!(
        "{} simulated gross − {} simulated fees = {} simulated net",
        usd(&totals["grossUsd"]),
        usd(&totals["feesUsd"]),
        usd(&totals["netUsd"])
    );
    assert!(shown.contains(&sum), "{sum}: {shown}");
    assert!(shown.contains("simulated"), "the page says whether it is real money");
    let sentence = texts(&page, "figcaption").concat();
    assert!(sentence.contains("Net by day since 20") && sentence.contains(&usd(&totals["netUsd"])), "{sentence}");
    assert_eq!(page.matches("<rect").count(), 1, "a bar, of today");

    let describe =
        |list: &str, name: &str| report[list].as_array().unwrap().iter().find(|line| line["endpointSlug"] == name).unwrap().clone();
    for (slug, line) in [("earns", describe("byEndpoint", "earns")), ("is-free", describe("byEndpoint", "is-free"))] {
        let cells = links(&page, "Revenue by tool", slug);
        let requested = ["calls", "paidCalls", "failedCalls"].map(|sum| line[sum].as_u64().unwrap());
        for ((path, number), requested) in cells.iter().zip(requested) {
            assert_eq!(number, &requested.to_string(), "{slug}");
            assert_eq!(all_rows(&browser, path).await as u64, requested, "{slug}: {path}");
        }
        let amounts: Vec<_> = cells.iter().skip(3).map(|(_, amount)| amount.clone()).collect();
        assert_eq!(amounts, ["grossUsd", "refundedUsd", "feesUsd", "netUsd"].map(|sum| usd(&line[sum])), "{slug}");
    }
    let today = &report["byDay"][0];
    let cells = links(&page, "Revenue by day", today["day"].as_str().unwrap());
    assert_eq!(
        cells.iter().map(|(_, describe)| describe.clone()).collect::<Vec<_>>(),
        [
            today["paidCalls"].to_string(),
            today["failedCalls"].to_string(),
            usd(&today["grossUsd"]),
            usd(&today["feesUsd"]),
            usd(&today["netUsd"]),
        ]
    );
    for ((path, _), sum) in cells.iter().zip(["paidCalls", "failedCalls", "paidCalls", "paidCalls", "paidCalls"]) {
        assert!(path.contains("&since=") && path.contains("&until="), "a day has an end: {path}");
        assert_eq!(all_rows(&browser, path).await as u64, today[sum].as_u64().unwrap(), "{path}");
    }
    let sums = page.split("gross − ").next().unwrap();
    let path = values(sums, "href").pop().unwrap();
    assert_eq!(all_rows(&browser, &path).await as u64, totals["paidCalls"].as_u64().unwrap(), "{path}");

    for (by, list, name) in [("day", "byDay", "day"), ("tool", "byEndpoint", "endpointSlug")] {
        let link = format!("/dashboard/revenue.csv?by={by}");
        assert!(values(&page, "href").contains(&link), "{:?}", values(&page, "href"));
        let csv = browser.get(&link).await.is(200);
        assert_eq!(csv.has("content-type"), "text/csv; charset=utf-8");
        assert!(csv.has("content-disposition").contains(&format!("revenue-by-{by}.csv")) && csv.has("cache-control").contains("no-store"));
        let csv = String::from_utf8(csv.body.to_vec()).unwrap();
        let (heading, lines) = csv.split_once("\r\n").unwrap();
        let requested: Vec<_> = report[list]
            .as_array()
            .unwrap()
            .iter()
            .map(|line| {
                heading
                    .split(',')
                    .map(|member| line[member].as_str().map_or_else(|| line[member].as_f64().unwrap().to_string(), str::to_owned))
                    .collect::<Vec<_>>()
                    .join(",")
            })
            .collect();
        assert!(heading.starts_with(&format!("{name},calls,")) && heading.ends_with(",netUsd"), "{heading}");
        assert_eq!(lines.split_terminator("\r\n").collect::<Vec<_>>(), requested);
    }
    for since in ["7d", "365d"] {
        let page = browser.page(&format!("/dashboard/revenue?since={since}")).await;
        assert!(text(&page).contains(&sum) && page.matches("<rect").count() == 1, "{since}");
    }
    assert!(html(&browser.get("/dashboard/revenue?since=soon").await.is(400)).contains("invalid_request"));
}

#[tokio::test]
async fn revenue_is_private() {
    let host = Host::start().await;
    let (builder, key) = host.register("Earner").await;
    let (_, other) = host.register("Other").await;
    host.as_builder(&key, Method::POST, "/ai/endpoints/create", &tool("earns", 0.5, SOMETIMES)).await.is(200);
    let pages = ["/dashboard/home", "/dashboard/revenue", "/dashboard/revenue.csv", "/dashboard/payouts", "/dashboard/events"];
    let others = Browser::signed_in(&host, &other).await;
    for path in pages {
        let theirs = html(&others.get(&format!("{path}?builderId={builder}")).await.is(403));
        assert!(theirs.contains("not_owner"), "{path}: {theirs}");
        let sent = Browser::new(&host).get(path).await.is(303);
        assert!(sent.has("location").starts_with("/dashboard/sign-in?to="), "{path}: {sent:?}");
    }
    assert!(html(&others.get("/dashboard/tools/earns/calls").await.is(403)).contains("not_owner"));
    html(&others.get("/dashboard/tools/none-such/calls").await.is(404));
    // An admin must name the builder.
    let admin = Browser::signed_in(&host, &host.admin).await;
    for path in pages {
        admin.get(&format!("{path}?builderId={builder}")).await.is(200);
    }
    assert_eq!(admin.get("/dashboard/home").await.is(303).has("location"), "/dashboard/admin");
    admin.get("/dashboard/tools/earns/calls").await.is(200);
    let holder = Browser::signed_in(&host, &host.mint(1.0).await).await;
    assert_eq!(holder.get("/dashboard/home").await.is(303).has("location"), "/dashboard/credit");
    for path in &pages[1..] {
        let refused = holder.get(path).await.is(401);
        assert!(html(&refused).contains("unauthorized"), "{path}");
    }
    // A refusal for a missing right does not end the session.
    assert!(holder.page("/dashboard/credit").await.contains("$1"));
}

#[tokio::test]
async fn calls_show_their_outcome_and_failures_are_grouped() {
    let host = Host::start().await;
    let (key, _) = sold(&host).await;
    let browser = Browser::signed_in(&host, &key).await;
    let api = async |query: &str| {
        let path = format!("/ai/endpoints/earns/calls?limit=200{query}");
        host.as_builder(&key, Method::GET, &path, &Value::Null).await.is(200).json()["calls"].as_array().unwrap().clone()
    };
    let calls =
        eventually("all calls are stored", Duration::from_secs(10), || async { Some(api("").await).filter(|calls| calls.len() == 9) })
            .await;
    let page = browser.page("/dashboard/tools/earns/calls").await;
    let table = page.split("aria-label=\"Calls\"").nth(1).unwrap().split("</table>").next().unwrap();
    let shown: Vec<_> = table.split("<tr>").skip(2).collect();
    assert_eq!(shown.len(), calls.len());
    for (row, call) in shown.iter().zip(&calls) {
        let (seen, links) = (text(row), values(row, "href"));
        assert!(seen.contains(call["outcome"].as_str().unwrap()), "{seen}");
        match call["receiptId"].as_str() {
            Some(id) => assert!(links.contains(&format!("/dashboard/receipts/{id}")) && seen.contains("$0.012345 by"), "{seen}"),
            None => {
                assert!(seen.contains("handler_failed") && seen.contains("not charged"), "{seen}");
                assert!(row.contains("<details><summary>") && seen.contains("Handler failed: Error: came to nothing"), "{seen}");
            }
        }
        assert!(links.contains(&format!("/dashboard/tools/earns/log?callId={}", call["callId"].as_str().unwrap())), "{links:?}");
        assert!(seen.contains(if call["cold"] == true { " cold" } else { " warm" }), "{seen}");
    }
    // The script follows the same list, and can identify the rows. A list that ends in the past is
    // not followed.
    let ids: Vec<_> = calls.iter().map(|call| call["callId"].as_str().unwrap().to_owned()).collect();
    assert_eq!((values(&page, "data-row"), values(&page, "data-live")), (ids, vec!["/dashboard/api/ai/endpoints/earns/calls".to_owned()]));
    let part = browser.page(&format!("{}?rows=2", values(&page, "data-rows")[0])).await;
    assert_eq!(values(&part, "data-row"), values(&page, "data-row")[..2], "the rows that are asked for");
    assert!(part.starts_with("<div id=\"sums\">") && part.contains("<dd>6</dd>") && !part.contains("<form"), "and the sums: {part}");
    let failed = browser.page("/dashboard/tools/earns/calls?code=failed&since=1h").await;
    assert_eq!(values(&failed, "data-live"), ["/dashboard/api/ai/endpoints/earns/calls?outcome=failed"]);
    assert!(values(&failed, "src").iter().any(|script| script.ends_with("/rows.js")));
    assert!(!browser.page("/dashboard/tools/earns/calls?until=1h").await.contains("data-live"));
    assert_eq!(links(&page, "Reasons for failures", "handler_failed").len(), 1);
    let (path, number) = links(&page, "Reasons for failures", "handler_failed").remove(0);
    assert_eq!((number.as_str(), all_rows(&browser, &path).await), ("3", 3));
    let counted: BTreeMap<_, _> = texts(&page, "dt").into_iter().zip(texts(&page, "dd")).collect();
    assert_eq!(["Calls", "Succeeded", "Failed", "Charged"].map(|name| counted[name].as_str()), ["9", "6", "3", "6"]);
    assert_eq!(all_rows(&browser, "/dashboard/tools/earns/calls?code=succeeded&since=1h").await, 6);
    // A list of an earlier day does not include today's calls, nor do its sums.
    let past = browser.page("/dashboard/tools/earns/calls?since=2d&until=1d").await;
    let counted: BTreeMap<_, _> = texts(&past, "dt").into_iter().zip(texts(&past, "dd")).collect();
    assert!(text(&past).contains("No matching calls.") && counted["Calls"] == "0", "{counted:?}");
    let other = browser.page("/dashboard/tools/is-free/calls").await;
    let (path, number) = links(&other, "Reasons for failures", "error_status").remove(0);
    assert_eq!((number.as_str(), all_rows(&browser, &path).await), ("1", 1));
    let none = html(&browser.get("/dashboard/tools/earns/calls?code=timeout").await.is(400));
    assert!(none.contains("invalid_request"), "an unknown code is rejected as the API does");
    let none = text(&browser.page("/dashboard/tools/earns/calls?code=invalid_output").await);
    assert!(none.contains("No matching calls."), "{none}");
}

#[tokio::test]
async fn a_long_list_of_calls_comes_in_pages() {
    let host = Host::start().await;
    let (_, key) = host.register("Earner").await;
    host.as_builder(&key, Method::POST, "/ai/endpoints/create", &tool("is-free", 0.0, SOMETIMES)).await.is(200);
    let browser = Browser::signed_in(&host, &key).await;
    let empty = browser.page("/dashboard/tools/is-free/calls").await;
    assert!(text(&empty).contains("No calls yet.") && values(&empty, "href").contains(&"/dashboard/tools/is-free/try".to_owned()));
    for n in 0..95 {
        host.call("is-free", &json!({ "n": n })).await.is(200);
    }
    report(&host, &key, 95).await;
    for path in ["/dashboard/tools/is-free/calls", "/dashboard/events?kind=call.succeeded&tool=is-free"] {
        let first = browser.get(path).await.is(200);
        assert!(first.body.len() < 48 << 10, "{path}: {} bytes", first.body.len());
        eventually("all calls are stored", Duration::from_secs(10), || async { (all_rows(&browser, path).await == 95).then_some(()) })
            .await;
    }
}

#[tokio::test]
async fn home_shows_pending_work_and_tool_activity() {
    let host = Host::start().await;
    let (_, key) = host.register("Earner").await;
    let browser = Browser::signed_in(&host, &key).await;
    let first = browser.page("/dashboard/home").await;
    assert!(text(&first).contains("There are three ways to publish the first one."));
    for path in ["/dashboard/new", "/guides/build-a-tool"] {
        assert!(values(&first, "href").contains(&path.to_owned()), "{path}");
    }
    let line = first.split("<code class=\"language-sh\">").nth(1).map(|rest| text(rest.split("</code>").next().unwrap())).unwrap();
    let folder = docs::checkout(&host);
    let done = docs::run(&format!("BUILDER_KEY={key}\n{line}"), folder.path()).await;
    assert!(String::from_utf8_lossy(&done.stderr).contains("HTTP 200"), "{line}: {done:?}");
    host.call("my-first-tool", &json!({ "a": 1 })).await.is(200);

    let builder = host.as_builder(&key, Method::GET, "/ai/builders/me", &Value::Null).await.is(200).json()["builder"]["builderId"].clone();
    let mut odd = tool("is-odd", 0.0, SOMETIMES);
    odd["title"] = json!("<img src=x onerror=alert(1)>\u{202e}odd");
    let path = format!("/ai/endpoints/create?builderId={}", builder.as_str().unwrap());
    host.manage(Method::POST, &path, &odd).await.is(200);
    for slug in ["earns", "asks", "is-held"] {
        let mut one = tool(slug, 0.25, SOMETIMES);
        if slug == "asks" {
            one["capabilities"] = json!({ "httpGetJson": true });
            one["allowedHosts"] = json!(["api.example.com"]);
        }
        host.as_builder(&key, Method::POST, "/ai/endpoints/create", &one).await.is(200);
    }
    host.manage(Method::POST, "/ai/admin/reviews/is-held", &json!({ "decision": "takedown", "reason": "not <b>here</b>" })).await.is(200);
    let credit = host.mint(10.0).await;
    for fail in ["", "throws", "", ""] {
        host.call_credit("earns", &json!({ "fail": fail }), &credit).await;
    }
    report(&host, &key, 5).await;
    let page = browser.page("/dashboard/home").await;
    let needs = page.split("id=\"needs\"").nth(1).unwrap().split("</section>").next().unwrap();
    let seen = text(needs);
    for reported in [
        "is-held was taken down",
        "not <b>here</b>",
        "earns: 1 of 4 calls failed in 30 days",
        "asks requests",
        "api.example.com",
        "$0.7125 simulated of 3 receipts wait to be paid out, but no payout address is set.",
    ] {
        assert!(seen.contains(reported), "{reported}: {seen}");
    }
    assert!(!seen.contains("my-first-tool"), "{seen}");
    assert!(text(&page).contains("<img src=x onerror=alert(1)>U+202Eodd") && !page.contains("<img"), "a title is text");
    let failures = values(needs, "href").into_iter().find(|path| path.contains("code=failed")).unwrap();
    assert_eq!(all_rows(&browser, &failures).await, 1);
    let cells = links(&page, "Tools and their calls", "earns");
    assert_eq!(cells.iter().map(|(_, reported)| reported.as_str()).collect::<Vec<_>>(), ["4", "1", "$0.7125"]);
    let row = page
        .split("aria-label=\"Tools and their calls\"")
        .nth(1)
        .unwrap()
        .split("<tr>")
        .find(|row| row.contains("/tools/earns\""))
        .unwrap();
    let message = values(row, "aria-label").pop().unwrap();
    assert!(message.starts_with("Calls by day. Maximum: 4, on ") && row.matches("<path").count() == 2, "{row}");
    assert!(texts(&page, "figcaption").concat().contains("5 calls in 30 days, 1 failed."));
    assert!(text(&page).contains("payment settled") && values(&page, "href").contains(&"/dashboard/events".to_owned()));
    // The latest events are followed live, and their number stays the same.
    assert_eq!(values(&page, "data-live"), ["/dashboard/api/ai/builders/events"]);
    let [shown, last, max] = ["data-row", "data-rows", "data-most"].map(|name| values(&page, name));
    assert_eq!((shown.len(), last, max), (10, vec!["/dashboard/events".to_owned()], vec!["10".to_owned()]));
    let admin = Browser::signed_in(&host, &host.admin).await;
    let checked_at = admin.page(&format!("/dashboard/home?builderId={}", builder.as_str().unwrap())).await;
    let [live, last] = ["data-live", "data-rows"].map(|name| values(&checked_at, name).remove(0));
    assert!(admin.get(&live).await.is(200).json()["events"].is_array(), "{live}");
    let part = admin.page(&format!("{last}&rows=10")).await;
    assert!(part.starts_with("<div id=\"rows\">") && values(&part, "data-row").len() == 10, "{part}");
}

#[tokio::test]
async fn home_shows_failing_tools_and_due_payouts() {
    let mut host = Host::start().await;
    let (_, key) = host.register("Earner").await;
    for (slug, source) in [("is-stopped", "export default () => new Promise(() => {});"), ("is-sealed", SOMETIMES)] {
        host.as_builder(&key, Method::POST, "/ai/endpoints/create", &tool(slug, 0.0, source)).await.is(200);
    }
    host.as_builder(&key, Method::POST, "/ai/endpoints/create", &tool("earns", 0.5, SOMETIMES)).await.is(200);
    let secret = json!({ "name": "KEY", "value": "kept to itself" });
    host.as_builder(&key, Method::POST, "/ai/endpoints/is-sealed/secrets", &secret).await.is(200);
    let of_list = async |host: &Host, member: &str| {
        let list = host.as_builder(&key, Method::GET, "/ai/builders/endpoints", &Value::Null).await.is(200).json();
        let each =
            list["endpoints"].as_array().unwrap().iter().map(|tool| (tool["slug"].as_str().unwrap().to_owned(), tool[member].clone()));
        each.collect::<BTreeMap<_, _>>()
    };
    assert!(of_list(&host, "heldForMs").await.values().all(Value::is_null));
    assert!(of_list(&host, "secretsUnreadable").await.values().all(|unreadable| *unreadable == false));
    let needs = async |host: &Host| {
        let page = Browser::signed_in(host, &key).await.page("/dashboard/home").await;
        text(page.split("id=\"needs\"").nth(1).unwrap().split("</section>").next().unwrap())
    };
    assert!(needs(&host).await.contains("Nothing needs your attention."));
    // If even the owner's own calls are stopped, the code is the cause.
    for _ in 0..5 {
        host.as_builder(&key, Method::POST, "/tools/is-stopped", &json!({})).await.is(502);
    }
    host.call_credit("earns", &json!({}), &host.mint(1.0).await).await.is(200);
    let payouts = json!({ "address": "0x036CbD53842c5426634e7929541eC2318f3dCF7e", "minimumUsd": 1 });
    host.as_builder(&key, Method::POST, "/ai/builders/payout-settings", &payouts).await.is(200);
    let held = of_list(&host, "heldForMs").await;
    assert!(
        held["is-stopped"].as_u64().is_some_and(|remaining| (1..=60_000).contains(&remaining)) && held["is-sealed"].is_null(),
        "{held:?}"
    );
    let seen = needs(&host).await;
    assert!(seen.contains("is-stopped ◐ held: its code was stopped repeatedly") && !seen.contains("paid out"), "{seen}");
    let payouts = json!({ "address": "0x036CbD53842c5426634e7929541eC2318f3dCF7e", "minimumUsd": 0.1 });
    host.as_builder(&key, Method::POST, "/ai/builders/payout-settings", &payouts).await.is(200);

    host.kill9();
    std::fs::remove_file(host.folder().join("data/master-key")).unwrap();
    host.restart().await;
    let unreadable = of_list(&host, "secretsUnreadable").await;
    assert_eq!((&unreadable["is-sealed"], &unreadable["earns"]), (&json!(true), &json!(false)));
    let seen = needs(&host).await;
    assert!(
        seen.contains("is-sealed has secrets that the host cannot decrypt") && seen.contains(" of 1 receipt can be paid out."),
        "{seen}"
    );
    host.as_builder(&key, Method::POST, "/ai/endpoints/is-sealed/secrets", &secret).await.is(200);
    assert_eq!(of_list(&host, "secretsUnreadable").await["is-sealed"], json!(false));
}

#[tokio::test]
async fn the_page_of_a_tool_shows_its_owner_how_it_was_called() {
    let host = Host::start().await;
    let (key, _) = sold(&host).await;
    let (_, other) = host.register("Other").await;
    let path = "/dashboard/tools/earns";
    for credential in [&key, &host.admin] {
        let page = Browser::signed_in(&host, credential).await.page(path).await;
        assert!(values(&page, "href").contains(&"/dashboard/tools/earns/calls".to_owned()), "the tabs");
        let charts = texts(&page, "figcaption");
        assert!(charts.iter().any(|text| text.contains("9 calls in 30 days, 3 failed. Maximum per day: 9.")), "{charts:?}");
        assert_eq!((page.matches("class=\"col\"").count(), page.matches("class=\"col bad\"").count()), (1, 1), "one bar, a part of it bad");
        assert_eq!((page.matches("class=\"step\"").count(), page.matches("class=\"step bad\"").count()), (1, 1));
    }
    // Strangers see the stored numbers, which reading by the owner has produced.
    for browser in [Browser::new(&host), Browser::signed_in(&host, &other).await] {
        let page = browser.page(path).await;
        assert!(!page.contains("class=\"tabs\"") && !page.contains("class=\"col bad\""), "failures are the owner's business");
        assert!(texts(&page, "figcaption").iter().any(|text| text.contains("9 calls in 30 days. Maximum per day: 9.")));
    }
}

#[tokio::test]
async fn revenue_pages_are_plain_documents() {
    let host = Host::start().await;
    let (key, _) = sold(&host).await;
    let (builder, holder) = (Browser::signed_in(&host, &key).await, Browser::signed_in(&host, &host.mint(1.0).await).await);
    let of_builders = ["home", "revenue", "revenue?since=365d", "payouts", "events", "tools/earns/calls", "tools/earns"];
    for (browser, path) in of_builders.map(|path| (&builder, path)).into_iter().chain([(&holder, "credit")]) {
        let answer = browser.get(&format!("/dashboard/{path}")).await.is(200);
        assert_eq!(answer.has("cache-control"), "no-store", "{path}");
        let page = html(&answer);
        assert!(page.len() < 40 << 10, "{path}: {} bytes", page.len());
        assert_eq!((page.matches("<h1").count(), page.matches(" style=").count(), page.matches("<script>").count()), (1, 0, 0), "{path}");
        let ids = values(&page, "id");
        assert_eq!(ids.iter().collect::<BTreeSet<_>>().len(), ids.len(), "{path}: {ids:?}");
        for name in ["for", "aria-labelledby", "aria-describedby"] {
            assert!(values(&page, name).iter().all(|id| ids.contains(id)), "{path}: {name}");
        }
    }
}

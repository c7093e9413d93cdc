//! `GET /ai/endpoints`: pages, search and filters.

use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use reqwest::Method;
use serde_json::{Value, json};

use crate::harness::Host;

/// Returns a tool with a fixed answer.
pub fn fixed(slug: &str, title: &str, price_usd: f64, tags: &[&str]) -> Value {
    json!({
        "slug": slug,
        "title": title,
        "priceUsd": price_usd,
        "handlerType": "static_json",
        "tags": tags,
        "handler": { "response": {} },
    })
}

async fn shop() -> Host {
    let host = Host::start().await;
    for tool in [
        fixed("celsius", "Temperature converter", 0.0, &["units", "Weather"]),
        fixed("forecast", "Weather forecast", 0.02, &["weather"]),
        fixed("pdf-text", "Text of PDF pages", 0.01, &["documents"]),
        fixed("resize", "Image resizer", 0.005, &["images"]),
        fixed("units-table", "All units", 0.0, &["units"]),
    ] {
        host.publish(&tool).await;
    }
    host
}

async fn ask(host: &Host, query: &str) -> Value {
    host.get(&format!("/ai/endpoints?{query}")).await.is(200).json()
}

/// Returns the slugs on a page, in order.
fn slugs(page: &Value) -> Vec<&str> {
    page["endpoints"].as_array().unwrap().iter().map(|record| record["slug"].as_str().unwrap()).collect()
}

#[tokio::test]
async fn pages_of_the_catalog_have_every_endpoint_once() {
    let host = shop().await;
    let whole = ask(&host, "").await;
    assert_eq!(slugs(&whole), ["celsius", "forecast", "pdf-text", "resize", "units-table"]);
    assert_eq!((&whole["total"], whole.get("nextCursor")), (&json!(5), None));
    for query in [
        "",
        "&form=older",
        "&q=weather+units+text+image",
        "&price=paid&tag=images",
        "&tag=nothing",
        "&sort=price",
        "&sort=newest&q=weather+units",
    ] {
        let whole = ask(&host, &query[query.len().min(1)..]).await;
        let (mut records, mut cursor) = (vec![], String::new());
        loop {
            let page = ask(&host, &format!("limit=2{query}{cursor}")).await;
            assert_eq!(page["total"], whole["total"], "{query}");
            assert!(page["endpoints"].as_array().unwrap().len() <= 2);
            records.extend(page["endpoints"].as_array().unwrap().clone());
            match page["nextCursor"].as_str() {
                Some(next) => cursor = format!("&cursor={next}"),
                None => break,
            }
        }
        assert_eq!(json!(records), whole["endpoints"], "{query}");
        assert_eq!(json!(records.len()), whole["total"], "{query}");
    }
    let record = &whole["endpoints"][0];
    assert_eq!(record, &host.get("/ai/endpoints/celsius").await.json()["endpoint"], "one record, wherever it is shown");
}

#[tokio::test]
async fn the_catalog_is_searched_by_words_tags_and_price() {
    let host = shop().await;
    for (query, requested) in [
        ("q=how+do+I+turn+temperatures+into+fahrenheit", &["celsius"][..]),
        ("q=resizing", &["resize"]),
        ("q=weather", &["forecast", "celsius"]),
        ("q=weather&price=free", &["celsius"]),
        ("q=nonsense", &[]),
        ("q=", &["celsius", "forecast", "pdf-text", "resize", "units-table"]),
        ("price=free", &["celsius", "units-table"]),
        ("price=paid&maxPriceUsd=0.01", &["pdf-text", "resize"]),
        ("maxPriceUsd=0", &["celsius", "units-table"]),
        ("tag=weather", &["celsius", "forecast"]),
        ("tag=units&tag=weather", &["celsius"]),
        ("tag=unit", &[]),
        ("sort=price", &["celsius", "units-table", "resize", "pdf-text", "forecast"]),
        ("sort=newest", &["units-table", "resize", "pdf-text", "forecast", "celsius"]),
        ("sort=price&q=weather", &["celsius", "forecast"]),
        ("sort=newest&price=paid", &["resize", "pdf-text", "forecast"]),
    ] {
        let page = ask(&host, query).await;
        assert_eq!(slugs(&page), requested, "{query}");
        assert_eq!(page["total"], requested.len(), "{query}");
    }
}

#[tokio::test]
async fn search_covers_exactly_what_everyone_can_see() {
    let host = shop().await;
    let of = async |words: &str| ask(&host, &format!("q={words}")).await["total"].clone();
    host.change("pdf-text", &json!({ "title": "Thumbnails" })).await;
    assert_eq!((of("thumbnail").await, of("pages").await, of("pdf").await), (json!(1), json!(0), json!(1)));
    host.change("pdf-text", &json!({ "priceUsd": 0 })).await;
    assert_eq!(slugs(&ask(&host, "q=thumbnails&price=free").await), ["pdf-text"], "a price counts at once");
    host.change("pdf-text", &json!({ "status": "paused" })).await;
    assert_eq!(ask(&host, "q=thumbnails").await["endpoints"][0]["status"], "paused");
    assert_eq!(host.mcp().call("search_tools", json!({ "query": "thumbnails" }), json!({})).await["structuredContent"]["total"], 0);

    let decide = async |decision: &str| {
        host.manage(Method::POST, "/ai/admin/reviews/pdf-text", &json!({ "decision": decision })).await.is(200);
        let manifest = host.get("/ai/manifest").await.json();
        (of("thumbnails").await, ask(&host, "").await["total"].clone(), manifest["endpoints"]["count"].clone())
    };
    assert_eq!(decide("takedown").await, (json!(0), json!(4), json!(4)));
    assert_eq!(decide("restore").await, (json!(1), json!(5), json!(5)));
    host.manage(Method::DELETE, "/ai/endpoints/pdf-text", &json!({})).await.is(200);
    assert_eq!((of("thumbnails").await, ask(&host, "").await["total"].clone()), (json!(0), json!(4)));
    assert_eq!(host.get("/ai/manifest").await.json()["endpoints"]["paid"], 2);
}

#[tokio::test]
async fn queries_and_cursors_that_are_none_are_refused() {
    let host = shop().await;
    let cursor = |page: Value| page["nextCursor"].as_str().unwrap().to_owned();
    let (plain, searched) = (cursor(ask(&host, "limit=1").await), cursor(ask(&host, "limit=1&q=weather").await));
    let wrong = [
        "limit=0".to_owned(),
        "limit=201".to_owned(),
        "limit=1&limit=2".to_owned(),
        "kind=x".to_owned(),
        "form=newest".to_owned(),
        "price=cheap".to_owned(),
        "sort=cheap".to_owned(),
        "maxPriceUsd=-1".to_owned(),
        "maxPriceUsd=0.0000001".to_owned(),
        format!("q={}", "a".repeat(201)),
        "tag=a&".repeat(17),
        "cursor=".to_owned(),
        "cursor=%00".to_owned(),
        format!("cursor={}", URL_SAFE_NO_PAD.encode("celsius")),
        format!("cursor={}", &plain[1..]),
        format!("cursor={plain}A"),
        // A cursor is valid only for the same query.
        format!("cursor={searched}"),
        format!("q=weather&cursor={plain}"),
        format!("q=units&cursor={searched}"),
    ];
    for query in &wrong {
        let error = host.get(&format!("/ai/endpoints?{query}")).await.fails(400, "invalid_request", "caller");
        assert!(error["message"].is_string(), "{query}");
    }
    // The page size may differ between pages.
    assert_eq!(slugs(&ask(&host, &format!("limit=200&cursor={plain}")).await).len(), 4);
}

#[tokio::test]
async fn pages_end_where_records_are_large() {
    let host = Host::start().await;
    let words = "word ".repeat(12_000);
    for n in 0..20 {
        let mut tool = fixed(&format!("large-{n:02}"), "Large", 0.0, &[]);
        tool["inputSchema"] = json!({ "type": "object", "description": words });
        host.publish(&tool).await;
    }
    let first = host.get("/ai/endpoints").await.is(200);
    assert!(first.body.len() < (1 << 20) + 70_000, "{}", first.body.len());
    let shown = slugs(&first.json()).len();
    assert!((10..20).contains(&shown), "{shown}");
    let rest = ask(&host, &format!("cursor={}", first.json()["nextCursor"].as_str().unwrap())).await;
    assert_eq!((slugs(&rest).len(), &rest["total"]), (20 - shown, &json!(20)));

    let page = host.mcp().ask("tools/list", json!({})).await.result();
    let tools = page["tools"].as_array().unwrap().len();
    assert!((4..10).contains(&tools), "{tools}");
    assert_eq!((&page["_meta"]["tollhouse/total"], &page["_meta"]["tollhouse/remaining"]), (&json!(23), &json!(23 - tools)));
}

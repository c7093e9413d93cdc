//! Empty states of pages. Each has a command that works unchanged.

use reqwest::Method;
use serde_json::json;

use super::{browser::Browser, html, lists::code, page};
use crate::{
    docs,
    harness::{Host, js},
};

/// Returns the command in the empty state of a page.
fn command(html: &str) -> String {
    let empty = html.split("<div class=\"empty\">").nth(1).unwrap_or_else(|| panic!("nothing is empty: {html}"));
    code(empty, "sh").swap_remove(0)
}

#[tokio::test]
async fn command_on_an_empty_page_works() {
    let host = Host::start().await;
    let folder = docs::checkout(&host);
    let (id, key) = host.register("Newcomer").await;
    let credentials = format!(
        "export ADMIN_TOKEN={} BUILDER_KEY={key} CREDIT={} VALUE=hush-hush-hush ADDRESS=0x209693Bc6afc0C5328bA36FaF03C514EF312287C\n",
        host.admin,
        host.mint(1.0).await
    );
    let does = async |reported: String| {
        let done = docs::run(&format!("{credentials}{reported}"), folder.path()).await;
        let statuses: Vec<_> = docs::statuses(&String::from_utf8_lossy(&done.stderr)).collect();
        assert!(done.status.success() && statuses == [200], "{reported}\n{done:?}");
    };
    let (builder, admin) = (Browser::signed_in(&host, &key).await, Browser::signed_in(&host, &host.admin).await);
    for path in ["/dashboard/admin/reviews", &format!("/dashboard/admin/builders/{id}"), "/dashboard/admin/audit?slug=none-such"] {
        does(command(&admin.page(path).await)).await;
    }
    does(command(&admin.page("/dashboard/admin/payouts?status=paid").await)).await;
    for path in ["/dashboard/revenue", "/dashboard/events?kind=payout.paid", "/dashboard/payouts"] {
        does(command(&builder.page(path).await)).await;
    }
    // Now the payout address is set. The page is still empty because there is no payout.
    does(command(&builder.page("/dashboard/payouts").await)).await;

    does(command(&html(&page(&host, "/dashboard").await.is(200)))).await;
    assert_eq!(host.get("/ai/endpoints/hello").await.is(200).json()["endpoint"]["title"], "Hello", "the first tool is published by it");
    does(command(&html(&page(&host, "/dashboard?q=zebra").await.is(200)))).await;

    let mut quiet = js("quiet", 0.0, "export default (req) => req.input;");
    quiet["capabilities"] = json!({});
    host.as_builder(&key, Method::POST, "/ai/endpoints/create", &quiet).await.is(200);
    for path in ["/calls", "/calls?code=failed", "/secrets", "/log", "/log?q=x"] {
        does(command(&builder.page(&format!("/dashboard/tools/quiet{path}")).await)).await;
    }
    let record = host.as_builder(&key, Method::GET, "/ai/endpoints/quiet", &json!(null)).await.is(200).json();
    assert_eq!(record["endpoint"]["capabilities"]["logs"], true, "logs are asked for by the log's command");
    let secrets = host.as_builder(&key, Method::GET, "/ai/endpoints/quiet/secrets", &json!(null)).await.is(200).json();
    assert_eq!(secrets["secrets"][0]["name"], "API_KEY");
    does(command(&builder.page("/dashboard/tools/quiet/log?level=error").await)).await;
}

#[tokio::test]
async fn names_that_were_written_wrong_lead_to_those_that_are_like_them() {
    let host = Host::start().await;
    for slug in ["text-summary", "text-summaries", "creator-plan"] {
        host.publish(&js(slug, 0.0, "export default (req) => req.input;")).await;
    }
    let near = async |path: &str, status| {
        let html = html(&page(&host, path).await.is(status));
        let rest = html.split("<h2>Similar tools</h2>").nth(1).unwrap_or_default();
        let listed = rest.split("</ul>").next().unwrap_or_default();
        super::values(listed, "href").into_iter().map(|link| link.replace("/dashboard/tools/", "")).collect::<Vec<_>>()
    };
    assert_eq!(near("/dashboard/tools/txt-sumary", 404).await, ["text-summary"]);
    assert_eq!(near("/dashboard?q=creatorplam", 200).await, ["creator-plan"]);
    assert_eq!(near("/dashboard?q=zebra", 200).await, [""; 0]);
    let request = async |query: &str| {
        let found = host.get(&format!("/ai/endpoints?near={query}")).await.is(200).json();
        let slugs = found["endpoints"].as_array().unwrap().iter().map(|tool| tool["slug"].as_str().unwrap().to_owned());
        (slugs.collect::<Vec<_>>(), found["total"].clone())
    };
    assert_eq!(request("text-summary").await, (vec!["text-summary".to_owned(), "text-summaries".to_owned()], json!(2)));
    assert_eq!(request("Text+Sumary&price=paid").await, (vec![], json!(0)));
    assert_eq!(request(&"x".repeat(300)).await.1, json!(0));
    let first = host.get("/ai/endpoints?near=text-summary&limit=1").await.is(200).json();
    let rest = request(&format!("text-summary&cursor={}", first["nextCursor"].as_str().unwrap())).await;
    assert_eq!(rest.0, ["text-summaries"]);
    for query in ["near=a&q=b", "near=a&sort=price"] {
        host.get(&format!("/ai/endpoints?{query}")).await.fails(400, "invalid_request", "caller");
    }
}

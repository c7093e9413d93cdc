//! Admins' decisions about tools, on pages without script: reviews and takedowns.

use reqwest::Method;
use serde_json::{Value, json};

use super::{
    browser::{Browser, Form, forms},
    html, text,
};
use crate::{
    harness::{Answer, Host},
    revenue::tool,
};

/// Needs an approval, for `code.eval`.
const EVALUATES: &str = "export default (req) => {\n  return eval('1');\n};";

/// Text that would become markup if it were not escaped.
const HOSTILE: &str = "</bdi></p><script>alert(1)</script><img src=x onerror=alert(1)> \u{202e}evil";

async fn publish(host: &Host, key: &str, tool: &Value) -> Value {
    host.as_builder(key, Method::POST, "/ai/endpoints/create", tool).await.is(200).json()["endpoint"].clone()
}

async fn patch(host: &Host, key: &str, slug: &str, body: Value) {
    host.as_builder(key, Method::PATCH, &format!("/ai/endpoints/{slug}"), &body).await.is(200);
}

async fn record(host: &Host, slug: &str) -> Value {
    host.manage(Method::GET, &format!("/ai/endpoints/{slug}"), &Value::Null).await.is(200).json()["endpoint"].clone()
}

/// Returns the form of `operation` with this decision.
pub fn deciding(page: &str, operation: &str, decision: &str) -> Form {
    let requested = ("text:/decision".to_owned(), decision.to_owned());
    let action = format!("/dashboard/do/{operation}");
    let found = forms(page).into_iter().find(|form| form.action == action && form.fields.contains(&requested));
    found.unwrap_or_else(|| panic!("no form decides {decision}: {page}"))
}

async fn decide(browser: &Browser<'_>, slug: &str, decision: &str, filled: &[(&str, &str)]) -> Answer {
    let page = browser.page(&format!("/dashboard/admin/reviews/{slug}")).await;
    browser.submit(&deciding(&page, "decideReview", decision), filled).await
}

#[tokio::test]
async fn pages_of_admins_are_for_admins() {
    let host = Host::start().await;
    let ((id, key), credit) = (host.register("A builder").await, host.mint(1.0).await);
    publish(&host, &key, &tool("mine", 0.0, EVALUATES)).await;
    let (stranger, builder) = (Browser::new(&host), Browser::signed_in(&host, &key).await);
    let (holder, admin) = (Browser::signed_in(&host, &credit).await, Browser::signed_in(&host, &host.admin).await);
    let of_builder = format!("builders/{id}");
    for below in ["", "reviews", "reviews/mine", "policy", "builders", &of_builder, "credits", "payouts", "audit", "runtime"] {
        let path = format!("/dashboard/admin/{below}");
        let path = path.trim_end_matches('/');
        assert!(stranger.get(path).await.is(303).has("location").starts_with("/dashboard/sign-in?to="), "{path}");
        for other in [&builder, &holder] {
            let refused = html(&other.get(path).await.is(403));
            assert!(text(&refused).contains("Only admins can do this") && !refused.contains("decideReview"), "{path}: {refused}");
        }
        let page = admin.get(path).await.is(200);
        assert_eq!(page.has("cache-control"), "no-store", "{path}");
    }
    for browser in [&builder, &holder] {
        browser.get("/dashboard/account").await.is(200);
    }
    admin.get("/dashboard/admin/reviews/none").await.is(404);
    admin.get("/dashboard/admin/builders/none").await.is(404);
    admin.get("/dashboard/admin/credits/none").await.is(404);
}

#[tokio::test]
async fn a_review_shows_what_has_changed_and_grants_what_is_ticked() {
    let host = Host::start().await;
    let (id, key) = host.register("Changes").await;
    let admin = Browser::signed_in(&host, &host.admin).await;
    assert!(text(&admin.page("/dashboard/admin/reviews").await).contains("Nothing waits for review."));
    let mut asks = tool("asks", 0.25, EVALUATES);
    asks["title"] = json!("Before");
    publish(&host, &key, &asks).await;
    let list = text(&admin.page("/dashboard/admin/reviews").await);
    assert!(
        list.contains("New content: 1 finding, code.eval")
            && ["never approved", "of Changes", "1 of 1 shown"].iter().all(|reported| list.contains(reported)),
        "{list}"
    );
    let first = text(&admin.page("/dashboard/admin/reviews/asks").await);
    for part in ["No version has been approved", "return eval('1');", "code.eval", "line 2", "Before", &id] {
        assert!(first.contains(part), "{part}: {first}");
    }
    decide(&admin, "asks", "approve", &[]).await.is(303);
    assert_eq!(record(&host, "asks").await["status"], "active");

    let changed = json!({
        "title": "After", "priceUsd": 0.5, "handler": { "source": format!("{EVALUATES}\nexport const more = 1;") },
        "capabilities": { "kv": true, "logs": true, "files": true, "httpGetJson": true }, "allowedHosts": ["a.example.com", "b.example.com"],
    });
    patch(&host, &key, "asks", changed).await;
    let page = admin.page("/dashboard/admin/reviews/asks").await;
    assert!(page.contains("/make.css\""), "it draws sources and their differences: {page}");
    let shown = text(&page);
    for part in [
        "priceUsd",
        "0.25",
        "0.5",
        "Before",
        "After",
        "export const more = 1;",
        " added, ",
        "files: can store its own files",
        "request JSON from its allowed hosts",
        "a.example.com",
        "in review",
    ] {
        assert!(shown.contains(part), "{part}: {shown}");
    }
    let approve = deciding(&page, "decideReview", "approve");
    let ticked = [
        ("flag:/capabilities/httpGetJson", "true"),
        ("each:/allowedHosts", "b.example.com"),
        ("some:/reason", HOSTILE),
        ("json:/limits/wallMs", "5000"),
    ];
    let to = admin.submit(&approve, &ticked).await.is(303).has("location").to_owned();
    let done = admin.page(&to).await;
    assert!(text(&done).contains("Decision saved.") && !text(&done).contains("since you read it"), "{done}");
    assert!(!done.contains("<script>") && !done.contains("<img") && !done.contains('\u{202e}'), "{done}");
    let now = record(&host, "asks").await;
    let has = |name: &str| now["capabilities"][name] == true;
    assert!(has("httpGetJson") && !has("files") && has("kv"), "{now}");
    assert_eq!((&now["allowedHosts"], &now["requestedHosts"], &now["status"]), (&json!(["b.example.com"]), &json!([]), &json!("active")));
    assert_eq!((&now["limitCaps"]["wallMs"], &now["review"]["decision"]["reason"]), (&json!(5000), &json!(HOSTILE)));
    let trail = host.manage(Method::GET, "/ai/admin/audit?slug=asks&actor=admin", &Value::Null).await.is(200).json();
    let done: Vec<_> = trail["entries"].as_array().unwrap().iter().map(|entry| (&entry["path"], &entry["outcome"]["status"])).collect();
    assert_eq!(done, [(&json!("/ai/admin/reviews/asks"), &json!(200)), (&json!("/ai/admin/reviews/asks"), &json!(200))]);

    // There is nothing left to review. Granted capabilities can be revoked.
    let revoked = decide(&admin, "asks", "revoke", &[("flag:/capabilities/httpGetJson", "true")]).await.is(303);
    assert_eq!(record(&host, "asks").await["capabilities"]["httpGetJson"], false);
    admin.page(revoked.has("location")).await;
}

#[tokio::test]
async fn hosts_that_are_not_ticked_are_not_granted() {
    let host = Host::start().await;
    let (_, key) = host.register("Asks").await;
    let admin = Browser::signed_in(&host, &host.admin).await;
    let mut asks = tool("asks", 0.0, "export default () => 1;");
    (asks["capabilities"], asks["allowedHosts"]) = (json!({ "httpGetJson": true, "files": true }), json!(["a.example.com"]));
    publish(&host, &key, &asks).await;
    decide(&admin, "asks", "approve", &[("flag:/capabilities/files", "true")]).await.is(303);
    let now = record(&host, "asks").await;
    assert_eq!((&now["allowedHosts"], &now["requestedHosts"], &now["capabilities"]["files"]), (&json!([]), &json!([]), &json!(true)));
}

#[tokio::test]
async fn outdated_review_is_rejected_with_the_change() {
    let host = Host::start().await;
    let (_, key) = host.register("Quick").await;
    publish(&host, &key, &tool("quick", 0.0, EVALUATES)).await;
    let admin = Browser::signed_in(&host, &host.admin).await;
    let read = admin.page("/dashboard/admin/reviews/quick").await;
    patch(&host, &key, "quick", json!({ "description": "Something else", "priceUsd": 3 })).await;
    let refused = admin.submit(&deciding(&read, "decideReview", "approve"), &[]).await.is(412);
    let page = html(&refused);
    assert_eq!(record(&host, "quick").await["review"]["state"], "content_review", "it was not approved");
    let back = super::values(&page, "href").into_iter().find(|link| link.starts_with("/dashboard/admin/reviews/quick?")).unwrap();
    let now = text(&admin.page(&back).await);
    for part in [
        "The tool has changed since you read it",
        "You read revision 1, but this page shows revision 2",
        "by owner: ",
        "priceUsd",
        "description",
    ] {
        assert!(now.contains(part), "{part}: {now}");
    }
    decide(&admin, "quick", "reject", &[("some:/reason", "no eval")]).await.is(303);
    let rejected = record(&host, "quick").await;
    assert_eq!((&rejected["review"]["state"], &rejected["review"]["decision"]["reason"]), (&json!("content_blocked"), &json!("no eval")));
    decide(&admin, "quick", "reopen", &[]).await.is(303);
    assert_eq!(record(&host, "quick").await["review"]["state"], "content_review");
}

#[tokio::test]
async fn words_of_builders_are_text_where_they_are_reviewed() {
    let host = Host::start().await;
    // Characters that reverse the text direction are refused at publication.
    let words = HOSTILE.split(" \u{202e}").next().unwrap();
    let (id, key) = host.register(words).await;
    let admin = Browser::signed_in(&host, &host.admin).await;
    let of = async |slug: &str, words: &str| {
        let mut one = tool(slug, 0.0, &format!("{EVALUATES}\n// {words}"));
        (one["title"], one["description"]) = (json!(words), json!(words));
        publish(&host, &key, &one).await;
        decide(&admin, slug, "approve", &[]).await.is(303);
        patch(
            &host,
            &key,
            slug,
            json!({ "title": format!("{words}!"), "description": "other", "handler": { "source": format!("{EVALUATES}\n//{words}") } }),
        )
        .await;
        admin.page(&format!("/dashboard/admin/reviews/{slug}")).await
    };
    for page in [of("hostile", words).await, admin.page("/dashboard/admin/reviews").await, admin.page("/dashboard/admin/builders").await] {
        assert!(!page.contains("<script>") && !page.contains("<img") && !page.contains('\u{202e}'), "{page}");
        assert!(text(&page).contains("alert(1)"), "it is shown: {page}");
    }
    let long = "\u{202e}a".repeat(15_000);
    let mut odd = tool("odd", 0.0, &format!("{EVALUATES}\n{}", format!("// {}\n", "\u{202e}a".repeat(100)).repeat(300)));
    odd["inputSchema"] = json!({ "type": "object", "description": long });
    host.manage(Method::POST, &format!("/ai/endpoints/create?builderId={id}"), &odd).await.is(200);
    let page = admin.page("/dashboard/admin/reviews/odd").await;
    assert!(page.len() < 400 << 10, "{} bytes", page.len());
}

#[tokio::test]
async fn an_admin_takes_a_tool_down_from_its_own_page() {
    let host = Host::start().await;
    let (_, key) = host.register("Taken").await;
    publish(&host, &key, &tool("taken", 0.0, "export default () => 1;")).await;
    let path = "/dashboard/tools/taken";
    let (stranger, admin) = (Browser::new(&host), Browser::signed_in(&host, &host.admin).await);
    for other in [&stranger, &Browser::signed_in(&host, &key).await] {
        let page = other.page(path).await;
        assert!(!page.contains("decideReview") && !page.contains("As an admin"), "{page}");
    }
    let page = admin.page(path).await;
    assert!(page.find("As an admin").is_some_and(|at| page.find("Take the tool down") > Some(at)), "it cannot be called: {page}");
    let form = deciding(&page, "decideReview", "takedown");
    admin.submit(&form, &[("some:/reason", "a complaint")]).await.is(303);
    assert_eq!(record(&host, "taken").await["review"]["decision"]["reason"], "a complaint");
    stranger.get(path).await.is(404);
    // A form that was read before the decision is outdated.
    admin.submit(&form, &[]).await.is(412);
    let restore = deciding(&admin.page(path).await, "decideReview", "restore");
    admin.submit(&restore, &[]).await.is(303);
    stranger.get(path).await.is(200);
}

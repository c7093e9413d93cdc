//! Content safety and review: refused uploads, held ones, and decisions of admins.

use std::time::Duration;

use reqwest::Method;
use serde_json::{Value, json};

use crate::{
    gates::{at, decide, decide_at, patch},
    harness::{Host, eventually, tollhouse},
    revenue::tool,
};

const CREATE: &str = "/ai/endpoints/create";

/// Needs an approval, for `code.eval`.
const EVALUATES: &str = "export default (req) => {\n  return eval('1');\n};";
const PLAIN: &str = "export default () => ({ plain: true });";

/// A key in the form of a real one, in parts, so that no scanner reports this file as a leak.
fn leaks() -> String {
    format!("export default () => '{}';", ["AKIA", "Q3EGRZ7N", "W2LDK5TX"].concat())
}

/// Returns the handler that `tollhouse init` writes.
fn begun(flags: &[&str], file: &str) -> String {
    let folder = tempfile::tempdir().unwrap();
    let mut init = tollhouse();
    let output = init.args(["init", "begun"]).args(flags).current_dir(folder.path()).env("HOME", folder.path()).output().unwrap();
    assert!(output.status.success(), "{output:?}");
    std::fs::read_to_string(folder.path().join("begun").join(file)).unwrap()
}

async fn queue(host: &Host) -> Vec<String> {
    let reviews = host.manage(Method::GET, "/ai/admin/reviews", &Value::Null).await.is(200).json();
    reviews["reviews"].as_array().unwrap().iter().map(|review| review["slug"].as_str().unwrap().to_owned()).collect()
}

async fn is_hidden(host: &Host, other: &str, slug: &str) {
    host.get(&format!("/ai/endpoints/{slug}")).await.fails(404, "unknown_endpoint", "caller");
    host.as_builder(other, Method::GET, &format!("/ai/endpoints/{slug}"), &Value::Null).await.fails(404, "unknown_endpoint", "caller");
    host.get(&format!("/tools/{slug}?inspect")).await.fails(404, "unknown_endpoint", "caller");
    let catalog = host.get("/ai/endpoints").await.is(200).json();
    assert!(catalog["endpoints"].as_array().unwrap().iter().all(|record| record["slug"] != slug));
}

#[tokio::test]
async fn blocked_content_is_stored_nowhere_and_repeated_to_nobody() {
    let host = Host::start().await;
    let (_, key) = host.register("Leaks").await;
    let answer = host.as_builder(&key, Method::POST, CREATE, &tool("leaks", 0.0, &leaks())).await;
    let error = answer.fails(422, "content_blocked", "caller");
    let found = &error["findings"][0];
    assert_eq!(found, &json!({ "rule": "secret.aws-access-key", "severity": "block", "field": "/handler/source" }));
    assert!(!answer.json().to_string().contains("AKIA"));
    host.as_builder(&key, Method::GET, "/ai/endpoints/leaks", &Value::Null).await.fails(404, "unknown_endpoint", "caller");
    let made = host.as_builder(&key, Method::POST, CREATE, &tool("leaks", 0.0, PLAIN)).await.is(200).json()["endpoint"].clone();
    for body in [json!({ "handler": { "source": leaks() } }), json!({ "description": leaks() })] {
        patch(&host, &key, "leaks", body).await.fails(422, "content_blocked", "caller");
    }
    assert_eq!(at(&host, &key, "leaks").await, made);
    assert!(!host.log().contains("AKIA"));
    // An upload by an admin is recorded and published.
    host.publish(&tool("admins", 0.0, &leaks())).await;
    let admins = host.manage(Method::GET, "/ai/endpoints/admins", &Value::Null).await.json()["endpoint"].clone();
    assert_eq!((&admins["contentSafety"]["outcome"], &admins["status"]), (&json!("block"), &json!("active")));
    host.call("admins", &json!({})).await.is(200);
    // Also if the admin uploads for a builder, and after a later scan.
    let (id, _) = host.register("Lucky").await;
    let path = format!("{CREATE}?builderId={id}");
    host.manage(Method::POST, &path, &tool("for-lucky", 0.0, &leaks())).await.is(200);
    host.manage(Method::POST, "/ai/admin/rescan", &json!({})).await.is(200);
    host.call("for-lucky", &json!({})).await.is(200);
}

#[tokio::test]
async fn content_to_review_answers_nobody_until_an_admin_approves_it() {
    let host = Host::start().await;
    let ((_, key), (_, other)) = (host.register("Evaluates").await, host.register("Other").await);
    let made = host.as_builder(&key, Method::POST, CREATE, &tool("waits", 0.25, EVALUATES)).await.is(200).json()["endpoint"].clone();
    assert_eq!((&made["status"], &made["contentSafety"]["outcome"]), (&json!("paused"), &json!("review")));
    assert_eq!((&made["review"]["state"], &made["review"]["findings"][0]["line"]), (&json!("content_review"), &json!(2)));
    is_hidden(&host, &other, "waits").await;
    let error = host.call("waits", &json!({})).await.fails(409, "endpoint_paused", "tool");
    assert!(error["message"].as_str().unwrap().contains("under review"));
    host.post("/ai/invoke", &json!({ "slug": "waits" })).await.fails(409, "endpoint_paused", "tool");
    patch(&host, &key, "waits", json!({ "status": "active" })).await.fails(409, "under_review", "caller");
    assert_eq!(queue(&host).await, ["waits"]);

    let approved = decide(&host, "waits", json!({ "decision": "approve" })).await.is(200).json()["endpoint"].clone();
    assert_eq!((&approved["status"], &approved["contentSafety"]["outcome"]), (&json!("active"), &json!("pass")));
    assert_eq!(host.get("/ai/endpoints/waits").await.is(200).json()["endpoint"]["contentSafety"]["findings"][0]["rule"], "code.eval");
    assert_eq!(queue(&host).await, Vec::<String>::new());
    // An approval holds as long as the approved field does not change. A new source needs another
    // one.
    assert_eq!(patch(&host, &key, "waits", json!({ "title": "Approved" })).await.is(200).json()["endpoint"]["status"], "active");
    let found = host.manage(Method::POST, "/ai/admin/rescan", &json!({})).await.is(200).json()["rescan"].clone();
    assert_eq!(found, json!({ "endpoints": 1, "review": 0, "blocked": 0 }));
    let more = json!({ "handler": { "source": format!("{EVALUATES}\n// more") } });
    assert_eq!(patch(&host, &key, "waits", more).await.is(200).json()["endpoint"]["status"], "paused");
    is_hidden(&host, &other, "waits").await;
    let back = patch(&host, &key, "waits", json!({ "version": made["version"] })).await.is(200).json()["endpoint"].clone();
    assert_eq!((&back["status"], &back["version"]), (&json!("active"), &made["version"]), "the approved version needs no second approval");
}

/// Regression: an approval without `If-Match` released whatever the builder had uploaded since.
#[tokio::test]
async fn approval_releases_only_content_that_was_read() {
    let host = Host::start().await;
    let (_, key) = host.register("Swaps").await;
    let read = host.as_builder(&key, Method::POST, CREATE, &tool("swapped", 0.0, EVALUATES)).await.is(200).json()["endpoint"].clone();
    let other = json!({ "handler": { "source": format!("{EVALUATES}\n// other") } });
    patch(&host, &key, "swapped", other).await.is(200);
    let (path, approve) = ("/ai/admin/reviews/swapped", json!({ "decision": "approve" }));
    host.manage(Method::POST, path, &approve).await.fails(400, "invalid_request", "caller");
    let any = host.request(Method::POST, path).header("x-admin-token", &host.admin).header("if-match", "*");
    host.send(any.json(&approve)).await.fails(400, "invalid_request", "caller");
    let revision = read["revision"].as_u64().unwrap();
    decide_at(&host, "swapped", revision, approve.clone()).await.fails(412, "revision_changed", "caller");
    assert_eq!((&at(&host, &key, "swapped").await["status"], queue(&host).await), (&json!("paused"), vec!["swapped".to_owned()]));
    decide_at(&host, "swapped", revision + 1, approve).await.is(200);
    // A rejection releases nothing, so it can be about any revision.
    patch(&host, &key, "swapped", json!({ "handler": { "source": format!("{EVALUATES}\n// third") } })).await.is(200);
    host.manage(Method::POST, path, &json!({ "decision": "reject" })).await.is(200);
}

#[tokio::test]
async fn rejected_content_stays_paused_and_later_uploads_wait() {
    let host = Host::start().await;
    let (_, key) = host.register("Rejected").await;
    host.as_builder(&key, Method::POST, CREATE, &tool("rejected", 0.0, EVALUATES)).await.is(200);
    let rejected = decide(&host, "rejected", json!({ "decision": "reject", "reason": "no eval" })).await.is(200).json()["endpoint"].clone();
    assert_eq!((&rejected["status"], &rejected["contentSafety"]["outcome"]), (&json!("paused"), &json!("block")));
    assert_eq!(at(&host, &key, "rejected").await["review"]["decision"]["reason"], "no eval");
    assert_eq!(queue(&host).await, Vec::<String>::new());
    patch(&host, &key, "rejected", json!({ "status": "active" })).await.fails(409, "under_review", "caller");
    for n in 0..2 {
        let source = format!("{PLAIN}\n// attempt {n}");
        let mended = patch(&host, &key, "rejected", json!({ "handler": { "source": source } })).await.is(200).json()["endpoint"].clone();
        assert_eq!((&mended["status"], &mended["review"]["state"]), (&json!("paused"), &json!("content_review")));
        host.call("rejected", &json!({})).await.fails(409, "endpoint_paused", "tool");
    }
    assert_eq!(queue(&host).await, ["rejected"]);
    decide(&host, "rejected", json!({ "decision": "approve" })).await.is(200);
    host.call("rejected", &json!({})).await.is(200);
    patch(&host, &key, "rejected", json!({ "handler": { "source": PLAIN } })).await.is(200);
    host.call("rejected", &json!({})).await.is(200);
}

#[tokio::test]
async fn a_pause_of_the_owners_outlives_a_review() {
    let host = Host::start().await;
    let (_, key) = host.register("Paused").await;
    host.as_builder(&key, Method::POST, CREATE, &tool("paused", 0.0, EVALUATES)).await.is(200);
    patch(&host, &key, "paused", json!({ "status": "paused" })).await.is(200);
    assert_eq!(decide(&host, "paused", json!({ "decision": "approve" })).await.is(200).json()["endpoint"]["status"], "paused");
    assert_eq!(patch(&host, &key, "paused", json!({ "status": "active" })).await.is(200).json()["endpoint"]["status"], "active");
}

#[tokio::test]
async fn under_a_policy_of_review_nothing_is_published_unseen() {
    let host = Host::start().await;
    let ((_, key), (_, other)) = (host.register("Seen").await, host.register("Other").await);
    host.as_builder(&key, Method::POST, CREATE, &tool("before", 0.0, PLAIN)).await.is(200);
    host.manage(Method::PUT, "/ai/admin/policy", &json!({ "requireReview": true })).await.is(200);
    host.call("before", &json!({})).await.is(200);
    let made = host.as_builder(&key, Method::POST, CREATE, &tool("after", 0.0, "export default () => 1;")).await.is(200).json();
    assert_eq!((&made["endpoint"]["status"], &made["endpoint"]["review"]["state"]), (&json!("paused"), &json!("content_review")));
    is_hidden(&host, &other, "after").await;
    patch(&host, &key, "before", json!({ "priceUsd": 0.0 })).await.is(200);
    host.call("before", &json!({})).await.is(200);
    patch(&host, &key, "before", json!({ "description": "new" })).await.is(200);
    host.call("before", &json!({})).await.fails(409, "endpoint_paused", "tool");
    let page = host.manage(Method::GET, "/ai/admin/reviews?limit=1", &Value::Null).await.is(200).json();
    assert_eq!((page["reviews"].as_array().map(Vec::len), &page["reviews"][0]["slug"]), (Some(1), &json!("after")));
    let next = format!("/ai/admin/reviews?limit=1&cursor={}", page["nextCursor"].as_str().unwrap());
    let page = host.manage(Method::GET, &next, &Value::Null).await.is(200).json();
    assert_eq!((&page["reviews"][0]["slug"], page.get("nextCursor")), (&json!("before"), None));
    host.manage(Method::GET, "/ai/admin/reviews?cursor=%21", &Value::Null).await.fails(400, "invalid_request", "caller");
    host.as_builder(&key, Method::GET, "/ai/admin/reviews", &Value::Null).await.fails(403, "not_owner", "caller");
    host.as_builder(&key, Method::POST, "/ai/admin/reviews/after", &json!({ "decision": "approve" })).await.fails(
        403,
        "not_owner",
        "caller",
    );
    host.as_builder(&key, Method::POST, "/ai/admin/rescan", &json!({})).await.fails(403, "not_owner", "caller");
}

#[tokio::test]
async fn taken_down_tool_is_hidden_until_it_is_restored() {
    let mut host = Host::start().await;
    let ((_, key), (_, other)) = (host.register("Taken").await, host.register("Other").await);
    host.as_builder(&key, Method::POST, CREATE, &tool("taken", 0.0, PLAIN)).await.is(200);
    decide(&host, "taken", json!({ "decision": "restore" })).await.fails(409, "nothing_to_review", "caller");
    decide(&host, "taken", json!({ "decision": "takedown", "reason": "complaint", "capabilities": {} })).await.fails(
        422,
        "invalid_decision",
        "caller",
    );
    decide(&host, "taken", json!({ "decision": "takedown", "reason": "complaint" })).await.is(200);
    host.restart().await;
    is_hidden(&host, &other, "taken").await;
    host.call("taken", &json!({})).await.fails(409, "endpoint_paused", "tool");
    patch(&host, &key, "taken", json!({ "status": "active" })).await.fails(409, "taken_down", "caller");
    let owned = at(&host, &key, "taken").await;
    assert_eq!((&owned["review"]["state"], &owned["review"]["decision"]["reason"]), (&json!("taken_down"), &json!("complaint")));
    decide(&host, "taken", json!({ "decision": "restore" })).await.is(200);
    host.call("taken", &json!({})).await.is(200);
    let events = host.as_builder(&key, Method::GET, "/ai/builders/events", &Value::Null).await.is(200).json();
    let kinds: Vec<_> = events["events"].as_array().unwrap().iter().rev().map(|event| event["kind"].as_str().unwrap()).collect();
    assert_eq!(
        kinds.into_iter().filter(|kind| kind.starts_with("endpoint.")).collect::<Vec<_>>(),
        ["endpoint.created", "endpoint.reviewed", "endpoint.paused", "endpoint.reviewed", "endpoint.resumed"]
    );
}

#[tokio::test]
async fn another_builders_source_is_a_note_that_admins_alone_see() {
    let host = Host::start().await;
    let ((_, one), (_, two)) = (host.register("First").await, host.register("Second").await);
    let tool = |slug: &str, source: &str| {
        let mut tool = tool(slug, 0.0, source);
        tool["handler"]["source"] = json!(source);
        tool
    };
    // Long enough to be someone's own work.
    let own = format!("{PLAIN}\n// {}", "what only I know ".repeat(80));
    for slug in ["original", "my-second"] {
        host.as_builder(&one, Method::POST, CREATE, &tool(slug, &own)).await.is(200);
    }
    let check = host.as_builder(&two, Method::POST, "/ai/endpoints/check", &tool("copied", &own)).await.is(200).json()["check"].clone();
    assert_eq!((&check["outcome"], &check["findings"], &check["needsReview"]), (&json!("pass"), &json!([]), &json!(false)));
    let copy = host.as_builder(&two, Method::POST, CREATE, &tool("copied", &own)).await.is(200).json()["endpoint"].clone();
    assert_eq!(
        (&copy["status"], &copy["contentSafety"]["findings"], &copy["review"]["findings"]),
        (&json!("active"), &json!([]), &json!([]))
    );
    host.call("copied", &json!({})).await.is(200);
    // Only admins see the note, and only on the copy.
    for slug in ["original", "my-second", "copied"] {
        let path = format!("/ai/endpoints/{slug}");
        let noted = |record: &Value| record.to_string().contains("provenance");
        assert!(!noted(&host.get(&path).await.is(200).json()), "{slug}");
        assert_eq!(noted(&host.manage(Method::GET, &path, &Value::Null).await.is(200).json()), slug == "copied", "{slug}");
    }
    assert!(
        !host.as_builder(&two, Method::GET, "/ai/endpoints/copied", &Value::Null).await.is(200).json().to_string().contains("provenance")
    );
    // Templates of `init`, the built-in tools and short sources belong to nobody.
    let shipped = std::fs::read_to_string("fixtures/tools/conversion-quote-demo/handler.js").unwrap();
    let (begun_js, begun_ts) = (begun(&["--js"], "handler.js"), begun(&[], "handler.ts"));
    for (slug, source, language) in
        [("short", PLAIN, "js"), ("shipped", &*shipped, "js"), ("begun-js", &*begun_js, "js"), ("begun-ts", &*begun_ts, "ts")]
    {
        for (key, owner) in [(&one, "one"), (&two, "two")] {
            let slug = format!("{slug}-{owner}");
            let mut upload = tool(&slug, source);
            upload["handler"]["language"] = json!(language);
            host.as_builder(key, Method::POST, CREATE, &upload).await.is(200);
            let seen = host.manage(Method::GET, &format!("/ai/endpoints/{slug}"), &Value::Null).await.is(200).json().to_string();
            assert!(!seen.contains("provenance"), "{slug}: {seen}");
        }
    }
}

#[tokio::test]
async fn rules_that_changed_are_asked_of_all_that_is_published() {
    let folder = tempfile::tempdir().unwrap();
    let terms = folder.path().join("terms.toml");
    let list = |severity: &str, terms: &str| {
        format!("[[list]]\ncategory = \"house\"\nlanguage = \"en\"\nseverity = \"{severity}\"\nterms = [\"{terms}\"]\n")
    };
    std::fs::write(&terms, list("review", "nothing that is here")).unwrap();
    let mut host = Host::builder().flag("--safety-terms", terms.display()).start().await;
    let (_, key) = host.register("Scanned").await;
    for (slug, title) in [("sells-geese", "Sells wild geese"), ("sells-swans", "Sells wild swans"), ("sells-ducks", "Sells tame ducks")] {
        let mut tool = tool(slug, 0.0, PLAIN);
        tool["title"] = json!(title);
        host.as_builder(&key, Method::POST, CREATE, &tool).await.is(200);
    }
    let state = async |host: &Host, slug: &str| {
        let endpoint = at(host, &key, slug).await;
        (endpoint["status"].as_str().unwrap().to_owned(), endpoint["contentSafety"]["outcome"].as_str().unwrap().to_owned())
    };
    let is = |status: &str, outcome: &str| (status.to_owned(), outcome.to_owned());

    std::fs::write(&terms, format!("{}{}", list("review", "wild swans"), list("block", "wild geese"))).unwrap();
    host.restart().await;
    for (slug, status, outcome) in [("sells-geese", "paused", "block"), ("sells-swans", "paused", "review")] {
        eventually("it is held back", Duration::from_secs(10), || async {
            (state(&host, slug).await == is(status, outcome)).then_some(())
        })
        .await;
        host.call(slug, &json!({})).await.fails(409, "endpoint_paused", "tool");
    }
    assert_eq!(state(&host, "sells-ducks").await, is("active", "pass"));
    assert_eq!(queue(&host).await, ["sells-geese", "sells-swans"]);

    // Content that an admin has approved is not held back again for the same words.
    decide(&host, "sells-swans", json!({ "decision": "approve" })).await.is(200);
    std::fs::write(&terms, list("review", "wild swans")).unwrap();
    host.restart().await;
    let found = host.manage(Method::POST, "/ai/admin/rescan", &json!({})).await.is(200).json()["rescan"].clone();
    assert_eq!(found["endpoints"], 3);
    assert_eq!(state(&host, "sells-swans").await, is("active", "pass"));
    assert_eq!(state(&host, "sells-geese").await, is("paused", "block"), "only an admin or other content releases it");
    patch(&host, &key, "sells-geese", json!({ "title": "Sells tame geese" })).await.is(200);
    assert_eq!(state(&host, "sells-geese").await, is("active", "pass"));
}

/// Regression test: each minute, the log said that the store was unavailable.
#[tokio::test]
async fn lost_source_that_cannot_be_scanned_again_is_no_outage_of_the_store() {
    let folder = tempfile::tempdir().unwrap();
    let terms = folder.path().join("terms.toml");
    let list = |term: &str| format!("[[list]]\ncategory = \"house\"\nlanguage = \"en\"\nseverity = \"review\"\nterms = [\"{term}\"]\n");
    std::fs::write(&terms, list("wild geese")).unwrap();
    let mut host = Host::builder().flag("--safety-terms", terms.display()).start().await;
    let (_, key) = host.register("Scanned").await;
    // A long source is an object.
    let long = format!("{}{PLAIN}", "// a line\n".repeat(2_000));
    host.as_builder(&key, Method::POST, CREATE, &tool("long", 0.0, &long)).await.is(200);
    std::fs::rename(host.folder().join("data/files"), host.folder().join("beside")).unwrap();
    std::fs::write(&terms, list("wild swans")).unwrap();
    host.restart().await;
    let reported = async || host.log().contains("a tool could not be scanned with the current rules").then_some(());
    eventually("the tool is reported", Duration::from_secs(10), reported).await;
    assert!(!host.log().contains("the store was unavailable"), "{}", host.log());
}

/// Returns the slugs in a list of endpoints, in order.
async fn listed(host: &Host, key: Option<&str>, path: &str) -> Vec<String> {
    let request = host.request(Method::GET, path);
    let request = match key {
        Some(key) => request.header("x-builder-key", key),
        None => request.header("x-admin-token", &host.admin),
    };
    let list = host.send(request).await.is(200).json();
    list["endpoints"].as_array().unwrap().iter().map(|endpoint| endpoint["slug"].as_str().unwrap().to_owned()).collect()
}

#[tokio::test]
async fn a_rejection_is_undone_by_approving_or_by_reopening() {
    let mut host = Host::start().await;
    let (_, key) = host.register("Wronged").await;
    let mut wronged = tool("wronged", 0.0, EVALUATES);
    wronged["capabilities"] = json!({ "kv": true, "files": true });
    let made = host.as_builder(&key, Method::POST, CREATE, &wronged).await.is(200).json()["endpoint"].clone();
    assert_eq!(made["review"]["approvedVersion"], Value::Null);
    decide(&host, "wronged", json!({ "decision": "reopen" })).await.fails(409, "nothing_to_review", "caller");
    decide(&host, "wronged", json!({ "decision": "reject", "reason": "a mistake" })).await.is(200);
    assert_eq!(at(&host, &key, "wronged").await["requestedCapabilities"]["files"], false);
    host.restart().await;
    // The previous state: under review, with the requested capabilities.
    let reopened = decide(&host, "wronged", json!({ "decision": "reopen" })).await.is(200).json()["endpoint"].clone();
    assert_eq!((&reopened["review"]["state"], &reopened["contentSafety"]["outcome"]), (&json!("content_review"), &json!("review")));
    assert_eq!(reopened["requestedCapabilities"]["files"], true);
    assert_eq!(queue(&host).await, ["wronged"]);
    decide(&host, "wronged", json!({ "decision": "reopen" })).await.fails(409, "nothing_to_review", "caller");
    // A corrected upload needs no admin. The rejection has no further effect.
    let mended = patch(&host, &key, "wronged", json!({ "handler": { "source": PLAIN } })).await.is(200).json()["endpoint"].clone();
    assert_eq!(mended["status"], "active");
    patch(&host, &key, "wronged", json!({ "handler": { "source": EVALUATES } })).await.is(200);
    // Or an admin approves it directly, and names the requests that the rejection removed.
    decide(&host, "wronged", json!({ "decision": "reject" })).await.is(200);
    let approve = json!({ "decision": "approve", "capabilities": { "files": true } });
    let approved = decide(&host, "wronged", approve).await.is(200).json()["endpoint"].clone();
    assert_eq!((&approved["status"], &approved["capabilities"]["files"]), (&json!("active"), &json!(true)));
    assert_eq!(approved["review"]["approvedVersion"], approved["version"]);
    host.call("wronged", &json!({})).await.fails(502, "handler_failed", "tool");
    host.as_builder(&key, Method::POST, CREATE, &tool("plainly", 0.0, EVALUATES)).await.is(200);
    for decision in ["reject", "approve"] {
        decide(&host, "plainly", json!({ "decision": decision })).await.is(200);
    }
    assert_eq!(at(&host, &key, "plainly").await["status"], "active");
    // An approval can be reopened too. The content waits again, and the next scan holds it back.
    decide(&host, "wronged", json!({ "decision": "reopen" })).await.is(200);
    host.call("wronged", &json!({})).await.fails(409, "endpoint_paused", "tool");
    host.manage(Method::POST, "/ai/admin/rescan", &json!({})).await.is(200);
    let held = at(&host, &key, "wronged").await;
    assert_eq!(
        (&held["review"]["state"], &held["contentSafety"]["outcome"]),
        (&json!("content_blocked"), &json!("block")),
        "it was rejected before"
    );
}

#[tokio::test]
async fn approval_names_its_version_and_offers_missing_grants() {
    let host = Host::start().await;
    let (_, key) = host.register("Asks").await;
    let mut asks = tool("asks", 0.0, PLAIN);
    asks["capabilities"] = json!({ "files": true, "httpGetJson": true });
    host.as_builder(&key, Method::POST, CREATE, &asks).await.is(200);
    let some = json!({ "decision": "approve", "capabilities": { "files": true } });
    let approved = decide(&host, "asks", some).await.is(200).json()["endpoint"].clone();
    assert_eq!(approved["review"]["approvedVersion"], approved["version"]);
    // Granted capabilities stay. The others are requested again.
    let reopened = decide(&host, "asks", json!({ "decision": "reopen" })).await.is(200).json()["endpoint"].clone();
    assert_eq!((&reopened["capabilities"]["files"], &reopened["requestedCapabilities"]["httpGetJson"]), (&json!(true), &json!(true)));
    assert_eq!(reopened["review"]["approvedVersion"], Value::Null);
    assert_eq!(queue(&host).await, ["asks"]);
    // If all of them were granted, there would be nothing to review.
    decide(&host, "asks", json!({ "decision": "approve" })).await.is(200);
    decide(&host, "asks", json!({ "decision": "reopen" })).await.fails(409, "nothing_to_review", "caller");
    let stays = at(&host, &key, "asks").await;
    assert_eq!((&stays["review"]["approvedVersion"], &stays["capabilities"]["httpGetJson"]), (&stays["version"], &json!(true)));
}

#[tokio::test]
async fn revoked_grant_returns_by_an_approval_that_names_it() {
    let host = Host::start().await;
    let (_, key) = host.register("Given").await;
    host.as_builder(&key, Method::POST, CREATE, &tool("given", 0.0, PLAIN)).await.is(200);
    decide(&host, "given", json!({ "decision": "revoke", "capabilities": { "kv": true } })).await.is(200);
    decide(&host, "given", json!({ "decision": "approve", "capabilities": { "files": true } })).await.fails(
        422,
        "invalid_decision",
        "caller",
    );
    let given = decide(&host, "given", json!({ "decision": "approve", "capabilities": { "kv": true } })).await.is(200).json();
    assert_eq!(given["endpoint"]["capabilities"]["kv"], true);
    patch(&host, &key, "given", json!({ "capabilities": { "logs": true } })).await.is(200);
    let again = patch(&host, &key, "given", json!({ "capabilities": { "kv": true } })).await.is(200).json();
    assert_eq!(again["endpoint"]["capabilities"]["kv"], true, "nothing is withheld anymore");
}

#[tokio::test]
async fn endpoints_are_listed_by_state_to_admins_and_to_their_owner() {
    let host = Host::start().await;
    let ((id, key), (_, other)) = (host.register("Lists").await, host.register("Other").await);
    host.publish(&tool("platforms", 0.0, PLAIN)).await;
    for slug in ["is-active", "is-paused", "is-taken"] {
        let mut tool = tool(slug, 0.0, PLAIN);
        tool["status"] = json!(if slug == "is-paused" { "paused" } else { "active" });
        let made = host.as_builder(&key, Method::POST, CREATE, &tool).await.is(200).json()["endpoint"].clone();
        assert_eq!(made["status"], tool["status"]);
    }
    for slug in ["is-held", "is-rejected"] {
        host.as_builder(&key, Method::POST, CREATE, &tool(slug, 0.0, EVALUATES)).await.is(200);
    }
    host.call("is-paused", &json!({})).await.fails(409, "endpoint_paused", "tool");
    decide(&host, "is-rejected", json!({ "decision": "reject" })).await.is(200);
    decide(&host, "is-taken", json!({ "decision": "takedown" })).await.is(200);
    for (state, requested) in
        [("active", "is-active"), ("paused", "is-paused"), ("held", "is-held"), ("rejected", "is-rejected"), ("taken_down", "is-taken")]
    {
        assert_eq!(listed(&host, Some(&key), &format!("/ai/builders/endpoints?state={state}")).await, [requested]);
        assert_eq!(listed(&host, None, &format!("/ai/admin/endpoints?state={state}&owner={id}")).await, [requested]);
    }
    let all = ["is-active", "is-held", "is-paused", "is-rejected", "is-taken"];
    assert_eq!(listed(&host, Some(&key), "/ai/builders/endpoints").await, all);
    assert_eq!(listed(&host, None, &format!("/ai/builders/endpoints?builderId={id}")).await, all);
    assert_eq!(listed(&host, Some(&other), "/ai/builders/endpoints").await, Vec::<String>::new());
    assert_eq!(listed(&host, None, "/ai/admin/endpoints?owner=platform").await, ["platforms"]);
    assert_eq!(listed(&host, None, "/ai/builders/endpoints").await, [&all[..], &["platforms"]].concat());
    let (mut paged, mut cursor) = (vec![], String::new());
    loop {
        let page = host.manage(Method::GET, &format!("/ai/admin/endpoints?limit=4{cursor}"), &Value::Null).await.is(200).json();
        paged.extend(page["endpoints"].as_array().unwrap().iter().map(|endpoint| endpoint["slug"].as_str().unwrap().to_owned()));
        let Some(next) = page["nextCursor"].as_str() else { break };
        cursor = format!("&cursor={next}");
    }
    assert_eq!(paged, [&all[..], &["platforms"]].concat());
    for bad in ["state=gone", "owner=nobody", "cursor=%21", "limit=0", "page=1"] {
        host.manage(Method::GET, &format!("/ai/admin/endpoints?{bad}"), &Value::Null).await.fails(400, "invalid_request", "caller");
    }
}

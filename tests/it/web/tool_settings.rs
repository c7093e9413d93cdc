//! Pages with which an owner maintains a tool: secrets, settings, versions, the log.

use std::time::{Duration, Instant};

use reqwest::Method;
use serde_json::{Value, json};

use super::{
    browser::{Browser, form, forms},
    html, text, values,
};
use crate::{
    harness::{Host, eventually},
    revenue::tool,
};

const SECRETS: &str = "/dashboard/tools/kept/secrets";
const SETTINGS: &str = "/dashboard/tools/kept/settings";
const VERSIONS: &str = "/dashboard/tools/kept/versions";
const LOG: &str = "/dashboard/tools/kept/log";

async fn published_tool<'h>(host: &'h Host, source: &str) -> (String, Browser<'h>) {
    let (_, key) = host.register("Keeper").await;
    host.as_builder(&key, Method::POST, "/ai/endpoints/create", &tool("kept", 0.0, source)).await.is(200);
    let browser = Browser::signed_in(host, &key).await;
    (key, browser)
}

async fn record(host: &Host, key: &str) -> Value {
    host.as_builder(key, Method::GET, "/ai/endpoints/kept", &Value::Null).await.is(200).json()["endpoint"].clone()
}

#[tokio::test]
async fn a_secret_is_set_replaced_and_removed_and_never_comes_back() {
    let host = Host::start().await;
    let (key, browser) = published_tool(&host, "export default (req, ctx) => ({ long: ctx.env.TOKEN?.length ?? 0 });").await;
    let long = async || host.as_builder(&key, Method::POST, "/tools/kept", &json!({})).await.is(200).json()["long"].clone();
    assert!(text(&browser.page(SECRETS).await).contains("No secrets yet."));
    let set = async |name: &str, value: &str, visibility: &str| {
        let fields = [("text:/name", name), ("text:/value", value), ("text:/visibility", visibility)];
        browser.fill(SECRETS, "/dashboard/do/setSecret", &fields).await
    };
    let answer = set("TOKEN", "a-value-of-24-characters", "env").await.is(303);
    assert!(answer.has("location").starts_with(&format!("{SECRETS}?done=setSecret.")), "{answer:?}");
    assert_eq!(long().await, 24);
    set("OTHER", "another-value", "auth").await.is(303);
    let refused = text(&html(&set("not a name", "some-value", "env").await.is(422)));
    assert!(refused.contains("name must match") && refused.contains("/name"), "{refused}");
    let page = browser.page(answer.has("location")).await;
    for message in ["Secret set.", "TOKEN", "the handler, as ctx.env", "only requests with auth"] {
        assert!(text(&page).contains(message), "{message}");
    }
    for value in ["a-value-of-24-characters", "another-value", "some-value"] {
        assert!(!page.contains(value) && !refused.contains(value), "a value came back");
    }
    assert_eq!(page.matches("type=\"password\"").count(), 3);
    assert!(values(&page, "autocomplete").iter().all(|kind| kind == "off"), "browsers keep none of it");
    // Returns the form in a secret's row.
    let row = |page: &str, operation: &str| {
        let of_token = |form: &super::browser::Form| form.fields.iter().any(|(_, value)| value == "TOKEN");
        forms(page).into_iter().find(|form| form.action.ends_with(operation) && of_token(form)).unwrap()
    };
    browser.submit(&row(&page, "setSecret"), &[("text:/value", "shorter-value")]).await.is(303);
    assert_eq!(long().await, 13);
    browser.submit(&row(&page, "removeSecret"), &[]).await.is(303);
    assert_eq!(long().await, 0);
    browser.submit(&row(&page, "removeSecret"), &[]).await.is(404);
    assert!(!text(&browser.page(SECRETS).await).contains("TOKEN the"));
}

#[tokio::test]
async fn a_secret_is_set_for_hosts_and_keeps_them_when_it_is_replaced() {
    let host = Host::start().await;
    let (key, browser) = published_tool(&host, "export default (req, ctx) => ctx.env.TOKEN.slice(0, 17);").await;
    let fields = [
        ("text:/name", "TOKEN"),
        ("text:/value", "a-value-of-24-characters"),
        ("text:/visibility", "hosts"),
        ("lines:/hosts", "api.example.com\n*.example.org\n"),
        ("each:/places", "url"),
        ("each:/places", "header"),
    ];
    browser.fill(SECRETS, "/dashboard/do/setSecret", &fields).await.is(303);
    let page = browser.page(SECRETS).await;
    assert!(text(&page).contains("*.example.org, api.example.com, in a header or in the URL"), "{}", text(&page));
    let row = form(&page, "/dashboard/do/setSecret");
    browser.submit(&row, &[("text:/value", "another-value")]).await.is(303);
    let listed = host.as_builder(&key, Method::GET, "/ai/endpoints/kept/secrets", &Value::Null).await.is(200).json();
    let secret = &listed["secrets"][0];
    assert_eq!((&secret["hosts"], &secret["places"]), (&json!(["*.example.org", "api.example.com"]), &json!(["header", "url"])));
    assert_eq!(host.as_builder(&key, Method::POST, "/tools/kept", &json!({})).await.is(200).json(), "tollhouse_secret_");
}

#[tokio::test]
async fn a_tool_is_paused_narrowed_and_kept_apart_by_its_settings() {
    let host = Host::start().await;
    let (key, browser) = published_tool(&host, "export default () => 1;").await;
    let of = |page: &str, field: &str| {
        let has = |form: &super::browser::Form| form.fields.iter().any(|(name, _)| name == field);
        forms(page).into_iter().find(|form| form.action.ends_with("updateEndpoint") && has(form)).unwrap()
    };
    let page = browser.page(SETTINGS).await;
    browser.submit(&of(&page, "text:/status"), &[]).await.is(303);
    host.call("kept", &json!({})).await.fails(409, "endpoint_paused", "tool");
    // A form of an earlier revision has no effect.
    let answer = browser.submit(&of(&page, "text:/status"), &[]).await.is(412);
    assert!(values(&html(&answer), "href").contains(&SETTINGS.to_owned()), "there is a way back");
    let page = browser.page(SETTINGS).await;
    assert!(text(&page).contains("‖ paused") && text(&page).contains("Resume"));
    browser.submit(&of(&page, "text:/status"), &[]).await.is(303);
    host.call("kept", &json!({})).await.is(200);

    let cap = json!({ "decision": "approve", "limits": { "wallMs": 4_000 } });
    crate::gates::decide(&host, "kept", cap).await.is(200);
    let policy = json!({ "limits": { "cpuMs": 700 } });
    host.manage(Method::PUT, "/ai/admin/policy", &policy).await.is(200);
    let limits = of(&browser.page(SETTINGS).await, "json:/limits");
    let too_much = browser.submit(&limits, &[("number:/limits/cpuMs", "701")]).await.is(422);
    assert!(text(&html(&too_much)).contains("from 1 to 700"));
    browser
        .submit(&limits, &[("number:/limits/cpuMs", "500"), ("number:/limits/wallMs", "9000"), ("number:/limits/ops", "")])
        .await
        .is(303);
    let saved = record(&host, &key).await;
    assert_eq!((&saved["ownLimits"], &saved["limits"]["wallMs"]), (&json!({ "cpuMs": 500, "wallMs": 9_000 }), &json!(4_000)));
    let page = browser.page(SETTINGS).await;
    let row = |name: &str| {
        let row = page.split("<tr>").find(|row| row.contains(&format!("id=\"limit-{name}\""))).unwrap();
        let cells: Vec<_> = row.split("<td").skip(1).map(|cell| text(&format!("<td{cell}"))).collect();
        (values(row, "value").pop(), cells[1..].to_vec())
    };
    assert_eq!(row("cpuMs"), (Some("500".to_owned()), ["none", "700", "500"].map(str::to_owned).to_vec()));
    assert_eq!(row("wallMs"), (Some("9000".to_owned()), ["4,000", "300,000", "4,000"].map(str::to_owned).to_vec()));
    assert_eq!(row("ops"), (None, ["none", "10,000", "1,000"].map(str::to_owned).to_vec()));
    // If all fields are empty again, the defaults apply.
    browser.submit(&of(&page, "json:/limits"), &[("number:/limits/cpuMs", "")]).await.is(303);
    assert_eq!(record(&host, &key).await["ownLimits"], json!({}));

    let page = browser.page(SETTINGS).await;
    let isolation = forms(page.split("id=\"isolation\"").next().map(|before| &page[before.rfind("<form").unwrap()..]).unwrap()).remove(0);
    browser.submit(&isolation, &[("text:/isolation", "fresh")]).await.is(303);
    assert_eq!(record(&host, &key).await["isolation"], "fresh");
}

#[tokio::test]
async fn a_tool_is_deleted_by_typing_its_name() {
    let host = Host::start().await;
    let (_, browser) = published_tool(&host, "export default () => 1;").await;
    for typed in ["", "Kept", "kept-", "<b>kept</b>"] {
        let answer = html(&browser.fill(SETTINGS, SETTINGS, &[("typed", typed)]).await.is(422));
        assert!(text(&answer).contains("Nothing was deleted") && !answer.contains("<b>"), "{typed}");
    }
    browser.post(SETTINGS, &[("typed", "kept")]).await.is(403);
    host.get("/ai/endpoints/kept").await.is(200);
    let answer = browser.fill(SETTINGS, SETTINGS, &[("typed", " kept ")]).await.is(303);
    assert!(answer.has("location").starts_with("/dashboard/home?done=deleteEndpoint."), "{answer:?}");
    host.get("/ai/endpoints/kept").await.is(404);
    browser.get(SETTINGS).await.is(404);
}

#[tokio::test]
async fn versions_are_read_by_their_lines_compared_and_run_again() {
    let host = Host::start().await;
    let first = "const one = 1;\nexport default () => ({ one, of: 'first' });";
    let (key, browser) = published_tool(&host, first).await;
    let change = async |source: &str| {
        let answer = host.as_builder(&key, Method::PATCH, "/ai/endpoints/kept", &json!({ "handler": { "source": source } })).await.is(200);
        answer.json()["endpoint"]["version"].as_str().unwrap().to_owned()
    };
    let old = record(&host, &key).await["version"].as_str().unwrap().to_owned();
    let new = change("const one = 1;\nexport default () => ({ one, of: 'second' }); // <script>\u{7f}").await;
    let page = browser.page(VERSIONS).await;
    assert!(page.contains("id=\"L2\"") && values(&page, "href").contains(&"#L2".to_owned()));
    assert!(text(&page).contains("● running") && page.matches("<script").count() == 3 && !page.contains('\u{7f}'), "{page}");
    assert!(!page.contains("Run this version again"), "it runs");
    let (a, b) = (old.replace(':', "%3A"), new.replace(':', "%3A"));
    let compared = browser.page(&format!("{VERSIONS}?a={a}&b={b}")).await;
    let shown = text(&compared);
    assert!(shown.contains("1 line added, ") && compared.contains("<mark><bdi>first</bdi></mark>"), "{shown}");
    assert!(values(&browser.page(VERSIONS).await, "href").contains(&format!("{VERSIONS}?a={a}&b={b}")), "the last change");
    assert!(browser.get(&format!("{VERSIONS}?a=sha256%3A00")).await.is(404).body.len() > 500);
    let page = browser.page(&format!("{VERSIONS}?a={a}")).await;
    assert!(text(&page).contains("secrets, limits and grants stay"));
    browser.submit(&form(&page, "/dashboard/do/updateEndpoint"), &[]).await.is(303);
    assert_eq!(record(&host, &key).await["version"], old.as_str());

    // A line that is as long as a source may be, and a source with as many lines.
    let long = |fill: &str| format!("export default () => 1; //{}", fill.repeat((255 << 10) / fill.len()));
    let [one, two, many] = [
        change(&long("a\u{7f}")).await,
        change(&long("b<")).await,
        change(&format!("export default () => 1;{}", "\n".repeat(250_000))).await,
    ];
    // A complete comparison of these sources would take minutes.
    for (a, b) in [(&one, &two), (&two, &many), (&many, &old)] {
        let started = Instant::now();
        let page = browser.page(&format!("{VERSIONS}?a={}&b={}", a.replace(':', "%3A"), b.replace(':', "%3A"))).await;
        assert!(page.len() < 400 << 10 && started.elapsed() < Duration::from_secs(10), "{} bytes in {:?}", page.len(), started.elapsed());
        let page = browser.page(&format!("{VERSIONS}?a={}", a.replace(':', "%3A"))).await;
        assert!(page.len() < 400 << 10, "{} bytes", page.len());
    }
    let page = browser.page(&format!("{VERSIONS}?a={}&from=501", many.replace(':', "%3A"))).await;
    assert!(page.contains("id=\"L501\"") && text(&page).contains("Lines 501 to 1000 of 250000"), "{}", text(&page));
}

#[tokio::test]
async fn a_builtin_has_no_versions_and_a_fixed_answer_is_its_json() {
    let host = Host::start().await;
    let mut fixed = tool("kept", 0.0, "");
    (fixed["handlerType"], fixed["handler"]) = (json!("static_json"), json!({ "response": { "monday": "9-17" } }));
    host.publish(&fixed).await;
    host.publish(&json!({ "slug": "echo", "title": "Echo", "handlerType": "receipt_echo" })).await;
    let admin = Browser::signed_in(&host, &host.admin).await;
    assert!(text(&admin.page(VERSIONS).await).contains("\"monday\": \"9-17\""));
    assert!(admin.page("/dashboard/tools/kept/edit").await.contains("Answer, as JSON"));
    assert!(text(&admin.page("/dashboard/tools/echo/versions").await).contains("no source and no versions"));
    assert!(text(&admin.page("/dashboard/tools/echo/edit").await).contains("built into the host"));
}

#[tokio::test]
async fn a_log_of_long_lines_is_no_long_page() {
    let host = Host::start().await;
    let source =
        "export default (req, ctx) => { for (let n = 0; n < 20; n++) ctx.log.info('\"&'.repeat(800) + n, { a: '<\"'.repeat(300) }); };";
    let (key, browser) = published_tool(&host, source).await;
    for _ in 0..5 {
        host.call("kept", &json!({})).await.is(200);
    }
    let stored = async || {
        let page = host.as_builder(&key, Method::GET, "/ai/endpoints/kept/logs?limit=200", &Value::Null).await.is(200).json();
        page["logs"].as_array().filter(|lines| lines.len() == 100).map(|_| ())
    };
    eventually("the lines are stored", Duration::from_secs(10), stored).await;
    let page = browser.page(LOG).await;
    assert!(page.len() < 512 << 10, "{} bytes", page.len());
    assert!(text(&page).contains("100 lines") && page.matches(" more characters").count() == 200, "each line marks its omissions");
    let few = values(&page, "href").into_iter().find(|link| link.contains("lines=10")).unwrap();
    let page = browser.page(&few).await;
    assert!(text(&page).contains("10 lines") && !page.contains(" more characters"), "{page}");
    let older = values(&page, "href").into_iter().find(|link| link.contains("cursor=")).unwrap();
    assert!(older.contains("lines=10"), "{older}");
}

#[tokio::test]
async fn a_log_is_read_by_level_words_call_and_page() {
    let host = Host::start().await;
    let source = "export default (req, ctx) => {
        for (let n = 0; n < 120; n++) ctx.log.info(`line ${n}`);
        ctx.log.error('<img src=x onerror=alert(1)> \\u202e Timeout', { why: '<b>TimeOut</b>' });
        return 1;
    };";
    let (key, browser) = published_tool(&host, source).await;
    assert!(text(&browser.page(LOG).await).contains("No log lines yet."));
    host.call("kept", &json!({})).await.is(200);
    let stored = async || {
        let page = host.as_builder(&key, Method::GET, "/ai/endpoints/kept/logs?limit=200", &Value::Null).await.is(200).json();
        page["logs"].as_array().filter(|lines| lines.len() == 121).cloned()
    };
    let lines = eventually("the lines are stored", Duration::from_secs(5), stored).await;
    let page = browser.page(LOG).await;
    let shown = text(&page);
    assert!(shown.contains("100 lines") && shown.find("line 118") < shown.find("line 119") && !shown.contains("line 20 "), "{shown}");
    assert!(!page.contains("<img") && !page.contains("<b>") && !page.contains('\u{202e}') && shown.contains("<img src=x"), "{page}");
    assert!(page.contains("role=\"log\"") && page.contains("data-live=\"/dashboard/api/ai/endpoints/kept/logs\""));
    let older = values(&page, "href").into_iter().find(|link| link.contains("cursor=")).unwrap();
    let shown = text(&browser.page(&older).await);
    assert!(shown.contains("21 lines") && shown.contains("line 20") && !shown.contains("line 21"), "{shown}");
    let errors = browser.page(&format!("{LOG}?level=error")).await;
    assert!(text(&errors).contains("1 line") && !text(&errors).contains("1 lines") && errors.matches("data-level=\"error\"").count() == 1);
    let found = browser.page(&format!("{LOG}?q=timeout")).await;
    assert!(found.contains("<mark><bdi>Timeout</bdi></mark>") && text(&found).contains("99 more hidden by the search"), "{found}");
    let none = text(&browser.page(&format!("{LOG}?q=%3Cscript%3E")).await);
    assert!(none.contains("No line contains these words. Lines without them: 100."), "{none}");
    let call = lines[0]["callId"].as_str().unwrap();
    assert!(values(&page, "href").contains(&format!("{LOG}?callId={call}")));
    let one = text(&browser.page(&format!("{LOG}?callId={call}")).await);
    assert!(one.contains("One call") && one.contains("✓ succeeded"), "{one}");
    browser.get(&format!("{LOG}?level=loud")).await.is(400);
    // Without the capability, the page says that this is why the log is empty.
    let silent = json!({ "slug": "silent", "title": "Silent", "handlerType": "receipt_echo", "safetyAttestation": { "accepted": true } });
    host.as_builder(&key, Method::POST, "/ai/endpoints/create", &silent).await.is(200);
    assert!(text(&browser.page("/dashboard/tools/silent/log").await).contains("This tool can't write logs"));
}

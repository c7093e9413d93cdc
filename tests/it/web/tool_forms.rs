//! A tool is written, checked, run and published with forms only, without script. Neither the
//! user's input nor changes by others are lost.

use reqwest::Method;
use serde_json::{Value, json};

use super::{
    browser::{Browser, form},
    html, text, values,
};
use crate::{
    harness::{Answer, Host},
    revenue::tool,
};

const NEW: &str = "/dashboard/new";
const SOURCE: &str = "export default (req, ctx) => {\n  ctx.log.info('shouting');\n  return { text: req.input.text.toUpperCase() };\n};\n";
const SCHEMA: &str = "{\"type\":\"object\",\"required\":[\"text\"],\"properties\":{\"text\":{\"type\":\"string\"}}}";

/// Returns the fields of a tool's form, filled in.
fn filled<'a>(source: &'a str, button: &'a str) -> Vec<(&'a str, &'a str)> {
    vec![
        ("title", "Shout"),
        ("description", "Says it loudly."),
        ("priceUsd", "0.01"),
        ("tags", "text\r\nloud"),
        ("kind", "js"),
        ("source", source),
        ("inputSchema", SCHEMA),
        ("outputSchema", "{}"),
        ("capabilities", "logs"),
        ("do", button),
    ]
}

/// Returns the content of a text area.
fn field(html: &str, name: &str) -> String {
    let begin = format!(" name=\"{name}\"");
    let rest = html.split("<textarea").find(|rest| rest.split('>').next().unwrap().contains(&begin)).unwrap();
    let inside = rest.split_once('>').unwrap().1.split("</textarea>").next().unwrap();
    text(inside.strip_prefix('\n').unwrap())
}

fn edit(slug: &str) -> String {
    format!("/dashboard/tools/{slug}/edit")
}

/// Publishes a builder's tool, and signs the builder in.
async fn published<'h>(host: &'h Host, slug: &str) -> (String, Browser<'h>) {
    let (_, key) = host.register("Maker").await;
    host.as_builder(&key, Method::POST, "/ai/endpoints/create", &tool(slug, 0.01, SOURCE)).await.is(200);
    let browser = Browser::signed_in(host, &key).await;
    (key, browser)
}

/// Returns the fields of the form on a page, as a browser sends them.
fn standing(html: &str) -> Vec<(String, String)> {
    let inside = html.split("<form class=\"sheet\"").nth(1).unwrap().split("</form>").next().unwrap();
    let mut fields: Vec<_> = ["description", "tags", "source", "inputSchema", "outputSchema", "allowedHosts"]
        .map(|name| (name.to_owned(), field(html, name)))
        .into();
    for input in inside.split("<input").skip(1).map(|rest| rest.split('>').next().unwrap()) {
        let one = |name| values(input, name).pop().unwrap_or_default();
        if !input.contains("type=\"checkbox\"") || input.contains(" checked") {
            fields.push((one("name"), one("value")));
        }
    }
    fields.push(("kind".to_owned(), "js".to_owned()));
    fields
}

/// Submits the form of a tool as it is on a page, with these fields replaced.
async fn again(browser: &Browser<'_>, slug: &str, html: &str, but: &[(&str, &str)]) -> Answer {
    let mut fields = standing(html);
    fields.retain(|(name, _)| but.iter().all(|(other, _)| other != name));
    let fields: Vec<_> = fields.iter().map(|(name, value)| (name.as_str(), value.as_str())).chain(but.iter().copied()).collect();
    browser.post(&edit(slug), &fields).await
}

#[tokio::test]
async fn a_fresh_key_becomes_a_published_tool_by_forms_alone() {
    let host = Host::start().await;
    let (_, key) = host.register("Fresh").await;
    let browser = Browser::signed_in(&host, &key).await;
    let form = form(&browser.page(NEW).await, NEW);
    let send = async |source: &str, button: &str, more: &[(&str, &str)]| {
        let fields: Vec<_> = filled(source, button).into_iter().chain([("slug", "shout")]).chain(more.iter().copied()).collect();
        browser.submit(&form, &fields).await
    };
    let wrong = "export default (req) => {\n  return { a: 1 ;\n};\n<b>&amp;</textarea>";
    let page = html(&send(wrong, "check", &[]).await.is(422));
    let shown = text(&page);
    assert!(shown.contains("1 problem") && shown.contains("line 2, column 17"), "{shown}");
    assert!(values(&page, "href").contains(&"#field-source".to_owned()) && page.contains("aria-invalid=\"true\""));
    assert_eq!((field(&page, "source"), field(&page, "tags")), (wrong.to_owned(), "text\nloud".to_owned()), "typed fields stay");
    let page = html(&send(SOURCE, "check", &[("priceUsd", "much"), ("inputSchema", "{\n  nothing"), ("slug", "Shout it")]).await.is(422));
    for message in ["#field-priceUsd", "#field-inputSchema", "#field-slug"] {
        assert!(values(&page, "href").contains(&message.to_owned()), "{message}: {}", text(&page));
    }
    assert!(text(&page).contains("not valid JSON, line 2, column 3"), "{}", text(&page));

    let page = html(&send(SOURCE, "check", &[]).await.is(200));
    assert!(text(&page).contains("✓ passed") && text(&page).contains("Likely mistakes"), "{}", text(&page));
    host.get("/ai/endpoints/shout").await.is(404);
    let page = html(&send(SOURCE, "review", &[]).await.is(200));
    assert!(text(&page).contains("I have the right to publish") && values(&page, "value").contains(&"publish".to_owned()));
    let page = html(&send(SOURCE, "publish", &[]).await.is(422));
    assert!(text(&page).contains("First confirm the statement") && page.contains("id=\"field-attested\""), "{}", text(&page));
    host.get("/ai/endpoints/shout").await.is(404);

    let answer = send(SOURCE, "publish", &[("attested", "true")]).await.is(303);
    assert!(answer.has("location").starts_with("/dashboard/tools/shout/edit?done=createEndpoint."), "{answer:?}");
    assert!(text(&browser.page(answer.has("location")).await).contains("Tool published."));
    let record = host.as_builder(&key, Method::GET, "/ai/endpoints/shout", &Value::Null).await.is(200).json()["endpoint"].clone();
    assert_eq!((&record["tags"], &record["priceUsd"], &record["status"]), (&json!(["text", "loud"]), &json!(0.01), &json!("active")));
    let source = host.as_builder(&key, Method::GET, "/ai/endpoints/shout/source", &Value::Null).await.is(200).json();
    assert_eq!(source["handler"]["source"], SOURCE, "as it was typed, line for line");
    assert_eq!(host.as_builder(&key, Method::POST, "/tools/shout", &json!({ "text": "hi" })).await.is(200).json(), json!({ "text": "HI" }));
    assert!(text(&browser.page("/dashboard/tools/shout").await).contains("Versions"), "its maker is shown the way to its pages");
    assert!(!text(&html(&super::page(&host, "/dashboard/tools/shout").await.is(200))).contains("Versions"), "and nobody else");
    assert_eq!(
        html(&send(SOURCE, "publish", &[("attested", "true")]).await.is(409)).matches("is taken").count(),
        2,
        "on top, and at the field"
    );
}

#[tokio::test]
async fn draft_runs_before_publication_and_changes_are_listed() {
    let host = Host::start().await;
    let (key, browser) = published(&host, "runs").await;
    let page = browser.page(&edit("runs")).await;
    let shown = text(&html(&again(&browser, "runs", &page, &[("do", "run"), ("input", "{\"text\":\"hi\"}")]).await.is(200)));
    for message in ["Run: ✓ succeeded", "\"text\": \"HI\"", " ms of 1000 ms", "shouting"] {
        assert!(shown.contains(message), "{message}: {shown}");
    }
    let draft = "export default (req) => { throw new Error('<i>no</i>'); };";
    let answer = again(&browser, "runs", &page, &[("do", "run"), ("source", draft)]).await.is(200);
    assert!(text(&html(&answer)).contains("Handler failed: Error: <i>no</i>") && field(&html(&answer), "source") == draft);
    for input in ["{\"text\":", "[", "1 2"] {
        let answer = html(&again(&browser, "runs", &page, &[("do", "run"), ("input", input)]).await.is(422));
        assert!(text(&answer).contains("Input: not valid JSON") && field(&answer, "input") == input);
    }
    let shown = html(&again(&browser, "runs", &page, &[("do", "review")]).await.is(200));
    assert!(text(&shown).contains("there is nothing to publish") && !values(&shown, "value").contains(&"publish".to_owned()));
    let changes = [("source", draft), ("priceUsd", "0.02"), ("inputSchema", "{\"type\": \"object\" }")];
    let shown = text(&html(&again(&browser, "runs", &page, &[&changes[..], &[("do", "review")]].concat()).await.is(200)));
    assert!(shown.contains("Changes") && shown.contains("0.02") && shown.contains("1 line added, 6 removed"), "{shown}");
    assert!(shown.contains("Note on this version"), "{shown}");
    let publish = [&changes[..], &[("do", "publish"), ("attested", "true"), ("note", "it <i>throws</i> `now`")]].concat();
    let published = again(&browser, "runs", &page, &publish).await.is(303);
    assert!(published.has("location").starts_with("/dashboard/tools/runs/edit?done=updateEndpoint."), "{published:?}");
    let events = crate::revenue::events(&host, &key, "").await;
    let changed: Vec<_> = events.iter().filter_map(|event| event["data"]["changed"].as_array()).collect();
    assert_eq!(changed, [&["priceUsd", "handler", "safetyAttestation", "note"].map(Value::from)], "{events:?}");
    let versions = browser.page("/dashboard/tools/runs/versions").await;
    let stored = versions.split("aria-label=\"Stored versions\"").nth(1).unwrap();
    let rows: Vec<_> = stored.split("<tr>").skip(2).map(text).collect();
    assert!(
        rows.len() == 2
            && rows[0].contains("the builder, on the dashboardit <i>throws</i> now")
            && rows[1].contains("the builder, over HTTP"),
        "{rows:?}"
    );
    // The source is highlighted by its tokens, and is text.
    for marked in ["<span class=\"k\">export</span>", "<span class=\"s\">'&lt;i&gt;no&lt;/i&gt;'</span>"] {
        assert!(versions.contains(marked), "{marked}: {versions}");
    }
}

#[tokio::test]
async fn price_is_shown_with_the_builders_share() {
    let host = Host::builder().flag("--fee-bps", 333).start().await;
    let (_, browser) = published(&host, "priced").await;
    let page = browser.page(&edit("priced")).await;
    assert!(text(&page).contains("Of $0.01 simulated you get $0.009667 simulated: the host keeps $0.000333 simulated."), "{}", text(&page));
    let more = [("do", "check"), ("priceUsd", "$1"), ("maxPriceUsd", "2")];
    let shown = text(&html(&again(&browser, "priced", &page, &more).await.is(200)));
    assert!(shown.contains("Of $1 simulated you get $0.9667") && shown.contains("Of $2 simulated you get $1.9334"), "{shown}");
    for odd in ["", "much", "-1", "0", "1e400"] {
        let shown = text(&html(&again(&browser, "priced", &page, &[("do", "check"), ("priceUsd", odd)]).await));
        assert!(!shown.contains("you get"), "{odd}: {shown}");
    }
    // The host charges no fee for its own tools.
    host.publish(&tool("own", 0.01, SOURCE)).await;
    let admin = Browser::signed_in(&host, &host.admin).await;
    assert!(!admin.page(&edit("own")).await.contains("data-fee-bps") && !admin.page(NEW).await.contains("data-fee-bps"));
    assert!(admin.page(&edit("priced")).await.contains("data-fee-bps=\"333\""));
}

#[tokio::test]
async fn somebody_elses_change_is_shown_and_never_overwritten() {
    let host = Host::start().await;
    let (key, browser) = published(&host, "shared").await;
    let page = browser.page(&edit("shared")).await;
    let theirs = "export default () => ({ text: '<img src=x onerror=alert(1)>' });\n// shared";
    let other = json!({ "title": "Theirs", "handler": { "source": theirs }, "priceUsd": 0.5 });
    host.as_builder(&key, Method::PATCH, "/ai/endpoints/shared", &other).await.is(200);
    let mine = [("source", "export default () => ({ text: 'mine' });"), ("priceUsd", "0.03"), ("attested", "true")];
    for button in ["review", "publish"] {
        let conflict = html(&again(&browser, "shared", &page, &[&mine[..], &[("do", button)]].concat()).await.is(412));
        let shown = text(&conflict);
        for message in [
            "revision 2",
            "Theirs",
            "<img src=x",
            "You did not change this field",
            "You also changed this field",
            "Continue from revision 2",
        ] {
            assert!(shown.contains(message), "{message}: {shown}");
        }
        assert!(!conflict.contains("<img") && field(&conflict, "source") == mine[0].1, "typed fields stay");
    }
    let record = host.as_builder(&key, Method::GET, "/ai/endpoints/shared", &Value::Null).await.is(200).json()["endpoint"].clone();
    assert_eq!((&record["revision"], &record["priceUsd"]), (&json!(2), &json!(0.5)));

    let conflict = html(&again(&browser, "shared", &page, &[&mine[..], &[("do", "publish")]].concat()).await.is(412));
    let gone_on = html(&again(&browser, "shared", &conflict, &[&mine[..], &[("do", "onto-2")]].concat()).await.is(200));
    assert!(
        text(&gone_on).contains("You continue from revision 2.") && text(&gone_on).contains("did not change them: Title"),
        "{}",
        text(&gone_on)
    );
    assert_eq!(field(&gone_on, "source"), mine[0].1);
    // There is another change. The user cannot continue from one that they have not seen.
    host.as_builder(&key, Method::PATCH, "/ai/endpoints/shared", &json!({ "description": "Third." })).await.is(200);
    let conflict = html(&again(&browser, "shared", &gone_on, &[("do", "publish"), ("attested", "true")]).await.is(412));
    again(&browser, "shared", &conflict, &[("do", "onto-2")]).await.is(412);
    let gone_on = html(&again(&browser, "shared", &conflict, &[("do", "onto-3")]).await.is(200));
    again(&browser, "shared", &gone_on, &[("do", "publish"), ("attested", "true")]).await.is(303);
    let record = host.as_builder(&key, Method::GET, "/ai/endpoints/shared", &Value::Null).await.is(200).json()["endpoint"].clone();
    assert_eq!(
        (&record["title"], &record["description"], &record["priceUsd"], &record["revision"]),
        (&json!("Theirs"), &json!("Third."), &json!(0.03), &json!(4))
    );
    let source = host.as_builder(&key, Method::GET, "/ai/endpoints/shared/source", &Value::Null).await.is(200).json();
    assert_eq!(source["handler"]["source"], mine[0].1);
}

#[tokio::test]
async fn blocked_upload_names_the_rule_and_the_field() {
    let host = Host::start().await;
    let (_, browser) = published(&host, "leaks").await;
    let page = browser.page(&edit("leaks")).await;
    let leak = ["AKIA", "Q3EGRZ7N", "W2LDK5TX"].concat();
    let source = format!("// one\nexport default () => '{leak}';");
    for button in ["check", "review", "publish", "run"] {
        let answer = html(&again(&browser, "leaks", &page, &[("do", button), ("source", &source), ("attested", "true")]).await.is(422));
        let shown = text(&answer);
        assert!(shown.contains("Handler: secret.aws-access-key, which this host does not publish"), "{button}: {shown}");
        assert_eq!(answer.matches(&leak).count(), 1, "{button}: where it was typed, and nowhere else");
    }
    // If a change needs a review, the page says so, and where.
    let source = "export default () => eval('1');";
    let fields = [("source", source), ("attested", "true")];
    assert!(
        text(&html(&again(&browser, "leaks", &page, &[&fields[..], &[("do", "check")]].concat()).await.is(200))).contains("◐ in review")
    );
    again(&browser, "leaks", &page, &[&fields[..], &[("do", "publish")]].concat()).await.is(303);
    let page = browser.page(&edit("leaks")).await;
    assert!(text(&page).contains("an admin must review the content first") && text(&page).contains("code.eval"), "{}", text(&page));
    assert!(text(&browser.page("/dashboard/tools/leaks/settings").await).contains("an admin must review first"));
}

#[tokio::test]
async fn form_keeps_any_text_unchanged() {
    let host = Host::start().await;
    let (key, browser) = published(&host, "odd").await;
    let source = "\n\n// </textarea><script>alert(1)</script> \u{7f}\u{1}\r\nexport default () => '&lt;\0';\r";
    let words = "</title><img src=x onerror=alert(1)>\"'";
    let patch = json!({ "title": words, "description": format!("\n{words}"), "handler": { "source": source } });
    host.as_builder(&key, Method::PATCH, "/ai/endpoints/odd", &patch).await.is(200);
    let page = browser.page(&edit("odd")).await;
    assert_eq!((page.matches("<script").count(), page.matches("<img").count(), page.matches("</textarea>").count()), (4, 0, 8), "{page}");
    assert!(text(&page).contains("Lines with invisible characters: 1, the first is line 3"), "{}", text(&page));
    // A field does not return carriage returns and NULs. An untouched field must not count as a
    // change nevertheless.
    let shown = html(&again(&browser, "odd", &page, &[("do", "review")]).await.is(200));
    assert!(text(&shown).contains("there is nothing to publish"), "{}", text(&shown));
    again(&browser, "odd", &page, &[("do", "publish"), ("attested", "true"), ("priceUsd", "0.5")]).await.is(303);
    let stored = host.as_builder(&key, Method::GET, "/ai/endpoints/odd/source", &Value::Null).await.is(200).json();
    assert_eq!(stored["handler"]["source"], source);
}

#[tokio::test]
async fn the_pages_of_a_tool_are_its_owners_and_admins() {
    let host = Host::start().await;
    let (_, owner) = published(&host, "mine").await;
    let (_, other) = host.register("Other").await;
    let other = Browser::signed_in(&host, &other).await;
    let credit = host.mint(1.0).await;
    let holder = Browser::signed_in(&host, &credit).await;
    let admin = Browser::signed_in(&host, &host.admin).await;
    for page in ["edit", "versions", "log", "secrets", "settings"] {
        let path = format!("/dashboard/tools/mine/{page}");
        let answer = super::page(&host, &path).await.is(303);
        assert_eq!(answer.has("location"), format!("/dashboard/sign-in?to=%2Fdashboard%2Ftools%2Fmine%2F{page}"));
        assert!(text(&html(&other.get(&path).await.is(403))).contains("This belongs to another builder"), "{page}");
        assert!([401, 403].contains(&holder.get(&path).await.status), "{page}");
        for browser in [&owner, &admin] {
            let answer = browser.get(&path).await.is(200);
            assert_eq!(answer.has("cache-control"), "no-store", "{page}");
        }
        owner.get(&format!("/dashboard/tools/none/{page}")).await.is(404);
    }
    let csrf = form(&other.page("/dashboard/account").await, "/dashboard/sign-out").fields[0].1.clone();
    for (path, fields) in [("edit", [("do", "publish"), ("title", "Theirs")]), ("settings", [("typed", "mine"), ("", "")])] {
        let fields = [&fields[..], &[("csrf", &*csrf)]].concat();
        other.post(&format!("/dashboard/tools/mine/{path}"), &fields).await.is(403);
        Browser::new(&host).post(&format!("/dashboard/tools/mine/{path}"), &fields).await.is(401);
    }
    holder.get(NEW).await.is(403);
    assert_eq!(super::page(&host, NEW).await.is(303).has("location"), "/dashboard/sign-in?to=%2Fdashboard%2Fnew");
    let title = host.get("/ai/endpoints/mine").await.is(200).json()["endpoint"]["title"].clone();
    assert_eq!(title, "mine");
}

#[tokio::test]
async fn static_answer_keeps_its_digits_in_the_form() {
    const TEXT: &str = "{\n  \"a\": [\n    12345678901234567890123,\n    0.1000,\n    1e400\n  ]\n}";
    let host = Host::start().await;
    let admin = Browser::signed_in(&host, &host.admin).await;
    let new = form(&admin.page(NEW).await, NEW);
    let typed = |source: &'static str, button: &'static str| {
        let mut fields = filled(source, button);
        fields.retain(|(name, _)| !["kind", "capabilities", "priceUsd", "inputSchema"].contains(name));
        fields.extend([("kind", "static_json"), ("slug", "exact"), ("priceUsd", "0"), ("inputSchema", "{}")]);
        fields
    };
    admin.submit(&new, &typed(TEXT, "check")).await.is(200);
    admin.submit(&new, &typed(TEXT, "publish")).await.is(303);
    let answered = || async { host.request(Method::POST, "/tools/exact").json(&json!({})).send().await.unwrap().text().await.unwrap() };
    assert_eq!(answered().await, "{\"a\":[12345678901234567890123,0.1000,1e400]}");
    let page = admin.page(&edit("exact")).await;
    assert_eq!(field(&page, "source"), TEXT);

    let other: &'static str = "{\"a\":[12345678901234567890124,0.1000,1e400]}";
    let edited = form(&page, &edit("exact"));
    let send = async |button: &'static str| admin.submit(&edited, &typed(other, button)).await;
    let ran = text(&html(&send("run").await.is(200)));
    assert!(ran.contains("    12345678901234567890124,") && ran.contains("    1e400"), "{ran}");
    send("publish").await.is(303);
    assert_eq!(answered().await, other);
    let versions = text(&admin.page("/dashboard/tools/exact/versions").await);
    assert!(versions.contains("12345678901234567890124") && versions.contains("0.1000"), "{versions}");
}

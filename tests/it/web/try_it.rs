//! A tool is called from its page with forms only, and paid for once.

mod browser;
mod paid;
mod typed;

use reqwest::Method;
use serde_json::json;

use self::browser::{Browser, form, forms, labels};
use super::{
    hostile::{HOSTILE, shape},
    html, text, values,
};
use crate::{
    harness::{Host, js},
    listing::fixed,
};

/// Returns its input.
const ECHO: &str = "export default (req) => ({ echo: req.input });";

#[tokio::test]
async fn free_tool_is_called_by_one_form_and_gives_a_receipt() {
    let host = Host::start().await;
    host.publish(&js("echo", 0.0, ECHO)).await;
    let browser = Browser::new(&host);
    let links = values(&html(&browser.get("/dashboard/tools/echo").await), "href");
    assert!(links.contains(&"/dashboard/tools/echo/try".to_owned()));
    let page = browser.get("/dashboard/tools/echo/try?as=json").await.is(200);
    assert!(text(&html(&page)).contains("This tool is free."));
    let answer = browser.press(&form(&page, "Call").with("json", r#"{"n": 1.50, "big": 12345678901234567890}"#), "Call").await.is(200);
    let shown = text(&html(&answer));
    assert!(shown.contains("Nothing was charged.") && shown.contains("\"n\": 1.5"), "{shown}");
    for raw in ["content-type: application/json", "x-receipt-id: rcpt_", r#"{"echo":{"n":1.5"#] {
        assert!(shown.contains(raw), "as it came, {raw}: {shown}");
    }
    let receipt = values(&html(&answer), "href").into_iter().find(|link| link.contains("/receipts/rcpt_")).unwrap();
    assert!(text(&html(&browser.get(&receipt).await.is(200))).contains("free"));
    assert_eq!(browser.cookie("play"), None, "nothing is paid with");

    let file = browser.press_on(&answer, "Download").await.is(200);
    assert_eq!((file.has("content-type"), file.has("x-content-type-options")), ("application/octet-stream", "nosniff"));
    assert_eq!(file.has("content-disposition"), "attachment; filename=\"echo.json\"");
    assert_eq!(file.json()["echo"]["n"], 1.5);

    let again = browser.press_on(&answer, "Call with another input").await.is(200);
    assert_eq!(form(&again, "Call").get("json"), "{\n  \"n\": 1.50,\n  \"big\": 12345678901234567890\n}", "as it was typed");
}

#[tokio::test]
async fn a_file_is_sent_in_place_of_the_input() {
    let host = Host::start().await;
    let mut tool = js("takes", 0.0, "export default async (req) => ({ text: await req.text(), type: req.headers['content-type'] });");
    tool["requestTypes"] = json!(["text/csv", "text/plain"]);
    host.publish(&tool).await;
    let browser = Browser::new(&host);
    let page = browser.get("/dashboard/tools/takes/try").await.is(200);
    let file = form(&page, "Send the file").with("file", "YSxi\n").with("file-type", "text/csv");
    let answer = browser.press(&file, "Send the file").await.is(200);
    let shown = text(&html(&answer));
    assert!(shown.contains("\"text\": \"a,b\"") && shown.contains("\"type\": \"text/csv\""), "{shown}");
    let other = browser.press(&file.with("file-type", "image/png"), "Send the file").await;
    assert!(text(&html(&other)).contains("text/csv"), "the types that it takes are named");
    host.publish(&js("echo", 0.0, ECHO)).await;
    assert!(!labels(&browser.get("/dashboard/tools/echo/try").await).contains(&"Send the file".to_owned()));
}

#[tokio::test]
async fn owners_call_their_own_tools_for_nothing() {
    let host = Host::start().await;
    host.publish(&js("echo", 0.01, ECHO)).await;
    let browser = Browser::new(&host);
    browser.sign_in(&host.admin).await;
    let page = browser.get("/dashboard/tools/echo/try").await.is(200);
    assert!(text(&html(&page)).contains("You are the owner"));
    let answer = browser.press_on(&page, "Call").await.is(200);
    assert!(text(&html(&answer)).contains("Nothing was charged."));
    assert_eq!(host.manage(Method::GET, "/ai/admin/ledger", &json!(null)).await.status, 200);
}

#[tokio::test]
async fn a_form_of_another_page_calls_nothing() {
    let host = Host::start().await;
    host.publish(&js("echo", 0.0, ECHO)).await;
    let browser = Browser::new(&host);
    let form = form(&browser.get("/dashboard/tools/echo/try").await, "Call");
    for (name, value) in
        [("sec-fetch-site", "cross-site"), ("sec-fetch-site", "same-site"), ("origin", "https://evil.example"), ("x-any", "")]
    {
        let body = "step=call&as=json&json={}";
        let request = host.request(Method::POST, &form.action).header(name, value).body(body);
        let refused = host.send(request.header("content-type", "application/x-www-form-urlencoded")).await.is(403);
        assert!(html(&refused).contains("nothing was charged"));
    }
    browser.sign_in(&host.admin).await;
    browser.press(&form, "Call").await.is(403);
    let calls = host.manage(Method::GET, "/ai/endpoints/echo/calls", &json!(null)).await.is(200).json();
    assert_eq!(calls["calls"], json!([]));
}

#[tokio::test]
async fn a_tool_that_takes_no_calls_reports_it_and_one_that_is_none_is_not_found() {
    let host = Host::start().await;
    host.publish(&js("echo", 0.01, ECHO)).await;
    host.change("echo", &json!({ "status": "paused" })).await;
    let browser = Browser::new(&host);
    let page = browser.get("/dashboard/tools/echo/try").await.is(200);
    assert!(text(&html(&page)).contains("The tool does not accept calls."));
    assert!(html(&page).contains("<button class=\"primary\" disabled>"));
    let refused = browser.press(&forms(&page)[0], "Call").await.is(409);
    assert!(text(&html(&refused)).contains("endpoint_paused") && text(&html(&refused)).contains("Nothing was charged."));
    browser.get("/dashboard/tools/none-such/try").await.is(404);
    let posted = host.request(Method::POST, "/dashboard/tools/none-such/try").header("sec-fetch-site", "same-origin");
    host.send(posted.header("content-type", "application/x-www-form-urlencoded").body("step=call")).await.is(404);
}

#[tokio::test]
async fn failing_tool_reports_its_own_error_and_is_not_charged() {
    let host = Host::start().await;
    host.publish(&js("fails", 0.01, "export default () => { throw new Error('the <b>printer</b> is on fire'); };")).await;
    host.publish(&js("says-so", 0.01, "export default () => Response.json({ sorry: true }, { status: 418 });")).await;
    let browser = Browser::new(&host);
    let failed = browser.press_on(&browser.terms("fails", "{}").await, "of play money").await.is(502);
    let shown = text(&html(&failed));
    for reported in ["the <b>printer</b> is on fire", "Nothing was charged.", "handler_failed", "released"] {
        assert!(shown.contains(reported), "{reported}: {shown}");
    }
    assert!(labels(&failed).iter().any(|label| label.contains("same payment")));
    let answer = text(&html(&browser.press_on(&browser.terms("says-so", "{}").await, "of play money").await.is(200)));
    assert!(answer.contains("The tool reported a failure. Nothing was charged.") && answer.contains("418"), "{answer}");
}

/// Returns a tool with this text everywhere: in its description, schema, result and errors.
fn all_of(slug: &str, words: &str, price: f64) -> serde_json::Value {
    let mut tool = fixed(slug, words, price, &["tag"]);
    tool["description"] = json!(words);
    tool["handler"] = json!({ "response": { words: words } });
    tool["inputSchema"] = json!({
        "type": "object", "title": words,
        "properties": {
            words: { "type": "string", "description": words, "default": words },
            "choice": { "description": words, "enum": [words, 1], "default": words },
            "any": { "oneOf": [{ "const": words }], "examples": [words], "description": words },
            "group": { "type": "object", "description": words, "properties": { words: { "type": "number", "format": words } } },
            "list": { "type": "array", "items": { "type": "string", "description": words }, "default": [words] },
        },
    });
    tool
}

/// Returns the elements of a page, independent of the names of fields, which determine their order.
fn sorted(html: &str) -> Vec<String> {
    let mut shape = shape(html);
    shape.sort_unstable();
    shape
}

#[tokio::test]
async fn foreign_text_cannot_add_markup_to_forms_or_answers() {
    let host = Host::start().await;
    let browser = Browser::new(&host);
    let pages = async |slug: &str, words: &str| {
        let made = host.manage(Method::POST, "/ai/endpoints/create", &all_of(slug, words, 0.01)).await;
        assert_eq!(made.status, 200, "{words}: {made:?}");
        let fields = browser.get(&format!("/dashboard/tools/{slug}/try")).await.is(200);
        let as_json = browser.press_on(&fields, "Edit as JSON").await.is(200);
        let terms = browser.press_on(&as_json, "See the terms").await.is(200);
        let answer = browser.press_on(&terms, "of play money").await.is(200);
        [fields, as_json, terms, answer].map(|page| html(&page))
    };
    // Fields with invisible or odd names get no input.
    let mut plain = vec![];
    for (position, words) in ["plain", "plain\u{202e}"].into_iter().enumerate() {
        plain.push(pages(&format!("plain-{position}"), words).await.map(|page| sorted(&page)));
    }
    for (position, words) in HOSTILE.iter().enumerate() {
        let html = pages(&format!("tool-{position}"), words).await;
        for (step, page) in html.iter().enumerate() {
            assert!(plain.iter().any(|plain| plain[step] == sorted(page)), "step {step} of {words}: {page}");
            for odd in ['\u{202e}', '\u{200b}', '\u{2066}', '\u{7f}', '\u{9b}', '\u{feff}', '\u{e0041}', '\u{2028}'] {
                assert!(!page.contains(odd), "step {step} of {words}");
            }
        }
    }
}

#[tokio::test]
async fn no_schema_makes_a_form_long() {
    let host = Host::start().await;
    let browser = Browser::new(&host);
    let odd = "\u{202e}a".repeat(200);
    let members = |reported: serde_json::Value, count: usize| -> serde_json::Map<String, serde_json::Value> {
        (0..count).map(|n| (format!("m{n}"), reported.clone())).collect()
    };
    let many = json!({ "type": "string", "description": odd, "default": odd, "enum": (0..50).map(|n| format!("{n}{}", "x".repeat(150))).collect::<Vec<_>>() });
    let wide = json!({ "type": "object", "$defs": { "x": many }, "properties": members(json!({ "$ref": "#/$defs/x" }), 200) });
    let deep = json!({ "type": "object", "properties": members(json!({ "properties": members(json!({ "properties": members(json!({}), 9) }), 9) }), 9) });
    for (slug, schema) in [("wide", wide), ("deep", deep)] {
        let mut tool = fixed(slug, &"\u{202e}a".repeat(60), 0.01, &["tag"]);
        tool["inputSchema"] = schema;
        host.manage(Method::POST, "/ai/endpoints/create", &tool).await.is(200);
        let page = browser.get(&format!("/dashboard/tools/{slug}/try")).await.is(200);
        let html = html(&page);
        assert!(html.len() < 80 << 10, "{slug}: {} bytes", html.len());
        assert!(html.contains("fields of the schema are not listed above"), "{slug}");
        browser.press_on(&page, "See the terms").await.is(200);
    }
}

#[tokio::test]
async fn a_navigated_challenge_leads_to_where_it_can_be_tried() {
    let host = Host::start().await;
    host.publish(&js("echo", 0.01, ECHO)).await;
    let request = host.request(Method::GET, "/tools/echo").header("sec-fetch-dest", "document");
    let links = values(&html(&host.send(request).await.is(402)), "href");
    assert!(links.contains(&format!("{}/dashboard/tools/echo/try", host.url)), "{links:?}");
}

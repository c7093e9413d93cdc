//! The input of a form is sent as typed, and invalid input is reported at its field.

use serde_json::{Value, json};

use super::{
    super::{html, text, values},
    ECHO,
    browser::{Browser, form, labels},
};
use crate::harness::{Answer, Host, js};

async fn host() -> Host {
    let host = Host::start().await;
    let mut tool = js("echo", 0.0, ECHO);
    tool["inputSchema"] = json!({
        "type": "object", "required": ["text"], "additionalProperties": false,
        "properties": {
            "text": { "type": "string", "maxLength": 40, "default": "hello" },
            "long": { "type": "string" },
            "n": { "type": "number", "minimum": 1 },
            "mode": { "enum": ["fast", "slow"] },
            "tags": { "type": "array", "items": { "type": "string" } },
            "yes": { "type": "boolean" },
            "at": { "type": "object", "required": ["city"], "properties": { "city": { "type": "string" } } },
            "any": { "oneOf": [{ "type": "object", "required": ["x"], "properties": { "x": { "type": "integer" } } }, { "type": "null" }] },
        },
    });
    host.publish(&tool).await;
    tool["slug"] = json!("paid");
    tool["title"] = json!("paid");
    tool["priceUsd"] = json!(0.01);
    tool["handler"]["source"] = json!(format!("{ECHO}\n// paid"));
    host.publish(&tool).await;
    host
}

/// Returns the input with which the tool was called.
fn echoed(answer: &Answer) -> Value {
    let html = html(answer);
    let shown = html.split("<pre tabindex=\"0\"><code>").nth(1).unwrap().split("</code>").next().unwrap();
    serde_json::from_str::<Value>(&text(shown)).unwrap()["echo"].clone()
}

#[tokio::test]
async fn fields_are_sent_with_the_types_of_the_schema() {
    let host = host().await;
    let browser = Browser::new(&host);
    let page = browser.get("/dashboard/tools/echo/try").await.is(200);
    let started = form(&page, "Call");
    assert_eq!(started.get("f/text"), "hello", "as the schema gives it");
    assert_eq!(echoed(&browser.press(&started, "Call").await.is(200)), json!({ "text": "hello" }), "empty fields are omitted");
    let filled = started
        .with("f/long", "two\nlines \"here\"")
        .with("f/n", "1.10")
        .with("f/mode", "\"slow\"")
        .with("f/tags", "a\n\nb c\n")
        .with("f/yes", "false")
        .with("f/at/city", "Rome")
        .with("f/any", "{\"x\": 1}");
    let requested = json!({
        "text": "hello", "long": "two\nlines \"here\"", "n": 1.1, "mode": "slow", "tags": ["a", "b c"], "yes": false,
        "at": { "city": "Rome" }, "any": { "x": 1 },
    });
    assert_eq!(echoed(&browser.press(&filled, "Call").await.is(200)), requested);

    let as_json = browser.press(&filled, "Edit as JSON").await.is(200);
    let json = form(&as_json, "Call").get("json").to_owned();
    assert_eq!(serde_json::from_str::<Value>(&json).unwrap(), requested);
    assert!(json.contains("1.10"), "to the last digit: {json}");
    let back = browser.press_on(&as_json, "Edit in fields").await.is(200);
    let fields = |form: &super::browser::Form| {
        let own = form.fields.iter().filter(|(name, _)| name.starts_with("f/")).cloned();
        own.map(|(name, value)| (name, value.replace("\n\n", "\n").replace(": ", ":").trim().to_owned())).collect::<Vec<_>>()
    };
    assert_eq!(fields(&form(&back, "Call")), fields(&filled), "nothing is lost on the way");
}

#[tokio::test]
async fn invalid_input_is_named_at_its_field_and_not_charged() {
    let host = host().await;
    for slug in ["echo", "paid"] {
        let browser = Browser::new(&host);
        let label = if slug == "echo" { "Call" } else { "See the terms" };
        let page = browser.get(&format!("/dashboard/tools/{slug}/try")).await.is(200);
        for (field, typed, pointer) in [("f/text", "", "/text"), ("f/n", "a lot", "/n"), ("f/any", "{", "/any")] {
            let sent = form(&page, label).with(field, typed);
            let refused = browser.press(&sent, label).await.is(422);
            let html = html(&refused);
            let shown = text(&html);
            assert!(shown.contains("Nothing was charged.") && shown.contains(pointer), "{field}: {shown}");
            let position = values(&html, "href")
                .into_iter()
                .find_map(|link| link.strip_prefix('#').filter(|position| !matches!(*position, "main" | "end")).map(str::to_owned));
            let position = position.unwrap();
            let tag = html.split('<').find(|tag| tag.contains(&format!(" id=\"{position}\""))).unwrap();
            assert!(tag.contains("aria-invalid=\"true\"") && tag.contains(&format!(" name=\"{field}\"")), "{tag}");
            assert_eq!(form(&refused, label).get(field), typed, "typed fields stay");
        }
        assert_eq!(browser.cookie("play"), None, "nothing was signed");
    }
}

#[tokio::test]
async fn input_the_tool_rejects_is_named_and_not_charged() {
    let host = host().await;
    let browser = Browser::new(&host);
    let page = browser.get("/dashboard/tools/paid/try").await.is(200);
    let terms = browser.press(&form(&page, "See the terms").with("f/n", "0.5").with("f/at/city", "Rome"), "See the terms").await.is(200);
    let refused = browser.press_on(&terms, "of play money").await.is(422);
    let shown = text(&html(&refused));
    assert!(shown.contains("/n") && shown.contains("Nothing was charged."), "{shown}");
    let again = form(&refused, "See the terms");
    assert_eq!((again.get("f/n"), again.get("f/at/city")), ("0.5", "Rome"));
    let mended = browser.press(&again.with("f/n", "2"), "See the terms").await.is(200);
    assert!(labels(&mended).iter().any(|label| label.contains("Call for $0.01")));
    assert_eq!(echoed(&browser.press_on(&mended, "of play money").await.is(200))["n"], 2);
    let payer = super::paid::payer(&browser);
    assert_eq!(host.balance(&payer).await, 990_000, "one answer, one charge");
}

//! What happened, as events tell it: when, what in words, at which tool, and the facts of it.

use maud::{Markup, html};
use serde_json::{Map, Value};

use super::{
    follow::named,
    money, places,
    table::{Column, table},
    text,
    time::moment,
};

/// What each kind of event tells of, in words.
pub(in crate::web) const KINDS: [(&str, &str); 23] = [
    ("call.succeeded", "a call succeeded"),
    ("call.failed", "a call failed"),
    ("payment.settled", "a payment was taken"),
    ("payment.refused", "a payment was refused"),
    ("payment.refunded", "a payment was given back"),
    ("endpoint.created", "a tool was published"),
    ("endpoint.updated", "a tool was changed"),
    ("endpoint.paused", "a tool was paused"),
    ("endpoint.resumed", "a tool takes calls again"),
    ("endpoint.deleted", "a tool was deleted"),
    ("endpoint.reviewed", "a tool was decided about"),
    ("capability.granted", "a capability was granted"),
    ("capability.revoked", "a capability was taken back"),
    ("secret.set", "a secret was set"),
    ("secret.removed", "a secret was removed"),
    ("payout.created", "a packet was made"),
    ("payout.approved", "a packet was approved"),
    ("payout.paid", "a packet was paid"),
    ("payout.failed", "a packet could not be paid"),
    ("builder.key_rotated", "the key was replaced"),
    ("builder.suspended", "the account was suspended"),
    ("builder.restored", "the account was restored"),
    ("builder.tier_set", "how code runs was set"),
];

/// Facts of an event that are told, and letters of each.
const FACTS: usize = 10;
const CHARS: usize = 120;

/// Events, newest first. `builder` is whom an admin looks at, and nothing where builders look at their own.
pub(in crate::web) fn table_of(events: &[Value], builder: &str) -> Markup {
    let columns = [Column::Words("When"), Column::Words("What"), Column::Words("Tool"), Column::Words("Facts")];
    table("Events", columns, events.iter().map(|event| row(event, builder)))
}

fn row(event: &Value, builder: &str) -> [Markup; 4] {
    let kind = event["kind"].as_str().unwrap_or_default();
    let slug = event["endpointSlug"].as_str().unwrap_or_default();
    let words = KINDS.iter().find(|(known, _)| *known == kind).map(|(_, words)| *words);
    let none = Map::new();
    let facts = event["data"].as_object().unwrap_or(&none);
    [
        named(event["id"].as_str().unwrap_or_default(), moment(&event["at"])),
        html! { @match words { Some(words) => (words), None => code { (text::first(kind, CHARS)) } } },
        html! { @if !slug.is_empty() { (places::tool(slug)) } },
        html! {
            p.bounds {
                @for (name, fact) in facts.iter().filter(|(_, fact)| !fact.is_null()).take(FACTS) {
                    span { (text::first(&in_words(name), CHARS)) " " (told([slug, builder], name, fact)) }
                }
            }
        },
    ]
}

/// A fact by its name: what has a page leads there.
fn told([slug, builder]: [&str; 2], name: &str, fact: &Value) -> Markup {
    match (name, fact) {
        ("receiptId", Value::String(id)) => places::receipt_in_brief(id),
        ("payoutId", Value::String(id)) => places::payout(id, builder),
        ("callId", Value::String(id)) if !slug.is_empty() => places::log(slug, id),
        (name, Value::Number(_)) if name.ends_with("Usd") => html! { (money::usd(fact)) },
        (_, Value::String(text)) => text::first(text, CHARS),
        (_, other) => html! { code { (text::first(&other.to_string(), CHARS)) } },
    }
}

/// A member's name as words: `durationMs` is `duration ms`, and of what ends in the kind of its value that is left out.
fn in_words(name: &str) -> String {
    if name == "amount" {
        return "in the token's smallest unit".to_owned();
    }
    let name = ["Id", "Usd"].iter().find_map(|kind| name.strip_suffix(kind)).unwrap_or(name);
    let mut words = String::with_capacity(name.len() + 4);
    for letter in name.chars() {
        if letter.is_ascii_uppercase() {
            words.push(' ');
        }
        words.push(letter.to_ascii_lowercase());
    }
    words
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn told(event: &Value) -> String {
        row(event, "").map(Markup::into_string).join("|")
    }

    #[test]
    fn facts_lead_to_their_pages() {
        let data = json!({ "callId": "call_1", "receiptId": "rcpt_1", "priceUsd": 0.5, "durationMs": 3, "owner": null });
        let told = told(&json!({ "kind": "call.succeeded", "at": "2026-11-21T00:00:00.000Z", "endpointSlug": "a-tool", "data": data }));
        for part in ["a call succeeded", "/dashboard/tools/a-tool/log?callId=call_1", "/dashboard/receipts/rcpt_1", "$0.5", "duration ms"] {
            assert!(told.contains(part), "{part}: {told}");
        }
        assert!(!told.contains("owner"), "{told}");
    }

    #[test]
    fn whatever_an_event_says_stays_short_and_text() {
        let many: Map<String, Value> = (0..1_000).map(|n| (format!("<b>{n}"), json!(["<script>"]))).collect();
        let told = told(&json!({ "kind": "<i>", "at": "<u>", "data": many }));
        assert!(told.len() < 4_000 && !told.contains("<b>") && !told.contains("<script") && !told.contains("<i>"), "{told}");
    }
}

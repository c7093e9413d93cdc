//! Events as a table: time, description, tool and facts.

use maud::{Markup, html};
use serde_json::{Map, Value};
use tollhouse_api::Event;
use tollhouse_tool::Slug;

use super::{Column, follow::named, moment, money, page_links, state, table, text};

/// Kinds of events: name, description, and resulting state if there is one.
pub(crate) const KINDS: &[(&str, &str, &str)] = &[
    ("call.succeeded", "call succeeded", "succeeded"),
    ("call.failed", "call failed", "failed"),
    ("payment.settled", "payment settled", "settled"),
    ("payment.refused", "payment refused", "refused"),
    ("payment.refunded", "payment refunded", ""),
    ("payment.reorganized", "payment reorganized", ""),
    ("payment.unresolved", "payment unresolved", "unresolved"),
    ("endpoint.created", "tool published", ""),
    ("endpoint.updated", "tool changed", ""),
    ("endpoint.paused", "tool paused", "paused"),
    ("endpoint.resumed", "tool resumed", "active"),
    ("endpoint.deleted", "tool deleted", ""),
    ("endpoint.reviewed", "tool reviewed", ""),
    ("capability.granted", "capability granted", ""),
    ("capability.revoked", "capability revoked", ""),
    ("secret.set", "secret set", ""),
    ("secret.removed", "secret removed", ""),
    ("payout.created", "payout created", ""),
    ("payout.approved", "payout approved", ""),
    ("payout.paid", "payout paid", "paid"),
    ("payout.failed", "payout failed", "failed"),
    ("payout.rejected", "payout rejected", "rejected"),
    ("builder.key_rotated", "builder key replaced", ""),
    ("builder.suspended", "builder suspended", "suspended"),
    ("builder.restored", "builder restored", "active"),
    ("builder.tier_set", "builder tier set", ""),
    ("builder.hosts_granted", "builder hosts granted", ""),
    ("builder.hosts_revoked", "builder hosts revoked", ""),
];

/// Maximum shown facts of an event, and maximum characters of each.
const FACTS: usize = 10;
const CHARS: usize = 120;
/// Digits that identify a hash or address.
const DIGITS: usize = 8;

/// Shows events, newest first. `builder` is the builder that an admin looks at. It is empty for a
/// builder's own events.
pub(crate) fn table_of(events: &[Event], builder: &str, simulated: bool) -> Markup {
    let columns = [Column::Words("When"), Column::Words("Event"), Column::Words("Tool"), Column::Words("Details")];
    table("Events", columns, events.iter().map(|event| row(event, builder, simulated)))
}

fn row(event: &Event, builder: &str, simulated: bool) -> [Markup; 4] {
    let slug = event.endpoint_slug.as_ref().map_or("", Slug::as_str);
    let none = Map::new();
    let data = event.data.as_object().unwrap_or(&none);
    let facts: Vec<_> = data.iter().filter_map(|(name, fact)| describe([slug, builder], name, fact, data, simulated)).take(FACTS).collect();
    [
        named(&event.id, moment(event.at)),
        html! {
            @match KINDS.iter().find(|(known, ..)| *known == event.kind) {
                Some((_, words, "")) => (words),
                Some((_, words, end)) => (state::badge(end, words)),
                None => code { (text::first(&event.kind, CHARS)) },
            }
        },
        html! { @if !slug.is_empty() { (page_links::tool(slug)) } },
        html! { @if !facts.is_empty() { p.bounds { @for fact in &facts { span { (fact) } } } } },
    ]
}

/// Shows a fact with its name, as a link if it has a page. Returns `None` for an empty fact.
fn describe([slug, builder]: [&str; 2], name: &str, fact: &Value, alongside: &Map<String, Value>, simulated: bool) -> Option<Markup> {
    let called = html! { (text::first(in_words(name), CHARS)) " " };
    Some(match (name, fact) {
        (_, Value::Null) => return None,
        // In the token's smallest unit. The price beside it has the same amount in dollars.
        ("amount", _) if alongside.contains_key("priceUsd") => return None,
        ("receiptId", Value::String(id)) => html! { (called) (page_links::receipt_in_brief(id)) },
        ("payoutId", Value::String(id)) => html! { (called) (page_links::payout(id, builder)) },
        ("callId", Value::String(id)) if !slug.is_empty() => html! { (called) (page_links::log(slug, id)) },
        ("kind", Value::String(method)) => html! { "paid by " (text::first(method, CHARS)) },
        ("durationMs", Value::Number(millis)) => html! { "took " (millis) " ms" },
        ("owner", Value::Bool(true)) => html! { "by its owner" },
        (name, Value::Number(usd)) if name.ends_with("Usd") => {
            html! { (called) (money::amount(usd.as_f64().unwrap_or_default(), simulated)) }
        }
        (_, other) => html! { (called) (plainly(other)?) },
    })
}

/// Shows a value as text. Returns `None` if it is empty.
fn plainly(value: &Value) -> Option<Markup> {
    Some(match value {
        Value::Null => return None,
        Value::Bool(is) => html! { (if *is { "yes" } else { "no" }) },
        Value::Number(number) => html! { (number) },
        Value::String(text) if text.is_empty() => return None,
        Value::String(text) => match (hex_behind("sha256:", text), hex_behind("0x", text)) {
            (Some(digits), _) => html! { code { (text::first(digits, DIGITS)) } },
            (None, Some(_)) => html! { code { (text::first(text, DIGITS + 2)) } },
            (None, None) => text::first(text, CHARS),
        },
        Value::Array(list) => {
            let listed = list.iter().map(|one| one.as_str().map_or_else(|| one.to_string(), str::to_owned));
            return plainly(&Value::String(listed.collect::<Vec<_>>().join(", ")));
        }
        Value::Object(members) => {
            let listed = members.iter().map(|(name, member)| format!("{} {member}", in_words(name)));
            return plainly(&Value::String(listed.collect::<Vec<_>>().join(", ")));
        }
    })
}

/// Returns the hexadecimal digits after a prefix, if there is nothing else.
fn hex_behind<'t>(prefix: &str, text: &'t str) -> Option<&'t str> {
    text.strip_prefix(prefix).filter(|digits| digits.bytes().all(|digit| digit.is_ascii_hexdigit()))
}

/// Converts a field name to words: `receiptCount` becomes `receipt count`. A suffix for the type is
/// dropped.
fn in_words(name: &str) -> String {
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

    fn shown(mut event: Value) -> String {
        event["id"] = json!("evt_01KATR3Q6S4B8Z2M5V7X9C1D3F");
        event["at"] = json!("2026-11-21T00:00:00.000Z");
        row(&serde_json::from_value(event).unwrap(), "", true).map(Markup::into_string).join("|")
    }

    #[test]
    fn facts_link_to_their_pages() {
        let data = json!({ "callId": "call_1", "receiptId": "rcpt_1", "priceUsd": 0.5, "durationMs": 3, "owner": null });
        let rendered = shown(json!({ "kind": "call.succeeded", "endpointSlug": "a-tool", "data": data }));
        for part in [
            "call succeeded",
            "/dashboard/tools/a-tool/log?callId=call_1",
            "/dashboard/receipts/rcpt_1",
            "$0.5 <span class=\"play\">simulated",
            "took 3 ms",
        ] {
            assert!(rendered.contains(part), "{part}: {rendered}");
        }
        assert!(!rendered.contains("owner"), "{rendered}");
    }

    #[test]
    fn facts_are_shown_in_words() {
        let hash = format!("sha256:{}", "0123456789abcdef".repeat(4));
        let data = json!({
            "changed": ["handler", "title"], "hosts": [], "charged": false, "version": hash, "amount": "10000", "priceUsd": 0.01, "kind": "credit",
            "transaction": format!("0x{}", "ab".repeat(32)), "limits": { "wallMs": 5 }, "reason": "",
        });
        let rendered = shown(json!({ "kind": "call.failed", "data": data }));
        for part in [
            "class=\"state bad\"",
            "call failed",
            "<bdi>changed</bdi> <bdi>handler, title</bdi>",
            "<bdi>charged</bdi> no",
            "<code><bdi>01234567…</bdi></code>",
            "paid by <bdi>credit</bdi>",
            "<code><bdi>0xabababab…</bdi></code>",
            "wall ms 5",
        ] {
            assert!(rendered.contains(part), "{part}: {rendered}");
        }
        assert!(!["hosts", "amount", "10000", "[", "{", "reason"].iter().any(|raw| rendered.contains(raw)), "{rendered}");
    }

    #[test]
    fn event_of_any_content_stays_short_and_text() {
        let many: Map<String, Value> = (0..1_000).map(|n| (format!("<b>{n}"), json!(["<script>"]))).collect();
        let rendered = shown(json!({ "kind": "<i>", "data": many }));
        assert!(
            rendered.len() < 4_000 && !rendered.contains("<b>") && !rendered.contains("<script") && !rendered.contains("<i>"),
            "{rendered}"
        );
    }
}

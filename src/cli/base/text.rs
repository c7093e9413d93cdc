//! Formats fields of answers for people: times, amounts, absent values.

use jiff::{Timestamp, tz::TimeZone};
use serde_json::Value;
use tollhouse_base::clock::Clock;

/// Returns a text field by its name or path `a.b`. Absent or other values give an empty text.
pub(crate) fn text<'v>(value: &'v Value, name: &str) -> &'v str {
    member(value, name).as_str().unwrap_or_default()
}

/// Returns a field of any type as text.
pub(crate) fn any(value: &Value, name: &str) -> String {
    match member(value, name) {
        Value::Null => String::new(),
        Value::String(text) => text.clone(),
        other => super::sanitize::json(other),
    }
}

fn member<'v>(value: &'v Value, name: &str) -> &'v Value {
    name.split('.').fold(value, |value, name| &value[name])
}

/// Returns the items of a list, or none if it is not a list.
pub(crate) fn list<'v>(value: &'v Value, name: &str) -> impl Iterator<Item = &'v Value> {
    member(value, name).as_array().into_iter().flatten()
}

/// Returns the names of the fields that are true, such as granted capabilities.
pub(crate) fn granted(value: &Value, name: &str) -> String {
    let members = member(value, name).as_object().into_iter().flatten();
    members.filter(|(_, is)| **is == true).map(|(name, _)| name.as_str()).collect::<Vec<_>>().join(" ")
}

/// Formats an amount of US dollars, to the micro-dollar. Empty if absent.
pub(crate) fn usd(value: &Value, name: &str) -> String {
    match member(value, name).as_f64() {
        Some(amount) if amount < 0.0 => format!("-${}", -amount),
        Some(amount) => format!("${amount}"),
        None => String::new(),
    }
}

/// Formats a price. Zero is `free`.
pub(crate) fn price(value: &Value, name: &str) -> String {
    let price = usd(value, name);
    if price == "$0" { "free".to_owned() } else { price }
}

/// Formats the price of a tool's call: a maximum if the handler sets the charge.
pub(crate) fn call_price(endpoint: &Value) -> String {
    let max = usd(endpoint, "maxPriceUsd");
    if max.is_empty() { price(endpoint, "priceUsd") } else { format!("up to {max}") }
}

/// Formats where something was found in a tool: the field, and the line if known.
pub(crate) fn found_at(finding: &Value) -> String {
    let (field, at) = (text(finding, "field"), any(finding, "line"));
    if at.is_empty() { field.to_owned() } else { format!("{field}:{at}") }
}

/// Formats a time for a table, in UTC: `2026-11-21 09:58Z`.
pub(crate) fn moment(value: &Value, name: &str) -> String {
    let at = text(value, name);
    at.parse::<Timestamp>().map_or_else(|_| at.to_owned(), |at| at.strftime("%Y-%m-%d %H:%MZ").to_string())
}

/// Formats a time for the start of a line, in local time: `10:22:07`, with the date if it is not today.
pub(crate) fn clock(value: &Value, name: &str) -> String {
    let at = text(value, name);
    let Ok(moment) = at.parse::<Timestamp>() else { return super::sanitize::line(at) };
    let zone = TimeZone::system();
    let now = i64::try_from(Clock::default().now().0).ok().and_then(|millis| Timestamp::from_millisecond(millis).ok());
    let here = moment.to_zoned(zone.clone());
    let today = now.is_some_and(|now| now.to_zoned(zone).date() == here.date());
    here.strftime(if today { "%H:%M:%S" } else { "%Y-%m-%d %H:%M:%S" }).to_string()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn price_of_a_metered_tool_is_its_most() {
        assert_eq!(call_price(&json!({ "priceUsd": 0, "maxPriceUsd": 0.05 })), "up to $0.05");
        assert_eq!(call_price(&json!({ "priceUsd": 0, "maxPriceUsd": null })), "free");
        assert_eq!(call_price(&json!({ "priceUsd": 0.01 })), "$0.01");
    }

    #[test]
    fn members_are_reported_and_what_is_absent_is_nothing() {
        let value = json!({ "a": { "b": "c" }, "n": 1.5, "usd": 0.003, "less": -2, "none": null, "caps": { "kv": true, "files": false, "logs": true }, "free": 0 });
        assert_eq!((text(&value, "a.b"), text(&value, "a.x.y"), any(&value, "n").as_str()), ("c", "", "1.5"));
        assert_eq!(
            (usd(&value, "usd"), usd(&value, "less"), usd(&value, "none"), price(&value, "free")),
            ("$0.003".into(), "-$2".into(), String::new(), "free".into())
        );
        assert_eq!(granted(&value, "caps"), "kv logs");
        assert_eq!(moment(&json!({ "at": "2026-11-21T09:58:03.5Z" }), "at"), "2026-11-21 09:58Z");
        assert_eq!(moment(&json!({ "at": "no time" }), "at"), "no time");
        assert_eq!(clock(&json!({ "at": "no\n\u{1b}[2Jtime" }), "at"), "noU+000AU+001B[2Jtime");
    }
}

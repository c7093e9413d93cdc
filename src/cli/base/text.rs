//! Formats fields of responses for people: times, amounts, names.

use jiff::tz::TimeZone;
use serde::Serialize;
use serde_json::Value;
use tollhouse_api::EndpointView;
use tollhouse_base::clock::{Clock, Timestamp};
use tollhouse_tool::{Capabilities, MicroUsd, UsdChange, finding::Finding};

/// Returns the API's name of an enum's value, or an empty text for `None`.
pub(crate) fn name(value: impl Serialize) -> String {
    serde_json::to_value(value).ok().as_ref().and_then(Value::as_str).unwrap_or_default().to_owned()
}

/// Formats an optional value. `None` is empty.
pub(crate) fn optional(value: Option<impl ToString>) -> String {
    value.map(|value| value.to_string()).unwrap_or_default()
}

/// Lists the granted capabilities in alphabetical order.
pub(crate) fn granted(capabilities: &Capabilities) -> String {
    let mut names: Vec<_> = capabilities.names().collect();
    names.sort_unstable();
    names.join(" ")
}

/// Lists granted capabilities, then hosts.
pub(crate) fn with_hosts(capabilities: &Capabilities, hosts: &[String]) -> String {
    format!("{} {}", granted(capabilities), hosts.join(" ")).trim().to_owned()
}

/// Formats an amount of US dollars, to the micro-dollar. `None` is empty.
pub(crate) fn usd(amount: impl Into<Option<MicroUsd>>) -> String {
    amount.into().map(|amount| format!("${amount}")).unwrap_or_default()
}

/// Formats an amount that can be negative: `-$2`.
pub(crate) fn signed_usd(change: UsdChange) -> String {
    let sign = if change.0 < 0 { "-" } else { "" };
    format!("{sign}${}", MicroUsd(change.0.unsigned_abs()))
}

/// Parses dollars: `0.25` or `$0.25`.
pub(crate) fn dollars(text: &str) -> Result<MicroUsd, String> {
    let digits = text.strip_prefix('$').unwrap_or(text);
    MicroUsd::from_decimal(digits).map_err(|error| error.to_string())
}

/// Formats a price. Zero is `free`.
pub(crate) fn price(price: MicroUsd) -> String {
    if price.is_zero() { "free".to_owned() } else { usd(price) }
}

/// Formats the price of a tool's call: a maximum if the handler sets the charge.
pub(crate) fn call_price(fixed: MicroUsd, max: Option<MicroUsd>) -> String {
    max.map_or_else(|| price(fixed), |max| format!("up to {}", usd(max)))
}

/// Formats the price of a call of this tool.
pub(crate) fn endpoint_price(endpoint: &EndpointView) -> String {
    call_price(endpoint.common().price_usd, endpoint.max_price_usd())
}

/// Formats where something was found in a tool: the field, and the line if known.
pub(crate) fn found_at(finding: &Finding) -> String {
    finding.line.map_or_else(|| finding.field.clone(), |line| format!("{}:{line}", finding.field))
}

fn parsed(at: Timestamp) -> Option<jiff::Timestamp> {
    i64::try_from(at.0).ok().and_then(|millis| jiff::Timestamp::from_millisecond(millis).ok())
}

/// Formats a time for a table, in UTC: `2026-11-21 09:58Z`. `None` is empty.
pub(crate) fn moment(at: impl Into<Option<Timestamp>>) -> String {
    at.into().and_then(parsed).map(|at| at.strftime("%Y-%m-%d %H:%MZ").to_string()).unwrap_or_default()
}

/// Formats a time for the start of a line, in local time: `10:22:07`, with the date if it is not today.
pub(crate) fn clock(at: Timestamp) -> String {
    let Some(moment) = parsed(at) else { return at.to_string() };
    let zone = TimeZone::system();
    let here = moment.to_zoned(zone.clone());
    let is_today = parsed(now()).is_some_and(|now| now.to_zoned(zone).date() == here.date());
    here.strftime(if is_today { "%H:%M:%S" } else { "%Y-%m-%d %H:%M:%S" }).to_string()
}

/// Returns the current time.
pub(crate) fn now() -> Timestamp {
    Clock::default().now()
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use tollhouse_api::MovementKind;
    use tollhouse_protocol::Tier;

    use super::*;

    #[test]
    fn price_of_a_metered_tool_is_its_maximum() {
        assert_eq!(call_price(MicroUsd(0), Some(MicroUsd(50_000))), "up to $0.05");
        assert_eq!((call_price(MicroUsd(0), None), call_price(MicroUsd(10_000), None)), ("free".to_owned(), "$0.01".to_owned()));
    }

    #[test]
    fn fields_are_formatted_for_people() {
        assert_eq!(
            (name(MovementKind::Debit), name(Some(Tier::Jitless)), name(None::<Tier>)),
            ("debit".into(), "jitless".into(), "".into())
        );
        assert_eq!((usd(MicroUsd(3_000)), usd(None), signed_usd(UsdChange(-2_000_000))), ("$0.003".into(), "".into(), "-$2".into()));
        let capabilities: Capabilities = serde_json::from_value(json!({ "logs": true, "kv": true, "files": false })).unwrap();
        assert_eq!(with_hosts(&capabilities, &["a.example".to_owned()]), "kv logs a.example");
        assert_eq!((moment(Timestamp(1_795_255_083_500)), moment(None)), ("2026-11-21 09:58Z".to_owned(), String::new()));
    }
}

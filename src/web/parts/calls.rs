//! Text about a tool's recent calls.

use serde_json::Value;

/// Returns the text for a tool's record, or `None` before the host has counted its calls.
pub(crate) fn call_stats(tool: &Value) -> Option<String> {
    let calls = tool["usage"]["calls30d"].as_u64()?;
    let times = if calls == 1 { "1 call".to_owned() } else { format!("{calls} calls") };
    Some(match tool["usage"]["medianMs"].as_f64() {
        Some(median) => format!("{times} in 30 days, median {} ms", millis(median)),
        None => "not called in 30 days".to_owned(),
    })
}

/// Formats milliseconds with significant digits only.
fn millis(millis: f64) -> String {
    if millis < 10.0 { format!("{millis:.1}") } else { format!("{millis:.0}") }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn calls_are_reported_with_how_long_they_took() {
        let of = |usage: Value| call_stats(&json!({ "usage": usage }));
        assert_eq!(of(json!({ "calls30d": 1, "medianMs": 0.456 })).unwrap(), "1 call in 30 days, median 0.5 ms");
        assert_eq!(of(json!({ "calls30d": 12345, "medianMs": 1234.6 })).unwrap(), "12345 calls in 30 days, median 1235 ms");
        assert_eq!(of(json!({ "calls30d": 0 })).unwrap(), "not called in 30 days");
        assert_eq!(of(Value::Null), None);
    }
}

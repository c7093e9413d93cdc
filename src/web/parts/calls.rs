//! Text about a tool's recent calls.

use tollhouse_api::RecentUsage;
use tollhouse_base::plural::plural;

pub(crate) fn call_stats(usage: &RecentUsage) -> String {
    match usage.median_ms {
        Some(median) => format!("{} in 30 days, median {} ms", plural(usage.calls30d, "call"), millis(median)),
        None => "not called in 30 days".to_owned(),
    }
}

/// Formats milliseconds with significant digits only.
fn millis(millis: f64) -> String {
    if millis < 10.0 { format!("{millis:.1}") } else { format!("{millis:.0}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stats_contain_the_number_of_calls_and_their_median() {
        let stats = |calls30d, median_ms| call_stats(&RecentUsage { calls30d, median_ms });
        assert_eq!(stats(1, Some(0.456)), "1 call in 30 days, median 0.5 ms");
        assert_eq!(stats(12345, Some(1234.6)), "12345 calls in 30 days, median 1235 ms");
        assert_eq!(stats(0, None), "not called in 30 days");
    }
}

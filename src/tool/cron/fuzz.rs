//! Fuzz test: expressions of arbitrary bytes.

use super::*;

#[test]
fn occurrences_of_any_expression_are_in_order_and_on_the_minute() {
    tollhouse_fuzz::check("cron", |bytes| {
        let text = String::from_utf8_lossy(bytes);
        let Ok(cron) = Cron::parse(&text) else { return };
        let mut now = Timestamp(1_800_000_000_000);
        for _ in 0..4 {
            let next = cron.next(now).unwrap();
            assert!(next > now && next.0.is_multiple_of(MS_PER_MINUTE), "{text}: {next} after {now}");
            assert_eq!(cron.latest(next), Some(next), "{text}");
            now = next;
        }
    });
}

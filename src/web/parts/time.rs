//! Times: shown in UTC. A script converts them to the reader's time zone.

use std::fmt::Display;

use maud::{Markup, html};
use tollhouse_base::plural::plural;

use super::plain;

/// Shows a time that displays as `2026-11-21T09:58:03.120Z`, to the second.
pub(crate) fn moment(at: impl Display) -> Markup {
    let at = at.to_string();
    let shown = match at.split_once('T') {
        Some((day, time)) => format!("{day} {} UTC", time.split(['.', 'Z']).next().unwrap_or_default()),
        None => at.clone(),
    };
    html! { time datetime=(plain(&at)) { (plain(&shown)) } }
}

/// Formats a waiting time in a suitable unit, rounded up.
pub(crate) fn span(seconds: u64) -> String {
    let (count, unit) = match seconds {
        ..=99 => (seconds, "second"),
        100..=5_999 => (seconds.div_ceil(60), "minute"),
        _ => (seconds.div_ceil(3_600), "hour"),
    };
    plural(count, unit)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waiting_time_is_rounded_up_to_its_unit() {
        let listed: Vec<_> = [1, 59, 99, 100, 121, 5_999, 6_000, 7_201].into_iter().map(span).collect();
        assert_eq!(listed, ["1 second", "59 seconds", "99 seconds", "2 minutes", "3 minutes", "100 minutes", "2 hours", "3 hours"]);
    }

    #[test]
    fn time_is_shown_in_utc() {
        let html = moment("2026-11-21T09:58:03.120Z").into_string();
        assert_eq!(html, "<time datetime=\"2026-11-21T09:58:03.120Z\">2026-11-21 09:58:03 UTC</time>");
    }
}

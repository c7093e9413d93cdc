//! Moments: in UTC as they were stored, which script shows in the reader's own time.

use maud::{Markup, html};
use serde_json::Value;

use super::text::plain;

/// A moment as the API tells it, `2026-11-21T09:58:03.120Z`, to the second.
pub(in crate::web) fn moment(at: &Value) -> Markup {
    let at = at.as_str().unwrap_or_default();
    let shown = match at.split_once('T') {
        Some((day, time)) => format!("{day} {} UTC", time.split(['.', 'Z']).next().unwrap_or_default()),
        None => at.to_owned(),
    };
    html! { time datetime=(plain(at)) { (plain(&shown)) } }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_moment_is_told_in_utc() {
        let told = moment(&json!("2026-11-21T09:58:03.120Z")).into_string();
        assert_eq!(told, "<time datetime=\"2026-11-21T09:58:03.120Z\">2026-11-21 09:58:03 UTC</time>");
    }
}

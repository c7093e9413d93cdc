//! Lines of a handler's log: time, level, call and message.

use maud::{Markup, html};
use serde_json::Value;

use super::{
    state::state,
    text::{first, words},
    time::moment,
};

/// Maximum shown characters of a message, and of its fields.
const MOST_CHARS: usize = 2_000;
/// Maximum characters of all lines on a page. If there are more, long lines are cut shorter.
const PAGE_CHARS: usize = 48 << 10;
/// Maximum marks in a line.
const MOST_MARKS: usize = 20;

/// Shows lines with matches of `sought` marked. `call` returns the address of a call's own lines.
pub(crate) fn lines<'a>(lines: impl Iterator<Item = &'a Value>, sought: &str, call: impl Fn(&str) -> Option<String>) -> Markup {
    let lines: Vec<_> = lines.collect();
    let most = most_chars(&lines);
    html! { ol.lines { @for entry in lines { (line(entry, sought, most, &call)) } } }
}

/// Returns whether a page with these lines has to cut them shorter than usual.
pub(crate) fn are_cut(lines: &[&Value]) -> bool {
    most_chars(lines) < MOST_CHARS
}

/// Returns the maximum characters of each message, and of its fields.
fn most_chars(lines: &[&Value]) -> usize {
    let shown = |text: &str| text.chars().take(MOST_CHARS).count();
    let all: usize = lines.iter().map(|entry| shown(said(entry)) + besides(entry).map_or(0, |fields| shown(&fields))).sum();
    if all <= PAGE_CHARS { MOST_CHARS } else { PAGE_CHARS / (2 * lines.len()) }
}

fn said(entry: &Value) -> &str {
    entry["message"].as_str().unwrap_or_default()
}

fn besides(entry: &Value) -> Option<String> {
    entry["fields"].as_object().filter(|fields| !fields.is_empty()).map(json)
}

/// Returns whether a line contains `sought`, ignoring ASCII case.
pub(crate) fn says(entry: &Value, sought: &str) -> bool {
    place(said(entry), sought).is_some() || place(&besides(entry).unwrap_or_default(), sought).is_some()
}

fn json(fields: &serde_json::Map<String, Value>) -> String {
    serde_json::to_string(fields).unwrap_or_default()
}

/// Returns the position of the first match.
fn place(text: &str, sought: &str) -> Option<usize> {
    let (text, sought) = (text.as_bytes(), sought.as_bytes());
    if sought.is_empty() {
        return Some(0);
    }
    text.windows(sought.len()).position(|window| window.eq_ignore_ascii_case(sought))
}

fn line(entry: &Value, sought: &str, most: usize, address: &impl Fn(&str) -> Option<String>) -> Markup {
    let level = entry["level"].as_str().unwrap_or_default();
    let call = entry["callId"].as_str();
    let fields = besides(entry);
    html! {
        li data-level=(level) data-at=(entry["at"].as_str().unwrap_or_default()) data-call=[call] {
            (moment(&entry["at"])) " " (state(level)) " "
            @if let Some(call) = call {
                @match address(call) { Some(address) => a.call href=(address) { (words(call)) }, None => span.call { (words(call)) } }
                " "
            }
            @if entry["owner"] == true { span.muted { "owner" } " " }
            span.said { (marked(said(entry), sought, most)) }
            @if let Some(fields) = &fields {
                " " details open[!sought.is_empty() && place(fields, sought).is_some()] { summary { "fields" } code { (marked(fields, sought, most)) } }
            }
        }
    }
}

/// Shows the beginning of a text with matches marked, and the number of omitted characters.
fn marked(text: &str, sought: &str, most: usize) -> Markup {
    let left = text.chars().count().saturating_sub(most);
    let mut rest = &text[..text.char_indices().nth(most).map_or(text.len(), |(at, _)| at)];
    let mut marks = Vec::new();
    while !sought.is_empty() && marks.len() < MOST_MARKS {
        let Some(at) = place(rest, sought) else { break };
        marks.push((&rest[..at], &rest[at..at + sought.len()]));
        rest = &rest[at + sought.len()..];
    }
    html! {
        @for (before, found) in &marks { @if !before.is_empty() { (words(before)) } mark { (words(found)) } }
        @if !rest.is_empty() || marks.is_empty() { (first(rest, most)) }
        @if left > 0 { span.muted { " " (left) " more characters" } }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn shown(entry: &Value, sought: &str) -> String {
        lines([entry].into_iter(), sought, |call| Some(format!("/log?callId={call}"))).into_string()
    }

    #[test]
    fn a_line_says_all_that_it_has_as_text() {
        let entry = json!({
            "at": "2026-11-21T09:58:03.120Z", "level": "error", "message": "<b>\u{202e}", "fields": { "a": "<i>" }, "callId": "call_1", "owner": true,
        });
        let told = shown(&entry, "");
        assert!(told.contains("href=\"/log?callId=call_1\"") && told.contains("&lt;b&gt;<span class=\"odd\">U+202E</span>"), "{told}");
        assert!(told.contains("{&quot;a&quot;:&quot;&lt;i&gt;&quot;}") && told.contains("owner"), "{told}");
        let long = json!({ "at": "", "level": "info", "message": "x".repeat(5_000), "fields": {}, "callId": null });
        let told = shown(&long, "");
        assert!(told.contains("3000 more characters") && !told.contains("<details") && told.len() < 3_000, "{told}");
    }

    #[test]
    fn a_page_of_long_lines_stays_short_and_fewer_of_them_are_told_in_full() {
        let long = json!({ "at": "", "level": "info", "message": "\"".repeat(2_000), "fields": { "a": "\"".repeat(900) } });
        let many: Vec<_> = (0..100).map(|_| &long).collect();
        let told = lines(many.iter().copied(), "", |_| None).into_string();
        assert!(are_cut(&many) && told.len() < 400 << 10, "{} bytes", told.len());
        assert_eq!(told.matches(" more characters").count(), 200, "each says how much of it is not there");
        assert!(!are_cut(&many[..10]));
        assert!(!lines(many[..10].iter().copied(), "", |_| None).into_string().contains(" more characters"));
    }

    #[test]
    fn what_is_sought_is_marked_where_it_stands() {
        let entry = json!({ "at": "", "level": "info", "message": "áb TimeOut <timeout>", "fields": { "why": "Timeout" } });
        let told = shown(&entry, "timeout");
        assert!(told.contains("<bdi>áb </bdi><mark><bdi>TimeOut</bdi></mark><bdi> &lt;</bdi><mark>"), "{told}");
        assert!(told.contains("<details open>"), "{told}");
        assert!(says(&entry, "WHY") && says(&entry, "") && says(&entry, "á") && !says(&entry, "Á"));
        let often = json!({ "at": "", "level": "info", "message": "a".repeat(2_000), "fields": {} });
        assert_eq!(shown(&often, "a").matches("<mark>").count(), MOST_MARKS);
    }
}

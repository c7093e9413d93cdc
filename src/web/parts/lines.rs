//! Lines of a handler's log: time, level, call and message.

use maud::{Markup, html};
use serde_json::{Map, Value};
use tollhouse_api::LogLine;
use tollhouse_base::id::CallId;

use super::{first, moment, state, word, words};

/// Maximum shown characters of a message, and of its fields.
const MAX_CHARS: usize = 2_000;
/// Maximum characters of all lines on a page. If there are more, long lines are cut shorter.
const PAGE_CHARS: usize = 48 << 10;
const MAX_MARKS: usize = 20;

/// Shows lines with matches of `target` marked. `call` returns the address of a call's own lines.
pub(crate) fn lines<'a>(lines: impl Iterator<Item = &'a LogLine>, target: &str, call: impl Fn(&str) -> Option<String>) -> Markup {
    let lines: Vec<_> = lines.collect();
    let max = max_chars(&lines);
    html! { ol.lines { @for entry in lines { (line(entry, target, max, &call)) } } }
}

/// Returns whether a page with these lines has to cut them shorter than usual.
pub(crate) fn are_cut(lines: &[&LogLine]) -> bool {
    max_chars(lines) < MAX_CHARS
}

/// Returns the maximum characters of each message, and of its fields.
fn max_chars(lines: &[&LogLine]) -> usize {
    let shown = |text: &str| text.chars().take(MAX_CHARS).count();
    let all: usize = lines.iter().map(|entry| shown(&entry.message) + fields(entry).map_or(0, |fields| shown(&fields))).sum();
    if all <= PAGE_CHARS { MAX_CHARS } else { PAGE_CHARS / (2 * lines.len()) }
}

/// Returns the fields of a line as JSON, if it has any.
fn fields(entry: &LogLine) -> Option<String> {
    (!entry.fields.is_empty()).then(|| json(&entry.fields))
}

/// Returns whether a line contains `target`, ignoring ASCII case.
pub(crate) fn contains(entry: &LogLine, target: &str) -> bool {
    find(&entry.message, target).is_some() || find(&fields(entry).unwrap_or_default(), target).is_some()
}

fn json(fields: &Map<String, Value>) -> String {
    serde_json::to_string(fields).unwrap_or_default()
}

/// Returns the position of the first match.
fn find(text: &str, target: &str) -> Option<usize> {
    let (text, target) = (text.as_bytes(), target.as_bytes());
    if target.is_empty() {
        return Some(0);
    }
    text.windows(target.len()).position(|window| window.eq_ignore_ascii_case(target))
}

fn line(entry: &LogLine, target: &str, max: usize, address: &impl Fn(&str) -> Option<String>) -> Markup {
    let level = word(entry.level);
    let call = entry.call_id.as_ref().map(CallId::as_str);
    let fields = fields(entry);
    html! {
        li data-level=(level) data-at=(entry.at.to_string()) data-call=[call] {
            (moment(entry.at)) " " (state(&level)) " "
            @if let Some(call) = call {
                @match address(call) { Some(address) => a.call href=(address) { (words(call)) }, None => span.call { (words(call)) } }
                " "
            }
            @if entry.owner { span.muted { "owner" } " " }
            span.said { (marked(&entry.message, target, max)) }
            @if let Some(fields) = &fields {
                " " details open[!target.is_empty() && find(fields, target).is_some()] { summary { "Fields" } code { (marked(fields, target, max)) } }
            }
        }
    }
}

/// Shows the beginning of a text with matches marked, and the number of omitted characters.
fn marked(text: &str, target: &str, max: usize) -> Markup {
    let remaining = text.chars().count().saturating_sub(max);
    let mut rest = &text[..text.char_indices().nth(max).map_or(text.len(), |(at, _)| at)];
    let mut marks = Vec::new();
    while !target.is_empty() && marks.len() < MAX_MARKS {
        let Some(at) = find(rest, target) else { break };
        marks.push((&rest[..at], &rest[at..at + target.len()]));
        rest = &rest[at + target.len()..];
    }
    html! {
        @for (before, found) in &marks { @if !before.is_empty() { (words(before)) } mark { (words(found)) } }
        @if !rest.is_empty() || marks.is_empty() { (first(rest, max)) }
        @if remaining > 0 { span.muted { " " (remaining) " more characters" } }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const AT: &str = "2026-11-21T09:58:03.120Z";

    fn read(entry: Value) -> LogLine {
        serde_json::from_value(entry).unwrap()
    }

    fn shown(entry: &Value, target: &str) -> String {
        lines([&read(entry.clone())].into_iter(), target, |call| Some(format!("/log?callId={call}"))).into_string()
    }

    #[test]
    fn line_shows_all_its_parts_as_text() {
        let entry = json!({
            "at": "2026-11-21T09:58:03.120Z", "level": "error", "message": "<b>\u{202e}", "fields": { "a": "<i>" }, "callId": "call_01KATR3Q6S4B8Z2M5V7X9C1D3F", "owner": true,
        });
        let rendered = shown(&entry, "");
        assert!(
            rendered.contains("href=\"/log?callId=call_01KATR3Q6S4B8Z2M5V7X9C1D3F\"")
                && rendered.contains("&lt;b&gt;<span class=\"odd\">U+202E</span>"),
            "{rendered}"
        );
        assert!(rendered.contains("{&quot;a&quot;:&quot;&lt;i&gt;&quot;}") && rendered.contains("owner"), "{rendered}");
        let long = json!({ "at": AT, "level": "info", "message": "x".repeat(5_000), "fields": {}, "callId": null });
        let rendered = shown(&long, "");
        assert!(rendered.contains("3000 more characters") && !rendered.contains("<details") && rendered.len() < 3_000, "{rendered}");
    }

    #[test]
    fn long_lines_are_cut_if_there_are_many() {
        let long = read(json!({ "at": AT, "level": "info", "message": "\"".repeat(2_000), "fields": { "a": "\"".repeat(900) } }));
        let many: Vec<_> = (0..100).map(|_| &long).collect();
        let html = lines(many.iter().copied(), "", |_| None).into_string();
        assert!(are_cut(&many) && html.len() < 400 << 10, "{} bytes", html.len());
        assert_eq!(html.matches(" more characters").count(), 200, "each shows how much is cut");
        assert!(!are_cut(&many[..10]));
        assert!(!lines(many[..10].iter().copied(), "", |_| None).into_string().contains(" more characters"));
    }

    #[test]
    fn matches_are_marked() {
        let entry = json!({ "at": AT, "level": "info", "message": "áb TimeOut <timeout>", "fields": { "why": "Timeout" } });
        let rendered = shown(&entry, "timeout");
        assert!(rendered.contains("<bdi>áb </bdi><mark><bdi>TimeOut</bdi></mark><bdi> &lt;</bdi><mark>"), "{rendered}");
        assert!(rendered.contains("<details open>"), "{rendered}");
        let line = read(entry);
        assert!(contains(&line, "WHY") && contains(&line, "") && contains(&line, "á") && !contains(&line, "Á"));
        let often = json!({ "at": AT, "level": "info", "message": "a".repeat(2_000), "fields": {} });
        assert_eq!(shown(&often, "a").matches("<mark>").count(), MAX_MARKS);
    }
}

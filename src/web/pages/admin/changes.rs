//! Changes of a tool since its last approval: fields before and after, and its source.

use maud::{Markup, html};
use serde_json::Value;
use tollhouse_api::{OwnEndpoint, UploadedHandler};

use crate::{Column, DiffNames, diff, pages::owner_pages::source_text, parts::source, table, text};

/// Maximum characters of a shown value.
const CHARS: usize = 1_000;

/// A version of the handler as it was uploaded.
pub(super) struct UploadedVersion<'a> {
    pub(super) version: &'a str,
    /// `None` if it is not stored, or is built in.
    pub(super) handler: Option<&'a UploadedHandler>,
}

/// Shows the fields that differ from the approved ones.
pub(super) fn fields(tool: &OwnEndpoint) -> Markup {
    // Approved fields are stored by name.
    let now = serde_json::to_value(tool).unwrap_or_default();
    let (long, short): (Vec<_>, Vec<_>) = tool.review.approved_fields.iter().partition(|(_, value)| is_long(value));
    html! {
        @if long.is_empty() && short.is_empty() { p.muted { "Only the handler differs from the approved version." } }
        @if !short.is_empty() {
            (table("Fields", ["Field", "Approved", "Now"].map(Column::Words), short.into_iter().map(|(name, before)| [
                html! { code { (text::words(name)) } },
                text::first(value_text(before), CHARS),
                text::first(value_text(&now[name]), CHARS),
            ])))
        }
        @for (name, before) in long {
            h3 { code { (text::words(name)) } }
            (diff::diff(DiffNames { old: "the approved version", new: "the current version" }, &value_text(before), &value_text(&now[name])))
        }
    }
}

/// Returns whether a value is compared line by line.
fn is_long(value: &Value) -> bool {
    match value {
        Value::Object(members) => members.values().any(|member| member.is_object() || member.is_array()) || members.contains_key("type"),
        Value::String(text) => text.lines().nth(1).is_some() || text.chars().nth(CHARS / 4).is_some(),
        Value::Array(_) | Value::Bool(_) | Value::Null | Value::Number(_) => false,
    }
}

/// Returns a value as readable text: lists and flags in words, strings as they are.
fn value_text(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Null => "nothing".to_owned(),
        Value::Array(items) if items.iter().all(Value::is_string) => {
            let items: Vec<_> = items.iter().filter_map(Value::as_str).collect();
            if items.is_empty() { "none".to_owned() } else { items.join(", ") }
        }
        Value::Object(members) if !members.is_empty() && members.values().all(|member| member.is_boolean() || member.is_number()) => {
            let there = members.iter().filter(|(_, member)| **member != false);
            let named = there.map(|(name, member)| if member.is_number() { format!("{name} {member}") } else { name.clone() });
            let named: Vec<_> = named.collect();
            if named.is_empty() { "none".to_owned() } else { named.join(", ") }
        }
        Value::Object(members) if members.is_empty() => "none".to_owned(),
        other => serde_json::to_string_pretty(other).unwrap_or_default(),
    }
}

/// The part of a source that is shown.
pub(super) struct SourcePart<'a> {
    /// The first line.
    pub(super) from: usize,
    /// Lines with findings.
    pub(super) found: &'a [u64],
    pub(super) path: &'a str,
}

/// Shows the handler, and a comparison with the approved one if there is one.
pub(super) fn handler(approved: Option<&UploadedVersion>, now: &UploadedVersion, part: &SourcePart) -> Markup {
    let text = |uploaded: &UploadedVersion| uploaded.handler.map(source_text);
    let before = approved.and_then(text);
    html! {
        @match (approved, &before, text(now)) {
            (_, _, None) => p.muted { "This tool is built into the host and has no source." },
            (Some(approved), _, Some(_)) if approved.version == now.version => p.muted { "The approved version is running." },
            (Some(approved), Some(before), Some(after)) => (diff::diff(DiffNames { old: &short_version(approved.version), new: &short_version(now.version) }, before, &after)),
            (Some(_), None, Some(_)) => p.muted { "The approved version is no longer stored. This is the complete running version." },
            (None, _, Some(_)) => p.muted { "No version has been approved. This is the complete source." },
        }
        @if let Some(after) = text(now) {
            @let shown = source::part(&after, part.from).shown("Handler", part.found, |from| format!("{}?from={from}#handler", part.path));
            @if before.is_some() { details.way open[part.from > 1] { summary { "Complete source" } (shown) } } @else { (shown) }
        }
    }
}

/// Returns the first digits of a version.
fn short_version(version: &str) -> String {
    version.trim_start_matches("sha256:").chars().take(8).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use tollhouse_tool::StaticResponse;

    use super::*;

    fn tool(fields: Value) -> OwnEndpoint {
        let examples: Value = serde_json::from_str(include_str!("../../../http/documents/examples.json")).unwrap();
        let mut tool = examples["createEndpoint"]["endpoint"].clone();
        tool["review"]["approvedFields"] = json!({});
        tool.as_object_mut().unwrap().extend(fields.as_object().cloned().unwrap());
        serde_json::from_value(tool).unwrap()
    }

    #[test]
    fn changed_fields_are_shown_before_and_after() {
        let changes = json!({
            "title": "Second <b>", "priceUsd": 0.5, "tags": [], "capabilities": { "kv": true, "logs": false }, "ownLimits": {},
            "inputSchema": { "type": "object", "required": ["text"] },
            "review": { "state": "none", "since": null, "findings": [], "decision": null, "approvedVersion": null, "approvedFields": {
                "title": "First", "priceUsd": 0.25, "tags": ["a", "b"], "capabilities": { "kv": true, "logs": true }, "ownLimits": { "wallMs": 5 },
                "inputSchema": { "type": "object" },
            } },
        });
        let shown = fields(&tool(changes)).into_string();
        for part in ["First", "Second &lt;b&gt;", "0.25", "0.5", "a, b", "none", "kv, logs", "wallMs 5", "table class=\"diff\"", "required"]
        {
            assert!(shown.contains(part), "{part}: {shown}");
        }
        assert!(fields(&tool(json!({}))).into_string().contains("Only the handler differs"));
    }

    #[test]
    fn handler_is_compared_with_the_approved_one() {
        let source =
            |source: &str| UploadedHandler { version: String::new(), source: Some(source.to_owned()), language: None, response: None };
        let (old, new) = (source("a\nb"), source("a\nc"));
        let response = UploadedHandler { source: None, response: Some(StaticResponse::read("{\"a\":0.1000}").unwrap()), ..source("") };
        let of = |version, handler| UploadedVersion { version, handler };
        let describe = |approved: Option<UploadedVersion>, now: UploadedVersion| {
            handler(approved.as_ref(), &now, &SourcePart { from: 1, found: &[], path: "/p" }).into_string()
        };
        assert!(describe(Some(of("1", Some(&old))), of("2", Some(&new))).contains("1 line added, 1 removed."));
        assert!(describe(Some(of("1", Some(&old))), of("1", Some(&old))).contains("The approved version is running"));
        assert!(describe(Some(of("1", None)), of("2", Some(&new))).contains("no longer stored"));
        let fixed = describe(None, of("2", Some(&response)));
        assert!(fixed.contains("No version has been approved") && fixed.contains("0.1000"), "{fixed}");
        assert!(describe(None, of("2", None)).contains("built into the host"));
    }
}

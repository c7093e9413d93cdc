//! Shows the differences between two records field by field, for plans and for conflicting changes.

use serde_json::Value;

use super::{first, json};

/// Maximum length of a displayed value, in characters.
const MAX_LEN: usize = 60;

/// Fields that are never shown, because they change with everything else.
const CONTEXT: [&str; 4] = ["revision", "updatedAt", "versions", "review"];

/// Returns each field in which two records differ, as `limits.wallMs  10000 → 5000`.
pub(crate) fn changes(before: &Value, after: &Value) -> Vec<String> {
    let reported = pairs(before, after);
    let width = reported.iter().map(|(name, _)| name.chars().count()).max().unwrap_or(0);
    reported.into_iter().map(|(name, change)| format!("{name:width$}  {change}")).collect()
}

/// Returns each field in which two records differ, as pairs of name and change.
pub(crate) fn pairs(before: &Value, after: &Value) -> Vec<(String, String)> {
    let mut reported = Vec::new();
    walk("", before, after, &mut reported);
    reported
}

fn walk(name: &str, before: &Value, after: &Value, reported: &mut Vec<(String, String)>) {
    if before == after {
        return;
    }
    if let (Value::Object(old), Value::Object(new)) = (before, after) {
        let mut names: Vec<_> = old.keys().chain(new.keys().filter(|name| !old.contains_key(*name))).collect();
        names.sort();
        for member in names.into_iter().filter(|member| !name.is_empty() || !CONTEXT.contains(&member.as_str())) {
            let path = if name.is_empty() { member.clone() } else { format!("{name}.{member}") };
            walk(&path, &before[member], &after[member], reported);
        }
        return;
    }
    reported.push((first(name, MAX_LEN), format!("{} → {}", shown(before), shown(after))));
}

fn shown(value: &Value) -> String {
    match value {
        Value::Null => "nothing".to_owned(),
        Value::String(text) if text.starts_with("sha256:") => short(text),
        Value::String(text) => first(text, MAX_LEN),
        other => first(&json(other), MAX_LEN),
    }
}

/// Shortens a version to the first characters of its hash, for people.
pub(crate) fn short(version: &str) -> String {
    first(version.strip_prefix("sha256:").unwrap_or(version), 8).trim_end_matches('…').to_owned()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn each_changed_field_is_listed_with_both_values() {
        let before = json!({ "revision": 7, "limits": { "wallMs": 10000, "cpuMs": 1 }, "version": "sha256:3f9a1c0b22", "title": "a", "tags": ["x"], "updatedAt": 1 });
        let after = json!({ "revision": 9, "limits": { "wallMs": 5000, "cpuMs": 1 }, "version": "sha256:8be07d1122", "title": "a\u{202e}\nb", "paused": true, "tags": ["x"] });
        assert_eq!(
            changes(&before, &after),
            [
                "limits.wallMs  10000 → 5000",
                "paused         nothing → true",
                "title          a → aU+202EU+000Ab",
                "version        3f9a1c0b → 8be07d11"
            ]
        );
        assert_eq!(changes(&before, &before), [""; 0]);
    }
}

//! Edits `tool.json` as a person would: changes values in place, appends new members, and leaves everything else as it
//! is.

use serde_json::Value;

use super::position::find_exactly;

/// Returns the text with these members set.
pub(crate) fn with(text: &str, members: &[(String, Value)]) -> String {
    let mut text = text.to_owned();
    for (name, value) in members {
        let written = indented(value);
        match find_exactly(&text, name) {
            Some((started, end)) => text.replace_range(started..end, &written),
            None => append(&mut text, name, &written),
        }
    }
    text
}

/// Returns a new text with these members in their order.
pub(crate) fn new(members: &[(String, Value)]) -> String {
    with("{\n}\n", members)
}

fn append(text: &mut String, name: &str, value: &str) {
    let Some(end) = text.rfind('}') else { return };
    let before = text[..end].trim_end().len();
    let comma = if text[..before].ends_with('{') { "" } else { "," };
    let name = Value::String(name.to_owned());
    text.replace_range(before..end, &format!("{comma}\n  {name}: {value}\n"));
}

/// Formats a value on one line if it is short, else on several indented lines.
fn indented(value: &Value) -> String {
    let short = spaced(value);
    if short.len() <= 80 {
        return short;
    }
    serde_json::to_string_pretty(value).unwrap_or_default().replace('\n', "\n  ")
}

/// Formats a value on one line, with spaces as people write them.
fn spaced(value: &Value) -> String {
    match value {
        Value::Array(items) => format!("[{}]", items.iter().map(spaced).collect::<Vec<_>>().join(", ")),
        Value::Object(members) if members.is_empty() => "{}".to_owned(),
        Value::Object(members) => {
            let member = |(name, value): (&String, &Value)| format!("{}: {}", Value::String(name.clone()), spaced(value));
            format!("{{ {} }}", members.iter().map(member).collect::<Vec<_>>().join(", "))
        }
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn edit_leaves_the_rest_of_the_file_unchanged() {
        let text = "{\n  \"slug\":   \"a\",\n  \"priceUsd\": 0.01,\n\n  \"tags\": [ \"x\" ]\n}\n";
        let members = [
            ("priceUsd".to_owned(), json!(0.02)),
            ("limits".to_owned(), json!({ "wallMs": 5000 })),
            ("tags".to_owned(), json!(["x", "y"])),
        ];
        let changed = with(text, &members);
        assert_eq!(
            changed,
            "{\n  \"slug\":   \"a\",\n  \"priceUsd\": 0.02,\n\n  \"tags\": [\"x\", \"y\"],\n  \"limits\": { \"wallMs\": 5000 }\n}\n"
        );
        let long = json!({ "properties": { "text": { "type": "string", "description": "x".repeat(80) } } });
        let changed: Value = serde_json::from_str(&with(&changed, &[("inputSchema".to_owned(), long.clone())])).unwrap();
        assert_eq!(changed["inputSchema"], long);
        assert_eq!(new(&[("slug".to_owned(), json!("a"))]), "{\n  \"slug\": \"a\"\n}\n");
    }
}

//! The page of a subject: its operations and the schemas that they refer to.

use std::fmt::Write as _;

use serde_json::Value;

use super::{
    examples,
    schema_parts::{PARTS, capital, reached},
};
use crate::{Access, Operation, ResponseKind};

/// Returns the operations of a subject on the host at `base`, followed by their schemas.
pub(super) fn text(rows: &[&Operation], base: &str) -> String {
    let mut text = String::new();
    for row in rows {
        operation(&mut text, row, base);
    }
    let named = rows.iter().flat_map(|row| row.takes.into_iter().chain(row.schema()));
    let schemas = reached(named);
    if !schemas.is_empty() {
        text += "## Schemas\n\n";
    }
    for name in schemas {
        let schema = &PARTS.schemas[name];
        _ = write!(text, "### {name}\n\n{}", about(schema));
        members(&mut text, schema);
    }
    text
}

fn operation(text: &mut String, row: &Operation, base: &str) {
    _ = write!(text, "## {} {}\n\n{}.\n\n", row.method, row.path, capital(row.what));
    _ = writeln!(text, "- Operation: `{}`. Access: {}.", row.id, row.access.as_str());
    for (what, names) in [("Query", row.query), ("Headers", row.headers)] {
        for (position, name) in names.iter().enumerate() {
            let message = PARTS.parameters.get(*name).and_then(|reported| reported["description"].as_str()).unwrap_or_default();
            let comma = if position == 0 { format!("- {what}:") } else { ";".to_owned() };
            _ = write!(text, "{comma} `{name}` ({})", message.trim_end_matches('.'));
        }
        if !names.is_empty() {
            *text += ".\n";
        }
    }
    if let Some(schema) = row.takes {
        _ = writeln!(text, "- Request: JSON, {}.", linked(schema));
    }
    _ = match row.answers {
        ResponseKind::Json(schema) => writeln!(text, "- Response: {}.", linked(schema)),
        ResponseKind::Tool => {
            writeln!(text, "- Response: the tool's answer, with the status that the tool chose. `X-Receipt-Id` has the id of its receipt.")
        }
        ResponseKind::Text(media) => writeln!(text, "- Response: `{media}`."),
        ResponseKind::Page => writeln!(text, "- Response: Markdown, or a page for browsers."),
        ResponseKind::JsonOrPage(schema) => writeln!(text, "- Response: {}, or a page for browsers.", linked(schema)),
    };
    if row.streams {
        *text += "- With `Accept: text/event-stream`: Server-Sent Events, as they happen.\n";
    }
    _ = write!(text, "\n```sh\n{}\n```\n\n", curl(row, base));
    let mut codes: Vec<_> = row.codes().iter().map(|code| format!("`{}` ({})", code.row().name, code.row().status.as_u16())).collect();
    codes.dedup();
    _ = write!(text, "[Errors](errors.md): {}.\n\n", codes.join(", "));
    if let Some(example) = examples::of(row.id, base) {
        _ = write!(text, "A response, shortened:\n\n```json\n{example}\n```\n\n");
    }
}

/// Returns a curl command. Words in capitals are placeholders.
fn curl(row: &Operation, base: &str) -> String {
    let method = match (row.method, row.takes) {
        ("GET", _) | ("POST", Some(_)) => String::new(),
        ("HEAD", _) => " -I".to_owned(),
        (method, _) => format!(" -X {method}"),
    };
    let body = if row.takes.is_some() { " --json @body.json" } else { "" };
    let filled = |part: &str| match part.strip_prefix('{').and_then(|part| part.strip_suffix('}')) {
        Some(name) => capitals(name),
        None => part.to_owned(),
    };
    let path: Vec<_> = row.path.split('/').map(filled).collect();
    let must = row.query.iter().filter(|name| PARTS.parameters.get(**name).is_some_and(|reported| reported["required"] == true));
    let query: Vec<_> = must.map(|name| format!("{name}={}", capitals(name))).collect();
    let mut url = format!("{base}{}", path.join("/"));
    if !query.is_empty() {
        url = format!("'{url}?{}'", query.join("&"));
    }
    format!("curl{method} {url}{}{body}", credential(row.access))
}

/// Converts `payoutId` to `PAYOUT_ID`.
fn capitals(name: &str) -> String {
    let apart = |letter: char| letter.is_ascii_uppercase().then_some('_').into_iter().chain([letter.to_ascii_uppercase()]);
    name.chars().flat_map(apart).collect()
}

/// Returns the curl option for the credential.
fn credential(owner: Access) -> &'static str {
    match owner {
        Access::Everyone => "",
        Access::Builders | Access::Themselves | Access::Owner => " -H \"x-builder-key: $BUILDER_KEY\"",
        Access::Admins => " -H \"x-admin-token: $ADMIN_TOKEN\"",
        Access::Holder => " -H \"x-developer-credit: $CREDIT\"",
    }
}

fn linked(schema: &str) -> String {
    format!("[{schema}](#{})", schema.to_lowercase())
}

fn about(schema: &Value) -> String {
    schema["description"].as_str().map(|about| format!("{about}\n\n")).unwrap_or_default()
}

/// Writes the fields of an object, one per line.
fn members(text: &mut String, schema: &Value) {
    let Some(properties) = schema["properties"].as_object() else {
        _ = write!(text, "{}.\n\n", capital(&kind(schema)));
        return;
    };
    for (name, member) in properties {
        let must = schema["required"].as_array().is_some_and(|required| required.iter().any(|required| required == name));
        let message = member["description"].as_str().map(|message| format!(": {message}")).unwrap_or_default();
        _ = writeln!(text, "- `{name}`, {}{}{message}", kind(member), if must { "" } else { ", optional" });
    }
    *text += "\n";
}

/// Describes the type of a value in words.
fn kind(schema: &Value) -> String {
    if let Some(named) = schema["$ref"].as_str().and_then(|to| to.rsplit('/').next()) {
        return linked(named);
    }
    if let Some(options) = schema["enum"].as_array() {
        return options.iter().map(|option| format!("`{option}`")).collect::<Vec<_>>().join(" or ");
    }
    if let Some(constant) = schema.get("const") {
        return format!("`{constant}`");
    }
    for either in ["anyOf", "oneOf"] {
        if let Some(options) = schema[either].as_array() {
            return options.iter().map(kind).collect::<Vec<_>>().join(" or ");
        }
    }
    let one = |kind: &str| match kind {
        "array" => match &schema["items"] {
            Value::Null => "a list".to_owned(),
            items => format!("a list of {}", self::kind(items)),
        },
        "object" if schema["additionalProperties"].is_object() => {
            format!("an object with values of {}", self::kind(&schema["additionalProperties"]))
        }
        "object" if schema["properties"].is_object() => {
            let names: Vec<_> =
                schema["properties"].as_object().into_iter().flat_map(|names| names.keys()).map(|name| format!("`{name}`")).collect();
            format!("an object of {}", names.join(", "))
        }
        "object" | "integer" => format!("an {kind}"),
        "null" => "`null`".to_owned(),
        other => format!("a {other}"),
    };
    match &schema["type"] {
        Value::String(kind) => one(kind),
        Value::Array(kinds) => kinds.iter().filter_map(Value::as_str).map(one).collect::<Vec<_>>().join(" or "),
        _ => "any JSON".to_owned(),
    }
}

//! `requestTypes`: the media types of bodies, beside JSON, that a tool takes.

use serde_json::{Map, Value, json};

/// Maximum number of types of one tool.
pub const MAX_REQUEST_TYPES: usize = 16;

/// Maximum length of a type, in bytes (RFC 6838, section 4.2).
const MAX_BYTES: usize = 127;

/// The field of a JSON input that contains a body of another type, for callers who can only send JSON.
pub const BODY_FIELD: &str = "body";

/// The media type of a form with files.
pub const FORM: &str = "multipart/form-data";

/// Returns the media type of a `Content-Type`, in lower case and without parameters.
pub fn media_type(content_type: &str) -> String {
    content_type.split(';').next().unwrap_or_default().trim().to_ascii_lowercase()
}

/// Returns whether a media type in lower case is JSON, which every tool takes.
pub fn is_json_media(media: &str) -> bool {
    matches!(media, "application/json" | "text/json") || media.contains('/') && media.ends_with("+json")
}

/// Returns whether one of `types` covers a media type in lower case.
pub fn takes_type(types: &[String], media: &str) -> bool {
    let Some((kind, subtype)) = media.split_once('/') else { return false };
    is_name(kind)
        && is_name(subtype)
        && !is_json_media(media)
        && types.iter().any(|taken| taken == media || taken == "*/*" || taken.strip_suffix("/*").is_some_and(|taken| taken == kind))
}

/// Returns why `named` cannot be one of a tool's types, as the end of a sentence.
pub fn request_type_problem(named: &str) -> Option<String> {
    let parts = named.split_once('/').filter(|_| named.len() <= MAX_BYTES);
    let is_plain = |(kind, subtype): (&str, &str)| match (kind, subtype) {
        ("*", subtype) => subtype == "*",
        (kind, subtype) => is_name(kind) && (subtype == "*" || is_name(subtype)),
    };
    if !parts.is_some_and(is_plain) {
        let shape = "a request type must be a media type in lower case without parameters, for example `text/csv` or `image/*`";
        return Some(shape.to_owned());
    }
    is_json_media(named).then(|| format!("`{named}` is JSON, which every tool takes: describe it in `inputSchema`"))
}

/// Returns the types as part of a sentence, after JSON.
pub fn listed_types(types: &[String]) -> String {
    let named: Vec<_> =
        std::iter::once("application/json").chain(types.iter().map(String::as_str)).map(|name| format!("`{name}`")).collect();
    match named.split_last() {
        Some((last, rest)) if !rest.is_empty() => format!("{} or {last}", rest.join(", ")),
        _ => named.concat(),
    }
}

/// Returns the schema of [`BODY_FIELD`] for a tool that takes `types`.
fn body_schema(types: &[String]) -> Value {
    let has_form = takes_type(types, FORM);
    let mut media = json!({ "type": "string", "description": "The media type of the bytes." });
    let mut required = vec!["data", "mimeType"];
    if let Some(only) = only_type(types) {
        media["default"] = json!(only);
        required.pop();
    }
    let mut properties = json!({
        "data": { "type": "string", "contentEncoding": "base64", "description": "The bytes, as base64." },
        "mimeType": media,
    });
    let mut description = format!("A file, in place of the other fields: {}.", types.join(", "));
    if has_form {
        required.clear();
        description.push_str(" Give `form` for a form, and `data` for other types.");
        properties["form"] = json!({
            "type": "array",
            "description": "The fields of a form: `value` for a text, `data` for a file.",
            "items": {
                "type": "object",
                "properties": {
                    "name": { "type": "string" },
                    "value": { "type": "string" },
                    "data": { "type": "string", "contentEncoding": "base64", "description": "The bytes, as base64." },
                    "mimeType": { "type": "string" },
                    "filename": { "type": "string" },
                },
                "required": ["name"],
            },
        });
    }
    json!({ "type": "object", "description": description, "properties": properties, "required": required })
}

/// Returns the type of a body that names none: the only one that the tool takes.
pub fn only_type(types: &[String]) -> Option<&str> {
    match types {
        [only] if !only.ends_with("/*") && only != FORM => Some(only),
        _ => None,
    }
}

/// Adds [`BODY_FIELD`] to the schema of an object, for callers who can only send JSON. Models and their clients reject a
/// choice at the root of a schema, so no field stays required.
pub fn add_body_field(schema: &mut Map<String, Value>, types: &[String]) {
    if types.is_empty() {
        return;
    }
    schema.shift_remove("required");
    let properties = schema.entry("properties").or_insert_with(|| json!({}));
    if let Some(properties) = properties.as_object_mut() {
        properties.insert(BODY_FIELD.to_owned(), body_schema(types));
    }
}

/// Returns whether a part of a media type is a restricted name in lower case (RFC 6838, section 4.2).
fn is_name(text: &str) -> bool {
    let mut bytes = text.bytes();
    bytes.next().is_some_and(|first| first.is_ascii_lowercase() || first.is_ascii_digit())
        && bytes.all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || b"!#$&-^_.+".contains(&byte))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn types(names: &[&str]) -> Vec<String> {
        names.iter().map(|&name| name.to_owned()).collect()
    }

    #[test]
    fn a_type_covers_itself_and_a_wildcard_its_kind() {
        let taken = types(&["text/csv", "image/*"]);
        for (media, is_taken) in [
            ("text/csv", true),
            ("image/png", true),
            ("image/svg+xml", true),
            ("text/plain", false),
            ("imagery/png", false),
            ("image/", false),
            ("image/a/b", false),
            ("image", false),
            ("", false),
            ("image/x+json", false),
        ] {
            assert_eq!(takes_type(&taken, media), is_taken, "{media}");
        }
        assert!(takes_type(&types(&["*/*"]), "application/x-any") && !takes_type(&types(&["*/*"]), "application/json"));
    }

    #[test]
    fn types_that_no_request_can_have_are_refused() {
        for named in ["multipart/form-data", "application/octet-stream", "image/*", "*/*", "application/vnd.ms-excel"] {
            assert_eq!(request_type_problem(named), None, "{named}");
        }
        let long = format!("text/{}", "a".repeat(123));
        for named in
            ["", "text", "Text/csv", "text/csv; charset=utf-8", "*/csv", "text/", "/csv", "text/c*", "a/b/c", "t\u{e4}xt/csv", &long]
        {
            assert!(request_type_problem(named).is_some_and(|why| why.contains("media type in lower case")), "{named}");
        }
        for named in ["application/json", "text/json", "application/ld+json"] {
            assert!(request_type_problem(named).is_some_and(|why| why.contains("is JSON")), "{named}");
        }
    }

    #[test]
    fn media_types_are_compared_without_parameters() {
        assert_eq!(media_type(" Multipart/Form-Data ; boundary=x"), "multipart/form-data");
        assert_eq!(listed_types(&types(&["text/csv", "image/*"])), "`application/json`, `text/csv` or `image/*`");
        assert_eq!(listed_types(&[]), "`application/json`");
    }

    #[test]
    fn the_listed_schema_has_the_body_beside_the_fields() {
        let mut schema =
            json!({ "type": "object", "properties": { "a": { "type": "string" } }, "required": ["a"] }).as_object().cloned().unwrap();
        add_body_field(&mut schema, &types(&["text/csv"]));
        assert_eq!(schema.get("required"), None);
        assert_eq!(schema["properties"]["a"]["type"], "string");
        let body = &schema["properties"]["body"];
        assert_eq!((&body["required"], &body["properties"]["mimeType"]["default"]), (&json!(["data"]), &json!("text/csv")));
        assert_eq!(body["properties"]["data"]["contentEncoding"], "base64");
        let mut several = Map::new();
        add_body_field(&mut several, &types(&["image/*", "multipart/form-data"]));
        assert!(several["properties"]["body"]["properties"]["form"].is_object() && several["properties"]["body"]["required"] == json!([]));
        let mut wild = Map::new();
        add_body_field(&mut wild, &types(&["image/*"]));
        assert_eq!(wild["properties"]["body"]["required"], json!(["data", "mimeType"]));
        let mut none = Map::new();
        add_body_field(&mut none, &[]);
        assert!(none.is_empty());
    }
}

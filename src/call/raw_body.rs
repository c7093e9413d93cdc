//! Bodies of calls that are not JSON: their identity, and those that callers send as base64 within JSON.

use std::sync::Arc;

use base64::{Engine as _, engine::general_purpose::STANDARD_PAD_INDIFFERENT};
use serde::Deserialize;
use serde_json::{Value, json};
use tollhouse_capability::CallBody;
use tollhouse_money::receipt::{bytes_hash, canonical};
use tollhouse_tool::{BODY_FIELD, FORM, Mismatch, listed_types, media_type, only_type, takes_type};

/// Maximum length of a content type that is named in JSON, in bytes.
const MAX_TYPE_BYTES: usize = 1 << 10;

/// A body that is not JSON.
#[derive(Debug, Clone)]
pub struct RawBody {
    /// The `Content-Type`, with its parameters.
    pub content_type: String,
    /// Its size in bytes.
    pub bytes: u64,
    /// Hash of the bytes: `sha256:` and 64 hex digits.
    pub hash: String,
    /// The bytes. `None` if only their identity is of interest, for example because they are too many for the tool.
    pub content: Option<Arc<CallBody>>,
}

impl RawBody {
    fn in_memory(content_type: String, content: Vec<u8>) -> Self {
        let (bytes, hash) = (content.len() as u64, bytes_hash(&content));
        Self { content_type, bytes, hash, content: Some(Arc::new(CallBody::in_memory(content.into()))) }
    }

    /// Returns the identity that a payment is bound to. No JSON text begins like it.
    pub(super) fn fingerprint(&self) -> String {
        format!("body {}\n{}", self.hash, self.content_type)
    }

    /// Returns the input of the request as receipts hash it: `{"contentType": …, "sha256": …}` in canonical form.
    pub(super) fn canonical(&self) -> Vec<u8> {
        canonical(&json!({ "contentType": self.content_type, "sha256": self.hash }))
    }

    /// Returns the body that a JSON input contains in its field `body`, for a tool that takes `types`. `None` if the
    /// JSON itself is the input.
    ///
    /// # Errors
    ///
    /// The body is not one that the tool takes.
    pub(super) fn from_field(input: &Value, types: &[String]) -> Result<Option<Self>, Mismatch> {
        if types.is_empty() {
            return Ok(None);
        }
        let Some(given) = input.get(BODY_FIELD).filter(|given| given.is_object()) else { return Ok(None) };
        if let Some(other) = input.as_object().and_then(|fields| fields.keys().find(|name| *name != BODY_FIELD)) {
            return Err(Mismatch::at(
                format!("/{BODY_FIELD}"),
                format!("the input has `{BODY_FIELD}` and `{other}`: a file must be the whole input"),
            ));
        }
        let refuse = |field: &str, message: String| Mismatch::at(format!("/{BODY_FIELD}{field}"), message);
        let given: GivenBody =
            GivenBody::deserialize(given).map_err(|error| refuse("", format!("`{BODY_FIELD}` is not a file: {error}")))?;
        match given {
            GivenBody { data: Some(data), form: None, mime_type } => {
                let (named, data) = parse_data(&data).map_err(|message| refuse("/data", message))?;
                let content_type = mime_type.or(named).or_else(|| only_type(types).map(str::to_owned));
                let content_type =
                    content_type.ok_or_else(|| refuse("/mimeType", format!("name the type of the file: {}", types.join(", "))))?;
                let media = media_type(&content_type);
                if !takes_type(types, &media) || content_type.contains(char::is_control) {
                    return Err(refuse("/mimeType", format!("the tool does not take `{media}`, only {}", listed_types(types))));
                }
                // The handler gets it as a header.
                if content_type.len() > MAX_TYPE_BYTES || !content_type.bytes().all(|byte| matches!(byte, b' '..=b'~')) {
                    return Err(refuse("/mimeType", format!("a type has at most {MAX_TYPE_BYTES} bytes, all printable ASCII")));
                }
                Ok(Some(Self::in_memory(content_type, data)))
            }
            GivenBody { data: None, form: Some(fields), mime_type: None } if takes_type(types, FORM) => {
                let (content_type, content) = encode_form(&fields).map_err(|(at, message)| refuse(&format!("/form/{at}"), message))?;
                Ok(Some(Self::in_memory(content_type, content)))
            }
            GivenBody { form: None, .. } => Err(refuse("/data", "`data` is missing: the bytes, as base64".to_owned())),
            GivenBody { .. } if takes_type(types, FORM) => {
                Err(refuse("/form", "`form` stands alone, without `data` and `mimeType`".to_owned()))
            }
            GivenBody { .. } => Err(refuse("/form", format!("the tool does not take `{FORM}`, only {}", listed_types(types)))),
        }
    }
}

/// A body within JSON, named as in the content of MCP.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct GivenBody {
    data: Option<String>,
    mime_type: Option<String>,
    form: Option<Vec<FormField>>,
}

/// A field of a form: a text, or a file.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct FormField {
    name: String,
    value: Option<String>,
    data: Option<String>,
    mime_type: Option<String>,
    filename: Option<String>,
}

/// Decodes base64, or a `data:` URL with base64, which also names a type (RFC 2397).
fn parse_data(data: &str) -> Result<(Option<String>, Vec<u8>), String> {
    let (named, base64) = match data.strip_prefix("data:").and_then(|url| url.split_once(";base64,")) {
        Some((named, base64)) => (Some(named.to_owned()).filter(|named| !named.is_empty()), base64),
        None => (None, data),
    };
    let decoded = STANDARD_PAD_INDIFFERENT.decode(base64).map_err(|error| format!("`data` is not base64: {error}"))?;
    Ok((named, decoded))
}

/// Encodes a form as `multipart/form-data` (RFC 7578). Returns its content type too. The same fields have the same bytes.
fn encode_form(fields: &[FormField]) -> Result<(String, Vec<u8>), (usize, String)> {
    let mut parts = Vec::with_capacity(fields.len());
    for (at, field) in fields.iter().enumerate() {
        let name = escaped(&field.name);
        let part = match field {
            FormField { value: Some(value), data: None, mime_type: None, filename: None, .. } => {
                (format!("Content-Disposition: form-data; name=\"{name}\"\r\n\r\n"), value.clone().into_bytes())
            }
            FormField { value: None, data: Some(data), mime_type, filename, .. } => {
                let (named, data) = parse_data(data).map_err(|message| (at, message))?;
                let media = mime_type.clone().or(named).unwrap_or_else(|| "application/octet-stream".to_owned());
                if media.contains(char::is_control) || !media.contains('/') {
                    return Err((at, "`mimeType` is not a media type".to_owned()));
                }
                let filename = escaped(filename.as_deref().unwrap_or("file"));
                let head =
                    format!("Content-Disposition: form-data; name=\"{name}\"; filename=\"{filename}\"\r\nContent-Type: {media}\r\n\r\n");
                (head, data)
            }
            FormField { .. } => {
                return Err((at, "a field of a form has either `value`, or `data` with `mimeType` and `filename`".to_owned()));
            }
        };
        parts.push(part);
    }
    // No part can contain the hash of all parts.
    let all: Vec<u8> = parts.iter().flat_map(|(head, content)| [head.as_bytes(), content.as_slice()]).flatten().copied().collect();
    let boundary = bytes_hash(&all).replace("sha256:", "tollhouse-");
    let mut form = Vec::with_capacity(all.len() + (parts.len() + 1) * (boundary.len() + 8));
    for (head, content) in &parts {
        form.extend_from_slice(format!("--{boundary}\r\n{head}").as_bytes());
        form.extend_from_slice(content);
        form.extend_from_slice(b"\r\n");
    }
    form.extend_from_slice(format!("--{boundary}--\r\n").as_bytes());
    Ok((format!("multipart/form-data; boundary={boundary}"), form))
}

/// Escapes the name of a field or a file, as browsers do (HTML, section 4.10.21.8).
fn escaped(name: &str) -> String {
    name.replace('"', "%22").replace('\r', "%0D").replace('\n', "%0A")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn types(names: &[&str]) -> Vec<String> {
        names.iter().map(|&name| name.to_owned()).collect()
    }

    fn read(input: Value, taken: &[&str]) -> Result<Option<RawBody>, (String, String)> {
        RawBody::from_field(&input, &types(taken)).map_err(|mismatch| {
            let problem = mismatch.problems.into_iter().next().unwrap();
            (problem.pointer, problem.message)
        })
    }

    #[test]
    fn a_file_in_json_has_the_type_that_it_names_or_the_only_one() {
        let csv = json!({ "body": { "data": "YSxi" } });
        let body = read(csv.clone(), &["text/csv"]).unwrap().unwrap();
        assert_eq!((&*body.content_type, body.bytes, &*body.hash), ("text/csv", 3, &*bytes_hash(b"a,b")));
        let png = read(json!({ "body": { "data": "data:image/png;base64,YQ==" } }), &["image/*"]).unwrap().unwrap();
        assert_eq!((&*png.content_type, png.bytes), ("image/png", 1));
        let named = json!({ "body": { "data": "YQ", "mimeType": "text/csv; charset=latin1" } });
        assert_eq!(read(named, &["text/csv", "image/*"]).unwrap().unwrap().content_type, "text/csv; charset=latin1");
        assert_eq!(read(csv.clone(), &["text/csv", "image/*"]).unwrap_err().0, "/body/mimeType");
        assert!(read(csv, &[]).unwrap().is_none(), "a tool without types has its own field `body`");
    }

    #[test]
    fn an_input_without_a_file_is_the_input() {
        for input in [json!({}), json!({ "a": 1 }), json!({ "body": "text" }), json!([{ "body": {} }]), json!(null)] {
            assert!(read(input, &["text/csv"]).unwrap().is_none());
        }
    }

    #[test]
    fn files_that_the_tool_does_not_take_are_refused_with_their_place() {
        for (input, pointer, word) in [
            (json!({ "body": { "data": "YQ==", "mimeType": "text/plain" } }), "/body/mimeType", "only `application/json` or `text/csv`"),
            (json!({ "body": { "data": "YQ==", "mimeType": "text/csv\r\nx: y" } }), "/body/mimeType", "does not take"),
            (json!({ "body": { "data": "?" } }), "/body/data", "not base64"),
            (json!({ "body": {} }), "/body/data", "missing"),
            (json!({ "body": { "data": "YQ==" }, "a": 1 }), "/body", "whole input"),
            (json!({ "body": { "form": [] } }), "/body/form", "does not take `multipart/form-data`"),
            (json!({ "body": { "file": "YQ==" } }), "/body", "unknown field"),
        ] {
            let (found, message) = read(input.clone(), &["text/csv"]).unwrap_err();
            assert!(found == pointer && message.contains(word), "{input}: {found} {message}");
        }
        let long = format!("text/csv; x={}", "a".repeat(MAX_TYPE_BYTES));
        for type_of_no_header in ["text/csv; x=\u{e4}", "text/csv; x=\u{2028}", &long] {
            let input = json!({ "body": { "data": "YQ==", "mimeType": type_of_no_header } });
            let (found, message) = read(input, &["text/csv"]).unwrap_err();
            assert!(found == "/body/mimeType" && message.contains("printable ASCII"), "{type_of_no_header}: {found} {message}");
        }
    }

    #[test]
    fn a_form_is_encoded_and_names_cannot_break_out() {
        let form = json!({ "body": { "form": [
            { "name": "na\"me\r\n", "value": "x" },
            { "name": "f", "data": "AP8=", "mimeType": "image/png", "filename": "a.png" },
        ] } });
        let body = read(form.clone(), &["multipart/form-data"]).unwrap().unwrap();
        let boundary = body.content_type.strip_prefix("multipart/form-data; boundary=").unwrap();
        let mut expected = format!("--{boundary}\r\nContent-Disposition: form-data; name=\"na%22me%0D%0A\"\r\n\r\nx\r\n").into_bytes();
        let head = "Content-Disposition: form-data; name=\"f\"; filename=\"a.png\"\r\nContent-Type: image/png\r\n\r\n";
        expected.extend_from_slice(format!("--{boundary}\r\n{head}").as_bytes());
        expected.extend_from_slice(b"\0\xff\r\n");
        expected.extend_from_slice(format!("--{boundary}--\r\n").as_bytes());
        assert_eq!((body.hash.clone(), body.bytes), (bytes_hash(&expected), expected.len() as u64));
        assert_eq!(read(form, &["multipart/form-data"]).unwrap().unwrap().hash, body.hash, "the same fields have the same bytes");
        for (field, pointer) in [
            (json!({ "name": "a" }), "/body/form/0"),
            (json!({ "name": "a", "value": "b", "data": "YQ==" }), "/body/form/0"),
            (json!({ "name": "a", "data": "YQ==", "mimeType": "a\r\nb/c" }), "/body/form/0"),
        ] {
            assert_eq!(read(json!({ "body": { "form": [field] } }), &["multipart/form-data"]).unwrap_err().0, pointer);
        }
    }

    #[test]
    fn bodies_that_differ_in_bytes_or_type_have_identities_of_their_own() {
        let body = |content_type: &str, content: &[u8]| RawBody::in_memory(content_type.to_owned(), content.to_vec());
        let prints = [body("text/csv", b"a"), body("text/csv", b"b"), body("text/csv; header=absent", b"a")].map(|body| body.fingerprint());
        assert!(prints[0] != prints[1] && prints[0] != prints[2] && prints[1] != prints[2]);
        assert_eq!(
            str::from_utf8(&body("text/csv", b"a").canonical()).unwrap(),
            format!(r#"{{"contentType":"text/csv","sha256":"{}"}}"#, bytes_hash(b"a"))
        );
    }
}

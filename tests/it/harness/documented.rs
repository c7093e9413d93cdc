//! Compares all answers with the API document. Each answer of an operation in `/docs/openapi.json`
//! must have a documented status, and a body that matches the documented schema without
//! undocumented fields. Each accepted request must match its documented schema.

use std::{
    collections::{BTreeSet, HashMap},
    sync::{LazyLock, Mutex, PoisonError},
};

use bytes::Bytes;
use jsonschema::Validator;
use reqwest::{Method, Request};
use serde_json::{Value, json};
use tollhouse::http::{described, rows};

use super::{Answer, earlier, examples};

static DOCUMENT: LazyLock<Value> = LazyLock::new(|| {
    let mut document = described();
    let schemas = document["components"]["schemas"].as_object_mut().unwrap();
    schemas.values_mut().for_each(close);
    document
});

/// The compiled validators, by JSON pointer into the document.
static VALIDATORS: LazyLock<Mutex<HashMap<String, &'static Validator>>> = LazyLock::new(Mutex::default);

/// Makes a schema refuse undocumented fields, unless it explicitly accepts them.
fn close(schema: &mut Value) {
    match schema {
        Value::Object(members) => {
            if members.get("properties").is_some_and(Value::is_object) && !members.contains_key("$ref") {
                members.entry("additionalProperties").or_insert(json!(false));
            }
            members
                .iter_mut()
                .filter(|(name, _)| !matches!(name.as_str(), "enum" | "const" | "examples"))
                .for_each(|(_, value)| close(value));
        }
        Value::Array(items) => items.iter_mut().for_each(close),
        _ => {}
    }
}

/// Maximum size of a body to check, in bytes. Longer ones would slow down tests that measure time.
const MAX_LEN: usize = 128 << 10;

/// A requested operation.
pub(super) struct AskedOperation {
    method: Method,
    /// The origin of the host.
    base: String,
    path: String,
    body: Bytes,
}

impl AskedOperation {
    pub(super) fn of(request: &Request) -> Self {
        let body = request.body().and_then(|body| body.as_bytes()).filter(|body| body.len() <= MAX_LEN);
        let body = Bytes::copy_from_slice(body.unwrap_or_default());
        let base = request.url().origin().ascii_serialization();
        Self { method: request.method().clone(), base, path: request.url().path().to_owned(), body }
    }

    /// Panics if the document does not describe the answer. Skipped if an earlier version of the
    /// host answered.
    pub(super) fn check(&self, answer: &Answer) {
        if earlier::host().is_some() {
            return;
        }
        if let Some(wrong) = self.wrong(answer) {
            panic!("{} {}: {wrong}\n{answer:?}", self.method, self.path);
        }
        self.show(answer);
    }

    /// Offers the answer as an example for its operation.
    fn show(&self, answer: &Answer) -> Option<()> {
        let (path, item) = operation(&self.path)?;
        let method = self.method.as_str().to_lowercase();
        let id = item.get(&method)?["operationId"].as_str().filter(|id| SHOWN.contains(id))?;
        let is_json = answer.header("content-type") == Some("application/json") && answer.header("content-encoding").is_none();
        if answer.status == 200 && is_json && answer.body.len() <= MAX_LEN && misfit(&schema(path, &method), &answer.json()).is_none() {
            examples::record(id, &self.base, &answer.json());
        }
        Some(())
    }

    fn wrong(&self, answer: &Answer) -> Option<String> {
        let (path, item) = operation(&self.path)?;
        let method = self.method.as_str().to_lowercase();
        let operation = item.get(&method)?;
        let id = operation["operationId"].as_str().unwrap();
        let at = format!("/paths/{}/{method}", escaped(path));
        let status = answer.status.to_string();
        // The answer of a tool can have any status. The host's own answers lack this policy.
        let of_tool = answer.header("content-security-policy").is_some_and(|policy| policy.starts_with("sandbox"));
        let listed = if of_tool && operation["responses"]["default"].is_object() { "default" } else { &status };
        let Some(response) = operation["responses"].get(listed) else {
            return Some(format!("`{id}` is not told to answer {status}"));
        };
        let at_response = match response["$ref"].as_str() {
            Some(to) => to.trim_start_matches('#').to_owned(),
            None => format!("{at}/responses/{listed}"),
        };
        let content = DOCUMENT.pointer(&at_response).unwrap()["content"].as_object();
        let media = answer.header("content-type").unwrap_or_default();
        if let Some(content) = content
            && self.method != Method::HEAD
            && !answer.body.is_empty()
            && answer.header("content-encoding").is_none()
            && !of_tool
        {
            let reported = content.keys().find(|reported| media.split(';').next() == reported.split(';').next());
            let Some(reported) = reported else { return Some(format!("`{id}` is not told to answer {status} as `{media}`")) };
            if reported == "application/json"
                && answer.body.len() <= MAX_LEN
                && let Some(wrong) = misfit(&format!("{at_response}/content/application~1json/schema"), &answer.json())
            {
                return Some(format!("the {status} answer of `{id}` differs from its description: {wrong}"));
            }
        }
        let taken = answer.status == 200 && operation["requestBody"].is_object();
        let body = serde_json::from_slice(&self.body).ok().filter(|_| taken)?;
        let wrong = misfit(&format!("{at}/requestBody/content/application~1json/schema"), &body)?;
        Some(format!("`{id}` took what it is not told to take: {wrong}"))
    }
}

/// Returns the document's path for a requested path, with its operations. A literal path takes
/// precedence over one with parameters.
fn operation(request: &str) -> Option<(&'static str, &'static Value)> {
    let paths = DOCUMENT["paths"].as_object().unwrap();
    let fits = |path: &str| {
        let (reported, request) = (path.split('/').collect::<Vec<_>>(), request.split('/').collect::<Vec<_>>());
        reported.len() == request.len()
            && reported
                .iter()
                .zip(request)
                .all(|(reported, request)| reported.starts_with('{') && !request.is_empty() || *reported == request)
    };
    let fitting = paths.iter().filter(|(path, _)| fits(path));
    fitting.min_by_key(|(path, _)| path.matches('{').count()).map(|(path, item)| (path.as_str(), item))
}

/// Returns the example of an operation's answer, with `words` as every text and as an additional key wherever its schema
/// permits them.
pub fn hostile_answer(method: &Method, path: &str, words: &str) -> Value {
    let method = method.as_str().to_lowercase();
    let (path, item) = operation(path).unwrap_or_else(|| panic!("{path} is not documented"));
    let id = item[&method]["operationId"].as_str().unwrap_or_else(|| panic!("{method} {path} is not documented"));
    let mut answer = examples::all().remove(id).unwrap_or_else(|| panic!("`{id}` has no example"));
    let at = schema(path, &method);
    let mut pointers = vec![String::new()];
    while let Some(pointer) = pointers.pop() {
        let mut changed = answer.clone();
        match changed.pointer_mut(&pointer).unwrap() {
            Value::Array(entries) => pointers.extend((0..entries.len()).map(|entry| format!("{pointer}/{entry}"))),
            Value::Object(members) => {
                let value = members.values().next().cloned().unwrap_or(json!(words));
                pointers.extend(members.keys().map(|name| format!("{pointer}/{}", escaped(name))));
                members.insert(words.to_owned(), value);
            }
            text @ (Value::String(_) | Value::Null) => *text = json!(words),
            Value::Bool(_) | Value::Number(_) => {}
        }
        if misfit(&at, &changed).is_none() {
            answer = changed;
        }
    }
    answer
}

/// Returns the pointer to the schema of an operation's successful answer.
fn schema(path: &str, method: &str) -> String {
    format!("/paths/{}/{method}/responses/200/content/application~1json/schema", escaped(path))
}

/// Escapes a part of a JSON pointer.
fn escaped(part: &str) -> String {
    part.replace('~', "~0").replace('/', "~1")
}

/// Returns where and how a value does not match the schema at `at`.
fn misfit(at: &str, value: &Value) -> Option<String> {
    let validator = {
        let mut known = VALIDATORS.lock().unwrap_or_else(PoisonError::into_inner);
        *known.entry(at.to_owned()).or_insert_with(|| Box::leak(Box::new(validator(at))))
    };
    let wrong: Vec<_> = validator.iter_errors(value).map(|error| format!("{} at `{}`", error, error.instance_path())).take(5).collect();
    (!wrong.is_empty()).then(|| wrong.join("; "))
}

/// Compiles the schema at `at`. It needs the whole document for its references.
fn validator(at: &str) -> Validator {
    let mut schema = DOCUMENT.clone();
    // Braces are not permitted in the fragment of a URI.
    schema["$ref"] = json!(format!("#{}", at.replace('{', "%7B").replace('}', "%7D")));
    jsonschema::options().should_validate_formats(true).build(&schema).unwrap_or_else(|error| panic!("{at}: {error}"))
}

/// The operations whose answers are shown in documents: those that return no document themselves.
static SHOWN: LazyLock<BTreeSet<&str>> = LazyLock::new(|| {
    let told = rows().into_iter().filter(|row| row.schema().is_some_and(|schema| schema != "OpenApiDocument"));
    told.map(|row| row.id).collect()
});

#[test]
fn every_answer_in_json_has_an_example_that_is_one() {
    let mut examples = examples::all();
    for row in rows().iter().filter(|row| SHOWN.contains(row.id)) {
        let example = examples.remove(row.id).unwrap_or_else(|| panic!("no example of what `{}` answers", row.id));
        assert_eq!(misfit(&schema(row.path, &row.method.to_lowercase()), &example), None, "{}: {example}", row.id);
        let text = serde_json::to_string_pretty(&example).unwrap();
        assert!(text.len() < 8_000 && !text.contains("127.0.0.1"), "{}: {} bytes", row.id, text.len());
    }
    assert!(examples.is_empty(), "examples of no operation: {:?}", examples.keys());
}

#[test]
fn undocumented_operations_are_found() {
    assert_eq!(operation("/ai/endpoints/create").unwrap().0, "/ai/endpoints/create");
    assert_eq!(operation("/ai/endpoints/shout").unwrap().0, "/ai/endpoints/{slug}");
    assert!(operation("/ai/endpoints/shout/none").is_none() && operation("/tools/").is_none());
    let at = "/paths/~1health~1live/get/responses/200/content/application~1json/schema";
    assert_eq!(misfit(at, &json!({ "ok": true })), None);
    for wrong in [json!({}), json!({ "ok": true, "more": 1 }), json!({ "ok": "yes" }), json!([])] {
        assert!(misfit(at, &wrong).is_some(), "{wrong}");
    }
}

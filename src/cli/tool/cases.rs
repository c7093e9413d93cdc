//! `cases.jsonc`: the test cases of a tool, and the check of a response against a case. `fixtures/README.md` describes the members.

use std::{path::Path, sync::Arc, time::Duration};

use serde_json::{Map, Value, json};
use tollhouse_capability::guard::{RecordedAnswer, RecordedAnswers};

use super::{
    folder,
    position::{FilePosition, Problem, position},
    recorded,
};
use crate::base::sanitize::{first, json as on_one_line};

/// Name of the file with cases.
pub(crate) const FILE: &str = "cases.jsonc";

/// Members that a case may have.
const MEMBERS: [&str; 12] =
    ["name", "input", "inputText", "output", "outputMatches", "status", "error", "http", "notHeaders", "publishError", "says", "within_ms"];

/// Most characters of a value in a message.
const MAX_LEN: usize = 60;

/// A test case.
#[derive(Debug, Clone)]
pub(crate) struct Case {
    pub(crate) name: String,
    label: Map<String, Value>,
    /// Recorded responses from the member `http`.
    recorded: Option<Vec<RecordedAnswer>>,
}

/// The response to a case.
#[derive(Debug)]
pub(crate) struct Reply {
    pub(crate) status: u16,
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) body: Value,
    pub(crate) elapsed: Duration,
}

/// Reads the cases of a folder. A missing file has no cases.
///
/// # Errors
///
/// The file cannot be parsed. The problem has its place.
pub(crate) fn read(folder: &Path) -> Result<Vec<Case>, Problem> {
    let wrong = |location: FilePosition, message: String| Problem::new("cases", location, message);
    let text = folder::read(&folder.join(FILE)).map_err(|reason| wrong(FilePosition::file(FILE), reason))?.unwrap_or_default();
    if text.is_empty() {
        return Ok(vec![]);
    }
    // Comments have lines to themselves. They are blanked, so that line numbers stay the same.
    let plain: String = text.split_inclusive('\n').map(|line| if line.trim_start().starts_with("//") { "\n" } else { line }).collect();
    let cases: Value = serde_json::from_str(&plain).map_err(|error| {
        let started: usize = plain.split_inclusive('\n').take(error.line().saturating_sub(1)).map(str::len).sum();
        let (line, column) = position(&plain, started + error.column().saturating_sub(1));
        wrong(FilePosition::at(FILE, line, column), error.to_string())
    })?;
    let Value::Array(cases) = cases else { return Err(wrong(FilePosition::at(FILE, 1, 1), "it is no list of cases".to_owned())) };
    let mut known: Vec<Case> = vec![];
    for (index, case) in cases.into_iter().enumerate() {
        let at = || FilePosition::of_byte(FILE, &plain, super::position::find(&plain, &format!("/{index}")).0);
        let case = Case::of(case).map_err(|reason| wrong(at(), reason))?;
        if known.iter().any(|other| other.name == case.name) {
            return Err(wrong(at(), format!("there are two cases \"{}\"", case.name)));
        }
        known.push(case);
    }
    Ok(known)
}

impl Case {
    fn of(message: Value) -> Result<Self, String> {
        let Value::Object(message) = message else { return Err("a case is an object".to_owned()) };
        let Some(name) = message.get("name").and_then(Value::as_str).map(str::to_owned) else {
            return Err("a case has a `name`: what it claims".to_owned());
        };
        if let Some(odd) = message.keys().find(|member| !MEMBERS.contains(&member.as_str())) {
            return Err(format!("a case has no `{odd}`; it has {}", MEMBERS.join(", ")));
        }
        let ends = ["output", "outputMatches", "error", "publishError"].into_iter().filter(|end| message.contains_key(*end)).count();
        if ends != 1 {
            return Err("a case has one of `output`, `outputMatches`, `error` and `publishError`".to_owned());
        }
        let recorded = message.get("http").map(recorded::answers).transpose()?;
        Ok(Self { name, label: message, recorded })
    }

    /// Returns the recorded responses that the handler gets in place of real ones, or `None` if the real servers respond.
    pub(crate) fn recorded(&self) -> Option<Arc<RecordedAnswers>> {
        self.recorded.as_ref().map(|answers| Arc::new(RecordedAnswers::new(answers.clone())))
    }

    /// Returns whether the case only tests publishing.
    pub(crate) fn is_of_publishing(&self) -> bool {
        self.label.contains_key("publishError")
    }

    /// Returns the body of the case's call.
    pub(crate) fn input(&self) -> String {
        match self.label.get("inputText").and_then(Value::as_str) {
            Some(text) => text.to_owned(),
            None => self.label.get("input").cloned().unwrap_or_else(|| json!({})).to_string(),
        }
    }

    /// Returns how a response differs from the case, if it does.
    pub(crate) fn wrong(&self, reply: &Reply) -> Option<String> {
        let member = |name: &str| self.label.get(name);
        let of_error = member("error").or(member("publishError"));
        let found = match of_error {
            Some(requested) => wrong_error(requested, reply),
            None => self.wrong_result(reply),
        };
        let late = || {
            let bound = Duration::from_millis(member("within_ms")?.as_u64()?);
            // As in `fixtures/README.md`: machines may be slower than the one that the limit was measured on.
            (reply.elapsed > bound * 3).then(|| format!("took {} ms, {} are allowed", reply.elapsed.as_millis(), (bound * 3).as_millis()))
        };
        let carried = || {
            let unwanted = member("notHeaders")?.as_object()?;
            let held = unwanted.iter().find(|(name, value)| {
                reply.headers.iter().any(|(header, held)| header.eq_ignore_ascii_case(name) && value.as_str() == Some(held))
            })?;
            Some(format!("carries the header {}: {}", held.0, held.1))
        };
        found.or_else(carried).or_else(late)
    }

    fn wrong_result(&self, reply: &Reply) -> Option<String> {
        let error = &reply.body["error"];
        let requested = self.label.get("status").cloned().unwrap_or_else(|| json!(200));
        if !one_of(&requested, &json!(reply.status)) {
            let reported = error["message"]
                .as_str()
                .map(|message| format!(": {} ({})", first(message, 200), error["code"].as_str().unwrap_or_default()));
            return Some(format!("expected {requested}, got {}{}", reply.status, reported.unwrap_or_default()));
        }
        if let Some(schema) = self.label.get("outputMatches") {
            return misfit(schema, &reply.body);
        }
        difference("", self.label.get("output").unwrap_or(&Value::Null), &reply.body)
    }
}

fn wrong_error(requested: &Value, reply: &Reply) -> Option<String> {
    let error = &reply.body["error"];
    if !error.is_object() {
        return Some(format!("expected the error {}, got {} {}", shown(&requested["code"]), reply.status, shown(&reply.body)));
    }
    for name in ["code", "fault"] {
        if !requested[name].is_null() && !one_of(&requested[name], &error[name]) {
            let message = error["message"].as_str().unwrap_or_default();
            return Some(format!("expected {name} {}, got {}: {}", shown(&requested[name]), shown(&error[name]), first(message, 200)));
        }
    }
    let (text, message) = (requested["says"].as_str()?, error["message"].as_str().unwrap_or_default());
    (!message.contains(text)).then(|| format!("expected a message with {text:?}, got {}", first(message, 200)))
}

fn one_of(requested: &Value, found: &Value) -> bool {
    requested.as_array().map_or(requested == found, |several| several.contains(found))
}

fn misfit(schema: &Value, value: &Value) -> Option<String> {
    let validator = match jsonschema::validator_for(schema) {
        Ok(validator) => validator,
        Err(error) => return Some(format!("`outputMatches` is no schema: {error}")),
    };
    let error = validator.iter_errors(value).next()?;
    let at = error.instance_path().to_string();
    Some(format!("{} {}", if at.is_empty() { "the result:" } else { &at }, first(&error.to_string(), 200)))
}

/// Describes the first place where two values differ.
fn difference(at: &str, requested: &Value, found: &Value) -> Option<String> {
    if requested == found {
        return None;
    }
    let describe = |at: &str, requested: Option<&Value>, found: Option<&Value>| {
        let shown = |value: Option<&Value>| value.map_or("nothing".to_owned(), shown);
        Some(format!("{} expected {}, got {}", if at.is_empty() { "the result:" } else { at }, shown(requested), shown(found)))
    };
    match (requested, found) {
        (Value::Object(requested), Value::Object(found)) => {
            let names = requested.keys().chain(found.keys().filter(|name| !requested.contains_key(*name)));
            names.filter(|name| requested.get(*name) != found.get(*name)).find_map(|name| {
                let at = format!("{at}/{name}");
                match (requested.get(name), found.get(name)) {
                    (Some(requested), Some(found)) => difference(&at, requested, found),
                    (requested, found) => describe(&at, requested, found),
                }
            })
        }
        (Value::Array(requested), Value::Array(found)) => (0..requested.len().max(found.len())).find_map(|index| {
            let at = format!("{at}/{index}");
            match (requested.get(index), found.get(index)) {
                (Some(requested), Some(found)) => difference(&at, requested, found),
                (requested, found) => describe(&at, requested, found),
            }
        }),
        _ => describe(at, Some(requested), Some(found)),
    }
}

fn shown(value: &Value) -> String {
    first(&on_one_line(value), MAX_LEN)
}

#[cfg(test)]
mod tests;

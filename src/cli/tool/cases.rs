//! `cases.jsonc`: the test cases of a tool, and the check of a response against a case. `fixtures/README.md` describes the members.

use std::{collections::BTreeMap, path::Path, sync::Arc, time::Duration};

use serde_json::{Map, Value, json, value::RawValue};
use tollhouse_base::exact;
use tollhouse_capability::guard::{RecordedAnswer, RecordedAnswers};

use super::{FilePosition, Problem, folder, position::position, recorded};
use crate::base::{first, json as on_one_line};

/// Name of the file with cases.
pub(crate) const FILE: &str = "cases.jsonc";

/// Members that a case may have.
const MEMBERS: [&str; 12] =
    ["name", "input", "inputText", "output", "outputMatches", "status", "error", "http", "notHeaders", "publishError", "says", "within_ms"];

/// Maximum number of characters of a value in a message.
const MAX_LEN: usize = 60;

/// A test case.
#[derive(Debug, Clone)]
pub(crate) struct Case {
    pub(crate) name: String,
    fields: Map<String, Value>,
    /// The members `input` and `output`, whose numbers keep their digits.
    input: Option<Box<RawValue>>,
    output: Option<Box<RawValue>>,
    /// Recorded responses from the member `http`.
    recorded: Option<Vec<RecordedAnswer>>,
}

/// The response to a case.
#[derive(Debug)]
pub(crate) struct Reply {
    pub(crate) status: u16,
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) body: Box<RawValue>,
    pub(crate) elapsed: Duration,
}

impl Reply {
    pub(crate) fn value(&self) -> Value {
        exact::approximate(&self.body).unwrap_or_default()
    }

    /// Returns the code of an error, or an empty text.
    pub(crate) fn error_code(&self) -> String {
        self.value()["error"]["code"].as_str().unwrap_or_default().to_owned()
    }
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
    let cases: &RawValue = serde_json::from_str(&plain).map_err(|error| {
        let started: usize = plain.split_inclusive('\n').take(error.line().saturating_sub(1)).map(str::len).sum();
        let (line, column) = position(&plain, started + error.column().saturating_sub(1));
        wrong(FilePosition::at(FILE, line, column), error.to_string())
    })?;
    let cases: Vec<&RawValue> = serde_json::from_str(cases.get())
        .map_err(|_| wrong(FilePosition::at(FILE, 1, 1), "the file must contain a list of cases".to_owned()))?;
    let mut known: Vec<Case> = vec![];
    for (index, case) in cases.into_iter().enumerate() {
        let at = || FilePosition::of_byte(FILE, &plain, super::position::find(&plain, &format!("/{index}")).0);
        let case = Case::of(case).map_err(|reason| wrong(at(), reason))?;
        if known.iter().any(|other| other.name == case.name) {
            return Err(wrong(at(), format!("two cases have the name \"{}\"", case.name)));
        }
        known.push(case);
    }
    Ok(known)
}

impl Case {
    fn of(case: &RawValue) -> Result<Self, String> {
        let (rest, input) = cut(case.get().as_bytes(), "input");
        let (rest, output) = cut(&rest, "output");
        let fields: Value = serde_json::from_slice(&rest).map_err(|error| error.to_string())?;
        let Value::Object(fields) = fields else { return Err("a case must be an object".to_owned()) };
        let Some(name) = fields.get("name").and_then(Value::as_str).map(str::to_owned) else {
            return Err("a case needs a `name` that states its claim".to_owned());
        };
        if let Some(odd) = fields.keys().find(|member| !MEMBERS.contains(&member.as_str())) {
            return Err(format!("a case cannot have `{odd}`; its fields are {}", MEMBERS.join(", ")));
        }
        let ends = ["output", "outputMatches", "error", "publishError"].into_iter().filter(|end| fields.contains_key(*end)).count();
        if ends != 1 {
            return Err("a case needs exactly one of `output`, `outputMatches`, `error` and `publishError`".to_owned());
        }
        let recorded = fields.get("http").map(recorded::answers).transpose()?;
        Ok(Self { name, fields, input, output, recorded })
    }

    /// Returns the recorded responses that the handler gets in place of real ones, or `None` if the real servers respond.
    pub(crate) fn recorded(&self) -> Option<Arc<RecordedAnswers>> {
        self.recorded.as_ref().map(|answers| Arc::new(RecordedAnswers::new(answers.clone())))
    }

    /// Returns whether the case only tests publishing.
    pub(crate) fn tests_publishing_only(&self) -> bool {
        self.fields.contains_key("publishError")
    }

    /// Returns the body of the case's call.
    pub(crate) fn input(&self) -> String {
        match self.fields.get("inputText").and_then(Value::as_str) {
            Some(text) => text.to_owned(),
            None => self.input.as_ref().map_or("{}", |input| input.get()).to_owned(),
        }
    }

    /// Returns the schema that the result must match, if the case has one.
    pub(crate) fn output_schema(&self) -> Option<&Value> {
        self.fields.get("outputMatches")
    }

    /// Returns how a response differs from the case, if it does. `mismatch` is why the result does not match
    /// [`output_schema`](Self::output_schema).
    pub(crate) fn wrong(&self, reply: &Reply, mismatch: Option<String>) -> Option<String> {
        let member = |name: &str| self.fields.get(name);
        let of_error = member("error").or(member("publishError"));
        let found = match of_error {
            Some(requested) => wrong_error(requested, reply),
            None => self.wrong_result(reply, mismatch),
        };
        let late = || {
            let bound = Duration::from_millis(member("within_ms")?.as_u64()?);
            // As in `fixtures/README.md`: machines may be slower than the one that the limit was measured on.
            (reply.elapsed > bound * 3)
                .then(|| format!("took {} ms, more than the {} ms allowed", reply.elapsed.as_millis(), (bound * 3).as_millis()))
        };
        let carried = || {
            let unwanted = member("notHeaders")?.as_object()?;
            let held = unwanted.iter().find(|(name, value)| {
                reply.headers.iter().any(|(header, held)| header.eq_ignore_ascii_case(name) && value.as_str() == Some(held))
            })?;
            Some(format!("has the unwanted header {}: {}", held.0, held.1))
        };
        found.or_else(carried).or_else(late)
    }

    fn wrong_result(&self, reply: &Reply, mismatch: Option<String>) -> Option<String> {
        let body = reply.value();
        let error = &body["error"];
        let requested = self.fields.get("status").cloned().unwrap_or_else(|| json!(200));
        if !one_of(&requested, &json!(reply.status)) {
            let reported = match error["message"].as_str() {
                Some(message) => format!(": {} ({})", first(message, 200), error["code"].as_str().unwrap_or_default()),
                None if body.is_null() || body == "" => String::new(),
                None => format!(": {}", first(&on_one_line(&body), 200)),
            };
            return Some(format!("expected {requested}, got {}{reported}", reply.status));
        }
        if self.output_schema().is_some() {
            return mismatch;
        }
        difference("", self.output.as_deref().unwrap_or(RawValue::NULL), &reply.body)
    }
}

fn wrong_error(requested: &Value, reply: &Reply) -> Option<String> {
    let body = reply.value();
    let error = &body["error"];
    if !error.is_object() {
        return Some(format!("expected the error {}, got {} {}", shown(&requested["code"]), reply.status, shown(&body)));
    }
    for name in ["code", "fault"] {
        if !requested[name].is_null() && !one_of(&requested[name], &error[name]) {
            let message = error["message"].as_str().unwrap_or_default();
            return Some(format!("expected {name} {}, got {}: {}", shown(&requested[name]), shown(&error[name]), first(message, 200)));
        }
    }
    let (text, message) = (requested["says"].as_str()?, error["message"].as_str().unwrap_or_default());
    (!message.contains(text)).then(|| format!("expected a message that contains {text:?}, got {}", first(message, 200)))
}

fn one_of(requested: &Value, found: &Value) -> bool {
    requested.as_array().map_or(requested == found, |several| several.contains(found))
}

/// Cuts a member out of an object.
fn cut(object: &[u8], member: &str) -> (Vec<u8>, Option<Box<RawValue>>) {
    match exact::cut(object, &[member]) {
        Some((rest, json)) => (rest, Some(json.to_owned())),
        None => (object.to_vec(), None),
    }
}

/// Describes the first place where two values differ. Numbers are the same if they have the same digits: `1.50` is
/// `1.5`, and no number is rounded.
fn difference(at: &str, requested: &RawValue, found: &RawValue) -> Option<String> {
    type Members<'a> = BTreeMap<String, &'a RawValue>;
    let describe = |at: &str, requested: Option<&RawValue>, found: Option<&RawValue>| {
        let shown =
            |json: Option<&RawValue>| json.map_or("nothing".to_owned(), |json| first(&exact::compact(json).unwrap_or_default(), MAX_LEN));
        Some(format!("{} expected {}, got {}", if at.is_empty() { "the result:" } else { at }, shown(requested), shown(found)))
    };
    let compare = |name: &str, requested: Option<&RawValue>, found: Option<&RawValue>| {
        let at = format!("{at}/{name}");
        match (requested, found) {
            (Some(requested), Some(found)) => difference(&at, requested, found),
            (requested, found) => describe(&at, requested, found),
        }
    };
    let (one, other) = (requested.get(), found.get());
    if let (Ok(one), Ok(other)) = (serde_json::from_str::<Members<'_>>(one), serde_json::from_str::<Members<'_>>(other)) {
        let names = one.keys().chain(other.keys().filter(|name| !one.contains_key(*name)));
        return names.into_iter().find_map(|name| compare(name, one.get(name).copied(), other.get(name).copied()));
    }
    if let (Ok(one), Ok(other)) = (serde_json::from_str::<Vec<&RawValue>>(one), serde_json::from_str::<Vec<&RawValue>>(other)) {
        return (0..one.len().max(other.len()))
            .find_map(|index| compare(&index.to_string(), one.get(index).copied(), other.get(index).copied()));
    }
    let is_same = match (digits(one), digits(other)) {
        (Some(one), Some(other)) => one == other,
        _ => matches!((exact::approximate(requested), exact::approximate(found)), (Ok(one), Ok(other)) if one == other),
    };
    if is_same { None } else { describe(at, Some(requested), Some(found)) }
}

/// Returns sign, digits and exponent of a number in a form that equal numbers share, or `None` for other values.
fn digits(json: &str) -> Option<(bool, String, i64)> {
    let (is_negative, number) = json.strip_prefix('-').map_or((false, json), |number| (true, number));
    let (mantissa, exponent) = number.split_once(['e', 'E']).unwrap_or((number, "0"));
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let all = format!("{whole}{fraction}");
    if all.is_empty() || !all.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    let significant = all.trim_end_matches('0');
    let zeros = i64::try_from(all.len() - significant.len()).ok()?;
    let exponent = exponent.parse::<i64>().ok()?.checked_sub(i64::try_from(fraction.len()).ok()?)?.checked_add(zeros)?;
    match significant.trim_start_matches('0') {
        "" => Some((false, String::new(), 0)),
        digits => Some((is_negative, digits.to_owned(), exponent)),
    }
}

fn shown(value: &Value) -> String {
    first(&on_one_line(value), MAX_LEN)
}

#[cfg(test)]
mod tests;

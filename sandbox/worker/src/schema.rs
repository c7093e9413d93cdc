//! The bundle's JSON Schemas: compiled once, held against what comes in and goes out.
//!
//! What a schema costs is its author's to say: a few hundred bytes of it can ask for more steps than there is time,
//! and the validator counts none. So it is only ever asked here, where a process can be ended: the watchdog of
//! [`budget`](crate::budget) bounds its time, [`heap`](crate::heap) its memory, and either says that it was the schema.
//! Whether a value fits is one question and why it does not another, which may take far longer: it has bounds of its own,
//! beyond which the answer is no and nothing else.

use std::{borrow::Cow, sync::LazyLock};

use bytes::Bytes;
use jsonschema::{PatternOptions, ReferencingError, ValidationError, ValidationOptions, Validator, error::ValidationErrorKind};
use regex_syntax::ast::ErrorKind;
use serde_json::Value;
use tollhouse_protocol::{FAILED, Limits, MAX_PROBLEMS, Problem, ReplyBody, STRUCTURED, SchemaFault, Side, ToolReply, are_blocks};

use crate::{
    budget::Budget,
    heap,
    pattern::{self, Originals},
};

/// Most memory that one regular expression of a schema may take, in bytes. Linear-time engine.
const PATTERN_BYTES: usize = 1 << 20;

/// Most memory that matching one regular expression may keep, in bytes.
const PATTERN_CACHE_BYTES: usize = 256 << 10;

/// Most steps back of a regular expression that looks around or back, for one text.
const BACKTRACKS: usize = 100_000;

/// Most processor time for listing why a value does not fit, in milliseconds.
const LISTING_CPU_MS: u64 = 20;

/// Most memory for it, in bytes.
const LISTING_BYTES: u64 = 4 << 20;

/// Names that a problem lists.
const MAX_NAMES: usize = 8;

/// The compiled schemas of a bundle. Draft 2020-12 unless `$schema` says otherwise. Never fetches.
#[derive(Default)]
pub(crate) struct Schemas {
    input: Option<Compiled>,
    output: Option<Compiled>,
}

struct Compiled {
    validator: Validator,
    originals: Originals,
}

impl Schemas {
    /// Compiles what there is of `schemas`, under `budget`.
    ///
    /// # Errors
    ///
    /// [`SchemaFault`] with a pointer to what is wrong. References to other documents are refused, never fetched.
    pub(crate) fn compile(schemas: &tollhouse_protocol::Schemas, budget: &Budget, limits: &Limits) -> Result<Self, SchemaFault> {
        if !schemas.is_empty() {
            // What schemas themselves are held against is made once in a process, and is none of the bundle's memory.
            _ = compile(&Value::Bool(true));
            [&UUID, &DURATION, &EMAIL].into_iter().for_each(|format| _ = LazyLock::force(format));
        }
        let one = |side| schemas.get(side).map(|text| within(budget, limits, side, || compile_text(side, text, limits))).transpose();
        Ok(Self { input: one(Side::Input)?, output: one(Side::Output)? })
    }

    /// Checks JSON text. An empty text is `null`.
    ///
    /// # Errors
    ///
    /// The ways in which it does not fit, at least one.
    pub(crate) fn check(&self, side: Side, json: &[u8], budget: &Budget, limits: &Limits) -> Result<(), Vec<Problem>> {
        let Some(schema) = self.of(side) else { return Ok(()) };
        within(budget, limits, side, || Fit { schema, side, budget, limits }.check("", &parse(json)?))
    }

    /// Checks the result proper of an answer that is a success and JSON.
    ///
    /// # Errors
    ///
    /// As [`check`](Self::check); an answer of MCP's own blocks has to have its structured content.
    pub(crate) fn check_reply(&self, reply: &ToolReply, budget: &Budget, limits: &Limits) -> Result<(), Vec<Problem>> {
        let (Some(schema), ReplyBody::Json(body), 200..300) = (&self.output, &reply.body, reply.status) else { return Ok(()) };
        within(budget, limits, Side::Output, || {
            // Nor does a schema say anything of what nobody reads: the host does.
            let Ok(answer) = parse(body) else { return Ok(()) };
            let fit = Fit { schema, side: Side::Output, budget, limits };
            if !are_blocks(&reply.headers) {
                return fit.check("", &answer);
            }
            let pointer = format!("/{STRUCTURED}");
            match answer.get(STRUCTURED) {
                // Of a failure the schema says nothing.
                _ if answer[FAILED] == true => Ok(()),
                Some(value) => fit.check(&pointer, value),
                None => Err(problem(&pointer, format!("{STRUCTURED} is required: the outputSchema speaks of it"))),
            }
        })
    }

    fn of(&self, side: Side) -> Option<&Compiled> {
        match side {
            Side::Input => self.input.as_ref(),
            Side::Output => self.output.as_ref(),
        }
    }
}

/// Does what a schema asks for, with its time and memory on the schema's account.
fn within<T>(budget: &Budget, limits: &Limits, side: Side, what: impl FnOnce() -> T) -> T {
    let _time = budget.checking(side);
    let _memory = heap::limit(limits.heap_bytes);
    what()
}

fn compile_text(side: Side, text: &Bytes, limits: &Limits) -> Result<Compiled, SchemaFault> {
    let fault = |pointer: &str, message: Cow<'_, str>| SchemaFault {
        side,
        pointer: cut(pointer.to_owned(), limits),
        message: cut(message.into_owned(), limits),
    };
    let schema: Value = serde_json::from_slice(text).map_err(|_| fault("", "a schema is JSON".into()))?;
    if !schema.is_object() && !schema.is_boolean() {
        return Err(fault("", "a schema is an object or a boolean".into()));
    }
    let (mut rewritten, mut originals) = (schema.clone(), Originals::new());
    pattern::rewrite(&mut rewritten, &mut originals);
    if let Ok(validator) = compile(&rewritten) {
        return Ok(Compiled { validator, originals });
    }
    // What is wrong is told by the schema as it was written. A pattern that is too large only once it is rewritten is matched as the engine
    // reads it.
    let originals = Originals::new();
    match compile(&schema) {
        Ok(validator) => Ok(Compiled { validator, originals }),
        Err(error) => Err(fault(error.instance_path().as_str(), older(&error).unwrap_or_else(|| plain(&error, &originals)).into())),
    }
}

/// In linear time, unless a pattern looks around or back: those are matched by stepping back, a bounded number of times.
fn compile(schema: &Value) -> Result<Validator, ValidationError<'static>> {
    let linear = PatternOptions::regex().size_limit(PATTERN_BYTES).dfa_size_limit(PATTERN_CACHE_BYTES);
    options().with_pattern_options(linear).build(schema).or_else(|error| {
        let stepping =
            PatternOptions::fancy_regex().backtrack_limit(BACKTRACKS).size_limit(PATTERN_BYTES).dfa_size_limit(PATTERN_CACHE_BYTES);
        // What is wrong with a linear pattern is told best by its own engine.
        options().with_pattern_options(stepping).build(schema).map_err(|_| error)
    })
}

/// Formats are asserted in every draft, also those that came later.
fn options() -> ValidationOptions<'static> {
    let named = |text: &str| EMAIL.is_valid(&Value::from(text)) && !text.ends_with('>');
    jsonschema::options()
        .should_validate_formats(true)
        .with_format("uuid", |text: &str| UUID.is_valid(&Value::from(text)))
        .with_format("duration", |text: &str| DURATION.is_valid(&Value::from(text)))
        .with_format("email", named)
        .offline()
}

/// The formats of the newest draft that older ones have not, or have otherwise.
static UUID: LazyLock<Validator> = LazyLock::new(|| of_format("uuid"));
static DURATION: LazyLock<Validator> = LazyLock::new(|| of_format("duration"));
static EMAIL: LazyLock<Validator> = LazyLock::new(|| of_format("email"));

fn of_format(name: &str) -> Validator {
    let options = jsonschema::options().should_validate_formats(true);
    options.build(&serde_json::json!({ "type": "string", "format": name })).expect("it is a schema")
}

/// Why a schema is none, where it was one in an older draft.
fn older(error: &ValidationError<'_>) -> Option<String> {
    let keyword = error.instance_path().as_str().rsplit('/').next().map(str::to_owned)?;
    match (keyword.as_str(), error.instance().as_ref()) {
        ("exclusiveMinimum" | "exclusiveMaximum", Value::Bool(_)) => Some(format!(
            "`{keyword}` is a number; a boolean is draft-04's: write the bound itself, or say `\"$schema\": \"http://json-schema.org/draft-04/schema#\"`"
        )),
        ("items", Value::Array(_)) => Some(
            "`items` is one schema in draft 2020-12; a list of schemas is called `prefixItems` there, or say the `$schema` of an older draft"
                .to_owned(),
        ),
        ("required", Value::Bool(_)) => Some("`required` is a list of names, beside `properties`; a boolean is draft-03's".to_owned()),
        _ => None,
    }
}

fn parse(json: &[u8]) -> Result<Value, Vec<Problem>> {
    if json.is_empty() {
        return Ok(Value::Null);
    }
    serde_json::from_slice(json).map_err(|_| problem("", "the value is not JSON".into()))
}

/// A schema, and what holding a value against it may take.
struct Fit<'a> {
    schema: &'a Compiled,
    side: Side,
    budget: &'a Budget,
    limits: &'a Limits,
}

impl Fit<'_> {
    /// `value` is found at `pointer`.
    fn check(&self, pointer: &str, value: &Value) -> Result<(), Vec<Problem>> {
        if self.schema.validator.is_valid(value) { Ok(()) } else { Err(self.list(pointer, value)) }
    }

    fn list(&self, pointer: &str, value: &Value) -> Vec<Problem> {
        let _time = self.budget.listing(self.side, LISTING_CPU_MS);
        let _memory = heap::limit(LISTING_BYTES);
        let told = |error: ValidationError<'_>| Problem {
            pointer: cut(format!("{pointer}{}", error.instance_path()), self.limits),
            message: cut(plain(&error, &self.schema.originals), self.limits),
        };
        self.schema.validator.iter_errors(value).take(MAX_PROBLEMS).map(told).collect()
    }
}

fn problem(pointer: &str, message: String) -> Vec<Problem> {
    vec![Problem { pointer: pointer.to_owned(), message }]
}

/// The error's text without the value that was wrong, which may be long, or private. Names of its members are told.
fn plain(error: &ValidationError<'_>, originals: &Originals) -> String {
    match error.kind() {
        ValidationErrorKind::Required { property } => format!("{property} is required"),
        ValidationErrorKind::AdditionalProperties { unexpected } => {
            let named = unexpected.iter().take(MAX_NAMES).map(String::as_str).collect::<Vec<_>>().join(", ");
            match unexpected.len().saturating_sub(MAX_NAMES) {
                0 => format!("unknown properties: {named}"),
                more => format!("unknown properties: {named} and {more} more"),
            }
        }
        // A schema is looked at by itself: nothing is fetched.
        ValidationErrorKind::Referencing(ReferencingError::Unretrievable { uri, .. }) => {
            format!("`$ref` leads to `{uri}`, which is not in this schema; put it under `$defs`")
        }
        ValidationErrorKind::Format { format } if format == "regex" => misfit_of_pattern(error.instance().as_str().unwrap_or_default()),
        ValidationErrorKind::BacktrackLimitExceeded { .. } => {
            format!("matching the regular expression took more than {BACKTRACKS} steps back, so the value counts as not matching")
        }
        ValidationErrorKind::Pattern { pattern } => {
            format!("the value does not match {:?}", originals.get(pattern).unwrap_or(pattern))
        }
        _ => error.masked_with("the value").to_string(),
    }
}

/// Why a pattern cannot be used. The engine itself says only that it cannot.
fn misfit_of_pattern(pattern: &str) -> String {
    let too_large =
        || format!("the regular expression takes more than {PATTERN_BYTES} bytes once compiled; repeat less in it, or less often");
    let why = match regex_syntax::parse(pattern) {
        Ok(_) if !is_ecmascript(pattern) => "the engine that matches it here does not know all of it".to_owned(),
        Ok(_) => return too_large(),
        Err(regex_syntax::Error::Parse(error)) => match error.kind() {
            // Such patterns are matched by stepping back; this one is too large for that, too.
            ErrorKind::UnsupportedLookAround | ErrorKind::UnsupportedBackreference => return too_large(),
            other => other.to_string(),
        },
        Err(regex_syntax::Error::Translate(error)) => error.kind().to_string(),
        Err(other) => other.to_string(),
    };
    format!("the value is no regular expression: {why}")
}

/// Whether a pattern reads, whatever it takes.
fn is_ecmascript(pattern: &str) -> bool {
    let reads = jsonschema::options().should_validate_formats(true).build(&serde_json::json!({ "format": "regex" }));
    reads.is_ok_and(|reads| reads.is_valid(&Value::from(pattern)))
}

fn cut(mut text: String, limits: &Limits) -> String {
    text.truncate(text.floor_char_boundary(usize::try_from(limits.error_bytes).unwrap_or(usize::MAX)));
    text
}

//! The bundle's JSON Schemas: compiled once, and used to validate inputs and results.
//!
//! The author decides how expensive a schema is: a few hundred bytes can require more steps than there is time for, and
//! the validator does not count them. So schemas are evaluated only in a process that can be ended. The watchdog of
//! [`budget`](crate::budget) limits the time, [`heap`](crate::heap) limits the memory, and both blame the schema.
//!
//! To list the problems of an invalid value can take much longer than to find out that it is invalid. Listing has limits
//! of its own, beyond which no problems are listed.

use std::{borrow::Cow, collections::HashSet, sync::LazyLock};

use bytes::Bytes;
use jsonschema::{PatternOptions, ReferencingError, ValidationError, ValidationOptions, Validator, error::ValidationErrorKind};
use regex_syntax::ast::ErrorKind;
use serde_json::Value;
use tollhouse_protocol::{FAILED, Limits, MAX_PROBLEMS, Problem, ReplyBody, STRUCTURED, SchemaFault, Side, ToolReply, are_blocks};

use crate::{
    budget::Budget,
    defaults::{Defaults, TooLarge},
    heap,
    pattern::{Engine, Originals, Rewriting},
};

/// Maximum memory of one compiled regular expression, in bytes. Linear-time engine.
const PATTERN_BYTES: usize = 1 << 20;

/// Maximum memory for matching one regular expression, in bytes.
const PATTERN_CACHE_BYTES: usize = 256 << 10;

/// Maximum backtracking steps for one text, for a regular expression with lookaround or backreferences.
const BACKTRACKS: usize = 100_000;

/// Maximum processor time for listing the problems of a value, in milliseconds.
const LISTING_CPU_MS: u64 = 20;

/// Maximum memory for listing the problems of a value, in bytes.
const LISTING_BYTES: u64 = 4 << 20;

/// Maximum number of property names in one problem.
const MAX_NAMES: usize = 8;

/// The compiled schemas of a bundle. Draft 2020-12 unless `$schema` says otherwise. Never fetches anything.
#[derive(Default)]
pub(crate) struct Schemas {
    input: Option<Compiled>,
    output: Option<Compiled>,
}

struct Compiled {
    validator: Validator,
    originals: Originals,
    /// The defaults of an input.
    defaults: Option<Defaults>,
}

impl Schemas {
    /// Compiles `schemas` under `budget`.
    ///
    /// # Errors
    ///
    /// [`SchemaFault`] with a pointer to the invalid part. References to other documents are
    /// refused, never fetched.
    pub(crate) fn compile(schemas: &tollhouse_protocol::Schemas, budget: &Budget, limits: &Limits) -> Result<Self, SchemaFault> {
        if !schemas.is_empty() {
            // The meta-schemas are compiled once per process. Their memory does not count toward the bundle's limit.
            _ = compile(&Value::Bool(true));
            [&UUID, &DURATION, &EMAIL, &TIME].into_iter().for_each(|format| _ = LazyLock::force(format));
        }
        let compiled = |side| schemas.get(side).map(|text| within(budget, limits, side, || compile_text(side, text, limits))).transpose();
        Ok(Self { input: compiled(Side::Input)?, output: compiled(Side::Output)? })
    }

    /// Validates JSON text. An empty text means `null`.
    ///
    /// # Errors
    ///
    /// The problems of the value, at least one.
    pub(crate) fn check(&self, side: Side, json: &[u8], budget: &Budget, limits: &Limits) -> Result<(), Vec<Problem>> {
        let Some(schema) = self.of(side) else { return Ok(()) };
        within(budget, limits, side, || CompiledSchema { schema, side, budget, limits }.check("", &parse(json)?))
    }

    /// Validates an input. Returns it with the defaults of its schema, unless it has all fields that have one.
    ///
    /// An input that is valid only with its defaults is valid: some libraries require the fields that have one. Defaults
    /// of a valid input are not validated.
    ///
    /// # Errors
    ///
    /// The problems of the input with its defaults, at least one.
    pub(crate) fn accept(&self, json: &[u8], budget: &Budget, limits: &Limits) -> Result<Option<Bytes>, Vec<Problem>> {
        let side = Side::Input;
        let Some(schema) = self.of(side) else { return Ok(None) };
        within(budget, limits, side, || {
            let compiled = CompiledSchema { schema, side, budget, limits };
            let value = parse(json)?;
            let filled = match &schema.defaults {
                Some(defaults) => defaults.fill(&value, usize::try_from(limits.input_bytes).unwrap_or(usize::MAX)),
                None => Ok(None),
            };
            let too_large = |TooLarge| {
                let room = limits.input_bytes;
                problem("", format!("the defaults of the schema add more than {room} bytes to the input"))
            };
            match filled.map_err(too_large)? {
                None => compiled.check("", &value).map(|()| None),
                Some(filled) => {
                    if !schema.validator.is_valid(&value) {
                        compiled.check("", &filled)?;
                    }
                    Ok(Some(Bytes::from(filled.to_string())))
                }
            }
        })
    }

    /// Validates the result of an answer with a success status and a JSON body.
    ///
    /// # Errors
    ///
    /// The same as [`check`](Self::check). An answer of MCP content blocks must contain structured content.
    pub(crate) fn check_reply(&self, reply: &ToolReply, budget: &Budget, limits: &Limits) -> Result<(), Vec<Problem>> {
        let (Some(schema), ReplyBody::Json(body), 200..300) = (&self.output, &reply.body, reply.status) else { return Ok(()) };
        within(budget, limits, Side::Output, || {
            // A schema does not apply to an unparsable body. The host handles that.
            let Ok(answer) = parse(body) else { return Ok(()) };
            let compiled = CompiledSchema { schema, side: Side::Output, budget, limits };
            if !are_blocks(&reply.headers) {
                return compiled.check("", &answer);
            }
            let pointer = format!("/{STRUCTURED}");
            match answer.get(STRUCTURED) {
                // The schema does not apply to failures.
                _ if answer[FAILED] == true => Ok(()),
                Some(value) => compiled.check(&pointer, value),
                None => Err(problem(&pointer, format!("{STRUCTURED} is required, because the `outputSchema` describes it"))),
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

/// Runs `work` with its time and memory attributed to a schema.
fn within<T>(budget: &Budget, limits: &Limits, side: Side, work: impl FnOnce() -> T) -> T {
    let _time = budget.checking(side);
    let _memory = heap::limit(limits.heap_bytes);
    work()
}

fn compile_text(side: Side, text: &Bytes, limits: &Limits) -> Result<Compiled, SchemaFault> {
    let fault = |pointer: &str, message: Cow<'_, str>| SchemaFault {
        side,
        pointer: cut(pointer.to_owned(), limits),
        message: cut(message.into_owned(), limits),
    };
    let schema: Value = serde_json::from_slice(text).map_err(|_| fault("", "a schema must be JSON".into()))?;
    if !schema.is_object() && !schema.is_boolean() {
        return Err(fault("", "a schema must be an object or a boolean".into()));
    }
    let defaults = if side == Side::Input { Defaults::of(&schema) } else { None };
    if let Some(compiled) = compile_translated(&schema, &HashSet::new()) {
        return Ok(Compiled { defaults, ..compiled });
    }
    // A pattern that is too large only after its translation is matched untranslated, without an effect on others.
    let too_large = too_large_translated(&schema);
    if !too_large.is_empty()
        && let Some(compiled) = compile_translated(&schema, &too_large)
    {
        return Ok(Compiled { defaults, ..compiled });
    }
    // Errors name the patterns as they were written.
    let originals = Originals::new();
    match compile(&schema) {
        Ok(validator) => Ok(Compiled { validator, originals, defaults }),
        Err(error) => {
            Err(fault(error.instance_path().as_str(), draft_hint(&error).unwrap_or_else(|| describe_error(&error, &originals)).into()))
        }
    }
}

/// Compiles a schema with translated patterns, except the unchanged ones, for the first engine that can.
fn compile_translated(schema: &Value, unchanged: &HashSet<String>) -> Option<Compiled> {
    [Engine::Linear, Engine::Backtracking].into_iter().find_map(|engine| {
        let (rewritten, originals) = rewritten(schema, engine, unchanged);
        compile_for(engine, &rewritten).ok().map(|validator| Compiled { validator, originals, defaults: None })
    })
}

fn rewritten(schema: &Value, engine: Engine, unchanged: &HashSet<String>) -> (Value, Originals) {
    let mut rewriting = Rewriting { engine, unchanged, originals: Originals::new() };
    let mut rewritten = schema.clone();
    rewriting.rewrite(&mut rewritten);
    (rewritten, rewriting.originals)
}

/// Returns the patterns of a schema whose translation no engine can compile.
fn too_large_translated(schema: &Value) -> HashSet<String> {
    let (_, originals) = rewritten(schema, Engine::Backtracking, &HashSet::new());
    let patterns = originals.into_iter().filter(|(translated, _)| {
        let alone = serde_json::json!({ "pattern": translated });
        compile_for(Engine::Backtracking, &alone).is_err()
    });
    patterns.map(|(_, original)| original).collect()
}

/// Compiles a schema with a linear-time regular expression engine. If a pattern uses lookaround or backreferences, uses
/// a backtracking engine with limited steps.
fn compile(schema: &Value) -> Result<Validator, ValidationError<'static>> {
    // For a pattern that no engine accepts, the linear engine has the better message.
    compile_for(Engine::Linear, schema).or_else(|error| compile_for(Engine::Backtracking, schema).map_err(|_| error))
}

fn compile_for(engine: Engine, schema: &Value) -> Result<Validator, ValidationError<'static>> {
    match engine {
        Engine::Linear => {
            let linear = PatternOptions::regex().size_limit(PATTERN_BYTES).dfa_size_limit(PATTERN_CACHE_BYTES);
            options().with_pattern_options(linear).build(schema)
        }
        Engine::Backtracking => {
            let stepping =
                PatternOptions::fancy_regex().backtrack_limit(BACKTRACKS).size_limit(PATTERN_BYTES).dfa_size_limit(PATTERN_CACHE_BYTES);
            options().with_pattern_options(stepping).build(schema)
        }
    }
}

/// Validates formats in every draft, including formats that were added later.
fn options() -> ValidationOptions<'static> {
    let named = |text: &str| EMAIL.is_valid(&Value::from(text)) && !text.ends_with('>');
    jsonschema::options()
        .should_validate_formats(true)
        .with_format("uuid", |text: &str| UUID.is_valid(&Value::from(text)))
        .with_format("time", is_time)
        .with_format("duration", |text: &str| DURATION.is_valid(&Value::from(text)))
        .with_format("email", named)
        .offline()
}

/// Formats of the newest draft that older drafts lack or define differently.
static UUID: LazyLock<Validator> = LazyLock::new(|| format_validator("uuid"));
static DURATION: LazyLock<Validator> = LazyLock::new(|| format_validator("duration"));
static EMAIL: LazyLock<Validator> = LazyLock::new(|| format_validator("email"));
static TIME: LazyLock<Validator> = LazyLock::new(|| format_validator("time"));

/// Returns whether a text is a time of day. The format requires an offset. Some libraries use it
/// for times without one too, and others for those alone.
fn is_time(text: &str) -> bool {
    let is_valid = |text: &str| TIME.is_valid(&Value::from(text));
    is_valid(text) || is_valid(&format!("{text}Z"))
}

fn format_validator(name: &str) -> Validator {
    let options = jsonschema::options().should_validate_formats(true);
    options.build(&serde_json::json!({ "type": "string", "format": name })).expect("it is a schema")
}

/// Returns a hint if an invalid schema would be valid in an older draft.
fn draft_hint(error: &ValidationError<'_>) -> Option<String> {
    let keyword = error.instance_path().as_str().rsplit('/').next().map(str::to_owned)?;
    match (keyword.as_str(), error.instance().as_ref()) {
        ("exclusiveMinimum" | "exclusiveMaximum", Value::Bool(_)) => Some(format!(
            "`{keyword}` must be a number; a boolean belongs to draft-04: write the bound itself, or set `\"$schema\": \"http://json-schema.org/draft-04/schema#\"`"
        )),
        ("items", Value::Array(_)) => Some(
            "`items` must be one schema in draft 2020-12; use `prefixItems` for a list of schemas, or set `$schema` to an older draft"
                .to_owned(),
        ),
        ("required", Value::Bool(_)) => {
            Some("`required` must be a list of names, next to `properties`; a boolean belongs to draft-03".to_owned())
        }
        _ => None,
    }
}

fn parse(json: &[u8]) -> Result<Value, Vec<Problem>> {
    if json.is_empty() {
        return Ok(Value::Null);
    }
    serde_json::from_slice(json).map_err(|_| problem("", "the value is not JSON".into()))
}

/// A schema with the limits for its use.
struct CompiledSchema<'a> {
    schema: &'a Compiled,
    side: Side,
    budget: &'a Budget,
    limits: &'a Limits,
}

impl CompiledSchema<'_> {
    /// Validates `value`, which is located at `pointer`.
    fn check(&self, pointer: &str, value: &Value) -> Result<(), Vec<Problem>> {
        if self.schema.validator.is_valid(value) { Ok(()) } else { Err(self.list(pointer, value)) }
    }

    fn list(&self, pointer: &str, value: &Value) -> Vec<Problem> {
        let _time = self.budget.listing(self.side, LISTING_CPU_MS);
        let _memory = heap::limit(LISTING_BYTES);
        let describe = |error: ValidationError<'_>| Problem {
            pointer: cut(format!("{pointer}{}", error.instance_path()), self.limits),
            message: cut(describe_error(&error, &self.schema.originals), self.limits),
        };
        self.schema.validator.iter_errors(value).take(MAX_PROBLEMS).map(describe).collect()
    }
}

fn problem(pointer: &str, message: String) -> Vec<Problem> {
    vec![Problem { pointer: pointer.to_owned(), message }]
}

/// Returns the error's text with field names, but without the invalid value, which can be long or private.
fn describe_error(error: &ValidationError<'_>, originals: &Originals) -> String {
    match error.kind() {
        ValidationErrorKind::Required { property } => format!("{property} is required"),
        ValidationErrorKind::AdditionalProperties { unexpected } => {
            let named = unexpected.iter().take(MAX_NAMES).map(String::as_str).collect::<Vec<_>>().join(", ");
            let noun = if unexpected.len() == 1 { "property" } else { "properties" };
            match unexpected.len().saturating_sub(MAX_NAMES) {
                0 => format!("unknown {noun}: {named}"),
                more => format!("unknown {noun}: {named} and {more} more"),
            }
        }
        // The validator's own text names two, but a model can correct its input only if it sees all.
        ValidationErrorKind::Enum { options } => {
            let named: Vec<_> = options.as_array().into_iter().flatten().map(Value::to_string).collect();
            format!("the value is not one of {}", named.join(", "))
        }
        // References to other documents are never fetched.
        ValidationErrorKind::Referencing(ReferencingError::Unretrievable { uri, .. }) => {
            format!("`$ref` refers to `{uri}`, which is not in this schema; put it under `$defs`")
        }
        ValidationErrorKind::Format { format } if format == "regex" => pattern_error(error.instance().as_str().unwrap_or_default()),
        ValidationErrorKind::BacktrackLimitExceeded { .. } => {
            format!("the regular expression backtracked more than {BACKTRACKS} times, so the value counts as not matching")
        }
        ValidationErrorKind::Pattern { pattern } => {
            format!("the value does not match {:?}", originals.get(pattern).unwrap_or(pattern))
        }
        _ => error.masked_with("the value").to_string(),
    }
}

/// Returns why a pattern is not usable, because the validator only reports that it is not.
fn pattern_error(pattern: &str) -> String {
    let too_large = || format!("the compiled regular expression takes more than {PATTERN_BYTES} bytes; use fewer or smaller repetitions");
    let reason = match regex_syntax::parse(pattern) {
        Ok(_) if !is_ecmascript(pattern) => "the engine of this host does not support all of it".to_owned(),
        Ok(_) => return too_large(),
        Err(regex_syntax::Error::Parse(error)) => match error.kind() {
            // The backtracking engine would match such patterns, so this one is too large for it.
            ErrorKind::UnsupportedLookAround | ErrorKind::UnsupportedBackreference => return too_large(),
            other => other.to_string(),
        },
        Err(regex_syntax::Error::Translate(error)) => error.kind().to_string(),
        Err(other) => other.to_string(),
    };
    format!("the value is not a regular expression: {reason}")
}

/// Returns whether a pattern is valid, whatever its size.
fn is_ecmascript(pattern: &str) -> bool {
    let validator = jsonschema::options().should_validate_formats(true).build(&serde_json::json!({ "format": "regex" }));
    validator.is_ok_and(|validator| validator.is_valid(&Value::from(pattern)))
}

fn cut(mut text: String, limits: &Limits) -> String {
    text.truncate(text.floor_char_boundary(usize::try_from(limits.error_bytes).unwrap_or(usize::MAX)));
    text
}

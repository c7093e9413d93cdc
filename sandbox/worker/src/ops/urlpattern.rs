//! `URLPattern`: the crate parses a pattern into regular expressions, which the engine runs.

use deno_core::op2;
use serde_json::{Value, json};
use tollhouse_protocol::limits::URL_PATTERN_BYTES;
use urlpattern::{
    UrlPatternOptions,
    quirks::{self, StringOrInit, UrlPatternComponent, UrlPatternInit},
};

/// Parses a pattern, which is a `text`, or its components as JSON in `init`. Returns JSON with a
/// `value` or an `error`.
#[op2]
#[string]
pub(super) fn op_urlpattern_parse(
    #[string] text: String,
    #[string] init: String,
    #[string] base: String,
    has_base: bool,
    ignore_case: bool,
) -> String {
    answer(parse(text, &init, has_base.then_some(&base), ignore_case))
}

/// Splits a URL into the components that a pattern is compared with, in its order. The value is
/// `null` for an invalid URL. Arguments and result are like those of `op_urlpattern_parse`.
#[op2]
#[string]
pub(super) fn op_urlpattern_input(
    #[string] text: String,
    #[string] init: String,
    #[string] base: String,
    has_base: bool,
    _ignore_case: bool,
) -> String {
    answer(split(text, &init, has_base.then_some(&base)))
}

fn answer(result: Result<Value, String>) -> String {
    let answer = match result {
        Ok(value) => json!({ "value": value }),
        Err(error) => json!({ "error": error }),
    };
    answer.to_string()
}

/// Returns the given pattern or URL, if it is not too long.
fn given(text: String, init: &str, base: Option<&String>) -> Result<StringOrInit, String> {
    if text.len() + init.len() + base.map_or(0, String::len) > URL_PATTERN_BYTES {
        return Err(format!("a URLPattern and its input have at most {} KiB", URL_PATTERN_BYTES >> 10));
    }
    if init.is_empty() {
        return Ok(StringOrInit::String(text));
    }
    serde_json::from_str::<UrlPatternInit>(init).map(StringOrInit::Init).map_err(|error| error.to_string())
}

fn parse(text: String, init: &str, base: Option<&String>, ignore_case: bool) -> Result<Value, String> {
    let given = given(text, init, base)?;
    let text = |error: urlpattern::Error| error.to_string();
    let init = quirks::process_construct_pattern_input(given, base.map(String::as_str)).map_err(text)?;
    let pattern = quirks::parse_pattern(init, UrlPatternOptions { ignore_case, ..UrlPatternOptions::default() }).map_err(text)?;
    Ok(json!({
        "protocol": component(pattern.protocol),
        "username": component(pattern.username),
        "password": component(pattern.password),
        "hostname": component(pattern.hostname),
        "port": component(pattern.port),
        "pathname": component(pattern.pathname),
        "search": component(pattern.search),
        "hash": component(pattern.hash),
        "hasRegexpGroups": pattern.has_regexp_groups,
    }))
}

fn component(component: UrlPatternComponent) -> Value {
    json!({ "patternString": component.pattern_string, "regexpString": component.regexp_string, "groupNameList": component.group_name_list })
}

fn split(text: String, init: &str, base: Option<&String>) -> Result<Value, String> {
    let given = given(text, init, base)?;
    let processed = quirks::process_match_input(given, base.map(String::as_str)).map_err(|error| error.to_string())?;
    let input = processed.and_then(|(input, _)| quirks::parse_match_input(input));
    Ok(input.map_or(Value::Null, |input| {
        json!([input.protocol, input.username, input.password, input.hostname, input.port, input.pathname, input.search, input.hash])
    }))
}

//! Schemas of a bundle in a worker: valid values, invalid values, and schemas that cost too much.

use std::time::{Duration, Instant};

use serde_json::{Map, Value, json};
use tollhouse_protocol::{Language, Limits, LoadFault, Outcome, Problem, Schemas, Side, Source, StopReason, Work};

use crate::harness::Worker;

const MESSAGE: &str = "export default async (req, ctx) => { ctx.log.info('begun'); return eval_(req.input); };
function eval_(input) {
    if (input.status) return Response.json({ error: 'no' }, { status: input.status });
    if (input.blocks) return new Response(JSON.stringify(input.blocks), { headers: { 'content-type': 'Application/vnd.mcp.tool-result+json; v=1' } });
    if (input.text) return new Response(input.text);
    return input.answer;
}";

fn schemas(input: Option<Value>, output: Option<Value>) -> Schemas {
    let text = |schema: Option<Value>| schema.map(|schema| schema.to_string().into());
    Schemas { input: text(input), output: text(output) }
}

fn blank(input: Option<Value>, output: Option<Value>) -> Worker {
    let mut worker = Worker::start();
    worker.schemas = schemas(input, output);
    worker
}

fn source(text: &str) -> Source {
    Source { text: text.to_owned().into(), language: Language::Js }
}

fn with(input: Option<Value>, output: Option<Value>) -> Worker {
    let mut worker = blank(input, output);
    worker.load_bundle(Some(source(MESSAGE))).unwrap();
    worker
}

#[track_caller]
fn invalid(outcome: Outcome, side: Side) -> Vec<Problem> {
    match outcome {
        Outcome::Invalid(found, problems) if found == side => problems,
        other => panic!("{other:?}"),
    }
}

fn pointers(problems: &[Problem]) -> Vec<&str> {
    problems.iter().map(|problem| problem.pointer.as_str()).collect()
}

/// Returns a schema with `levels` definitions, each of which doubles the work.
fn doubling(levels: usize, last: &Value) -> Value {
    let next = |level: usize| json!({ "$ref": format!("#/$defs/d{level}") });
    let mut defs: Map<_, _> =
        (0..levels).map(|level| (format!("d{level}"), json!({ "allOf": [next(level + 1), next(level + 1)] }))).collect();
    defs.insert(format!("d{levels}"), last.clone());
    json!({ "$defs": defs, "$ref": "#/$defs/d0" })
}

#[test]
fn invalid_input_reaches_no_handler_and_the_next_call_does() {
    let schema = json!({
        "type": "object", "required": ["url"], "additionalProperties": false,
        "properties": { "url": { "type": "string" }, "list": { "type": "array", "items": { "type": "integer" } }, "answer": {} },
    });
    let mut worker = with(Some(schema), None);
    let problems = invalid(worker.call(&json!({ "list": [1, "two"], "else": "secretive" })).outcome, Side::Input);
    assert!(pointers(&problems).contains(&"/list/1"), "{problems:?}");
    assert!(problems.iter().any(|problem| problem.message.contains("url")), "{problems:?}");
    assert!(!format!("{problems:?}").contains("two") && !format!("{problems:?}").contains("secretive"), "the value is not repeated");
    assert!(worker.logs.is_empty(), "no handler ran");
    assert_eq!(worker.json(&json!({ "url": "u", "answer": 5 })), json!(5));
    assert_eq!(worker.logs.len(), 1);
}

#[test]
fn problems_are_limited_in_number_and_length() {
    let mut worker = with(Some(json!({ "additionalProperties": { "type": "integer" } })), None);
    let many: Map<_, _> = (0..500).map(|at| (format!("{at}{}", "n".repeat(5_000)), json!("x"))).collect();
    worker.limits.input_bytes = 4 << 20;
    let problems = invalid(worker.call(&Value::Object(many.clone())).outcome, Side::Input);
    assert_eq!(problems.len(), 16);
    assert!(problems.iter().all(|problem| problem.pointer.len() <= 1_024 && problem.message.len() <= 1_024));
    let mut worker = with(Some(json!({ "additionalProperties": false })), None);
    let problems = invalid(worker.call(&Value::Object(many)).outcome, Side::Input);
    assert!(problems[0].message.len() <= 1_024);
}

#[test]
fn wrong_choices_list_all_options_and_one_unknown_property_reads_as_one() {
    let options: Vec<_> = (0..9).map(|at| format!("choice-{at}")).collect();
    let mut worker = with(Some(json!({ "properties": { "a": { "enum": options } }, "additionalProperties": false })), None);
    let problems = invalid(worker.call(&json!({ "a": "x" })).outcome, Side::Input);
    let message = &problems[0].message;
    assert!(message.starts_with("the value is not one of \"choice-0\"") && message.ends_with(", \"choice-8\""), "{message}");
    let problems = invalid(worker.call(&json!({ "b": 1 })).outcome, Side::Input);
    assert_eq!(problems[0].message, "unknown property: b");
}

#[test]
fn successful_json_results_are_checked_against_their_schema() {
    let schema = json!({ "type": "object", "properties": { "count": { "type": "integer" } }, "required": ["count"] });
    let mut worker = with(None, Some(schema));
    assert_eq!(worker.json(&json!({ "answer": { "count": 1 } })), json!({ "count": 1 }));
    let problems = invalid(worker.call(&json!({ "answer": { "count": "1" } })).outcome, Side::Output);
    assert_eq!(pointers(&problems), ["/count"]);
    for input in [json!({ "status": 422 }), json!({ "text": "words" })] {
        assert!(matches!(worker.call(&input).outcome, Outcome::Returned(_)), "{input}");
    }
    let blocks = |structured: Value| json!({ "blocks": { "content": [], "structuredContent": structured } });
    assert!(matches!(worker.call(&blocks(json!({ "count": 2 }))).outcome, Outcome::Returned(_)));
    let problems = invalid(worker.call(&blocks(json!({ "count": "2" }))).outcome, Side::Output);
    assert_eq!(pointers(&problems), ["/structuredContent/count"]);
    // A field value that looks like an MCP result is not one.
    let problems = invalid(worker.call(&json!({ "blocks": { "content": [], "count": 1 } })).outcome, Side::Output);
    assert_eq!(pointers(&problems), ["/structuredContent"]);
}

/// Returns whether an input schema accepts a value.
fn fits(schema: &Value, value: &Value) -> bool {
    let mut worker = blank(Some(schema.clone()), None);
    worker.load_bundle(None).unwrap();
    worker.work = Work::Check(Side::Input);
    matches!(worker.call(value).outcome, Outcome::Returned(_))
}

#[test]
fn formats_are_validated_in_every_draft() {
    let drafts = [
        None,
        Some("https://json-schema.org/draft/2020-12/schema"),
        Some("https://json-schema.org/draft/2019-09/schema"),
        Some("http://json-schema.org/draft-07/schema#"),
        Some("http://json-schema.org/draft-06/schema#"),
        Some("http://json-schema.org/draft-04/schema#"),
    ];
    for draft in drafts {
        let mut worker = {
            let mut schema = json!({ "properties": { "u": { "format": "uuid" }, "d": { "format": "duration" }, "m": { "format": "email" }, "t": { "format": "time" } } });
            if let Some(draft) = draft {
                schema["$schema"] = json!(draft);
            }
            blank(Some(schema), None)
        };
        worker.load_bundle(None).unwrap();
        worker.work = Work::Check(Side::Input);
        for (value, right) in [
            (json!({ "u": "2eb8aa08-aa98-11ea-b4aa-73b441d16380", "d": "P1DT12H", "m": "bob@example.com" }), true),
            (json!({ "u": 1, "d": null, "m": [] }), true),
            (json!({ "u": "2eb8aa08aa9811eab4aa73b441d16380" }), false),
            (json!({ "d": "1 day" }), false),
            (json!({ "m": "Bob <bob@example.com>" }), false),
            (json!({ "m": "bob" }), false),
            (json!({ "m": "bob@localhost" }), true),
            (json!({ "t": "12:30:00+02:00" }), true),
            (json!({ "t": "12:30:00" }), true),
            (json!({ "t": "12:30:00ZZ" }), false),
            (json!({ "t": "24:30:00" }), false),
        ] {
            assert_eq!(matches!(worker.call(&value).outcome, Outcome::Returned(_)), right, "{draft:?} {value}");
        }
    }
}

#[test]
fn lookaround_patterns_are_matched_within_their_limit() {
    let zod = "^(?!\\.)(?!.*\\.\\.)([A-Za-z0-9_'+\\-\\.]*)[A-Za-z0-9_+-]@([A-Za-z0-9][A-Za-z0-9\\-]*\\.)+[A-Za-z]{2,}$";
    let password = "^(?=.*\\d)(?=.*[a-z]).{8,}$";
    for (pattern, text, right) in [
        (zod, "bob@example.com", true),
        (zod, ".bob@example.com", false),
        (zod, "b..b@example.com", false),
        (password, "abcdefg1", true),
        (password, "abcdefgh", false),
        ("^(?!admin$)[a-z]+$", "admin", false),
        ("^(?!admin$)[a-z]+$", "user", true),
        ("(?<=a)b", "ab", true),
        ("(?<=a)b", "cb", false),
        ("^(a|b)\\1$", "aa", true),
        ("^(a|b)\\1$", "ab", false),
    ] {
        assert_eq!(fits(&json!({ "pattern": pattern }), &json!(text)), right, "{pattern} {text}");
    }
    let mut worker = blank(Some(json!({ "pattern": "^(?=(a+)+$)(a|aa)+\\1b$" })), None);
    worker.load_bundle(None).unwrap();
    worker.work = Work::Check(Side::Input);
    let problems = invalid(worker.call(&json!("a".repeat(2_000))).outcome, Side::Input);
    assert!(problems[0].message.contains("backtracked"), "{problems:?}");
}

/// The expected results are those of Node 20: `new RegExp(pattern, 'u').test(text)`.
#[test]
fn patterns_match_like_ecmascript() {
    for (pattern, text, right) in [
        ("^.$", "a", true),
        ("^.$", "\u{1f600}", true),
        ("^.$", "\r", false),
        ("^.$", "\n", false),
        ("^.$", "\u{2028}", false),
        ("^.$", "\u{2029}", false),
        ("^.$", "\u{85}", true),
        ("^[.]$", ".", true),
        ("^[.]$", "\r", false),
        ("^\\.$", ".", true),
        ("^\\.$", "a", false),
        ("^[^a]$", "\r", true),
        ("^(?!b).$", "\r", false),
        ("^(?!b)\\d$", "\u{664}", false),
        ("^(?!b)\\w$", "\u{e9}", false),
        ("^(?!b)\\s$", "\u{feff}", true),
        ("^\\d$", "\u{664}", false),
        ("^\\w+$", "a_1", true),
        ("^[\\W]$", "\u{e9}", true),
        ("^[^\\W]$", "\u{e9}", false),
        ("^[\\w.\\-]+$", "a-b.c", true),
        ("^\\s$", "\u{85}", false),
        ("^\\S$", "\u{feff}", false),
        ("^\\0$", "\0", true),
        ("^[\\b]$", "\u{8}", true),
        ("[]", "", false),
        ("[]", "a", false),
        ("^[^]$", "\n", true),
        ("^\\ud83d\\ude00$", "\u{1f600}", true),
        ("^[\\ud83d\\ude00-\\ud83d\\ude4f]$", "\u{1f60a}", true),
        ("^\\ud83d$", "\u{1f600}", false),
        ("[\\ud800-\\udfff]", "\u{1f600}", false),
        ("^[^\\ud800-\\udfff]$", "\u{1f600}", true),
        ("^\\u{1F600}$", "\u{1f600}", true),
        ("^\\x41\\cJ$", "A\n", true),
        ("^\\p{Lu}[\\p{Ll}\\d]$", "Az", true),
        ("^\\P{L}$", "1", true),
        ("^[^\\p{L}-]$", "-", false),
        ("^[a&&b~~]$", "&", true),
        ("^[\\[-\\]]$", "\\", true),
        ("^[--0]$", ".", true),
        ("a$", "a\n", false),
        ("^(?<y>.)\\k<y>$", "aa", true),
        ("^(?<y>.)\\k<y>$", "ab", false),
        ("\\bid\\b", "\u{e9}id", true),
        ("^\\b\u{e9}", "\u{e9}", false),
        ("a\\B", "a\u{e9}", false),
        ("\\Ba", "\u{e9}a", false),
        ("(?=i)\\bid\\b", "\u{e9}id", true),
        ("(?=\u{e9})\\b\u{e9}", "\u{e9}", false),
        ("(?=a)a\\B", "a\u{e9}", false),
        ("(?=a)a\\Bb", "ab", true),
        ("^([(])\\((?:b)(?<=b)(?<y>.)(?<z>.)\\k<z>\\k<y>0$", "((bxyyx0", true),
        ("^a{2}(?:b|c)?\\/$", "aab/", true),
        // Without the flag.
        ("^[\\w-.]+$", "a-b.c", true),
        ("^[a-\\d]+$", "a-1", true),
        ("^[a-\\d]$", "b", false),
    ] {
        assert_eq!(fits(&json!({ "pattern": pattern }), &json!(text)), right, "{pattern:?} {text:?}");
        let named = json!({ "additionalProperties": false, "patternProperties": { pattern: {} } });
        assert_eq!(fits(&named, &json!({ text: 1 })), right, "a name: {pattern:?} {text:?}");
    }
}

#[test]
fn pattern_too_large_after_translation_affects_no_other() {
    let small = json!({ "pattern": "^(?!b)a.c$" });
    let both = json!({ "properties": { "small": small, "large": { "pattern": "^.{1000}$" } } });
    for schema in [json!({ "properties": { "small": small } }), both] {
        assert!(!fits(&schema, &json!({ "small": "a\rc" })) && fits(&schema, &json!({ "small": "abc" })), "{schema}");
    }
}

#[test]
fn a_rewritten_pattern_keeps_its_name_its_neighbors_and_its_references() {
    let schema = json!({
        "patternProperties": { "^\\d$": { "type": "integer" }, "^[0-9]$": { "minimum": 5 }, "^p.$": { "type": "string" } },
        "properties": {
            "pattern": { "const": { "pattern": "." } },
            "same": { "$ref": "#/patternProperties/%5Ep.%24" },
        },
        "additionalProperties": { "pattern": "^x.$" },
    });
    for (value, right) in [
        (json!({ "1": 5 }), true),
        (json!({ "1": 4 }), false),
        (json!({ "1": 5.5 }), false),
        (json!({ "pattern": { "pattern": "." } }), true),
        (json!({ "same": "text" }), true),
        (json!({ "same": 1 }), false),
        (json!({ "other": "xy" }), true),
    ] {
        assert_eq!(fits(&schema, &value), right, "{value}");
    }
    let mut worker = blank(Some(schema), None);
    worker.load_bundle(None).unwrap();
    worker.work = Work::Check(Side::Input);
    let problems = invalid(worker.call(&json!({ "other": "x\r" })).outcome, Side::Input);
    assert_eq!(problems[0].message, "the value does not match \"^x.$\"");
}

/// A reference that contains a space is not a valid URI, but is common. ajv accepts both forms.
#[test]
fn a_reference_to_a_name_with_a_space_is_found() {
    let names = ["My Tool", "caf\u{e9}", "a^b|c", "\"<>`{}\\[]", "50%"];
    let references = names.map(|name| format!("#/$defs/{name}"));
    for reference in references.iter().map(String::as_str).chain(["#/definitions/My Tool", "#/$defs/My%20Tool", "of tools#/$defs/My Tool"])
    {
        let schema = json!({
            "$id": "of tools", "$ref": reference,
            "definitions": { "My Tool": { "type": "integer" } },
            "$defs": names.map(|name| (name.to_owned(), json!({ "type": "integer" }))).into_iter().collect::<serde_json::Map<_, _>>(),
        });
        assert!(fits(&schema, &json!(1)) && !fits(&schema, &json!("1")), "{reference}");
    }
}

#[test]
fn keywords_of_older_drafts_are_reported_with_their_replacement() {
    for (schema, pointer, word) in [
        (json!({ "properties": { "a": { "items": [{}] } } }), "/properties/a/items", "prefixItems"),
        (json!({ "minimum": 1, "exclusiveMinimum": true }), "/exclusiveMinimum", "draft-04"),
        (json!({ "properties": { "a": { "required": true } } }), "/properties/a/required", "list of names"),
    ] {
        let mut worker = blank(Some(schema), None);
        let Err(LoadFault::Schema(fault)) = worker.load_bundle(None) else { panic!("the bundle is rejected") };
        assert!(fault.pointer == pointer && fault.message.contains(word), "{fault:?}");
    }
}

#[test]
fn a_bundle_without_a_handler_only_checks() {
    let mut worker = blank(Some(json!({ "type": "string" })), Some(json!({ "type": "integer" })));
    worker.load_bundle(None).unwrap();
    for (side, value, fits) in
        [(Side::Input, json!("x"), true), (Side::Input, json!(1), false), (Side::Output, json!("x"), false), (Side::Output, json!(1), true)]
    {
        worker.work = Work::Check(side);
        match worker.call(&value).outcome {
            Outcome::Returned(_) => assert!(fits, "{side} {value}"),
            outcome => assert!(!fits && invalid(outcome, side).len() == 1, "{side} {value}"),
        }
    }
}

#[test]
fn invalid_schema_is_rejected_with_its_location() {
    for (schema, pointer) in [
        (json!({ "properties": { "a": { "type": "text" } } }), "/properties/a/type"),
        (json!({ "pattern": "(" }), "/pattern"),
        (json!("string"), ""),
        (json!({ "$ref": "http://127.0.0.1:1/schema.json" }), ""),
        (json!({ "$ref": "file:///etc/passwd" }), ""),
    ] {
        for side in [Side::Input, Side::Output] {
            let mut worker = match side {
                Side::Input => blank(Some(schema.clone()), None),
                Side::Output => blank(None, Some(schema.clone())),
            };
            match worker.load_bundle(Some(source(MESSAGE))) {
                Err(LoadFault::Schema(fault)) => assert_eq!((fault.side, fault.pointer.as_str()), (side, pointer), "{schema}"),
                other => panic!("{other:?}"),
            }
        }
    }
}

#[test]
fn endless_check_is_stopped_and_blamed_on_the_schema() {
    let limits = Limits { cpu_ms: 200, ..Limits::default() };
    let endless = doubling(40, &json!(true));
    for (input, output, side) in [(Some(endless.clone()), None, Side::Input), (None, Some(endless), Side::Output)] {
        let mut worker = with(input, output);
        worker.limits = limits;
        let started = Instant::now();
        let reason = worker.stopped(&json!({ "answer": 1 }));
        assert_eq!(reason, StopReason::SchemaTime { side, limit_ms: 200 });
        assert!(started.elapsed() < Duration::from_secs(4), "{:?}", started.elapsed());
    }
}

#[test]
fn mismatch_is_reported_even_if_its_problems_are_endless() {
    let wrong = doubling(40, &json!({ "type": "string" }));
    // The first problem is found at once, but all are kept until the last is known.
    for (input, output, side) in [(Some(wrong.clone()), None, Side::Input), (None, Some(wrong), Side::Output)] {
        let mut worker = with(input, output);
        worker.limits = Limits { cpu_ms: 60_000, wall_ms: 60_000, ..Limits::default() };
        let started = Instant::now();
        assert_eq!(worker.stopped(&json!({ "answer": 1 })), StopReason::Unlisted { side });
        assert!(started.elapsed() < Duration::from_secs(2), "{:?}", started.elapsed());
    }
}

#[test]
fn patterns_with_too_much_memory_are_stopped_while_compiling() {
    let patterns: Map<_, _> = (0..1_000).map(|at| (format!("p{at}"), json!({ "pattern": format!("^\\p{{L}}{{9}}{at}$") }))).collect();
    let mut worker = blank(None, Some(json!({ "properties": patterns })));
    worker.limits = Limits { load_cpu_ms: 60_000, load_wall_ms: 60_000, ..Limits::default() };
    let fault = worker.load_bundle(Some(source(MESSAGE))).unwrap_err();
    let StopReason::SchemaMemory { side: Side::Output, limit_bytes } = (match fault {
        LoadFault::Stopped(reason) => reason,
        other => panic!("{other:?}"),
    }) else {
        panic!("stopped for another reason")
    };
    assert_eq!(limit_bytes, worker.limits.heap_bytes);
    // The same, limited by time.
    let mut worker = blank(
        None,
        Some(
            json!({ "properties": (0..1_000).map(|at| (format!("p{at}"), json!({ "pattern": format!("^\\p{{L}}{{9}}{at}$") }))).collect::<Map<_, _>>() }),
        ),
    );
    worker.limits = Limits { load_cpu_ms: 50, heap_bytes: 4 << 30, ..Limits::default() };
    assert_eq!(
        worker.load_bundle(Some(source(MESSAGE))).unwrap_err(),
        LoadFault::Stopped(StopReason::SchemaTime { side: Side::Output, limit_ms: 50 })
    );
}

#[test]
fn begin_is_reported_once_the_input_is_valid() {
    let mut worker = with(Some(json!({ "required": ["answer"] })), None);
    worker.announced = true;
    invalid(worker.call(&json!({})).outcome, Side::Input);
    assert_eq!(worker.started, 0);
    assert_eq!(worker.json(&json!({ "answer": 1 })), json!(1));
    assert_eq!(worker.started, 1);
}

#[test]
fn defaults_are_applied_before_the_handler_runs() {
    let schema = json!({
        "type": "object", "required": ["query", "limit"], "additionalProperties": false,
        "properties": { "query": { "type": "string" }, "limit": { "type": "integer", "minimum": 1, "default": 10 },
            "page": { "$ref": "#/$defs/page", "default": {} } },
        "$defs": { "page": { "type": "object", "properties": { "size": { "type": "integer", "default": 20 } } } },
    });
    let mut worker = blank(Some(schema), None);
    let echo = "export default (req) => [req.input, req.body === req.input, req.inputText];";
    worker.load_bundle(Some(source(echo))).unwrap();
    let with_all = json!({ "query": "a", "limit": 10, "page": { "size": 20 } });
    assert_eq!(worker.json(&json!({ "query": "a" })), json!([with_all, true, r#"{"query":"a"}"#]));
    let own = json!({ "query": "a", "limit": 5, "page": { "size": 1 } });
    assert_eq!(worker.json(&own), json!([own, true, own.to_string()]));
    // A default does not make other fields valid.
    let problems = invalid(worker.call(&json!({ "limit": 0 })).outcome, Side::Input);
    let mut pointers = pointers(&problems);
    pointers.sort_unstable();
    assert_eq!(pointers, ["", "/limit"], "{problems:?}");
    worker.work = Work::Check(Side::Input);
    assert!(matches!(worker.call(&json!({ "query": "a" })).outcome, Outcome::Returned(_)));
    // A default that its own schema does not allow is no problem of the caller.
    let mut worker = blank(Some(json!({ "type": "object", "properties": { "wrong": { "type": "string", "default": null } } })), None);
    worker.load_bundle(Some(source("export default (req) => req.input;"))).unwrap();
    assert_eq!(worker.json(&json!({})), json!({ "wrong": null }));
}

#[test]
fn defaults_of_many_items_are_limited_to_the_size_of_an_input() {
    let item = json!({ "properties": { "a": { "default": "x".repeat(10_000) } } });
    let mut worker = with(Some(json!({ "type": "object", "properties": { "answer": { "type": "array", "items": item } } })), None);
    let problems = invalid(worker.call(&json!({ "answer": vec![json!({}); 1_000] })).outcome, Side::Input);
    assert!(problems[0].message.contains("defaults of the schema add more than"), "{problems:?}");
    assert_eq!(worker.json(&json!({ "answer": vec![json!({}); 10] }))[9]["a"].as_str().map(str::len), Some(10_000));
}

//! Sources that load as handlers, and the errors for those that do not.

use serde_json::{Value, json};
use tollhouse_protocol::{Language, LoadError, LoadFault, Source, StopReason};

use crate::harness::Worker;

fn refused(source: &str) -> LoadError {
    let mut worker = Worker::start();
    worker.limits.load_wall_ms = 10_000;
    let error = worker.load(source, Language::Js).unwrap_err();
    assert!(worker.receive().is_none(), "a worker that failed to load is gone");
    error
}

#[test]
fn every_form_of_handler_loads() {
    for source in [
        "export default async function (req, ctx) { return req.body; }",
        "export default (req) => req.body;",
        "const h = (req) => req.body; export { h as default };",
        "async function (req, ctx) { return req.body; }",
        "// a comment\n/* another */ function (req) { return req.body; };\n",
        "async function handler(req, ctx) { return req.body; }",
        "async (req, ctx) => req.body",
        "(req) => { return req.body; };",
        "module.exports = async (req) => req.body;",
        "const later = await Promise.resolve(1); export default (req) => req.body;",
    ] {
        let mut worker = Worker::start();
        worker.load(source, Language::Js).unwrap_or_else(|error| panic!("{error:?}: {source}"));
        assert_eq!(worker.json(&json!(5)), json!(5), "{source}");
    }
}

#[test]
fn syntax_errors_have_a_position() {
    let error = refused("export default async function (req, ctx) {\n  return 1;\n  const = 2;\n}");
    assert_eq!((error.line, error.column), (Some(3), Some(9)), "{error:?}");
    assert!(error.message.starts_with("SyntaxError"), "{error:?}");
    let error = refused("async function (req, ctx) { const = 2; }");
    assert_eq!(error.line, Some(1), "{error:?}");
    if cfg!(feature = "v8") {
        assert_eq!(error.column, Some(35), "{error:?}");
    }
}

#[test]
fn decorators_and_accessors_in_javascript_are_rejected_with_advice() {
    for (source, line, what) in [
        ("const logged = (m) => m;\nclass A {\n  @logged m() {}\n}\nexport default () => 1;", 3, "decorators"),
        ("const sealed = (c) => c;\n@sealed\nclass A {}\nexport default () => 1;", 2, "decorators"),
        ("class A {\n  accessor x = 1;\n}\nexport default () => 1;", 2, "`accessor` fields"),
        ("class A {\n  static accessor #x = 1;\n}\nexport default () => 1;", 2, "`accessor` fields"),
    ] {
        let error = Worker::start().load(source, Language::Js).unwrap_err();
        let advice = format!("{what} are not part of JavaScript yet; in TypeScript they are compiled");
        assert!(error.message.contains(&advice), "{source}: {error:?}");
        assert_eq!(error.line, Some(line), "{source}: {error:?}");
        Worker::start().load(source, Language::Ts).unwrap_or_else(|error| panic!("{source}: {error:?}"));
    }
}

#[test]
fn top_level_errors_have_a_line() {
    let error = refused("const a = 1;\nthrow new Error('not today');\nexport default () => 1;");
    assert_eq!(error.message, "Error: not today");
    assert_eq!(error.line, Some(2), "{error:?}");
    assert_eq!(refused("throw new Proxy({}, { get() { throw 1; } }); export default () => 1;").message, "a value that has no text");
    assert_eq!(refused("await Promise.reject(new Error('later')); export default () => 1;").message, "Error: later");
}

#[test]
fn line_numbers_of_wrapped_handlers_are_correct() {
    let mut worker = Worker::start();
    worker.load("async function (req, ctx) {\n  throw new Error('x');\n}", Language::Js).unwrap();
    let tollhouse_protocol::Outcome::Threw(thrown) = worker.call(&Value::Null).outcome else { panic!("it throws") };
    assert!(thrown.stack.contains(":2:"), "{}", thrown.stack);
}

#[test]
fn a_top_level_that_does_not_end_is_stopped() {
    let stopped = |text: &'static str| {
        let mut worker = Worker::start();
        worker.limits.load_wall_ms = 10_000;
        match worker.load_bundle(Some(Source { text: text.into(), language: Language::Js })) {
            Err(LoadFault::Stopped(reason)) => reason,
            other => panic!("{text}: {other:?}"),
        }
    };
    assert_eq!(stopped("for (;;) {} export default () => 1;"), StopReason::CpuTime { limit_ms: 500 });
    let bomb = stopped("const all = []; for (;;) all.push(new ArrayBuffer(1 << 20)); export default () => 1;");
    assert!(matches!(bomb, StopReason::Memory { .. }), "{bomb}");
    let error = refused("await new Promise(() => {}); export default () => 1;");
    assert!(error.message.contains("nothing can resolve"), "{error:?}");
}

#[test]
fn imports_and_missing_handlers_are_refused() {
    let error = refused("import fs from 'node:fs';\nexport default () => 1;");
    assert!(error.message.contains("imports are not available"), "{error:?}");
    for source in ["export const a = 1;", "const a = 1;", "export default 7;", ""] {
        let error = refused(source);
        assert!(error.message.contains("default export that is a function") && error.line.is_none(), "{error:?}: {source}");
        assert!(!error.message.contains("`fetch`"), "{error:?}: {source}");
    }
    for source in ["export default { async fetch() {} };", "class App { fetch = () => 1 }\nexport default new App();"] {
        let error = refused(source);
        assert!(error.message.contains("in place of the object with `fetch`, write `export default async"), "{error:?}: {source}");
    }
    let mut worker = Worker::start();
    let bytes = worker.load("export default () => '\u{e4}\u{2603}'", Language::Js);
    assert!(bytes.is_ok());
    assert_eq!(worker.json(&Value::Null), json!("\u{e4}\u{2603}"));
}

#[test]
fn module_state_is_not_evaluated_twice() {
    let mut worker = Worker::start();
    worker.load("globalThis.runs = (globalThis.runs ?? 0) + 1; export default () => globalThis.runs;", Language::Js).unwrap();
    assert_eq!(worker.json(&Value::Null), json!(1));
}

fn typed(source: &str) -> Result<(Worker, String), LoadError> {
    let mut worker = Worker::start();
    let loaded = worker.load(source, Language::Ts)?;
    let text = String::from_utf8(loaded.checked.source.to_vec()).unwrap();
    Ok((worker, text))
}

#[test]
fn types_are_stripped_and_positions_stay() {
    let source = "type In = { n: number };\ninterface Out { n: number }\nexport default async function (req: { body: In }, ctx: unknown): Promise<Out> {\n  const n = (req.body as In).n!;\n  if (n < 0) throw new Error('low');\n  return { n: n satisfies number } as Out;\n}\n";
    let (mut worker, text) = typed(source).unwrap();
    assert_eq!(worker.json(&json!({"n": 3})), json!({"n": 3}));
    assert_eq!(text.len(), source.len());
    assert_eq!(text.lines().count(), source.lines().count());
    assert_eq!(text.find("throw"), source.find("throw"));
    let tollhouse_protocol::Outcome::Threw(thrown) = worker.call(&json!({"n": -1})).outcome else { panic!("it throws") };
    assert!(thrown.stack.contains(":5:20"), "{}", thrown.stack);
    // The returned source loads as JavaScript.
    let mut again = Worker::start();
    again.load(&text, Language::Js).unwrap();
    assert_eq!(again.json(&json!({"n": 3})), json!({"n": 3}));
}

#[test]
fn a_bare_typescript_function_loads() {
    let (mut worker, text) = typed("async function (req: any): Promise<number> { return req.body as number; };\n").unwrap();
    assert_eq!(worker.json(&json!(4)), json!(4));
    assert!(text.starts_with("async function (req     )"), "{text}");
}

/// With imports a bundler compiles these features. Without imports they must load too.
#[test]
fn typescript_only_syntax_loads() {
    let source = "enum C { A = 'a', B = 2 }\nnamespace N { export const x: number = 3; }\nconst enum D { E = 4 }\n\
         class P { constructor(public x: string, private readonly y = 1) {} sum() { return this.x + this.y; } }\n\
         export default async (req: any, ctx: any): Promise<unknown> => [C.A, C[2], N.x, D.E, new P('y').sum(), await ctx.kv.get('k')];\n";
    let (mut worker, text) = typed(source).unwrap();
    assert_eq!(worker.json(&json!(null)), json!(["a", "B", 3, 4, "y1", null]));
    // The source is stored as JavaScript, and loads again as JavaScript.
    assert_eq!(Worker::with(&text).json(&json!(null)), json!(["a", "B", 3, 4, "y1", null]));
    let (mut worker, _) = typed("async function (req: any) { enum C { A = 5 } return C.A; }").unwrap();
    assert_eq!(worker.json(&json!(null)), json!(5));
    let deep = format!("enum A {{ B }}\nexport default () => {}1{};", "(".repeat(60_000), ")".repeat(60_000));
    let error = typed(&deep).map(|_| ()).unwrap_err();
    assert!(error.message.contains("nested"), "{error:?}");
    let near = format!("enum A {{ B }}\nexport default () => {}A.B{};", "[".repeat(400), "]".repeat(400));
    typed(&near).map(|_| ()).unwrap_or_else(|error| assert!(error.message.contains("nested"), "{error:?}"));
}

/// No engine has decorators, so they are compiled. Their text in a string or a comment changes nothing.
#[test]
fn decorators_and_accessors_load() {
    let source = "const seen: string[] = [];\n\
         function logged<T>(target: T, context: { kind: string; name: string | symbol }): void { seen.push(`${context.kind} ${String(context.name)}`); }\n\
         function doubled(get: (n: number) => number, _: unknown) { return function (this: unknown, n: number) { return 2 * get.call(this, n); }; }\n\
         @logged class A { @logged field = 1; accessor other = 2; constructor(private readonly base: number) {}\n\
         @doubled sum(n: number): number { return this.base + this.field + this.other + n; } }\n\
         export default (req: any) => [new A(10).sum(req.body), seen];\n";
    let (mut worker, text) = typed(source).unwrap();
    let expected = json!([28, ["field field", "class A"]]);
    assert_eq!(worker.json(&json!(1)), expected);
    assert_eq!(Worker::with(&text).json(&json!(1)), expected);
    let plain = "// @logged class A { accessor b = 1; }\nexport default (req: any): string => \"@logged class\";\n";
    let (_, text) = typed(plain).unwrap();
    assert_eq!(text.len(), plain.len());
}

#[test]
fn typescript_errors_have_a_position() {
    let error = typed("export default function (req: any) {\n  const = 1;\n}").map(|_| ()).unwrap_err();
    assert_eq!((error.line, error.column), (Some(2), Some(9)), "{error:?}");
    assert!(error.message.starts_with("SyntaxError: "), "{error:?}");
    let error = typed("enum A { B }\nexport default () => {\n  const = A.B;\n};").map(|_| ()).unwrap_err();
    assert_eq!((error.line, error.column), (Some(3), Some(9)), "{error:?}");
    let error = typed("function (req: any) { const = 1; }").map(|_| ()).unwrap_err();
    assert_eq!((error.line, error.column), (Some(1), Some(29)), "{error:?}");
}

#[test]
fn sources_too_deep_for_a_parser_are_rejected_with_a_line() {
    let deep = |before: &str, value: &str, after: &str| format!("{}{value}{}", before.repeat(60_000), after.repeat(60_000));
    let values = [
        deep("(", "1", ")"),
        deep("[", "1", "]"),
        deep("{a:", "1", "}"),
        deep("(", "1", ""),
        deep("!", "1", ""),
        deep("- ", "1", ""),
        deep("typeof ", "1", ""),
        deep("a=>", "1", ""),
        deep("`${", "1", "}`"),
        deep("f<", "1", ">"),
    ];
    let types =
        [deep("[", "1", "]"), deep("(", "1", ")"), deep("A<", "1", ">"), deep("A extends B ? C : ", "D", ""), deep("{a:", "1", "}")];
    let values = values.map(|value| format!("const f = 1;\nexport default () => (\n{value});"));
    let types = types.map(|ours| format!("const f = 1;\nexport default () => 1; type A =\n{ours};"));
    for source in values.iter().chain(&types) {
        for language in [Language::Js, Language::Ts] {
            let mut worker = Worker::start();
            (worker.limits.load_cpu_ms, worker.limits.load_wall_ms) = (30_000, 30_000);
            let loaded = worker.load(source, language).map(|_| ());
            let claim = format!("{loaded:?} of {language:?}: {}", &source[40..70]);
            let error = loaded.expect_err(&claim);
            assert!(error.line.is_some_and(|line| line > 1), "{claim}");
            assert!(worker.receive().is_none() && worker.wait_for_exit().success(), "{claim}");
        }
    }
}

#[test]
fn a_chain_too_deep_for_the_stack_is_reported_by_its_line() {
    for link in ["a = ", "a => "] {
        // Too long for the function's compiler, then for the scanner that finds its end when the
        // module is read.
        let mut lines = Vec::new();
        for links in (500..5_000).step_by(125) {
            let source = format!("let a = 1;\n\nfunction f(a) {{\n  return {}a;\n}}\n\nf(1);\nexport default () => 1;", link.repeat(links));
            if let Err(error) = Worker::start().load(&source, Language::Js) {
                lines.push(error.line);
            }
        }
        assert!(!lines.is_empty() && lines.iter().all(|line| matches!(line, Some(4 | 7))), "{link}: {lines:?}");
    }
}

#[test]
fn sources_within_the_levels_load() {
    // QuickJS has less stack for its own parser.
    let max = if cfg!(feature = "quickjs") { 100 } else { 490 };
    for (before, after, levels) in [("(", ")", max), ("[", "]", max), ("!", "", max), ("- ", "", max), ("`${", "}`", max / 2)] {
        let source = format!("export default () => typeof {}1{};", before.repeat(levels), after.repeat(levels));
        for language in [Language::Js, Language::Ts] {
            let mut worker = Worker::start();
            worker.load(&source, language).unwrap_or_else(|error| panic!("{error:?}: {before} as {language:?}"));
            assert!(worker.json(&Value::Null).is_string());
        }
    }
}

#[test]
fn third_parameter_is_named_by_an_error_about_undefined() {
    for (handler, is_advised) in [
        ("export default async (req, env, ctx) => ctx.waitUntil(Promise.resolve());", true),
        ("export default (req, env, ctx) => env.COUNTS.get('calls');", true),
        ("export default (req, ctx) => ctx.env.COUNTS.get('calls');", false),
        ("export default (req, env, ctx) => { throw new Error('ctx is undefined'); };", false),
    ] {
        let thrown = Worker::with(handler).thrown(&Value::Null);
        assert_eq!(thrown.contains("`(req, ctx)`"), is_advised, "{handler}: {thrown}");
    }
}

/// Loads a source with compiled code. Returns its answer, and the code that the worker sent.
#[cfg(feature = "v8")]
fn loaded_with(code: Option<&[u8]>, source: &str) -> (Value, Option<bytes::Bytes>) {
    let mut worker = Worker::start();
    if let Some(code) = code {
        worker.send(&tollhouse_protocol::ToWorker::Code(code.to_vec().into()));
    }
    worker.load(source, Language::Js).unwrap();
    (worker.json(&serde_json::json!(1)), worker.compiled.take())
}

#[cfg(feature = "v8")]
#[test]
fn compiled_code_of_a_large_source_is_made_once_and_changes_no_answer() {
    let function = |n: u32| format!("function f{n}(a) {{ return [a, {n}].map((b) => b + {n}); }}\n");
    let large: String = (0..6_000).map(function).collect();
    let source = format!("{large}let loads = 0; loads++;\nexport default (req) => [f17(req.input), loads];");
    assert!(source.len() > tollhouse_protocol::limits::COMPILED_SOURCE_BYTES);
    let (answer, code) = loaded_with(None, &source);
    let code = code.expect("the worker sends it");
    assert!(answer == serde_json::json!([[18, 34], 1]) && !code.is_empty(), "{answer}");
    assert_eq!(loaded_with(Some(&code), &source), (answer, None));
    let other = source.replace("loads++", "loads += 10");
    for unusable in [&code[..], b"no code", b""] {
        assert_eq!(loaded_with(Some(unusable), &other), (serde_json::json!([[18, 34], 10]), None));
    }
    let common = format!("{large}module.exports = (req) => f17(req.input);");
    let (answer, code) = loaded_with(None, &common);
    assert_eq!(loaded_with(code.as_deref(), &common), (answer, None));
    assert_eq!(loaded_with(None, "export default () => 1;"), (serde_json::json!(1), None));
}

#[cfg(feature = "v8")]
#[test]
fn compiled_code_of_an_expression_is_not_taken_for_a_module_of_its_length() {
    let filler = "// filler\n".repeat(30_000);
    let function = format!("function handler(req) {{\n{filler}function inner(a) {{ return a + 41; }}\nreturn inner(req.input);\n}}");
    // `export default (` and `);` on a line of its own have 19 characters.
    let source = format!("{function}{}", " ".repeat(19));
    assert!(source.len() > tollhouse_protocol::limits::COMPILED_SOURCE_BYTES);
    let (answer, code) = loaded_with(None, &source);
    assert_eq!(answer, serde_json::json!(42));
    let code = code.expect("the worker sends it");
    assert_eq!(loaded_with(Some(&code), &source), (answer, None));
}

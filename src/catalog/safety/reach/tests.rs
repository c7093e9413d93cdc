use super::*;

fn found(source: &str) -> Vec<(&'static str, usize)> {
    reaches(source).into_iter().map(|reach| (reach.name, reach.line)).collect()
}

#[test]
fn members_of_the_second_parameter_are_found() {
    for (source, requested) in [
        ("export default (req, ctx) => ctx.kv.get('a');", vec![("kv", 1)]),
        (
            "export default async function (req, ctx) {\n  ctx.log.info('a');\n  ctx.log('b'); await ctx?.files.list();\n}",
            vec![("log", 2), ("files", 3)],
        ),
        (
            "export default async function handler(request: Req<A, B>, c: Ctx) { return c.httpGetJson('https://a'); }",
            vec![("httpGetJson", 1)],
        ),
        ("export default async ({ input }, { kv, log }) => { log.info(1); };", vec![("log", 1)]),
        ("const main = async (req, ctx) => { const { kv } = ctx; };\nexport default main;", vec![("kv", 1)]),
        ("export default () => { console.log(1); console.error(2); };", vec![("console", 1)]),
        ("export default () => { const c = console; c.log(1); };", vec![("console", 1)]),
        ("export default () => {\n  console['log'](1);\n};", vec![("console", 2)]),
        ("export default () => { globalThis.console.error(1); };", vec![("console", 1)]),
        ("export default () => { self?.console?.error(1); };", vec![("console", 1)]),
        ("const { log } = console; export default () => log(1);", vec![("console", 1)]),
    ] {
        assert_eq!(found(source), requested, "{source}");
    }
}

#[test]
fn uses_of_webassembly_are_found() {
    for source in ["export default () => new WebAssembly.Module(b);", "await globalThis.WebAssembly.compile(b); export default () => 1;"] {
        assert_eq!(found(source), [("WebAssembly", 1)], "{source}");
    }
    for source in ["export default () => typeof WebAssembly;", "export default () => 'WebAssembly.Module';", "a.WebAssembly.compile(b);"] {
        assert_eq!(found(source), [], "{source}");
    }
}

#[test]
fn calls_of_the_global_fetch_are_found() {
    for source in [
        "export default async () => await fetch('https://a.example/');",
        "export default () => globalThis.fetch('https://a.example/');",
        "export default () => { const answer = self.fetch(url); };",
    ] {
        assert_eq!(found(source), [("fetch", 1)], "{source}");
    }
    for source in [
        "export default { async fetch(request) { return new Response(); } };",
        "export default { fetch(request, env) { return env; } };",
        "export default (req, ctx) => ctx.fetch('a') ?? my.fetch('b');",
        "export default () => typeof fetch === 'function';",
        "const fetch = (url) => url; export default () => fetch('a');",
        "function fetch(url) {} export default () => fetch('a');",
    ] {
        assert_eq!(found(source), [], "{source}");
    }
}

#[test]
fn similar_names_are_not_found() {
    for source in [
        "export default (req, ctx) => { Math.log(2); my.console.log(1); /* ctx.kv */ return 'ctx.kv.get'; };",
        "export default (req) => ({ kv: req.input.kv, log: Math.log(2), files: [] });",
        "export default (req, c) => { const ctx = { kv: { get() {} } }; return ctx.kv.get(); };",
        "export default (req, { env }) => env.A;",
        "export default (req) => ({ console: req.input.globalThis.console, known: typeof console });",
        "",
    ] {
        assert_eq!(found(source), [], "{source}");
    }
}

#[test]
fn code_from_strings_is_found() {
    for (source, line) in [
        ("export default () => eval('1');", 1),
        ("\n\nconst f = new Function('a', 'return a');", 3),
        ("const f = Function('a', body);", 1),
        ("x;\nreturn Function.apply(this, params);", 2),
        ("globalThis.eval(text)", 1),
        ("new Function", 1),
    ] {
        assert_eq!(line_of_code_from_strings(source), Some(line), "{source}");
    }
    for source in [
        "var $Function = Function; const INTRINSICS = { '%eval%': eval, '%Function%': Function };",
        "const root = self || Function('return this')();",
        "x instanceof Function; Function.prototype.call.call(a); typeof eval;",
        "class A { eval(text) { return text; } } new A().eval('1'); // eval('1')",
        "const o = { Function() { return 'eval(1)'; } }; o.Function();",
        "function eval_(a) {} eval_(1);",
        "Function.prototype.apply.call(f, a)",
    ] {
        assert_eq!(line_of_code_from_strings(source), None, "{source}");
    }
}

#[test]
fn habits_from_workers_are_found() {
    use WorkersHabit::{Binding, ThirdParameter};
    for (source, habits) in [
        ("export default async (req, env, ctx) => {\n  ctx.waitUntil(work());\n};", vec![(ThirdParameter, 1)]),
        ("export default async function main(req: Req<A, B>, env, c) { c?.waitUntil(1); }", vec![(ThirdParameter, 1)]),
        ("export default function (\n  req,\n  env,\n  { waitUntil },\n) { waitUntil(1); }", vec![(ThirdParameter, 4)]),
        ("export default (req, ctx) => ctx.waitUntil(1);", vec![]),
        ("const main = (req, ctx) => ctx.waitUntil(1);\nexport default main;", vec![]),
        ("export default (req, ctx,) => other.ctx.waitUntil(ctx.kv);", vec![]),
        ("export default ({ input, body, url }, { kv, log, env }) => kv.get('ctx.waitUntil');", vec![]),
        ("export default wrap(schema, options, (req, ctx) => 1);", vec![]),
        ("export default (req, c) => ctx.waitUntil(1);", vec![]),
        ("export default async (request, env) => {\n  return env.COUNTS.get('a') ?? env.MORE;\n};", vec![(Binding, 2)]),
        ("export default async function (request: Request, env: Env) { return env?.KV_1.get('a'); }", vec![(Binding, 1)]),
        ("export default (req, env) => env.kv.get('env.COUNTS') ?? env.env.KEY ?? process.env.KEY ?? env.A;", vec![]),
        ("export default (req, { env }) => env.KEY;", vec![]),
        ("export default (req, ctx) => { const env = ctx.env; return env.KEY; };", vec![]),
        ("", vec![]),
    ] {
        assert_eq!(workers_habits(source), habits, "{source}");
    }
}

#[test]
fn time_is_linear_in_the_source() {
    let long = format!("export default (req, ctx) => [{}];", "{kv,".repeat(100_000));
    let started = std::time::Instant::now();
    assert_eq!(reaches(&long), []);
    assert!(started.elapsed() < std::time::Duration::from_secs(5), "{:?}", started.elapsed());
}

//! A tool's folder: creation, checks, and bundling with its imports.

use std::{
    fs,
    path::{Path, PathBuf},
};

use serde_json::{Value, json};

use super::harness::Shell;
use crate::harness::Host;

/// Returns the folder with a builder's installed packages: a bundler, a compiler, and a library.
pub fn packages() -> PathBuf {
    let target = Path::new(env!("CARGO_BIN_EXE_tollhouse")).parent().unwrap().parent().unwrap();
    let folder = target.join("packages/node_modules");
    assert!(folder.join("esbuild").is_dir(), "`{}` is not there: run `cargo xtask test`, which installs it", folder.display());
    folder
}

/// Creates the folder of a new tool, with the packages of a builder.
pub async fn started(shell: &Shell, name: &str) -> PathBuf {
    shell.run(&["init", name]).await.is(0);
    let folder = shell.home().join(name);
    std::os::unix::fs::symlink(packages(), folder.join("node_modules")).unwrap();
    folder
}

/// Installs packages into a folder with npm, as a builder does. The versions are those that
/// `cargo xtask test` has fetched, so that nothing else is downloaded.
pub async fn installed(folder: &Path, names: &[&str]) {
    let lock = fs::read_to_string(packages().join(".package-lock.json")).unwrap();
    let lock: Value = serde_json::from_str(&lock).unwrap();
    let versions =
        names.iter().map(|name| format!("{name}@{}", lock["packages"][format!("node_modules/{name}")]["version"].as_str().unwrap()));
    let mut npm = tokio::process::Command::new("npm");
    npm.args(["install", "--prefer-offline", "--no-audit", "--no-fund"]).args(versions).current_dir(folder);
    let done = npm.output().await.expect("no npm");
    assert!(done.status.success(), "{done:?}");
}

/// Replaces the first occurrence of `from` in a file of a folder.
pub fn edit(folder: &Path, name: &str, from: &str, to: &str) {
    let text = fs::read_to_string(folder.join(name)).unwrap();
    assert!(text.contains(from), "{name} has no {from}:\n{text}");
    fs::write(folder.join(name), text.replacen(from, to, 1)).unwrap();
}

/// Changes the price, the handler and the requested capabilities in a new folder.
pub fn edit_thrice(folder: &Path) {
    edit(folder, "tool.json", "\"priceUsd\": 0.01", "\"priceUsd\": 0.02");
    edit(
        folder,
        "tool.json",
        "\"capabilities\": { \"logs\": true }",
        "\"capabilities\": { \"logs\": true, \"httpGetJson\": true },\n  \"allowedHosts\": [\"api.example.com\"]",
    );
    edit(folder, "handler.ts", "text.toUpperCase()", "text.toUpperCase() + \"!\"");
}

#[tokio::test]
async fn folder_is_begun_and_nothing_in_it_is_written_over() {
    let shell = Shell::new();
    let made = "shout/tool.json      created\nshout/handler.ts     created\nshout/cases.jsonc    created\nshout/tool.d.ts      created\nshout/globals.d.ts   created\nshout/tsconfig.json  created\nshout/.gitignore     created";
    shell.run(&["init", "shout"]).await.is(0).stderr_text(made).warned("next: cd shout && tollhouse dev");
    let folder = shell.home().join("shout");
    fs::write(folder.join("handler.ts"), "mine").unwrap();
    fs::write(folder.join("tool.d.ts"), "old").unwrap();
    shell
        .run(&["init", "shout"])
        .await
        .is(0)
        .stderr_text("…\nshout/handler.ts     kept, because it already exists\n…\nshout/tool.d.ts      kept, because it already exists\n…");
    assert_eq!(fs::read_to_string(folder.join("handler.ts")).unwrap(), "mine");
    shell
        .run(&["init", "shout", "--js"])
        .await
        .is(1)
        .warned("error: `shout/handler.ts` already exists, and a tool can have only one handler");
    let expected = "tool.d.ts     updated\nglobals.d.ts  unchanged";
    shell.run_in(&folder, &["types"]).await.is(0).stderr_text(expected);
    shell.run(&["init", "sum", "--from", "text-summary"]).await.is(0);
    assert!(fs::read_to_string(shell.home().join("sum/tool.json")).unwrap().contains("\"slug\": \"sum\""));
    shell.run(&["init", "other", "--from", "none"]).await.is(2).warned("error: There is no example tool `none`\nhint: available: …");
    shell.run(&["init", "Not A Name"]).await.is(2);
    shell.run(&["init", "other", "--url", "http://127.0.0.1:1"]).await.is(2);
    shell.run(&["types"]).await.is(2).warned("error: This is not the folder of a tool: it has no tool.json\nhint: …");
}

#[tokio::test]
async fn check_says_all_that_is_wrong_with_its_place() {
    let shell = Shell::new();
    let folder = started(&shell, "shout").await;
    let well = "shout   …\nhost    ok  temporary local host\ntypes   ok\ncases   3/3";
    shell.run_in(&folder, &["check"]).await.is(0).stderr_text(well).warned("");
    edit(&folder, "handler.ts", "text.toUpperCase()", "txt.toUpperCase()");
    edit(&folder, "cases.jsonc", "\"HI\"", "\"HO\"");
    let wrong = "handler.ts:4:18  Cannot find name 'txt'. Did you mean 'text'?\nhandler.ts:4:…  ✗ \"shouts\": expected 200, got 502: …ReferenceError: txt is not defined (handler_failed)\n…\ntypes   1 error\ncases   2/3";
    shell.run_in(&folder, &["check"]).await.is(1).stderr_text(wrong).warned("error: 2 problems found");
    shell.run_in(&folder, &["check", "--no-types"]).await.is(1).stderr_text("handler.ts:4:…\n…\ntypes   not requested\n…");
    edit(&folder, "handler.ts", "txt.toUpperCase()", "text.toUpperCase()");
    shell.run_in(&folder, &["check"]).await.is(1).stderr_text("cases.jsonc  ✗ \"shouts\": /text expected \"HO\", got \"HI\"\n…");
    edit(&folder, "tool.json", "\"title\": \"Shout\"", "\"title\": \"\"");
    shell.run_in(&folder, &["check"]).await.is(1).stderr_text("tool.json:3:12  A title must have …\n…");
    edit(&folder, "tool.json", "\"title\": \"\",", "\"title\": ,");
    shell.run_in(&folder, &["check"]).await.is(1).stderr_text("tool.json:3:12  …expected value…");
    let answer = shell.run_in(&folder, &["check", "--json"]).await.is(1);
    let answer: Value = serde_json::from_str(&answer.stdout).unwrap();
    assert_eq!(
        (&answer["ok"], &answer["problems"][0]["file"], &answer["problems"][0]["line"]),
        (&json!(false), &json!("tool.json"), &json!(3))
    );
}

#[tokio::test]
async fn results_are_compared_with_the_schemas_of_their_cases() {
    let shell = Shell::new();
    let folder = started(&shell, "shout").await;
    let case = |name: &str, schema: Value| json!({ "name": name, "input": { "text": "hi" }, "outputMatches": schema });
    let cases = json!([
        case("fits", json!({ "properties": { "text": { "type": "string" } }, "required": ["text"] })),
        case("differs", json!({ "properties": { "text": { "type": "number" } } })),
        case("lacks", json!({ "required": ["sound"] })),
        case("is no schema", json!({ "type": 1 })),
    ]);
    fs::write(folder.join("cases.jsonc"), cases.to_string()).unwrap();
    let wrong = "cases.jsonc  ✗ \"differs\": /text the value is not of type \"number\"\ncases.jsonc  ✗ \"lacks\": the result: \"sound\" is required\ncases.jsonc  ✗ \"is no schema\": `outputMatches` is not a schema: /type …\n…\ncases   1/4";
    shell.run_in(&folder, &["check", "--no-types"]).await.is(1).stderr_text(wrong);
}

#[tokio::test]
async fn selected_host_is_asked_and_nothing_is_stored() {
    let host = Host::start().await;
    let (_, key) = host.register("Toolsmith").await;
    let shell = Shell::builder(&host, &key);
    let folder = started(&shell, "shout").await;
    edit(
        &folder,
        "tool.json",
        "\"capabilities\": { \"logs\": true }",
        "\"capabilities\": { \"logs\": true, \"httpGetJson\": true },\n  \"allowedHosts\": [\"api.example.com\"]",
    );
    let expected = format!("shout   …\nhost    ok  {}\n        needs approval: httpGetJson api.example.com\n…\ncases   3/3", host.url);
    shell.run_in(&folder, &["check"]).await.is(0).stderr_text(&expected);
    host.get("/ai/endpoints/shout").await.fails(404, "unknown_endpoint", "caller");
    Shell::at("http://127.0.0.1:9").env("TOLLHOUSE_BUILDER_KEY", "bk_x").run_in(&folder, &["check", "--no-types"]).await.is(5);
}

#[tokio::test]
async fn warnings_about_a_bundle_name_the_builders_own_lines() {
    let shell = Shell::new();
    let folder = started(&shell, "wait").await;
    let handler = "import ms from \"ms\";\n\nexport default async (req, ctx) => {\n  await ctx.httpGetJson(\"https://api.example.com/\");\n  return { text: String(ms(\"2s\")) };\n};\n";
    fs::remove_file(folder.join("handler.ts")).unwrap();
    fs::write(folder.join("handler.js"), handler).unwrap();
    fs::write(folder.join("cases.jsonc"), "[]").unwrap();
    let ran = shell.run_in(&folder, &["check", "--no-types"]).await.is(0);
    assert!(ran.stdout.contains("`ctx.httpGetJson`") && ran.stdout.contains("(handler.js:4)"), "{ran:?}");
}

#[tokio::test]
async fn package_is_bundled_and_errors_name_the_builders_own_lines() {
    let shell = Shell::new();
    let folder = started(&shell, "wait").await;
    let handler = "import ms from \"ms\";\nimport { twice } from \"./lib/twice.ts\";\n\nexport default function (req: ToolRequest<{ text: string }>) {\n  if (req.input.text === \"boom\") throw new Error(\"boom\");\n  return { text: twice(String(ms(req.input.text as ms.StringValue))) };\n}\n";
    fs::write(folder.join("handler.ts"), handler).unwrap();
    fs::create_dir(folder.join("lib")).unwrap();
    fs::write(folder.join("lib/twice.ts"), "export const twice = (text: string): string => text + text;\n").unwrap();
    fs::write(folder.join("cases.jsonc"), "[{\"name\": \"waits\", \"input\": {\"text\": \"2s\"}, \"output\": {\"text\": \"20002000\"}}, {\"name\": \"throws\", \"input\": {\"text\": \"boom\"}, \"output\": 1}]").unwrap();
    shell
        .run_in(&folder, &["check", "--no-types"])
        .await
        .is(1)
        .stderr_text("handler.ts:5:40  ✗ \"throws\": expected 200, got 502: …boom (handler_failed)\n…\ncases   1/2");
    fs::write(folder.join("lib/twice.ts"), "export const twice = ;\n").unwrap();
    shell.run_in(&folder, &["check", "--no-types"]).await.is(1).stderr_text("lib/twice.ts:1:22  Unexpected \";\"");
    fs::remove_file(folder.join("lib/twice.ts")).unwrap();
    shell.run_in(&folder, &["check", "--no-types"]).await.is(1).stderr_text("handler.ts:2:23  `./lib/twice.ts` does not exist");
}

#[tokio::test]
async fn imported_wasm_files_are_modules_of_the_bundle() {
    let shell = Shell::new();
    let folder = started(&shell, "adds").await;
    let module =
        b"\0asm\x01\0\0\0\x01\x07\x01\x60\x02\x7f\x7f\x01\x7f\x03\x02\x01\0\x07\x07\x01\x03add\0\0\x0a\x09\x01\x07\0\x20\0\x20\x01\x6a\x0b";
    fs::write(folder.join("add.wasm"), module).unwrap();
    // QuickJS has no `WebAssembly`, and the import is undefined.
    let handler = "import add from \"./add.wasm\";\n\nexport default async function () {\n  if (typeof WebAssembly === \"undefined\") return { text: add === undefined ? \"3\" : \"\" };\n  const { exports } = await WebAssembly.instantiate(add);\n  return { text: String(exports.add(1, 2)) };\n}\n";
    fs::write(folder.join("handler.ts"), handler).unwrap();
    edit(&folder, "tool.json", "\"capabilities\": {", "\"capabilities\": { \"wasm\": true,");
    fs::write(folder.join("cases.jsonc"), "[{\"name\": \"adds\", \"input\": {\"text\": \"a\"}, \"output\": {\"text\": \"3\"}}]").unwrap();
    let ran = shell.run_in(&folder, &["check", "--no-types"]).await;
    assert!(format!("{ran:?}").contains("cases   1/1"), "{ran:?}");
}

#[tokio::test]
async fn missing_and_node_packages_are_rejected_by_name() {
    let shell = Shell::new();
    shell.run(&["init", "wait"]).await.is(0);
    let folder = shell.home().join("wait");
    let import =
        |from: &str| fs::write(folder.join("handler.ts"), format!("import x from \"{from}\";\nexport default () => x;\n")).unwrap();
    import("needs-fs");
    shell.run_in(&folder, &["check"]).await.is(1).stderr_text("handler.ts:1:15  importing `needs-fs` needs a bundler: npm i -D esbuild");
    let own = folder.join("node_modules");
    fs::create_dir_all(own.join("needs-fs")).unwrap();
    std::os::unix::fs::symlink(packages().join(".bin"), own.join(".bin")).unwrap();
    fs::write(own.join("needs-fs/index.js"), "const fs = require(\"fs\");\nmodule.exports = () => fs.readFileSync(\"x\");\n").unwrap();
    fs::write(own.join("needs-fs/package.json"), "{\"name\": \"needs-fs\", \"version\": \"1.0.0\", \"main\": \"index.js\"}").unwrap();
    let refused =
        "node_modules/needs-fs/index.js:1:20  the package `needs-fs` needs Node's `fs`, which tools do not have: use another package";
    shell.run_in(&folder, &["check"]).await.is(1).stderr_text(refused);
    import("node:net");
    shell.run_in(&folder, &["check"]).await.is(1).stderr_text("handler.ts:1:15  `node:net` is part of Node, which tools do not have");
    import("not-there");
    shell.run_in(&folder, &["check"]).await.is(1).stderr_text("handler.ts:1:15  the package `not-there` is not installed: npm i not-there");
    fs::write(own.join("needs-fs/index.js"), format!("module.exports = {:?};\n", "x".repeat(4_200_000))).unwrap();
    import("needs-fs");
    let too_large = "handler.ts  the bundle has 42…, but a host accepts 4194304: needs-fs 42…";
    shell.run_in(&folder, &["check"]).await.is(1).stderr_text(too_large);
    edit(&folder, "tool.json", "\"capabilities\": { \"logs\": true }", "\"limits\": { \"sourceBytes\": 1048576 }");
    let requested =
        "handler.ts  the bundle has 42…, but a host accepts 1048576; `limits.sourceBytes` can request up to 4194304: needs-fs 42…";
    shell.run_in(&folder, &["check"]).await.is(1).stderr_text(requested);
}

/// Creates a folder with a handler that imports a package, and a test case for its output.
async fn importing(shell: &Shell, name: &str, handler: &str, output: &Value) -> PathBuf {
    let folder = started(shell, &format!("uses-{name}")).await;
    fs::remove_file(folder.join("handler.ts")).unwrap();
    fs::write(folder.join("handler.js"), handler).unwrap();
    let cases = json!([{ "name": "answers", "input": { "text": "a" }, "output": output }]);
    fs::write(folder.join("cases.jsonc"), cases.to_string()).unwrap();
    folder
}

/// Packages for Node find its modules, its globals, and a production build.
#[tokio::test]
async fn packages_for_node_find_portable_forms_of_its_modules() {
    let shell = Shell::new();
    let handler = r#"import { createHash, createHmac } from "node:crypto";
import { EventEmitter, once } from "node:events";
import path from "path";
import { Readable } from "stream";
import util from "node:util";
import url from "node:url";
import querystring from "querystring";
import assert from "node:assert/strict";
import { StringDecoder } from "node:string_decoder";
import { AsyncLocalStorage } from "node:async_hooks";
import { setTimeout as wait } from "node:timers/promises";
import punycode from "punycode";

export default async () => {
  const emitter = new EventEmitter();
  const heard = once(emitter, "a");
  emitter.emit("a", 1);
  const chunks = [];
  for await (const chunk of Readable.from(["b", "c"])) chunks.push(chunk);
  assert.deepEqual(new Map([[1, [2]]]), new Map([[1, [2]]]));
  assert.throws(() => assert.deepEqual(new Map([[1, 2]]), new Map()), { code: "ERR_ASSERTION" });
  const storage = new AsyncLocalStorage();
  const stored = await storage.run(7, async () => {
    await wait(1);
    return storage.getStore();
  });
  return { text: [
    createHash("md5").update("").digest("hex"),
    createHmac("sha256", "key").update("x").digest("base64url"),
    (await heard)[0], chunks.join(""), stored, path.join("/a", "../b"),
    util.inspect({ a: [1, { b: new Set([2]) }] }), util.format("%s=%d", "n", 5), await util.promisify((ok) => ok(null, 3))(),
    url.parse("https://a.dev:8/b?c=d").port, querystring.stringify({ e: ["f", "g"] }),
    new StringDecoder("utf8").write(Buffer.from([0xe2, 0x82, 0xac])), punycode.toASCII("m\u00fcnchen.de"),
    process.env.NODE_ENV, typeof process.env.HOME, Buffer.from("hi").toString("base64"), typeof setImmediate,
  ].join(" ") };
};
"#;
    let text = "d41d8cd98f00b204e9800998ecf8427e T8O36vNNfllKb1HZUXulQ6v0EGeydYf_2CujWE5NPN0 1 bc 7 /b { a: [ 1, { b: [Set] } ] } n=5 3 8 e=f&e=g \u{20ac} xn--mnchen-3ya.de production undefined aGk= function";
    let folder = importing(&shell, "node", handler, &json!({ "text": text })).await;
    shell.run_in(&folder, &["check", "--no-types"]).await.is(0).stderr_text("…\ncases   1/1");
}

/// A file without imports is compiled too, and its errors have its lines.
#[tokio::test]
async fn typescript_that_is_not_only_types_is_compiled() {
    let shell = Shell::new();
    let folder = started(&shell, "compiled").await;
    let handler = r#"enum Size { Small = 1, Large = Small << 4 }
namespace Names { export const large = "large"; }
function doubled(method: (text: string) => string, _: ClassMethodDecoratorContext) {
  return (text: string): string => method(text) + method(text);
}
class Shouter {
  constructor(private readonly mark: string) {}
  @doubled shout(text: string): string { return text.toUpperCase() + (this?.mark ?? "?"); }
}
export default (req: ToolRequest<{ text: string }>) => {
  if (req.input.text === "boom") throw new Error("boom");
  return { text: `${Size.Large} ${Names.large} ${Size[1]} ${new Shouter("!").shout(req.input.text)}` };
};
"#;
    fs::write(folder.join("handler.ts"), handler).unwrap();
    fs::write(folder.join("cases.jsonc"), r#"[{"name": "compiles", "input": {"text": "a"}, "output": {"text": "16 large Small A?A?"}}, {"name": "throws", "input": {"text": "boom"}, "output": 1}]"#).unwrap();
    let ran = shell.run_in(&folder, &["check", "--no-types"]).await.is(1);
    assert!(ran.stdout.contains("handler.ts:11:40  ✗ \"throws\"") && ran.stdout.contains("cases   1/2"), "{ran:?}");
}

/// Each of them references `Function` or `eval` when it loads, but does not call it.
#[tokio::test]
async fn packages_that_only_know_of_code_from_strings_run_without_a_warning() {
    let shell = Shell::new();
    for (name, handler, output) in [
        ("qs", "import qs from \"qs\";\nexport default () => ({ text: qs.stringify({ a: [1] }) });", json!({ "text": "a%5B0%5D=1" })),
        (
            "side-channel",
            "import make from \"side-channel\";\nexport default () => { const c = make(), k = {}; c.set(k, \"v\"); return { text: c.get(k) }; };",
            json!({ "text": "v" }),
        ),
        (
            "array-includes",
            "import has from \"array-includes\";\nexport default () => ({ text: String(has([NaN], NaN)) });",
            json!({ "text": "true" }),
        ),
        (
            "matchall",
            "import all from \"string.prototype.matchall\";\nexport default () => ({ text: String([...all(\"aba\", /a/g)].length) });",
            json!({ "text": "2" }),
        ),
        (
            "url",
            "import url from \"url/\";\nexport default () => ({ text: url.parse(\"https://a.dev/b?c\").pathname });",
            json!({ "text": "/b" }),
        ),
    ] {
        let folder = importing(&shell, name, handler, &output).await;
        let ran = shell.run_in(&folder, &["check", "--no-types"]).await.is(0).stderr_text("…\ncases   1/1");
        assert!(!ran.stdout.contains("code from strings") && !ran.stderr.contains("code from strings"), "{name}: {ran:?}");
    }
}

/// Packages recognize the web's classes by their tags. Without the tag, lodash copied such an object's fields, and threw.
#[tokio::test]
async fn packages_recognize_web_classes_by_their_tags() {
    let shell = Shell::new();
    let handler = "import cloneDeep from \"lodash/cloneDeep.js\";
export default () => {
    const form = new URLSearchParams(\"a=1\");
    return { text: `${JSON.stringify(cloneDeep(form))} ${cloneDeep({ form }).form.get(\"a\")}` };
};";
    let folder = importing(&shell, "clone-deep", handler, &json!({ "text": "{} 1" })).await;
    shell.run_in(&folder, &["check", "--no-types"]).await.is(0).stderr_text("…\ncases   1/1");
}

/// Builders once learned of this only at their first paid call.
#[tokio::test]
async fn packages_that_make_code_from_strings_are_warned_of_with_their_line() {
    let shell = Shell::new();
    for (name, handler) in [
        ("ajv", "import { Ajv } from \"ajv\";\nexport default () => ({ text: String(new Ajv().compile({ type: \"string\" })(\"a\")) });"),
        ("handlebars", "import H from \"handlebars\";\nexport default () => ({ text: H.compile(\"{{a}}\")({ a: \"b\" }) });"),
        (
            "template",
            "import template from \"lodash/template.js\";\nexport default () => ({ text: template(\"<%= a %>\")({ a: \"b\" }) });",
        ),
    ] {
        let folder = importing(&shell, name, handler, &json!({ "text": "b" })).await;
        let ran = shell.run_in(&folder, &["check", "--no-types"]).await.is(1);
        let expected = format!("{}{}", ran.stdout, ran.stderr);
        let warned =
            expected.lines().find(|line| line.contains("makes code from strings (")).unwrap_or_else(|| panic!("{name}: {expected}"));
        assert!(warned.contains("standalone code"), "{warned}");
        assert!(
            expected.contains("EvalError: code from strings is not available: use a package that does not need it"),
            "{name}: {expected}"
        );
    }
}

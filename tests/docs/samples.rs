//! Checks the code blocks of the documents without running them: JSON against the schema that a
//! block names, the syntax of shell, scripts and settings, and the types of handlers.

use std::{
    env, fs,
    path::{Path, PathBuf},
    process::{Command, Stdio},
    sync::LazyLock,
};

use serde_json::{Value, json};
use tollhouse::http::described;

use super::{
    blocks::{Block, blocks},
    documents, root,
};

/// The API document, whose schemas the samples have.
static DOCUMENT: LazyLock<Value> = LazyLock::new(described);

/// Returns the blocks of all documents in one of these languages.
fn all(languages: &[&str]) -> Vec<Block> {
    documents().iter().flat_map(|path| blocks(root(), path)).filter(|block| block.is(languages)).collect()
}

/// Removes `…` that stands for left-out fields or items.
fn without_gaps(text: &str) -> String {
    let (mut kept, mut is_string, mut is_escaped) = (String::new(), false, false);
    for char in text.chars() {
        match char {
            _ if is_escaped => is_escaped = false,
            '\\' => is_escaped = is_string,
            '"' => is_string = !is_string,
            '…' if !is_string => continue,
            _ => {}
        }
        kept.push(char);
    }
    without_loose_commas(&kept)
}

/// Removes the commas beside a gap: those before another comma or an end, and after a beginning.
fn without_loose_commas(text: &str) -> String {
    let (mut kept, mut is_string, mut is_escaped) = (String::new(), false, false);
    for char in text.chars() {
        let last = kept.trim_end().chars().next_back();
        match char {
            _ if is_escaped => is_escaped = false,
            '\\' => is_escaped = is_string,
            '"' => is_string = !is_string,
            ',' if !is_string && matches!(last, Some(',' | '{' | '[')) => continue,
            '}' | ']' if !is_string && last == Some(',') => {
                let end = kept.trim_end().len() - 1;
                kept.truncate(end);
            }
            _ => {}
        }
        kept.push(char);
    }
    kept
}

/// Returns the schema that a block names, as a pointer into the API document.
fn schema(block: &Block) -> Option<String> {
    let of_operation = |id: &str, part: &dyn Fn(&str) -> String| {
        let paths = DOCUMENT["paths"].as_object().expect("the document has paths");
        let found = paths.iter().find_map(|(path, item)| {
            let (method, _) = item.as_object()?.iter().find(|(_, operation)| operation["operationId"] == id)?;
            Some(format!("/paths/{}/{method}", path.replace('~', "~0").replace('/', "~1")))
        });
        part(&found.unwrap_or_else(|| panic!("{}: there is no operation `{id}`", block.place())))
    };
    let answer = |at: &str| format!("{at}/responses/200/content/application~1json/schema");
    let body = |at: &str| format!("{at}/requestBody/content/application~1json/schema");
    let named = block.value("schema").map(|name| format!("/components/schemas/{name}"));
    named.or_else(|| Some(of_operation(block.value("answer")?, &answer))).or_else(|| Some(of_operation(block.value("body")?, &body)))
}

/// Returns the first error of a sample. A sample with gaps can lack required fields.
fn misfit(pointer: &str, sample: &Value, has_gaps: bool) -> Option<String> {
    let mut document = DOCUMENT.clone();
    if has_gaps {
        drop_required(&mut document);
    }
    // A reference is a URI.
    document["$ref"] = json!(format!("#{}", pointer.replace('{', "%7B").replace('}', "%7D")));
    let validator = jsonschema::options().build(&document).expect("the document is valid");
    validator.iter_errors(sample).next().map(|error| format!("{}: {error}", error.instance_path()))
}

fn drop_required(value: &mut Value) {
    match value {
        Value::Object(members) => {
            if members.get("required").is_some_and(Value::is_array) {
                members.remove("required");
            }
            members.values_mut().for_each(drop_required);
        }
        Value::Array(items) => items.iter_mut().for_each(drop_required),
        _ => {}
    }
}

#[test]
fn json_samples_parse_and_match_the_schema_that_they_name() {
    let mut wrong = vec![];
    for block in all(&["json"]) {
        let text = without_gaps(&block.text);
        match serde_json::from_str::<Value>(&text) {
            Err(error) => wrong.push(format!("{}: {error}", block.place())),
            Ok(sample) => {
                let has_gaps = block.text.contains('…');
                let misfit = schema(&block).and_then(|pointer| misfit(&pointer, &without_gap_fields(sample), has_gaps));
                wrong.extend(misfit.map(|misfit| format!("{}: {misfit}", block.place())));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// Removes fields with the name `…`, which stand for others.
fn without_gap_fields(mut value: Value) -> Value {
    fn remove(value: &mut Value) {
        match value {
            Value::Object(members) => {
                members.remove("…");
                members.values_mut().for_each(remove);
            }
            Value::Array(items) => items.iter_mut().for_each(remove),
            _ => {}
        }
    }
    remove(&mut value);
    value
}

#[test]
fn toml_samples_parse() {
    for block in all(&["toml"]) {
        if let Err(error) = toml::from_str::<toml::Table>(&block.text) {
            panic!("{}: {error}", block.place());
        }
    }
}

/// Runs a checker that reads a text. Returns its complaint.
fn complaint(program: &str, args: &[&str], text: &str) -> Option<String> {
    let mut child = Command::new(program);
    let child = child.args(args).stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::piped()).spawn();
    let mut child = child.unwrap_or_else(|error| panic!("{program}: {error}"));
    std::io::Write::write_all(&mut child.stdin.take().expect("it is piped"), text.as_bytes()).expect("the checker reads");
    let ended = child.wait_with_output().expect("the checker ends");
    (!ended.status.success()).then(|| String::from_utf8_lossy(&ended.stderr).into_owned())
}

#[test]
fn shell_blocks_have_valid_syntax() {
    for block in all(&["sh", "bash", "console"]) {
        let commands: String = block.commands().into_iter().map(|(command, _)| command + "\n").collect();
        if let Some(wrong) = complaint("bash", &["-n"], &commands) {
            panic!("{}: {wrong}\n{commands}", block.place());
        }
    }
}

#[test]
fn script_samples_have_valid_syntax() {
    for block in all(&["js", "mjs"]) {
        let wrong = complaint("node", &["--input-type=module", "--check", "-"], &block.text);
        assert_eq!(wrong, None, "{}", block.place());
    }
    for block in all(&["py", "python"]) {
        let wrong = complaint("python3", &["-c", "import ast, sys; ast.parse(sys.stdin.read())"], &block.text);
        assert_eq!(wrong, None, "{}", block.place());
    }
}

/// Returns the TypeScript compiler, which `cargo xtask test` installs in the target folder.
pub(crate) fn typescript() -> PathBuf {
    let target = Path::new(env!("CARGO_BIN_EXE_tollhouse")).parent().and_then(Path::parent).expect("it is in the target folder");
    let folder = env::var_os("TOLLHOUSE_CONTRACT").map_or_else(|| target.join("contract"), PathBuf::from);
    folder.join("node_modules/typescript/bin/tsc")
}

/// The part of Node's types that samples use.
const NODE: &str = r#"
declare const process: { env: Record<string, string | undefined>; argv: string[]; exit(code?: number): never };
declare module "node:fs" {
  export function existsSync(path: string): boolean;
  export function readFileSync(path: string, encoding: string): string;
  export function writeFileSync(path: string, data: string, options?: { mode?: number }): void;
}
"#;

/// Returns the options of the compiler for samples: those of handlers, or of programs for Node.
pub(crate) fn options(is_handler: bool) -> Value {
    let libraries = if is_handler { json!(["es2023"]) } else { json!(["es2023", "dom"]) };
    json!({
        "strict": true, "noEmit": true, "target": "es2023", "module": "esnext", "moduleResolution": "bundler", "skipLibCheck": true,
        "lib": libraries, "types": [],
    })
}

/// Handlers are checked with the contract. Other programs are checked with the packages in
/// `TOLLHOUSE_CLIENTS`. Those that import other packages are marked with `nocheck`.
#[test]
#[expect(clippy::print_stdout, reason = "a skipped check is reported")]
fn typescript_samples_have_valid_types() {
    let compiler = typescript();
    if !compiler.exists() {
        println!("skipped: TypeScript is not installed; `cargo xtask test` installs it");
        return;
    }
    let clients = env::var_os("TOLLHOUSE_CLIENTS").map(PathBuf::from);
    let samples: Vec<_> = all(&["ts"]).into_iter().filter(|block| !block.has("nocheck")).collect();
    let (handlers, programs): (Vec<_>, Vec<_>) = samples
        .into_iter()
        .partition(|block| ["ToolRequest", "ToolBodyRequest", "ToolContext", "ToolResult"].iter().any(|name| block.text.contains(name)));
    for (is_handler, samples) in [(true, handlers), (false, programs)] {
        let folder = tempfile::tempdir().expect("there is a folder for temporary files");
        if samples.is_empty() {
            continue;
        }
        if !is_handler && clients.is_none() {
            println!("skipped: without `TOLLHOUSE_CLIENTS`, {} programs are not checked", samples.len());
            continue;
        }
        let name = |block: &Block| format!("{}.ts", block.place().replace(['/', ':', '.'], "-"));
        for block in &samples {
            fs::write(folder.path().join(name(block)), &block.text).expect("a file can be written");
        }
        if is_handler {
            fs::copy(root().join("runtime-js/tool.d.ts"), folder.path().join("tool.d.ts")).expect("a file can be copied");
        } else {
            fs::write(folder.path().join("node.d.ts"), NODE).expect("a file can be written");
            let packages = clients.as_ref().expect("it is set").join("node_modules");
            std::os::unix::fs::symlink(packages, folder.path().join("node_modules")).expect("a link can be made");
        }
        let config = json!({ "compilerOptions": options(is_handler), "include": ["*.ts"] });
        fs::write(folder.path().join("tsconfig.json"), config.to_string()).expect("a file can be written");
        let output = Command::new("node").arg(&compiler).arg("-p").arg(folder.path()).output().expect("Node runs");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
    }
}

#[test]
fn gaps_in_json_are_removed() {
    assert_eq!(without_gaps(r#"{"a":"…",…,"b":[…{"c":1},…],…}"#), r#"{"a":"…","b":[{"c":1}]}"#);
}

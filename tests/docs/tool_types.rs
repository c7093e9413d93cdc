//! Checks the comments of `tool.d.ts`: the types of its examples, and that nothing is undocumented.

use std::{fs, process::Command};

use serde_json::json;

use super::{
    contract, root,
    samples::{options, typescript},
};

/// Declarations that need no example, because those of the types that use them are enough.
const WITHOUT_EXAMPLE: [&str; 5] = ["ToolBytes", "ToolEventInit", "ToolEventListener", "ToolPerformanceEntry", "clearInterval"];

/// An example in a comment.
#[derive(Debug, PartialEq, Eq)]
struct Example {
    /// Line of its fence, from 1.
    line: usize,
    code: String,
}

impl Example {
    /// Returns it as a module: itself if it exports a handler, otherwise as the body of one.
    fn module(&self) -> String {
        if self.code.contains("export default") {
            return self.code.clone();
        }
        format!("const handler: ToolHandler = async (req, ctx) => {{\n{}}};\nexport default handler;\n", self.code)
    }
}

/// Returns the TypeScript blocks in the comments of the declarations.
fn examples(declarations: &str) -> Vec<Example> {
    let mut examples = Vec::new();
    let mut open: Option<Example> = None;
    for (at, line) in declarations.lines().enumerate() {
        let Some(text) = line.trim_start().strip_prefix('*') else { continue };
        let text = text.strip_prefix(' ').unwrap_or(text);
        match &mut open {
            None if text == "```ts" => open = Some(Example { line: at + 1, code: String::new() }),
            None => {}
            Some(_) if text == "```" => examples.extend(open.take()),
            Some(example) => example.code += &format!("{text}\n"),
        }
    }
    examples
}

/// Returns the name that a line of code declares at the top level, except that of a global variable,
/// whose type is documented.
fn declared(line: &str) -> Option<&str> {
    let rest = ["interface ", "type ", "declare function "].iter().find_map(|kind| line.strip_prefix(kind))?;
    rest.split(|c: char| !c.is_alphanumeric()).next()
}

/// Returns whether a line of code begins a member that needs a comment. Constants and `prototype` do
/// not.
fn is_member(line: &str) -> bool {
    let Some(member) = line.strip_prefix("  ").filter(|member| !member.starts_with([' ', '*', '/', '}', ')', '>'])) else { return false };
    let name = member.strip_prefix("readonly ").unwrap_or(member).split([':', '(', '?']).next().unwrap_or_default();
    let is_constant = !name.is_empty() && name.chars().all(|c| c.is_ascii_uppercase() || c == '_');
    !is_constant && name != "prototype"
}

#[test]
fn examples_of_the_contract_are_found_with_their_lines() {
    let declarations = "/**\n * Text.\n *\n * @example\n * ```ts\n * if (a) {\n *   b();\n * }\n * ```\n */\ntype A = 1;\n";
    let found = Example { line: 5, code: "if (a) {\n  b();\n}\n".to_owned() };
    assert_eq!(examples(declarations), [found]);
    assert!(examples(declarations)[0].module().starts_with("const handler: ToolHandler = async (req, ctx) => {\nif (a) {\n"));
}

#[test]
#[expect(clippy::print_stdout, reason = "a skipped check is reported")]
fn examples_of_the_contract_have_valid_types() {
    let compiler = typescript();
    if !compiler.exists() {
        println!("skipped: TypeScript is not installed; `cargo xtask test` installs it");
        return;
    }
    let examples = examples(&contract());
    assert!(examples.len() > 50, "only {} examples were found", examples.len());
    let folder = tempfile::tempdir().expect("there is a folder for temporary files");
    for example in &examples {
        let file = folder.path().join(format!("line-{}.ts", example.line));
        fs::write(file, example.module()).expect("a file can be written");
    }
    fs::copy(root().join("runtime-js/tool.d.ts"), folder.path().join("tool.d.ts")).expect("a file can be copied");
    let config = json!({ "compilerOptions": options(true), "include": ["*.ts"] });
    fs::write(folder.path().join("tsconfig.json"), config.to_string()).expect("a file can be written");
    let output = Command::new("node").arg(&compiler).arg("-p").arg(folder.path()).output().expect("Node runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
}

#[test]
fn every_declaration_has_a_comment_and_types_have_an_example() {
    let contract = contract();
    let (mut comment, mut is_comment) = (String::new(), false);
    let mut wrong = Vec::new();
    for (at, line) in contract.lines().enumerate() {
        if line.trim_start().starts_with("/**") {
            comment.clear();
            is_comment = true;
        }
        if is_comment {
            comment += line;
            is_comment = !line.ends_with("*/");
            continue;
        }
        match declared(line) {
            Some(name) if !comment.contains("@example") && !WITHOUT_EXAMPLE.contains(&name) => {
                wrong.push(format!("tool.d.ts:{}: `{name}` has no example", at + 1));
            }
            None if is_member(line) && comment.is_empty() => wrong.push(format!("tool.d.ts:{}: no comment above {line}", at + 1)),
            _ => {}
        }
        comment.clear();
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

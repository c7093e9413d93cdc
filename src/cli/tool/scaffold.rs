//! The files of a new folder: a working tool, the types of the contract, and the settings for the compiler and Git.

use std::{fs, path::Path};

use serde_json::{Value, json};
use tollhouse_base::exact;
use tollhouse_catalog::seed_tools;
use tollhouse_tool::Slug;

use crate::base::{Error, Result};

/// The contract of handlers, as one file.
const CONTRACT: &str = include_str!("../../../runtime-js/tool.d.ts");

/// The line at which the contract's globals begin.
const GLOBALS: &str = "// The web's globals that a handler has.";

/// A file of a folder.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct File {
    pub(crate) name: &'static str,
    pub(crate) text: String,
}

/// The result of writing a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum FileOutcome {
    /// It did not exist.
    New,
    /// It existed with the same contents.
    Same,
    /// It existed, and was left unchanged.
    Untouched,
    /// It existed with other contents, and was replaced.
    Replaced,
}

impl FileOutcome {
    pub(crate) fn label(self) -> &'static str {
        match self {
            Self::New => "created",
            Self::Same => "unchanged",
            Self::Untouched => "kept, because it already exists",
            Self::Replaced => "updated",
        }
    }
}

/// Returns the files with the types of `req` and `ctx` and of the available globals.
pub(crate) fn types() -> [File; 2] {
    let (tool, globals) = CONTRACT.split_once(GLOBALS).unwrap_or((CONTRACT, ""));
    let tool = tool.replace("The end of this file declares the web's globals", "`globals.d.ts` declares the web's globals");
    let tool = tool.replace("tool.d.ts handler.ts", "tool.d.ts globals.d.ts handler.ts");
    let text = |text: &str| format!("{}\n", text.trim());
    [File { name: "tool.d.ts", text: text(&tool) }, File { name: "globals.d.ts", text: format!("{GLOBALS}\n\n{}", text(globals)) }]
}

/// Returns the settings for the compiler and Git.
fn surroundings(language: &str) -> [File; 2] {
    let mut options = json!({
        "target": "es2023",
        "lib": ["es2023"],
        "types": [],
        "module": "esnext",
        "moduleResolution": "bundler",
        "allowImportingTsExtensions": true,
        "strict": true,
        "noEmit": true,
        "skipLibCheck": true,
    });
    if language == "js" {
        options["allowJs"] = json!(true);
        options["checkJs"] = json!(true);
    }
    let config = json!({ "compilerOptions": options, "include": ["*.d.ts", format!("handler.{language}")] });
    [
        File { name: "tsconfig.json", text: pretty(&config) },
        File { name: ".gitignore", text: "/.tollhouse/\n/node_modules/\n.env*\n".to_owned() },
    ]
}

/// Returns the files of a new tool.
pub(crate) fn new(slug: &Slug, language: &'static str) -> Vec<File> {
    let title = title(slug.as_str());
    let tool = NEW_TOOL.replace("{slug}", slug.as_str()).replace("{title}", &title).replace("{description}", NEW_DESCRIPTION);
    let (name, handler) = if language == "js" { ("handler.js", NEW_JS) } else { ("handler.ts", NEW_TS) };
    let files = [("tool.json", tool.as_str()), (name, handler), ("cases.jsonc", NEW_CASES)];
    with_surroundings(files.map(|(name, text)| File { name, text: text.to_owned() }).into(), language)
}

/// Returns a copy of a built-in tool with the slug `slug`.
///
/// # Errors
///
/// The tool is unknown. The hint lists those that exist.
pub(crate) fn copied(slug: &Slug, from: &str) -> Result<Vec<File>> {
    let files = seed_tools::files(from);
    if files.is_empty() {
        let known: Vec<_> = seed_tools::names().collect();
        return Err(Error::usage(format!("there is no example tool `{from}`")).hint(format!("available: {}", known.join(", "))));
    }
    let language = if files.iter().any(|(name, _)| *name == "handler.js") { "js" } else { "ts" };
    let own = |name: &str, text: &str| match name {
        // The text is changed in place, so that its layout stays as people wrote it.
        "tool.json" => text.replacen(&format!("\"slug\": \"{from}\""), &format!("\"slug\": \"{slug}\""), 1),
        _ => text.to_owned(),
    };
    let mut files: Vec<_> = files.into_iter().map(|(name, text)| File { name, text: own(name, text) }).collect();
    files.sort_by_key(|file| file.name != "tool.json");
    Ok(with_surroundings(files, language))
}

fn with_surroundings(mut files: Vec<File>, language: &str) -> Vec<File> {
    files.extend(types());
    files.extend(surroundings(language));
    files
}

/// Writes files into a folder. Existing files with other contents are replaced if `again` is set, as for the host's
/// types, and kept otherwise.
pub(crate) fn write(folder: &Path, files: Vec<File>, again: bool) -> Result<Vec<(File, FileOutcome)>> {
    let failed =
        |name: &str, error: std::io::Error| Error::refused(format!("`{}` cannot be written: {error}", folder.join(name).display()));
    fs::create_dir_all(folder).map_err(|error| failed("", error))?;
    let mut written = vec![];
    for file in files {
        let path = folder.join(file.name);
        let made = match fs::read(&path) {
            Ok(there) if there == file.text.as_bytes() => FileOutcome::Same,
            Ok(_) if again => FileOutcome::Replaced,
            Ok(_) => FileOutcome::Untouched,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => FileOutcome::New,
            Err(error) => return Err(failed(file.name, error)),
        };
        if matches!(made, FileOutcome::New | FileOutcome::Replaced) {
            fs::write(&path, &file.text).map_err(|error| failed(file.name, error))?;
        }
        written.push((file, made));
    }
    Ok(written)
}

fn title(slug: &str) -> String {
    let words = slug.replace('-', " ");
    let mut chars = words.chars();
    chars.next().map(|first| first.to_uppercase().collect::<String>() + chars.as_str()).unwrap_or_default()
}

pub(crate) fn pretty(value: &Value) -> String {
    serde_json::to_string_pretty(value).unwrap_or_default() + "\n"
}

/// Formats JSON text, whose numbers keep their digits.
pub(crate) fn pretty_text(json: &str) -> String {
    exact::pretty(json).unwrap_or_else(|_| json.to_owned()) + "\n"
}

/// The description of a new tool.
pub(crate) const NEW_DESCRIPTION: &str = "Converts a text to upper case. Describe your tool here: agents find tools by their descriptions.";

const NEW_TOOL: &str = r#"{
  "slug": "{slug}",
  "title": "{title}",
  "description": "{description}",
  "priceUsd": 0.01,
  "handlerType": "js_request_response",
  "tags": [],
  "inputSchema": {
    "type": "object",
    "properties": { "text": { "type": "string", "minLength": 1, "maxLength": 1000, "description": "The text to convert" } },
    "required": ["text"],
    "additionalProperties": false,
    "examples": [{ "text": "hi" }]
  },
  "outputSchema": {
    "type": "object",
    "properties": { "text": { "type": "string" } },
    "required": ["text"]
  },
  "capabilities": { "logs": true }
}
"#;

const NEW_TS: &str = r#"export default async function (req: ToolRequest<{ text: string }>, ctx: ToolContext): Promise<ToolResult> {
  const { text } = req.input;
  ctx.log.info("shouting", { length: text.length });
  return { text: text.toUpperCase() };
}
"#;

const NEW_JS: &str = r#"/** @type {ToolHandler<{ text: string }>} */
export default async function (req, ctx) {
  const { text } = req.input;
  ctx.log.info("shouting", { length: text.length });
  return { text: text.toUpperCase() };
}
"#;

const NEW_CASES: &str = r#"[
  // Examples of calls with the expected results. `tollhouse dev` and `tollhouse check` test them.
  { "name": "shouts", "input": { "text": "hi" }, "output": { "text": "HI" } },
  { "name": "rejects an empty text", "input": { "text": "" }, "error": { "code": "invalid_input", "fault": "caller" } },
  { "name": "rejects unknown fields", "input": { "text": "hi", "loud": true }, "error": { "code": "invalid_input", "fault": "caller" } }
]
"#;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_type_files_together_are_the_contract() {
        let [tool, globals] = types();
        assert!(tool.text.contains("interface ToolContext") && !tool.text.contains("declare var"), "{}", tool.text);
        assert!(globals.text.contains("declare var Response") && globals.text.contains("declare var self"));
        assert!(tool.text.contains("`globals.d.ts`") && tool.text.contains("tool.d.ts globals.d.ts handler.ts"));
        let lines = |text: &str| text.lines().filter(|line| !line.is_empty()).count();
        assert_eq!(lines(&tool.text) + lines(&globals.text), lines(CONTRACT));
    }

    #[test]
    fn existing_files_are_not_overwritten() {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("handler.ts"), "mine").unwrap();
        let slug: Slug = "two-words".parse().unwrap();
        let made = write(folder.path(), new(&slug, "ts"), false).unwrap();
        let of = |made: &[(File, FileOutcome)], name: &str| made.iter().find(|(file, _)| file.name == name).unwrap().1;
        assert_eq!((of(&made, "handler.ts"), of(&made, "tool.json")), (FileOutcome::Untouched, FileOutcome::New));
        assert_eq!(fs::read_to_string(folder.path().join("handler.ts")).unwrap(), "mine");
        assert!(fs::read_to_string(folder.path().join("tool.json")).unwrap().contains("\"title\": \"Two words\""));
        fs::write(folder.path().join("tool.d.ts"), "old").unwrap();
        let made = write(folder.path(), types().into(), true).unwrap();
        assert_eq!((of(&made, "tool.d.ts"), of(&made, "globals.d.ts")), (FileOutcome::Replaced, FileOutcome::Same));
    }

    #[test]
    fn every_shipped_tool_can_be_copied() {
        let slug: Slug = "mine".parse().unwrap();
        for from in seed_tools::names() {
            let files = copied(&slug, from).unwrap();
            let tool: Value = serde_json::from_str(&files[0].text).unwrap();
            assert_eq!(tool["slug"], "mine", "{from}");
        }
        assert!(copied(&slug, "none").unwrap_err().hint.unwrap().contains("text-summary"));
    }
}

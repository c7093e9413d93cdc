//! The catalogue that a new host starts with: `fixtures/tools`, built into the binary.

use std::path::{Path, PathBuf};

use include_dir::{Dir, include_dir};
use serde_json::Value;

use super::Draft;

static TOOLS: Dir<'_> = include_dir!("$CARGO_MANIFEST_DIR/fixtures/tools");

/// The shipped tools, or those in `folder`, by name.
pub(super) fn drafts(folder: Option<&Path>) -> Result<Vec<Draft>, String> {
    match folder {
        Some(folder) => names_in(folder)?.iter().map(|tool| draft(&|name| std::fs::read_to_string(tool.join(name)).ok())).collect(),
        None => TOOLS
            .dirs()
            .filter(|tool| tool.contains(tool.path().join("tool.json")))
            .map(|tool| draft(&|name| tool.get_file(tool.path().join(name)).and_then(|file| file.contents_utf8()).map(str::to_owned)))
            .collect(),
    }
}

fn names_in(folder: &Path) -> Result<Vec<PathBuf>, String> {
    let entries = std::fs::read_dir(folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    let mut tools: Vec<_> = entries.flatten().map(|entry| entry.path()).filter(|path| path.join("tool.json").is_file()).collect();
    tools.sort();
    Ok(tools)
}

/// The create body of one tool: its `tool.json` with the handler that lies beside it.
fn draft(read: &dyn Fn(&str) -> Option<String>) -> Result<Draft, String> {
    let text = read("tool.json").ok_or("a tool without tool.json")?;
    let mut tool: Value = serde_json::from_str(&text).map_err(|error| format!("tool.json: {error}"))?;
    let handlers = [("handler.js", "js"), ("handler.ts", "ts")];
    if let Some((source, language)) = handlers.iter().find_map(|(name, language)| Some((read(name)?, language))) {
        tool["handler"] = serde_json::json!({ "source": source, "language": language });
    } else if let Some(response) = read("response.json") {
        let response: Value = serde_json::from_str(&response).map_err(|error| format!("response.json: {error}"))?;
        tool["handler"] = serde_json::json!({ "response": response });
    }
    serde_json::from_value(tool).map_err(|error| error.to_string())
}

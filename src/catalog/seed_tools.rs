//! The built-in tools of a new host: `fixtures/tools`, embedded in the binary. Their folders have
//! the layout of every tool's folder.

use std::path::{Path, PathBuf};

use include_dir::{Dir, include_dir};
use serde_json::{Value, json};
use tollhouse_tool::StaticResponse;

use super::{Draft, KeepsResponse as _};

static TOOLS: Dir<'_> = include_dir!("$CARGO_MANIFEST_DIR/../../fixtures/tools");

/// Returns the built-in tools, or those in `folder`, by name.
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

/// Returns the names of the built-in tools.
pub fn names() -> impl Iterator<Item = &'static str> {
    TOOLS.dirs().filter_map(|tool| tool.path().to_str())
}

/// Returns name and content of each file of a built-in tool. Empty if there is no such tool.
pub fn files(slug: &str) -> Vec<(&'static str, &'static str)> {
    let Some(tool) = TOOLS.get_dir(slug) else { return vec![] };
    tool.files().filter_map(|file| Some((file.path().file_name()?.to_str()?, file.contents_utf8()?))).collect()
}

/// Returns whether `source` is the handler of a built-in tool, ignoring white space at its ends.
/// `init --template` copies those.
pub(super) fn is_handler(source: &str) -> bool {
    let source = source.trim();
    let is_it = |name: &str| HANDLERS.iter().any(|(handler, _)| *handler == name);
    TOOLS.dirs().flat_map(Dir::files).any(|file| {
        let name = file.path().file_name().and_then(|name| name.to_str());
        name.is_some_and(is_it) && file.contents_utf8().is_some_and(|held| held.trim() == source)
    })
}

/// File names of handlers with their languages, in order of precedence.
pub const HANDLERS: [(&str, &str); 2] = [("handler.js", "js"), ("handler.ts", "ts")];

/// Returns the create request of a tool: its `tool.json` with the handler from the same folder.
/// `read` returns a file of its folder. A static response is returned separately, with its digits; the request has a `0` in its place.
///
/// # Errors
///
/// The name of a file that is missing, or is not valid JSON.
pub fn body(read: &dyn Fn(&str) -> Option<String>) -> Result<(Value, Option<StaticResponse>), String> {
    let text = read("tool.json").ok_or("a tool without tool.json")?;
    let (text, mut response) = match StaticResponse::cut(text.as_bytes()) {
        Some((rest, response)) => (rest, Some(response)),
        None => (text.into_bytes(), None),
    };
    let mut tool: Value = serde_json::from_slice(&text).map_err(|error| format!("tool.json: {error}"))?;
    if !tool.is_object() {
        return Err("tool.json is not a JSON object".to_owned());
    }
    if let Some((source, language)) = HANDLERS.iter().find_map(|(name, language)| Some((read(name)?, language))) {
        tool["handler"] = json!({ "source": source, "language": language });
        response = None;
    } else if let Some(text) = read("response.json") {
        response = Some(StaticResponse::read(&text).map_err(|error| format!("response.json: {error}"))?);
        tool["handler"] = json!({ "response": 0 });
    }
    Ok((tool, response))
}

fn draft(read: &dyn Fn(&str) -> Option<String>) -> Result<Draft, String> {
    let (body, response) = body(read)?;
    let mut draft: Draft = serde_json::from_value(body).map_err(|error| error.to_string())?;
    if let Some(response) = response {
        draft.keep_response(response);
    }
    Ok(draft)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::HandlerDraft;

    #[test]
    fn seed_response_keeps_exact_numbers() {
        let tool = r#"{"slug":"abc","title":"A","handlerType":"static_json"}"#;
        let whole = tool.replace('}', r#","handler":{"response":[0.1000, 1e400]}}"#);
        for (tool, response) in [(tool, Some("[0.1000, 1e400]\n")), (&*whole, None)] {
            let read = |name: &str| match name {
                "tool.json" => Some(tool.to_owned()),
                "response.json" => response.map(str::to_owned),
                _ => None,
            };
            let Some(HandlerDraft::Response { response }) = draft(&read).unwrap().handler else { panic!("{tool}") };
            assert_eq!(response.text(), "[0.1000,1e400]");
        }
    }
}

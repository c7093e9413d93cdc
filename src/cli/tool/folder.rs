//! Reads the folder of a tool, laid out as in `fixtures/tools/*`: `tool.json`, the handler and the cases.

use std::{
    fs,
    path::{Path, PathBuf},
};

use serde_json::{Map, Value};
use tollhouse_catalog::seed_tools;
use tollhouse_tool::{Slug, StaticResponse};

use super::position::{FilePosition, Problem, find, position};
use crate::base::without_mark;

/// Maximum number of bytes of a file that is read: the host accepts neither a longer handler nor a longer body.
const MAX_BYTES: u64 = 8 << 20;

/// A tool's folder as it is on disk.
#[derive(Debug, Clone)]
pub(crate) struct Tool {
    pub(crate) folder: PathBuf,
    /// Text of `tool.json`.
    pub(crate) text: String,
    /// Contents of `tool.json`: the body of a create request without the handler. Attestations are not part of it,
    /// because people confirm them each time.
    pub(crate) body: Map<String, Value>,
    pub(crate) slug: Slug,
    pub(crate) code: Code,
}

/// The source of a tool's responses.
#[derive(Debug, Clone)]
pub(crate) enum Code {
    /// The builder's code.
    Source { file: &'static str, language: &'static str, text: String },
    /// A fixed response.
    Response(StaticResponse),
    /// A tool that is built into the host.
    Builtin,
}

impl Tool {
    /// Reads a folder.
    ///
    /// # Errors
    ///
    /// All problems of the folder, each with its place.
    pub(crate) fn read(folder: &Path) -> Result<Self, Vec<Problem>> {
        let wrong = |position: FilePosition, message: String| vec![Problem::new("tool", position, message)];
        let text = match read(&folder.join("tool.json")) {
            Ok(Some(text)) => text,
            Ok(None) => return Err(wrong(FilePosition::file("tool.json"), "does not exist; create one: tollhouse init".to_owned())),
            Err(reason) => return Err(wrong(FilePosition::file("tool.json"), reason)),
        };
        let mut handlers = vec![];
        for (file, language) in seed_tools::HANDLERS {
            if let Some(text) = read(&folder.join(file)).map_err(|reason| wrong(FilePosition::file(file), reason))? {
                handlers.push((file, language, text));
            }
        }
        let response = read(&folder.join("response.json")).map_err(|reason| wrong(FilePosition::file("response.json"), reason))?;
        if let [(one, ..), (other, ..)] = &handlers[..] {
            return Err(wrong(FilePosition::file(*other), format!("`{one}` also exists, and a tool can have only one handler")));
        }
        let given = |name: &str| match name {
            "tool.json" => Some(text.clone()),
            "response.json" => response.clone(),
            _ => handlers.iter().find(|(file, ..)| *file == name).map(|(.., text)| text.clone()),
        };
        let (body, fixed) = seed_tools::body(&given).map_err(|reason| wrong(unread(&text, response.as_deref()), reason))?;
        let Value::Object(mut body) = body else { return Err(wrong(FilePosition::file("tool.json"), "must be an object".to_owned())) };
        let answers = body.shift_remove("handler");
        body.shift_remove("safetyAttestation");
        let at = |pointer: &str| FilePosition::of_byte("tool.json", &text, find(&text, pointer).0);
        let slug = body
            .get("slug")
            .and_then(Value::as_str)
            .ok_or_else(|| wrong(at(""), "`slug` is missing; it is the name in the tool's URL".to_owned()))?;
        let slug: Slug = slug.parse().map_err(|error| wrong(at("/slug"), format!("{error}")))?;
        let code = match (handlers.pop(), response.and(fixed), answers) {
            (Some((file, language, text)), ..) => Code::Source { file, language, text },
            (None, Some(fixed), _) => Code::Response(fixed),
            (None, None, Some(_)) => {
                return Err(wrong(at("/handler"), "put the handler in a file next to tool.json: handler.ts or handler.js".to_owned()));
            }
            (None, None, None) if body.get("handlerType").and_then(Value::as_str) == Some("js_request_response") => {
                return Err(wrong(FilePosition::file("handler.ts"), "does not exist, and neither does handler.js".to_owned()));
            }
            (None, None, None) => Code::Builtin,
        };
        Ok(Self { folder: folder.to_owned(), text, body, slug, code })
    }

    /// Returns the file that problems of the handler are reported in.
    pub(crate) fn handler_file(&self) -> &'static str {
        match &self.code {
            Code::Source { file, .. } => file,
            Code::Response(_) => "response.json",
            Code::Builtin => "tool.json",
        }
    }

    /// Returns the place of a member in `tool.json`.
    pub(crate) fn place_of(&self, pointer: &str) -> FilePosition {
        FilePosition::of_byte("tool.json", &self.text, find(&self.text, pointer).0)
    }
}

/// Returns the place at which a JSON file cannot be parsed.
fn unread(tool: &str, response: Option<&str>) -> FilePosition {
    for (file, text) in [("tool.json", Some(tool)), ("response.json", response)] {
        let Some(text) = text else { continue };
        if let Err(error) = serde_json::from_str::<Value>(text) {
            let line = text.split_inclusive('\n').take(error.line().saturating_sub(1)).map(str::len).sum::<usize>();
            let (line, column) = position(text, line + error.column().saturating_sub(1));
            return FilePosition::at(file, line, column);
        }
    }
    FilePosition::at("tool.json", 1, 1)
}

/// Reads a text file of the folder without its byte order mark. Returns `None` if there is no such file.
///
/// # Errors
///
/// It is not a plain file, is too long, or is not text.
pub(crate) fn read(path: &Path) -> Result<Option<String>, String> {
    let about = match fs::metadata(path) {
        Ok(about) => about,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(format!("cannot be read: {error}")),
    };
    if !about.is_file() {
        return Err("is not a regular file".to_owned());
    }
    if about.len() > MAX_BYTES {
        return Err(format!("has {} bytes; no host accepts more than {MAX_BYTES}", about.len()));
    }
    match fs::read(path) {
        Ok(bytes) => match String::from_utf8(bytes) {
            Ok(text) => Ok(Some(without_mark(text))),
            Err(_) => Err("is not UTF-8".to_owned()),
        },
        // Editors replace a file with a new one, so the file may be gone for a moment.
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(format!("cannot be read: {error}")),
    }
}

/// Converts a place from another program, whose column counts `units` for each character, by the current text of its
/// file.
pub(crate) fn counted(folder: &Path, position: FilePosition, units: fn(char) -> usize) -> FilePosition {
    match read(&folder.join(&position.file)) {
        Ok(Some(text)) => position.counted(&text, units),
        Ok(None) | Err(_) => position,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn problem(files: &[(&str, &str)]) -> String {
        let folder = tempfile::tempdir().unwrap();
        for (name, text) in files {
            fs::write(folder.path().join(name), text).unwrap();
        }
        Tool::read(folder.path()).unwrap_err()[0].to_string()
    }

    #[test]
    fn problems_of_a_folder_have_places() {
        let js = ("handler.js", "export default () => 1;");
        assert_eq!(problem(&[]), "tool.json  does not exist; create one: tollhouse init");
        assert!(problem(&[("tool.json", "{\n  \"slug\": ,\n}"), js]).starts_with("tool.json:2:11  tool.json: expected value"));
        assert!(problem(&[("tool.json", "[]"), js]).starts_with("tool.json:1:1  "));
        assert!(problem(&[("tool.json", "{\n \"title\": 1}"), js]).starts_with("tool.json:1:1  `slug` is missing"));
        assert!(problem(&[("tool.json", "{\n \"slug\": \"Not A Slug\"}"), js]).starts_with("tool.json:2:10  "));
        assert!(
            problem(&[("tool.json", "{\"slug\": \"abc\"}"), js, ("handler.ts", "")]).starts_with("handler.ts  `handler.js` also exists")
        );
        let bare = "{\"slug\": \"abc\", \"handlerType\": \"js_request_response\"}";
        assert_eq!(problem(&[("tool.json", bare)]), "handler.ts  does not exist, and neither does handler.js");
        assert!(problem(&[("tool.json", "{\"slug\": \"abc\"}"), ("response.json", "{")]).starts_with("response.json:1:"));
    }

    #[test]
    fn byte_order_marks_are_ignored() {
        let folder = tempfile::tempdir().unwrap();
        let put = |name: &str, text: &str| fs::write(folder.path().join(name), format!("\u{feff}{text}")).unwrap();
        put("tool.json", "{\"slug\": \"abc\"}");
        put("response.json", "{\"a\": 0.1000, \"b\": 1e400}");
        let tool = Tool::read(folder.path()).unwrap();
        let is_exact = |response: &StaticResponse| response.text() == r#"{"a":0.1000,"b":1e400}"#;
        assert!(matches!(&tool.code, Code::Response(response) if is_exact(response)), "{:?}", tool.code);
        put("tool.json", "{\n \"slug\": 1 1}");
        assert_eq!(Tool::read(folder.path()).unwrap_err()[0].to_string().split("  ").next(), Some("tool.json:2:12"));
        put("cases.jsonc", "[{ \"name\": \"a\", \"input\": {}, \"output\": {} }]");
        assert!(super::super::cases::read(folder.path()).is_ok());
    }

    #[test]
    fn every_shipped_tool_is_read() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/tools");
        let mut read = 0;
        for slug in seed_tools::names() {
            assert_eq!(Tool::read(&root.join(slug)).unwrap().slug.as_str(), slug);
            read += 1;
        }
        assert!(read >= 8);
    }
}

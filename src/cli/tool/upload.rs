//! The upload of a folder, and the host's problems with it, converted to places in the folder's files.

use std::{
    path::{Path, PathBuf},
    sync::LazyLock,
};

use regex::{Captures, Regex};
use serde_json::{Map, Value, json};
use tollhouse_api::{EndpointCheck, EndpointPatch, Handler};
use tollhouse_base::plural::plural;
use tollhouse_protocol::Language;
use tollhouse_tool::finding::{Finding, Severity};

use super::{Code, FilePosition, Problem, Tool, bundle::Bundle, counted};
use crate::base::{Error, ErrorBody, Result, name};

/// A line of the uploaded source in a host's warning.
static SOURCE_LINE: LazyLock<Regex> = LazyLock::new(|| Regex::new(r"\(line ([0-9]+)\)").expect("it is a pattern"));

/// A folder that is ready to be sent.
#[derive(Debug, Clone)]
pub(crate) struct Upload {
    pub(crate) tool: Tool,
    pub(crate) bundle: Option<Bundle>,
}

impl Upload {
    /// Reads and bundles a folder.
    ///
    /// # Errors
    ///
    /// All problems of the folder.
    pub(crate) async fn of(folder: &Path) -> std::result::Result<Self, Vec<Problem>> {
        let tool = Tool::read(folder)?;
        let bundle = Bundle::of(&tool).await?;
        Ok(Self { tool, bundle })
    }

    /// Returns `handler` for the request body, or `None` for a tool that is built into the host. A static response is its
    /// [text](tollhouse_tool::WithResponse).
    pub(crate) fn handler(&self) -> Option<Handler> {
        match (&self.bundle, &self.tool.code) {
            (Some(Bundle { source, language, .. }), _) => {
                let language = if *language == "ts" { Language::Ts } else { Language::Js };
                Some(Handler { source: Some(source.clone()), language: Some(language), response: None })
            }
            (None, Code::Response(response)) => Some(Handler { source: None, language: None, response: Some(response.text().into()) }),
            (None, Code::Source { .. } | Code::Builtin) => None,
        }
    }

    /// Returns the body of a create request, to be sent as an [upload](crate::base::client::PendingRequest::upload).
    pub(crate) fn body(&self) -> Map<String, Value> {
        let mut body = self.tool.body.clone();
        extend(&mut body, &EndpointPatch { handler: self.handler(), ..EndpointPatch::default() });
        body
    }

    /// Returns the name of the published source. The lines of a bundle are not those of the handler's file, so it has a
    /// name of its own.
    pub(crate) fn published_file(&self) -> String {
        let file = self.tool.handler_file();
        if self.bundle.as_ref().is_some_and(|bundle| bundle.is_made) { format!("bundle of {file}") } else { file.to_owned() }
    }

    /// Returns the builder's own files that the handler is built from.
    pub(crate) fn files(&self) -> Vec<PathBuf> {
        self.bundle.iter().flat_map(|bundle| bundle.files.iter().cloned()).collect()
    }

    /// Returns the problems for which a host refused an upload, with places in the folder.
    ///
    /// # Errors
    ///
    /// The refusal itself, if it has another reason.
    pub(crate) fn problems(&self, refused: Error) -> Result<Vec<Problem>> {
        let error = ErrorBody::of(&refused.reported);
        let found: Vec<_> = error.problems.iter().flat_map(|problem| self.found(problem)).collect();
        let is_about_upload =
            matches!(refused.code(), "invalid_endpoint" | "invalid_handler" | "content_blocked" | "schema_too_costly" | "slug_taken");
        let found = if found.is_empty() && is_about_upload { self.found(&error) } else { found };
        if found.is_empty() { Err(refused) } else { Ok(found) }
    }

    /// Returns a host's warning with a place in the folder in place of a line of the uploaded source.
    pub(crate) fn warning(&self, text: &str) -> String {
        let place = |line: &str| {
            let (bundle, line) = (self.bundle.as_ref()?, line.parse::<u32>().ok()?);
            // A line of a bundle has code of several lines of the builder.
            let code = bundle.source.lines().nth(usize::try_from(line).ok()?.checked_sub(1)?).unwrap_or_default();
            let at = named(text).find_map(|name| code.find(name)).unwrap_or_default();
            bundle.map.place(line, u32::try_from(code[..at].encode_utf16().count()).ok()? + 1)
        };
        let placed = |found: &Captures<'_>| match place(&found[1]) {
            Some(place) => format!("({})", FilePosition { column: None, ..place }),
            None => found[0].to_owned(),
        };
        SOURCE_LINE.replace_all(text, placed).into_owned()
    }

    /// Returns a warning with a place in the folder for each finding that an admin has to decide about.
    pub(crate) fn reviewed(&self, check: &EndpointCheck) -> Vec<String> {
        let reviewed = check.findings.iter().filter(|finding| check.needs_review && finding.severity == Severity::Review);
        reviewed.map(|finding| self.finding(finding, "an admin would review this").to_string()).collect()
    }

    fn found(&self, problem: &ErrorBody) -> Vec<Problem> {
        let message = problem.message.as_deref().unwrap_or_default();
        if !problem.findings.is_empty() {
            return problem.findings.iter().map(|finding| self.finding(finding, message)).collect();
        }
        let position = match (problem.at.line, problem.code.as_str()) {
            (Some(line), _) => self.of_source(line, problem.at.column),
            (None, "invalid_handler") => FilePosition::file(self.tool.handler_file()),
            (None, "slug_taken") => self.of_field("/slug"),
            (None, _) => self.of_field(&problem.pointer),
        };
        vec![Problem::new("host", position, message)]
    }

    fn finding(&self, finding: &Finding, message: &str) -> Problem {
        let position = match finding.line {
            Some(line) if finding.field.starts_with("/handler") => {
                let column = finding.column.filter(|_| self.bundle.as_ref().is_some_and(|bundle| bundle.is_made));
                self.of_source(line.into(), column.map(u64::from))
            }
            _ => self.of_field(&finding.field),
        };
        Problem::new("host", position, format!("{message}: {} ({})", finding.rule, name(finding.severity)))
    }

    /// Returns the place in the folder for a position in the uploaded source.
    fn of_source(&self, line: u64, column: Option<u64>) -> FilePosition {
        let number = |number: u64| u32::try_from(number).unwrap_or(u32::MAX);
        let of = |bundle: &Bundle| {
            let position = bundle.map.place(number(line), column.map_or(1, number))?;
            // The host counts characters in TypeScript, and UTF-16 units in JavaScript.
            Some(if bundle.language == "ts" { position } else { counted(&self.tool.folder, position, char::len_utf16) })
        };
        let file = || FilePosition { line: Some(number(line)), column: column.map(number), ..FilePosition::file(self.tool.handler_file()) };
        self.bundle.as_ref().and_then(of).unwrap_or_else(file)
    }

    /// Returns the place in the folder for a field of the uploaded body.
    fn of_field(&self, pointer: &str) -> FilePosition {
        if pointer.starts_with("/handler/") { FilePosition::file(self.tool.handler_file()) } else { self.tool.place_of(pointer) }
    }
}

/// Returns the texts by which to find the code of a warning: its names in backticks, and calls that compile a string.
fn named(warning: &str) -> impl Iterator<Item = &str> {
    warning.split('`').skip(1).step_by(2).chain(["Function(", "eval("])
}

/// Adds the fields of a patch to a request body.
pub(crate) fn extend(body: &mut Map<String, Value>, patch: &EndpointPatch) {
    if let Value::Object(fields) = json!(patch) {
        body.extend(fields);
    }
}

/// Returns the error for a folder that cannot be published.
pub(crate) fn refused(problems: &[Problem]) -> Error {
    let mut error = Error::refused(plural(problems.len(), "problem")).more(problems.iter().map(ToString::to_string));
    error.reported.insert("code".to_owned(), json!("invalid_tool"));
    error.reported.insert("problems".to_owned(), json!(problems));
    error
}

/// Returns a host's refusal of an upload, with the places of the problems in the folder.
pub(crate) fn explained(upload: &Upload, refusal: Error) -> Error {
    upload.problems(refusal).map_or_else(|refusal| refusal, |problems| refused(&problems))
}

/// Returns the folder of the tool that contains the current folder.
///
/// # Errors
///
/// The folder does not exist.
pub(crate) fn here() -> Result<PathBuf> {
    let here = std::env::current_dir()?;
    let found = here.ancestors().find(|folder| folder.join("tool.json").is_file());
    found
        .map(Path::to_owned)
        .ok_or_else(|| Error::usage("this is not the folder of a tool: it has no tool.json").hint("create one: tollhouse init NAME"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tool::source_map::SourceMap;

    #[test]
    fn problems_of_a_host_have_places_in_the_folder() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("tool.json"), "{\n  \"slug\": \"abc\",\n  \"limits\": {\"wallMs\": 0}\n}").unwrap();
        std::fs::write(folder.path().join("handler.ts"), "x").unwrap();
        let tool = Tool::read(folder.path()).unwrap();
        let bundle =
            Bundle { source: "x".to_owned(), language: "ts", map: SourceMap::Same("handler.ts".to_owned()), files: vec![], is_made: false };
        let upload = Upload { tool, bundle: Some(bundle) };
        let mut error = Error::refused("no");
        let body = json!({ "code": "invalid_endpoint", "problems": [
            { "code": "invalid_endpoint", "pointer": "/limits/wallMs", "message": "too low" },
            { "code": "invalid_handler", "message": "does not load", "at": { "line": 4, "column": 9 } },
            { "code": "invalid_handler", "message": "no default", "at": { "line": null, "column": null } },
            { "code": "content_blocked", "message": "the upload contains", "findings": [{ "rule": "secrets.key", "severity": "block", "field": "/handler/source", "line": 2 }] },
            { "code": "slug_taken", "message": "taken" },
        ] });
        *error.reported = body.as_object().unwrap().clone();
        let listed: Vec<_> = upload.problems(error).unwrap().iter().map(ToString::to_string).collect();
        assert_eq!(
            listed,
            [
                "tool.json:3:24  too low",
                "handler.ts:4:9  does not load",
                "handler.ts  no default",
                "handler.ts:2:1  the upload contains: secrets.key (block)",
                "tool.json:2:11  taken",
            ]
        );
        assert!(upload.problems(Error::refused("away")).is_err());
    }

    #[test]
    fn warning_of_a_host_names_the_builders_own_line() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("tool.json"), "{\"slug\": \"abc\"}").unwrap();
        std::fs::write(folder.path().join("handler.ts"), "x").unwrap();
        let map = SourceMap::Bundle { sources: vec!["lib/x.ts".to_owned()], mappings: ";EAEA".to_owned() };
        let bundle = Bundle { source: "x".to_owned(), language: "js", map, files: vec![], is_made: true };
        let upload = Upload { tool: Tool::read(folder.path()).unwrap(), bundle: Some(bundle) };
        assert_eq!(upload.warning("`ctx.kv` is refused (line 2): request it"), "`ctx.kv` is refused (lib/x.ts:3): request it");
        assert_eq!(upload.warning("the bundler's own (line 9)"), "the bundler's own (line 9)");
        let map = SourceMap::Bundle { sources: vec!["lib/x.ts".to_owned()], mappings: ";EAEA,GACA".to_owned() };
        let source = "\nabcdectx.kv".to_owned();
        let dense = Upload { bundle: Some(Bundle { source, map, ..upload.bundle.clone().unwrap() }), ..upload.clone() };
        assert_eq!(dense.warning("`ctx.kv` is refused (line 2): request it"), "`ctx.kv` is refused (lib/x.ts:4): request it");
        assert_eq!(upload.published_file(), "bundle of handler.ts");
    }

    #[test]
    fn content_for_a_review_has_its_place_in_the_folder() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("tool.json"), "{\n  \"slug\": \"abc\",\n  \"title\": \"x\"\n}").unwrap();
        std::fs::write(folder.path().join("handler.ts"), "x").unwrap();
        let bundle =
            Bundle { source: "x".to_owned(), language: "ts", map: SourceMap::Same("handler.ts".to_owned()), files: vec![], is_made: false };
        let upload = Upload { tool: Tool::read(folder.path()).unwrap(), bundle: Some(bundle) };
        let check = |needs_review: bool| {
            let check = json!({
                "version": "sha256:8be07d1122", "existing": true, "granted": { "capabilities": {}, "hosts": [] },
                "requested": { "capabilities": {}, "hosts": [] }, "needsReview": needs_review, "outcome": "review", "findings": [
                    { "rule": "code.eval", "severity": "review", "field": "/handler/source", "line": 4 },
                    { "rule": "text.link", "severity": "note", "field": "/title" },
                    { "rule": "text.brand", "severity": "review", "field": "/title" },
                ], "limits": {}, "warnings": [],
            });
            serde_json::from_value::<EndpointCheck>(check).unwrap()
        };
        let expected = [
            "handler.ts:4:1  an admin would review this: code.eval (review)",
            "tool.json:3:12  an admin would review this: text.brand (review)",
        ];
        assert_eq!(upload.reviewed(&check(true)), expected);
        assert!(upload.reviewed(&check(false)).is_empty());
    }

    #[test]
    fn column_of_a_host_counts_characters() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("tool.json"), "{\"slug\": \"abc\"}").unwrap();
        let source = "const a = \"日本 😀\"; throw a;";
        for (file, language, reported) in [("handler.js", "js", "handler.js:1:19  thrown"), ("handler.ts", "ts", "handler.ts:1:20  thrown")]
        {
            std::fs::write(folder.path().join(file), source).unwrap();
            let tool = Tool::read(folder.path()).unwrap();
            let bundle =
                Bundle { source: source.to_owned(), language, map: SourceMap::Same(file.to_owned()), files: vec![], is_made: false };
            let mut error = Error::refused("no");
            let body = json!({ "code": "invalid_handler", "message": "thrown", "at": { "line": 1, "column": 20 } });
            *error.reported = body.as_object().unwrap().clone();
            assert_eq!(Upload { tool, bundle: Some(bundle) }.problems(error).unwrap()[0].to_string(), reported);
            std::fs::remove_file(folder.path().join(file)).unwrap();
        }
    }
}

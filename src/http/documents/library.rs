//! The documentation as Markdown: the files of `docs/`, and generated pages for each subject of operations, for errors,
//! and for the index.

use std::fmt::Write as _;

use include_dir::{Dir, include_dir};
use tollhouse_front::Code;

use super::{
    document::Document,
    schema_parts::{MARKDOWN, capital},
    subject,
};
use crate::operation::Operation;

static FILES: Dir = include_dir!("$CARGO_MANIFEST_DIR/../../docs");

/// The subjects of operations, with a description.
const SUBJECTS: &[(&str, &str)] = &[
    ("tools", "Find and call tools, over HTTP and MCP."),
    ("quotes", "What a call costs all in, here and elsewhere."),
    ("receipts", "What was bought and paid, and what proves it."),
    ("discovery", "What the host tells of itself to programs."),
    ("endpoints", "Publish tools, change them, and see what they do."),
    ("accounts", "Builders: their record, key, events, revenue and payouts."),
    ("credits", "Prepaid credit and its budgets; play money."),
    ("administration", "What admins see and decide."),
    ("health", "Whether the host is well."),
];

/// Files for one kind of reader, largest audience first.
const READERS: [&str; 4] = ["agents", "builders", "operators", "admins"];

/// Addresses of the host in the repository's examples.
const EXAMPLES: [&str; 3] = ["http://127.0.0.1:4020", "http://localhost:4020", "localhost:4020"];

/// A page of the documentation.
#[derive(Debug)]
pub(super) struct Page {
    /// Its name in the URL.
    pub(super) name: String,
    /// Its heading.
    pub(super) title: String,
    /// Its description, one sentence.
    pub(super) about: String,
    /// Whether it is a file or generated.
    pub(super) origin: Origin,
    /// The full text as Markdown.
    pub(super) document: Document,
}

/// A page without the parts that all pages share.
struct Draft {
    name: String,
    title: String,
    about: String,
    origin: Origin,
    text: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Origin {
    /// A file of the repository.
    File,
    /// Generated from the table of operations or of errors.
    Table,
}

/// Returns the pages of the host at `base` with these operations, in listing order. Links are absolute, because a
/// reader of the text may not know where it is from.
pub(super) fn pages(rows: &[Operation], base: &str) -> Vec<Page> {
    let mut files: Vec<_> =
        FILES.files().filter_map(|file| written(file.path().to_str()?.strip_suffix(".md")?, file.contents_utf8()?)).collect();
    files.sort_by(|one, other| place(&one.name).cmp(&place(&other.name)));
    let subjects = SUBJECTS.iter().map(|(name, about)| {
        let operations: Vec<&Operation> = rows.iter().filter(|row| row.subject == *name).collect();
        build(name, &format!("API: {name}"), about, &subject::text(&operations, base))
    });
    let drafts: Vec<_> = files.into_iter().chain(subjects).chain([errors()]).collect();
    let index = index(&drafts);
    [index].into_iter().chain(drafts).map(|draft| draft.page(base)).collect()
}

/// Returns the sort key of a file: first the files of `READERS` in their order, then the others by name.
fn place(name: &str) -> (usize, &str) {
    (READERS.iter().position(|reader| *reader == name).unwrap_or(READERS.len()), name)
}

impl Draft {
    fn page(self, base: &str) -> Page {
        let Self { name, title, about, origin, text } = self;
        let head = format!("> What else there is to read, for programs: [{base}/llms.txt]({base}/llms.txt)\n\n");
        let text = if origin == Origin::File { here(&text, base) } else { text };
        Page { name, title, about, origin, document: Document::of(MARKDOWN, head + &absolute_links(&text, base)) }
    }
}

/// Parses a file of the repository into heading, description and text.
fn written(name: &str, text: &str) -> Option<Draft> {
    let (heading, rest) = text.split_once('\n')?;
    let about = rest.split("\n\n").map(str::trim).find(|part| !part.is_empty() && !part.starts_with(['#', '|', '<']))?;
    let about = about.replace('\n', " ");
    let about = about.split_inclusive(". ").next()?.trim().trim_end_matches(['.', ':']).replace('`', "");
    Some(Draft {
        name: name.to_owned(),
        title: heading.trim_start_matches(['#', ' ']).to_owned(),
        about: format!("{}.", without_links(&about)),
        origin: Origin::File,
        text: text.to_owned(),
    })
}

fn build(name: &str, title: &str, about: &str, text: &str) -> Draft {
    let text = format!("# {title}\n\n{about}\n\n{text}");
    Draft { name: name.to_owned(), title: title.to_owned(), about: about.to_owned(), origin: Origin::Table, text }
}

/// Makes links to other documents absolute. Links out of `docs/` become plain text, because their targets are not
/// served. The readme's link goes to the index instead.
fn absolute_links(text: &str, base: &str) -> String {
    let mut parts = text.split("](");
    let mut message = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let (target, rest) = part.split_once(')').unwrap_or((part, ""));
        match target.strip_prefix("../") {
            Some("README.md") => _ = write!(message, "]({base}/docs/index.md)"),
            // The text ends with the words of the link.
            Some(_) => _ = message.rfind('[').map(|open| message.remove(open)),
            None if target.starts_with('#') || target.contains("://") => _ = write!(message, "]({target})"),
            None => _ = write!(message, "]({base}/docs/{target})"),
        }
        message += rest;
    }
    message
}

/// Replaces the host's address in examples by `base`.
fn here(text: &str, base: &str) -> String {
    let (mut reported, mut rest) = (String::with_capacity(text.len()), text);
    while let Some((at, example)) = EXAMPLES.iter().filter_map(|example| Some((rest.find(example)?, example))).min() {
        let (before, after) = (&rest[..at], &rest[at + example.len()..]);
        reported += before;
        // A longer port number is a different address.
        reported += if after.starts_with(|next: char| next.is_ascii_digit()) { example } else { base };
        rest = after;
    }
    reported + rest
}

/// Replaces links by their text.
fn without_links(text: &str) -> String {
    let mut message = String::new();
    for part in text.split_inclusive(')') {
        match part.rsplit_once("](") {
            Some((words, _)) => message += &words.replacen('[', "", 1),
            None => message += part,
        }
    }
    message
}

fn errors() -> Draft {
    let mut codes: Vec<_> = Code::ALL.iter().map(|code| code.row()).collect();
    codes.sort_by_key(|row| (row.status, row.name));
    let mut text = "Every refusal is `{\"ok\": false, \"error\": {code, fault, message, requestId, charged, hint?}}`, but for the x402 challenge of a \
        402. `code` is for programs and stays; `message` is for people and may change. `fault` says who can mend it: `caller`, `tool` or `host`. \
        Nothing is charged for a refusal, but where `charged` is `unknown`: then `GET /ai/payments/{id}` says what became of the payment. \
        Where it is true, the payment was charged once, when its call ended or before its run, and not again.\n\n"
        .to_owned();
    for row in codes {
        let status = row.status.as_u16();
        let hint = row.hint.map(|hint| format!(" {}.", capital(hint))).unwrap_or_default();
        _ = write!(
            text,
            "## {status} `{}`\n\n{}. Fault: {}. Charged: {}.{hint}\n\n",
            row.name,
            capital(row.sentence),
            row.fault.as_str(),
            row.charged.as_str()
        );
    }
    build("errors", "Errors", "What requests are refused for, and what to do about it.", &text)
}

/// Returns the index: one line for every other page.
fn index(pages: &[Draft]) -> Draft {
    let mut text = String::new();
    for (heading, origin) in [("Guides", Origin::File), ("API", Origin::Table)] {
        _ = write!(text, "## {heading}\n\n");
        for page in pages.iter().filter(|page| page.origin == origin) {
            _ = writeln!(text, "- [{}]({}.md): {}", page.title, page.name, page.about);
        }
        text += "\n";
    }
    text += "Every operation in OpenAPI 3.1: [openapi.json](openapi.json)\n";
    build("index", "Tollhouse", "A host for paid JavaScript tools: agents call them over HTTP or MCP and pay per call with x402.", &text)
}

#[cfg(test)]
mod tests;

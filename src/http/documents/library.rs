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
        let of_it: Vec<&Operation> = rows.iter().filter(|row| row.subject == *name).collect();
        made(name, &format!("API: {name}"), about, &subject::text(&of_it, base))
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

fn made(name: &str, title: &str, about: &str, text: &str) -> Draft {
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
    made("errors", "Errors", "What requests are refused for, and what to do about it.", &text)
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
    made("index", "Tollhouse", "A host for paid JavaScript tools: agents call them over HTTP or MCP and pay per call with x402.", &text)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::rows;

    #[test]
    fn every_document_has_a_name_of_its_own_a_heading_and_a_sentence() {
        let pages = pages(&rows(), "https://tools.example");
        let names: BTreeSet<_> = pages.iter().map(|page| page.name.as_str()).collect();
        assert_eq!(names.len(), pages.len());
        assert_eq!(
            FILES.files().count(),
            pages.iter().filter(|page| page.origin == Origin::File).count(),
            "a file of `docs/` is not served"
        );
        for page in &pages {
            assert!(page.title.len() > 3 && page.about.len() > 20 && page.about.len() < 200 && page.about.ends_with('.'), "{page:?}");
            let text = page.document.text();
            assert!(
                text.starts_with("> ") && text.matches("](").count() == text.matches("](https://").count() + text.matches("](#").count()
            );
        }
    }

    #[test]
    fn every_subject_has_a_page_and_every_page_of_one_has_operations() {
        let listed: BTreeSet<_> = SUBJECTS.iter().map(|(name, _)| *name).collect();
        assert_eq!(rows().iter().map(|row| row.subject).collect::<BTreeSet<_>>(), listed);
    }

    #[test]
    fn links_say_where_the_host_is_and_those_out_of_the_documents_are_words() {
        let text =
            "[the readme](../README.md), [tiers](../sandbox/README.md#tiers), [limits](limits.md#a), [b](#b) and [c](https://c.example)";
        let expected = "[the readme](https://a.example/docs/index.md), tiers, [limits](https://a.example/docs/limits.md#a), [b](#b) and [c](https://c.example)";
        assert_eq!(absolute_links(text, "https://a.example"), expected);
        let request = "`curl localhost:4020/llms.txt`, `pay.mjs http://127.0.0.1:4020/tools/echo`";
        let expected = "`curl https://a.example/b/llms.txt`, `pay.mjs https://a.example/b/tools/echo`";
        assert_eq!(here(request, "https://a.example/b"), expected);
        for base in ["http://localhost:4020", "http://127.0.0.1:4020/x", "http://127.0.0.1:40205"] {
            let expected = format!("{base}/a {base}/b {base}/c localhost:40205");
            assert_eq!(here("localhost:4020/a http://localhost:4020/b http://127.0.0.1:4020/c localhost:40205", base), expected);
        }
        assert_eq!(without_links("see [settings.md](settings.md) first"), "see settings.md first");
    }
}

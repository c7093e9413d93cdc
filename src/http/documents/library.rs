//! The documentation as Markdown: the files of `docs/`, and generated pages for each subject of operations, for errors,
//! and for the index.

mod contents;
mod links;
mod search;

use std::fmt::Write as _;

use include_dir::{Dir, include_dir};
use tollhouse_front::Code;

pub(super) use self::search::DocsIndex;
use self::{
    contents::{CONTENTS, INDEX, Shelf},
    links::{absolute_links, here, without_links},
};
use super::{document::Document, schema_parts::MARKDOWN, subject};
use crate::Operation;

static FILES: Dir = include_dir!("$CARGO_MANIFEST_DIR/../../docs");

/// The page whose file is outside `docs/`, because platforms for code look for it there.
const SECURITY: (&str, &str) = ("security", include_str!("../../../SECURITY.md"));

/// The subjects of operations, with a description. The page of each is named `api-SUBJECT`.
const SUBJECTS: &[(&str, &str)] = &[
    ("tools", "Find and call tools, over HTTP and MCP."),
    ("quotes", "Get the full cost of a call, on this host or another."),
    ("receipts", "Read receipts and payments, and the keys that prove them."),
    ("discovery", "Read what the host publishes for programs."),
    ("endpoints", "Publish tools, change them, and see their calls, logs and secrets."),
    ("accounts", "Manage a builder account: record, key, events, revenue and payouts."),
    ("credits", "Use prepaid credit and its budgets, and play money."),
    ("administration", "Review, decide and correct as an admin."),
    ("health", "Check whether the host works."),
];

/// Prefix of the names of pages for subjects of operations.
const API: &str = "api-";

/// A page of the documentation.
#[derive(Debug)]
pub(super) struct Page {
    /// Its name in the URL.
    pub(super) name: String,
    /// Its heading.
    pub(super) title: String,
    /// Its description, one sentence.
    pub(super) about: String,
    /// The part of the table of contents that it belongs to. `None` for the index.
    pub(super) shelf: Option<&'static Shelf>,
    /// The full text as Markdown.
    pub(super) document: Document,
}

/// A page without the parts that all pages share.
struct Draft {
    name: String,
    title: String,
    about: String,
    shelf: Option<&'static Shelf>,
    text: String,
}

/// Returns the pages of the host at `base` with these operations, in the order of the table of contents. Links are
/// absolute, because a reader of the text may not know where it is from.
pub(super) fn pages(rows: &[Operation], base: &str) -> Vec<Page> {
    let drafts: Vec<_> = CONTENTS
        .iter()
        .flat_map(|shelf| {
            shelf.pages.iter().filter_map(move |name| {
                let draft = match &shelf.folder {
                    Some(folder) => written(name, file(folder, name)?)?,
                    None => generated(name, rows, base)?,
                };
                Some(Draft { shelf: Some(shelf), ..draft })
            })
        })
        .collect();
    let index = index(&drafts);
    [index].into_iter().chain(drafts).map(|draft| draft.page(base)).collect()
}

/// Returns the text of a file below `docs/`, or of the security policy.
fn file(folder: &str, name: &str) -> Option<&'static str> {
    if folder.is_empty() && name == SECURITY.0 {
        return Some(SECURITY.1);
    }
    let folder = if folder.is_empty() { String::new() } else { format!("{folder}/") };
    FILES.get_file(format!("{folder}{name}.md"))?.contents_utf8()
}

/// Returns a page that has no file.
fn generated(name: &str, rows: &[Operation], base: &str) -> Option<Draft> {
    if name == "errors" {
        return Some(errors());
    }
    let (subject, about) = SUBJECTS.iter().find(|(subject, _)| name.strip_prefix(API) == Some(subject))?;
    let operations: Vec<&Operation> = rows.iter().filter(|row| row.subject == *subject).collect();
    Some(build(name, &format!("API: {subject}"), about, &subject::text(&operations, base)))
}

impl Draft {
    fn page(self, base: &str) -> Page {
        let Self { name, title, about, shelf, text } = self;
        let head = format!("> For programs, an index of all documents: [{base}/llms.txt]({base}/llms.txt)\n\n");
        let is_file = shelf.is_some_and(|shelf| shelf.folder.is_some());
        let text = if is_file { here(&text, base) } else { text };
        Page { name, title, about, shelf, document: Document::of(MARKDOWN, head + &absolute_links(&text, base)) }
    }
}

/// Parses a file of the repository into heading, description and text.
fn written(name: &str, text: &str) -> Option<Draft> {
    let (heading, rest) = text.split_once('\n')?;
    let about = rest.split("\n\n").map(str::trim).find(|part| !part.is_empty() && !part.starts_with(['#', '|', '<', '>', '`']))?;
    let about = about.replace('\n', " ");
    let about = about.split_inclusive(". ").next()?.trim().trim_end_matches(['.', ':']).replace('`', "");
    Some(Draft {
        name: name.to_owned(),
        title: heading.trim_start_matches(['#', ' ']).to_owned(),
        about: format!("{}.", without_links(&about)),
        shelf: None,
        text: text.to_owned(),
    })
}

fn build(name: &str, title: &str, about: &str, text: &str) -> Draft {
    let text = format!("# {title}\n\n{about}\n\n{text}");
    Draft { name: name.to_owned(), title: title.to_owned(), about: about.to_owned(), shelf: None, text }
}

fn errors() -> Draft {
    let mut codes: Vec<_> = Code::ALL.iter().map(|code| code.row()).collect();
    codes.sort_by_key(|row| (row.status, row.name));
    let mut text = "Every error except the x402 challenge of a 402 has this form:\n\n\
        ```json\n{\"ok\": false, \"error\": {\"code\": \"rate_limited\", \"fault\": \"caller\", \"message\": \"…\", \"requestId\": \"…\", \"charged\": false, \
        \"retryAfterSeconds\": 64}}\n```\n\n\
        | field | meaning |\n|---|---|\n\
        | `code` | For programs. It does not change between versions. |\n\
        | `message` | For people. It can change. |\n\
        | `fault` | The side that can fix the error: `caller`, `tool` or `host`. |\n\
        | `charged` | Whether the call was charged: `false`, `true` or `\"unknown\"`. |\n\
        | `retryAfterSeconds` | Seconds to wait before a retry, as in `Retry-After`. Not every error has it. |\n\
        | `hint` | What to do next. Not every error has one. |\n\n\
        An error with `charged: false` costs nothing.\n\
        If `charged` is `\"unknown\"`, `GET /ai/payments/{id}` reports what became of the payment, until it expires.\n\
        If `charged` is `true`, the payment was charged exactly once.\n\n"
        .to_owned();
    for row in codes {
        let status = row.status.as_u16();
        let hint = row.hint.map(|hint| format!(" {hint}.")).unwrap_or_default();
        _ = write!(
            text,
            "## {status} `{}`\n\n{}. Fault: {}. Charged: {}.{hint}\n\n",
            row.name,
            row.sentence,
            row.fault.as_str(),
            row.charged.as_str()
        );
    }
    build("errors", "Errors", "Every error code of the host, with its cause and what to do next.", &text)
}

/// Returns the index: a heading for each group and section, and a line for each page.
fn index(pages: &[Draft]) -> Draft {
    let mut text = String::new();
    let (mut group, mut section) = ("", "");
    for page in pages {
        let Some(shelf) = page.shelf else { continue };
        if shelf.group != group {
            _ = write!(text, "\n## {}\n\n", shelf.group);
            (group, section) = (&shelf.group, "");
        }
        if shelf.section != section {
            _ = write!(text, "{}### {}\n\n", if text.ends_with("\n\n") { "" } else { "\n" }, shelf.section);
            section = &shelf.section;
        }
        _ = writeln!(text, "- [{}]({}.md): {}", page.title, page.name, page.about);
    }
    text += "\nFor programs: every operation in [OpenAPI 3.1](openapi.json).\n";
    build(INDEX, "Documentation", "Tutorials, how-to guides, reference and explanation for everyone who uses this host.", text.trim_start())
}

#[cfg(test)]
mod tests;

//! `/dashboard/tools/{slug}/versions`: the source versions of a tool, each line by line, and
//! comparisons of two.

use maud::{Markup, html};
use tollhouse_api::{HandlerType, OwnEndpoint};
use tollhouse_front::{ApiError, Code, PathParams};
use tollhouse_tool::{ChangedVia, Version, VersionMaker, finding::Finding};

use super::owner_pages;
use crate::{
    ApiRefusal, DiffNames, PageQuery, PageResult, RawQuery, SignedIn, Tab, Visitor, Words, api_section, diff, facts, form, lazy_html,
    moment, parts::source::part, state, table, text, with_query, word,
};

/// Digits of a hash in a version's short name.
const DIGITS: usize = 12;

struct ReadVersion {
    version: String,
    source: String,
}

pub(crate) async fn page(SignedIn(visitor): SignedIn, PathParams(slug): PathParams, RawQuery(raw): RawQuery) -> PageResult {
    // `b` is the shown version, or the base of the comparison with `a`. `from` is the first line.
    let query = PageQuery::read(raw.as_deref(), &["a", "b", "from"]);
    let (b, from) = (query.get("b"), query.get("from").parse().unwrap_or_default());
    let tool = &*owner_pages::record(&visitor, &slug).await?;
    let a = Some(query.get("a")).filter(|a| !a.is_empty()).unwrap_or(&tool.version);
    let has_source = matches!(tool.common.handler_type, HandlerType::JsRequestResponse | HandlerType::StaticJson);
    let one = if has_source { Some(read(&visitor, &slug, a).await?) } else { None };
    let other = if has_source && !b.is_empty() { Some(read(&visitor, &slug, b).await?) } else { None };
    let main = lazy_html! {
        @match (&one, &other) {
            (Some(one), Some(other)) => (compared(&slug, one, other)),
            (Some(one), None) => (source_section(&visitor, &slug, tool, one, from)),
            (None, _) => p.lead { "This tool is built into the host. It has no source and no versions." },
        }
        @if has_source { (list(&slug, tool, [a, b])) }
        (api_section(&visitor, &owner_pages::api_path(&slug)))
    };
    let main = visitor.render(main).await?;
    Ok(visitor.show(owner_pages::page(&visitor, &slug, Tab::Versions, format!("Versions of {slug}"), &main)).await)
}

/// Fetches a version's source, or the JSON of a static answer.
async fn read(visitor: &Visitor, slug: &str, version: &str) -> Result<ReadVersion, ApiRefusal> {
    let answer = owner_pages::handler(visitor, slug, version).await?.ok_or_else(|| ApiError::from(Code::UnknownVersion))?;
    let source = visitor.render(|| owner_pages::source_text(&answer.handler)).await?;
    Ok(ReadVersion { version: version.to_owned(), source })
}

/// Returns a version's short name: the first digits of its hash.
pub(crate) fn name(version: &str) -> String {
    version.trim_start_matches("sha256:").chars().take(DIGITS).collect()
}

/// Returns the path of a tool's versions.
fn place(slug: &str) -> String {
    owner_pages::page_path(slug, "versions")
}

fn compared(slug: &str, a: &ReadVersion, b: &ReadVersion) -> Markup {
    let (old, new) = (name(&a.version), name(&b.version));
    html! {
        section {
            h2 { "From " code { (text::plain(&old)) } " to " code { (text::plain(&new)) } }
            (diff(DiffNames { old: &text::plain(&old), new: &text::plain(&new) }, &a.source, &b.source))
            p.marks {
                a href=(with_query(&place(slug), [("a", &*b.version), ("b", &*a.version)])) { "Swap the versions" }
                a href=(with_query(&place(slug), [("a", &*a.version)])) { "Source of " (text::plain(&old)) }
                a href=(with_query(&place(slug), [("a", &*b.version)])) { "Source of " (text::plain(&new)) }
            }
        }
    }
}

fn source_section(visitor: &Visitor, slug: &str, tool: &OwnEndpoint, a: &ReadVersion, from: usize) -> Markup {
    let runs = tool.version == a.version;
    let found: Vec<&Finding> = tool.review.findings.iter().filter(|finding| runs && finding.field == "/handler/source").collect();
    let lines: Vec<_> = found.iter().filter_map(|finding| finding.line.map(u64::from)).collect();
    let name = name(&a.version);
    let at = |from: usize| with_query(&place(slug), [("a", &*a.version), ("from", &from.to_string())]);
    html! {
        section {
            h2 { "Source of " code { (text::plain(&name)) } @if runs { " " (state("running")) } }
            @if !found.is_empty() {
                p { "Findings of the scan:" }
                ul.plain {
                    @for finding in &found {
                        @let line = finding.line.unwrap_or(1);
                        li {
                            a href={ (at(usize::try_from(line).unwrap_or(1))) "#L" (line) } { "Line " (line) } ": "
                            code { (text::words(&finding.rule)) }
                            " (" (word(finding.severity)) ")"
                        }
                    }
                }
            }
            (part(&a.source, from).shown(&format!("source of {}", text::plain(&name)), &lines, at))
            @if !runs { (run_again(visitor, slug, tool, &a.version)) }
        }
    }
}

/// Shows the form that restores a version, and what stays as it is.
fn run_again(visitor: &Visitor, slug: &str, tool: &OwnEndpoint, version: &str) -> Markup {
    let fields = html! {
        input type="hidden" name="text:/version" value=(version);
        (owner_pages::if_match(tool))
        button.primary { "Run this version again" }
    };
    html! {
        h3 { "Restore this version" }
        p.words {
            "Calls that start later run this source. It is scanned again, and its answers must match the current schema. "
            "Nothing else changes: title, price, schemas, secrets, limits and grants stay as they are. "
            "Stored keys and files are kept too."
        }
        (form::operation(visitor, "updateEndpoint", &[("slug", slug)], &place(slug), fields))
    }
}

/// Lists the stored versions, with a choice of two. The shown ones are preselected.
fn list(slug: &str, tool: &OwnEndpoint, [a, b]: [&str; 2]) -> Markup {
    let versions = &tool.versions;
    let choice = |name: &'static str, chosen: &str| {
        html! {
            select #(name) name=(name) {
                @for Version { version, .. } in versions {
                    option value=(version) selected[version == chosen] { (text::plain(&self::name(version))) }
                }
            }
        }
    };
    let before = versions.get(1).or(versions.first()).map_or("", |entry| &entry.version);
    let (old, new) = if b.is_empty() { (before, a) } else { (a, b) };
    let columns = ["Version", "Published", "By", "Note", "State", "View"].map(Words);
    let rows = versions.iter().enumerate().map(|(position, entry)| row(slug, tool, entry, versions.get(position + 1)));
    html! {
        section {
            h2 { "Stored versions" }
            p.muted { "The last 50 published sources are stored, newest first." }
            form.filters action=(place(slug)) {
                div.field { label for="a" { "From" } (choice("a", old)) }
                div.field { label for="b" { "To" } (choice("b", new)) }
                button { "Compare" }
            }
            (table("Stored versions", columns, rows))
        }
    }
}

fn row(slug: &str, tool: &OwnEndpoint, entry: &Version, before: Option<&Version>) -> [Markup; 6] {
    let version = &entry.version;
    [
        facts::id_in_brief(version, &name(version)),
        moment(entry.created_at),
        author(entry),
        text::line(entry.note.as_deref().unwrap_or_default()),
        html! {
            span.marks {
                @if tool.version == *version { (state("running")) }
                @if tool.review.approved_version.as_ref() == Some(version) { span { "approved by an admin" } }
            }
        },
        html! {
            span.marks {
                a href=(with_query(&place(slug), [("a", &**version)])) { "Source" }
                @if let Some(before) = before { a href=(with_query(&place(slug), [("a", &*before.version), ("b", &**version)])) { "Changes" } }
            }
        },
    ]
}

/// Shows who made a version and through which interface, if that is known.
fn author(entry: &Version) -> Markup {
    let by = match entry.by {
        VersionMaker::Owner => "the builder",
        VersionMaker::Admin => "an admin",
        VersionMaker::Host => "the host",
    };
    let via = entry.via.map(|via| match via {
        ChangedVia::Http => ", over HTTP",
        ChangedVia::Dashboard => ", on the dashboard",
        ChangedVia::Cli => ", with the command line",
    });
    html! { (by) (via.unwrap_or_default()) }
}

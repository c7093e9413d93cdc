//! `/dashboard/tools/{slug}/versions`: the source versions of a tool, each line by line, and
//! comparisons of two.

use axum::{extract::RawQuery, response::Response};
use maud::{Markup, html};
use serde_json::Value;
use tollhouse_base::exact;
use tollhouse_front::PathParams;

use super::owner_pages;
use crate::{
    parts::{
        cli_hint::same,
        diff::{DiffNames, diff},
        facts, form,
        source::part,
        state::state,
        table::{Column, table},
        tabs::Tab,
        text,
        time::moment,
    },
    query::PageQuery,
    visitor::{ApiRefusal, SignedIn, Visitor, with_query},
};

/// Digits of a hash in a version's short name.
const DIGITS: usize = 12;

/// A version with its source.
struct ReadVersion {
    version: String,
    source: String,
}

pub(crate) async fn page(
    SignedIn(visitor): SignedIn,
    PathParams(slug): PathParams<String>,
    RawQuery(query): RawQuery,
) -> Result<Response, ApiRefusal> {
    // `b` is the shown version, or the base of the comparison with `a`. `from` is the first line.
    let request = PageQuery::read(query.as_deref(), &["a", "b", "from"]);
    let (b, from) = (request.get("b"), request.get("from").parse().unwrap_or_default());
    let answer = owner_pages::record(&visitor, &slug).await?;
    let tool = &answer["endpoint"];
    let a = Some(request.get("a")).filter(|a| !a.is_empty()).or(tool["version"].as_str()).unwrap_or_default();
    let has_source = ["js_request_response", "static_json"].iter().any(|kind| tool["handlerType"] == *kind);
    let one = if has_source { Some(read(&visitor, &slug, a).await?) } else { None };
    let other = if has_source && !b.is_empty() { Some(read(&visitor, &slug, b).await?) } else { None };
    let main = visitor
        .made(|| {
            html! {
                @match (&one, &other) {
                    (Some(one), Some(other)) => (compared(&slug, one, other)),
                    (Some(one), None) => (shown(&visitor, &slug, tool, one, from)),
                    (None, _) => p.lead { "What it answers is the host's own code: it has no source of its own, and no versions." },
                }
                @if has_source { (list(&slug, tool, [a, b])) }
                (same(&visitor, &owner_pages::source(&slug)))
            }
        })
        .await?;
    Ok(visitor.show(owner_pages::page(&visitor, &slug, Tab::Versions, format!("Versions of {slug}"), &main)).await)
}

/// Fetches a version's source, or the JSON of a static answer.
async fn read(visitor: &Visitor, slug: &str, version: &str) -> Result<ReadVersion, ApiRefusal> {
    let answer = visitor.get_handler(&with_query(&format!("{}/source", owner_pages::source(slug)), [("version", version)])).await?;
    let handler = &answer["handler"];
    let source = match handler["source"].as_str() {
        Some(source) => source.to_owned(),
        None => visitor.made(|| exact::pretty(handler["response"].as_str().unwrap_or_default()).unwrap_or_default()).await?,
    };
    Ok(ReadVersion { version: version.to_owned(), source })
}

/// Returns a version's short name: the first digits of its hash.
pub(crate) fn name(version: &str) -> String {
    version.trim_start_matches("sha256:").chars().take(DIGITS).collect()
}

/// Returns the path of a tool's versions.
fn place(slug: &str) -> String {
    owner_pages::place(slug, "versions")
}

fn compared(slug: &str, a: &ReadVersion, b: &ReadVersion) -> Markup {
    let (old, new) = (name(&a.version), name(&b.version));
    html! {
        section {
            h2 { "From " code { (text::plain(&old)) } " to " code { (text::plain(&new)) } }
            (diff(DiffNames { old: &text::plain(&old), new: &text::plain(&new) }, &a.source, &b.source))
            p.marks {
                a href=(with_query(&place(slug), [("a", &*b.version), ("b", &*a.version)])) { "The other way round" }
                a href=(with_query(&place(slug), [("a", &*a.version)])) { "Source of " (text::plain(&old)) }
                a href=(with_query(&place(slug), [("a", &*b.version)])) { "Source of " (text::plain(&new)) }
            }
        }
    }
}

fn shown(visitor: &Visitor, slug: &str, tool: &Value, a: &ReadVersion, from: usize) -> Markup {
    let runs = tool["version"] == a.version;
    let findings = tool["review"]["findings"].as_array().into_iter().flatten();
    let found: Vec<_> = findings.filter(|finding| runs && finding["field"] == "/handler/source").collect();
    let lines: Vec<_> = found.iter().filter_map(|finding| finding["line"].as_u64()).collect();
    let name = name(&a.version);
    let at = |from: usize| with_query(&place(slug), [("a", &*a.version), ("from", &from.to_string())]);
    html! {
        section {
            h2 { "Source of " code { (text::plain(&name)) } @if runs { " " (state("running")) } }
            @if !found.is_empty() {
                p { "The scan found something in it:" }
                ul.plain {
                    @for finding in &found {
                        @let line = finding["line"].as_u64().unwrap_or(1);
                        li {
                            a href={ (at(usize::try_from(line).unwrap_or(1))) "#L" (line) } { "Line " (line) } ": "
                            code { (text::words(finding["rule"].as_str().unwrap_or_default())) }
                            " (" (text::words(finding["severity"].as_str().unwrap_or_default())) ")"
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
fn run_again(visitor: &Visitor, slug: &str, tool: &Value, version: &str) -> Markup {
    let fields = html! {
        input type="hidden" name="text:/version" value=(version);
        (owner_pages::if_match(tool))
        button.primary { "Run this version again" }
    };
    html! {
        h3 { "Go back to it" }
        p.words {
            "Calls that start afterwards run this source. It is scanned again, and its answers must fit the schema of today. "
            "Nothing else changes: title, price, schemas, secrets, limits, and what it may touch stay as they are now; "
            "what it has kept in keys and files stays too."
        }
        (form::of(visitor, "updateEndpoint", &[("slug", slug)], &place(slug), fields))
    }
}

/// Lists the stored versions, with a choice of two. The shown ones are preselected.
fn list(slug: &str, tool: &Value, [a, b]: [&str; 2]) -> Markup {
    let versions = tool["versions"].as_array().map(Vec::as_slice).unwrap_or_default();
    let describe = |entry: &Value| entry["version"].as_str().unwrap_or_default().to_owned();
    let choice = |name: &'static str, chosen: &str| {
        html! {
            select #(name) name=(name) {
                @for entry in versions {
                    @let version = describe(entry);
                    option value=(version) selected[version == chosen] { (text::plain(&self::name(&version))) }
                }
            }
        }
    };
    let before = versions.get(1).or(versions.first()).map(&describe).unwrap_or_default();
    let (old, new) = if b.is_empty() { (before.as_str(), a) } else { (a, b) };
    let columns = ["Version", "Published", "By", "Note", "State", "Look"].map(Column::Words);
    let rows = versions.iter().enumerate().map(|(position, entry)| row(slug, tool, entry, versions.get(position + 1)));
    html! {
        section {
            h2 { "Kept versions" }
            p.muted { "The last 50 sources that were published are kept, newest first." }
            form.filters action=(place(slug)) {
                div.field { label for="a" { "From" } (choice("a", old)) }
                div.field { label for="b" { "To" } (choice("b", new)) }
                button { "Compare" }
            }
            (table("Kept versions", columns, rows))
        }
    }
}

fn row(slug: &str, tool: &Value, entry: &Value, before: Option<&Value>) -> [Markup; 6] {
    let version = entry["version"].as_str().unwrap_or_default();
    [
        facts::id_in_brief(version, &name(version)),
        moment(&entry["createdAt"]),
        maker(entry),
        text::line(entry["note"].as_str().unwrap_or_default()),
        html! {
            span.marks {
                @if tool["version"] == version { (state("running")) }
                @if tool["review"]["approvedVersion"] == version { span { "approved by an admin" } }
            }
        },
        html! {
            span.marks {
                a href=(with_query(&place(slug), [("a", version)])) { "Source" }
                @if let Some(before) = before.and_then(|before| before["version"].as_str()) {
                    a href=(with_query(&place(slug), [("a", before), ("b", version)])) { "What it changed" }
                }
            }
        },
    ]
}

/// Returns who made a version and through which interface. Empty for versions older than that
/// record.
fn maker(entry: &Value) -> Markup {
    let by = match entry["by"].as_str() {
        Some("owner") => "its builder",
        Some("admin") => "an admin",
        Some("host") => "the host",
        Some(_) | None => "",
    };
    let via = match entry["via"].as_str() {
        Some("http") => ", over HTTP",
        Some("dashboard") => ", here",
        Some("cli") => ", by the command line",
        Some(_) | None => "",
    };
    html! { (by) (via) }
}

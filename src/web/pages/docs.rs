//! `/docs`, `/docs/{name}` and `/docs/search`: the documents of the host and its API, rendered from
//! the Markdown that programs get, with navigation and search.

mod contents;
mod frame;
mod search;

use std::sync::Arc;

use maud::{Markup, PreEscaped, html};
use tollhouse_front::{ApiError, Code, PathParams, accept::is_named};

use self::{
    contents::{Contents, INDEX},
    frame::{framed, index_text},
};
pub(crate) use self::{
    frame::{SEARCH, STYLE},
    search::search,
};
use crate::{ApiRefusal, HeaderMap, HeaderValue, Page, PageResult, Visitor, guides, header, render_cache::RenderedDoc, segment};

pub(crate) async fn index(visitor: Visitor, request: HeaderMap) -> PageResult {
    show(&visitor, INDEX, &request).await
}

pub(crate) async fn page(visitor: Visitor, PathParams(name): PathParams, request: HeaderMap) -> PageResult {
    show(&visitor, &name, &request).await
}

/// Returns the document as a page, or as Markdown if the name or the `Accept` header asks for it.
async fn show(visitor: &Visitor, name: &str, request: &HeaderMap) -> PageResult {
    let path = format!("/docs/{}", segment(name));
    if name.ends_with(".md") || is_named(request, "text/markdown") {
        return Ok(visitor.pass(&path, request).await);
    }
    let document = rendered(visitor, name, &path).await?;
    let index = index_text(visitor).await?;
    let contents = Contents::read(&index, visitor.base_url());
    let main = html! {
        (PreEscaped(&document.main))
        (around(&contents, name))
    };
    let page = Page { twin: Some(format!("{path}.md")), ..framed(&contents, "", name, &document.title, &main) };
    let page = if name == INDEX { page } else { page.under("/docs", "Docs") };
    let mut response = visitor.show(page).await;
    response.headers_mut().insert(header::VARY, HeaderValue::from_static("accept"));
    Ok(response)
}

/// Returns links to the documents before and after this one.
fn around(contents: &Contents, name: &str) -> Markup {
    let (before, after) = contents.around(name);
    html! {
        nav.around aria-label="Previous and next" {
            @if let Some(before) = before {
                a href=(before.path()) rel="prev" { span.muted { "Previous" } (before.title) }
            }
            @if let Some(after) = after {
                a.next href=(after.path()) rel="next" { span.muted { "Next" } (after.title) }
            }
        }
    }
}

/// Returns the rendered document, from the cache if its text is unchanged.
async fn rendered(visitor: &Visitor, name: &str, path: &str) -> Result<Arc<RenderedDoc>, ApiRefusal> {
    let (tag, body) = visitor.document(path).await?;
    if let Some(document) = visitor.services.rendered.get(name, &tag) {
        return Ok(document);
    }
    let text = str::from_utf8(&body).map_err(|_| ApiError::from(Code::Internal))?;
    let title = text.lines().find_map(|line| line.strip_prefix("# ")).unwrap_or(name).to_owned();
    let rendered = visitor.render(|| guides::rendered(&linked(for_people(text), visitor.base_url()))).await?;
    // The index is a table of contents itself.
    let has_sections = name != INDEX && rendered.headings.len() > 1;
    let main = html! {
        @if has_sections {
            details.fold.sections tabindex="0" {
                summary { "On this page" }
                nav aria-label="On this page" {
                    h2 { "On this page" }
                    ol { @for (id, heading) in &rendered.headings { li { a href={ "#" (id) } { (heading) } } } }
                }
            }
        }
        div.prose { (PreEscaped(rendered.html)) }
    };
    Ok(visitor.services.rendered.put(name, tag, RenderedDoc { title, main: main.into_string() }))
}

/// Removes the first line if it is the hint for programs.
fn for_people(text: &str) -> &str {
    text.strip_prefix("> ").and_then(|rest| rest.split_once('\n')).map_or(text, |(_, rest)| rest)
}

/// Replaces links to other documents with links to their pages.
fn linked(text: &str, base: &str) -> String {
    let start = format!("]({base}/docs/");
    let mut parts = text.split(start.as_str());
    let mut message = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let (target, rest) = part.split_once(')').unwrap_or((part, ""));
        let (name, position) = target.split_once(".md").unwrap_or((target, ""));
        let path = if name == INDEX { "/docs".to_owned() } else { format!("/docs/{name}") };
        message += &format!("]({path}{position}){rest}");
    }
    message
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_to_documents_lead_to_their_pages() {
        let base = "https://a.example";
        let text = "[a](https://a.example/docs/limits.md), [b](https://a.example/docs/mcp.md#pay), [c](#here), \
            [d](https://a.example/docs/index.md), [e](https://x.example/y.md), [f](https://a.example/docs/openapi.json)";
        let expected =
            "[a](/docs/limits), [b](/docs/mcp#pay), [c](#here), [d](/docs), [e](https://x.example/y.md), [f](/docs/openapi.json)";
        assert_eq!(linked(text, base), expected);
    }

    #[test]
    fn hint_for_programs_is_removed() {
        assert_eq!(for_people("> For programs: x\n\n# Title\n> said"), "\n# Title\n> said");
        assert_eq!(for_people("# Title\n> said\n"), "# Title\n> said\n");
    }
}

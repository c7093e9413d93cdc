//! Links between the pages of a list. There is no link back, because cursors only go forward.

use maud::{Markup, html};

use crate::query::PageQuery;

/// Shows the number of entries on this page of the list at `path`, and links to other pages.
pub(crate) fn onward(shown: usize, query: &PageQuery, path: &str, next_cursor: Option<impl AsRef<str>>) -> Markup {
    let count = html! { (shown) " shown" @if next_cursor.is_some() { ", more available" } };
    links(&count, query.first(path), query.next(path, next_cursor.as_ref().map(AsRef::as_ref)))
}

/// The same for a list with a known number of entries.
pub(crate) fn pager(shown: usize, total: u64, query: &PageQuery, path: &str, next_cursor: Option<impl AsRef<str>>) -> Markup {
    links(&counted(shown, total), query.first(path), query.next(path, next_cursor.as_ref().map(AsRef::as_ref)))
}

/// Returns the number of shown entries.
pub(crate) fn counted(shown: usize, total: u64) -> Markup {
    html! { (shown) " of " (total) " shown" }
}

/// Shows links to the first and the next page, if there are any, beside the number of entries.
pub(crate) fn links(count: &Markup, first: Option<String>, next: Option<String>) -> Markup {
    html! {
        nav.pager aria-label="Pages" {
            p { (count) }
            @if let Some(first) = first { a.button.quiet href=(first) { "First page" } }
            @if let Some(next) = next { a.button href=(next) rel="next" { "Next page" } }
        }
    }
}

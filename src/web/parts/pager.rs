//! Links between the pages of a list. There is no link back, because cursors only go forward.

use maud::{Markup, html};

/// Shows the number of entries, and links to other pages.
pub(crate) fn pager(shown: usize, total: u64, first: Option<&str>, next: Option<&str>) -> Markup {
    html! {
        nav.pager aria-label="Pages" {
            p { (shown) " of " (total) " shown" }
            @if let Some(first) = first { a.button.quiet href=(first) { "First page" } }
            @if let Some(next) = next { a.button href=(next) rel="next" { "Next page" } }
        }
    }
}

/// Shows links to other pages of a list without a known total.
pub(crate) fn onward(shown: usize, first: Option<&str>, next: Option<&str>) -> Markup {
    html! {
        nav.pager aria-label="Pages" {
            p { (shown) " shown" @if next.is_some() { ", and there are more" } }
            @if let Some(first) = first { a.button.quiet href=(first) { "First page" } }
            @if let Some(next) = next { a.button href=(next) rel="next" { "Next page" } }
        }
    }
}

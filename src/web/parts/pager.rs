//! From one page of a list to the next. Backwards is the browser's: a cursor goes one way.

use maud::{Markup, html};

/// How many there are, and where to go on.
pub(crate) fn pager(shown: usize, total: u64, first: Option<&str>, next: Option<&str>) -> Markup {
    html! {
        nav.pager aria-label="Pages" {
            p { (shown) " of " (total) " shown" }
            @if let Some(first) = first { a.button.quiet href=(first) { "First page" } }
            @if let Some(next) = next { a.button href=(next) rel="next" { "Next page" } }
        }
    }
}

/// The same for a list of which nobody has counted how long it is.
pub(crate) fn onward(shown: usize, first: Option<&str>, next: Option<&str>) -> Markup {
    html! {
        nav.pager aria-label="Pages" {
            p { (shown) " shown" @if next.is_some() { ", and there are more" } }
            @if let Some(first) = first { a.button.quiet href=(first) { "First page" } }
            @if let Some(next) = next { a.button href=(next) rel="next" { "Next page" } }
        }
    }
}

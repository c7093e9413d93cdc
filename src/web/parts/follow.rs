//! Lists that script keeps as they are while they are looked at. Without it they are what they were when they were asked for.

use maud::{Markup, html};

use crate::asked::Asked;

/// The field of a query that asks for so many rows of a page's list, and for nothing else of the page.
const ROWS: &str = "rows";

/// What a list is followed by.
#[derive(Debug)]
pub(crate) struct Followed {
    /// The stream that tells when there is more.
    pub(crate) live: String,
    /// Where its rows alone are had: the page, or another one with the same list.
    pub(crate) page: String,
    /// Rows that there are at most, where it shows the last ones alone.
    pub(crate) most: Option<usize>,
}

/// A list, with what it is followed by where it can be.
pub(crate) fn followed(by: Option<&Followed>, list: Markup) -> Markup {
    let Some(by) = by else { return rows(list) };
    html! {
        p.buttons.needs-script {
            button #follow type="button" { "Follow" }
            span #following.muted role="status" { "Not following" }
            button #newer.quiet type="button" hidden { "Show what is new" }
        }
        div #rows data-live=(by.live) data-rows=(by.page) data-most=[by.most] { (list) }
    }
}

/// A list that is asked for anew every few seconds, at `page`.
pub(crate) fn renewed(page: &str, list: Markup) -> Markup {
    html! { div #rows data-rows=(page) { (list) } }
}

/// The list alone, for a script that has the rest of the page.
pub(crate) fn rows(list: Markup) -> Markup {
    html! { div #rows { (list) } }
}

/// How many rows alone are asked for, of as many as the page has; `None` where all of the page is.
pub(crate) fn wanted(query: Option<&str>, most: usize) -> Option<usize> {
    let rows = Asked::read(query, &[ROWS]).get(ROWS).parse::<usize>().ok()?;
    Some(rows.clamp(1, most))
}

/// What a row is told apart by from others of its list.
pub(crate) fn named(name: &str, cell: Markup) -> Markup {
    html! { span data-row=(name) { (cell) } }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_alone_are_as_many_as_a_page_has_at_most() {
        let queries = [None, Some("kind=x"), Some("rows=all"), Some("rows=0"), Some("kind=x&rows=7"), Some("rows=200")];
        assert_eq!(queries.map(|query| wanted(query, 30)), [None, None, None, Some(1), Some(7), Some(30)]);
    }
}

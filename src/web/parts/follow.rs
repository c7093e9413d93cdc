//! Lists that a script updates while they are visible. Without scripts they keep their initial
//! state.

use maud::{Markup, html};

use crate::asked::Asked;

/// Query field that requests only this many rows of a page's list.
const ROWS: &str = "rows";

/// How a list is updated.
#[derive(Debug)]
pub(crate) struct Followed {
    /// Address of the stream that announces changes.
    pub(crate) live: String,
    /// Address of a page with the rows of the list.
    pub(crate) page: String,
    /// Maximum rows, if only the latest are shown.
    pub(crate) most: Option<usize>,
}

/// Returns a list with controls to follow it, if possible.
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

/// Returns a list that is fetched from `page` every few seconds.
pub(crate) fn renewed(page: &str, list: Markup) -> Markup {
    html! { div #rows data-rows=(page) { (list) } }
}

/// Returns only the list, for a script that has the rest of the page.
pub(crate) fn rows(list: Markup) -> Markup {
    html! { div #rows { (list) } }
}

/// Returns how many rows the query requests, at most `most`. `None` if it requests the whole page.
pub(crate) fn wanted(query: Option<&str>, most: usize) -> Option<usize> {
    let rows = Asked::read(query, &[ROWS]).get(ROWS).parse::<usize>().ok()?;
    Some(rows.clamp(1, most))
}

/// Marks the cell that identifies its row.
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

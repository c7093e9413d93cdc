//! Lists that a script updates while they are visible. Without scripts they keep their initial
//! state.

use maud::{Markup, html};

use crate::query::PageQuery;

/// Query field that requests only this many rows of a page's list.
const ROWS: &str = "rows";

/// How a list is updated.
#[derive(Debug)]
pub(crate) struct FollowedList {
    /// Address of the stream that announces changes.
    pub(crate) live: String,
    /// Address of a page with the rows of the list.
    pub(crate) page: String,
    /// Maximum rows, if only the latest are shown.
    pub(crate) max: Option<usize>,
}

/// Returns a list with controls to follow it, if possible.
pub(crate) fn followed(by: Option<&FollowedList>, list: Markup) -> Markup {
    let Some(by) = by else { return rows(list) };
    html! {
        p.buttons.needs-script {
            button #follow type="button" { "Follow" }
            span #following.muted role="status" { "Not following" }
            button #newer.quiet type="button" hidden { "Show new entries" }
        }
        div #rows data-live=(by.live) data-rows=(by.page) data-most=[by.max] { (list) }
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
pub(crate) fn requested(query: Option<&str>, max: usize) -> Option<usize> {
    let rows = PageQuery::read(query, &[ROWS]).get(ROWS).parse::<usize>().ok()?;
    Some(rows.clamp(1, max))
}

/// Marks the cell that identifies its row.
pub(crate) fn named(name: impl AsRef<str>, cell: Markup) -> Markup {
    html! { span data-row=(name.as_ref()) { (cell) } }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requested_rows_are_limited() {
        let queries = [None, Some("kind=x"), Some("rows=all"), Some("rows=0"), Some("kind=x&rows=7"), Some("rows=200")];
        assert_eq!(queries.map(|query| requested(query, 30)), [None, None, None, Some(1), Some(7), Some(30)]);
    }
}

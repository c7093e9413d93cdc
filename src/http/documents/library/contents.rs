//! The table of contents: the groups of pages and their order, from `docs/contents.json`.

use std::sync::LazyLock;

use serde::Deserialize;

/// The name of the index page.
pub(super) const INDEX: &str = "index";

/// A part of the table of contents.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(in crate::documents) struct Shelf {
    /// Heading of its group.
    pub(in crate::documents) group: String,
    /// Heading within its group. Empty if its pages are directly below the group.
    #[serde(default)]
    pub(in crate::documents) section: String,
    /// Folder of its files, relative to `docs/`. `None` if its pages are generated.
    pub(super) folder: Option<String>,
    /// Names of its pages, in order.
    pub(super) pages: Vec<String>,
}

/// All parts, in order.
pub(super) static CONTENTS: LazyLock<Vec<Shelf>> =
    LazyLock::new(|| serde_json::from_str(include_str!("../../../../docs/contents.json")).expect("the file is JSON of this form"));

/// Returns whether a page with this name exists, as a file or generated.
pub(super) fn is_page(name: &str) -> bool {
    name == INDEX || CONTENTS.iter().any(|shelf| shelf.pages.iter().any(|page| page == name))
}

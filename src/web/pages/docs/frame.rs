//! The frame of documents: search and navigation beside the content.

use maud::{Markup, html};
use tollhouse_front::{ApiError, Code};

use super::contents::{Contents, INDEX};
use crate::{ApiRefusal, Area, Page, Visitor, plain};

/// Style sheet of documents.
pub(crate) const STYLE: &str = "docs.css";

/// Path of the search.
pub(crate) const SEARCH: &str = "/docs/search";

/// Returns the index as Markdown.
pub(super) async fn index_text(visitor: &Visitor) -> Result<String, ApiRefusal> {
    let (_, body) = visitor.document(&format!("/docs/{INDEX}")).await?;
    String::from_utf8(body.into()).map_err(|_| ApiError::from(Code::Internal).into())
}

/// Returns a page with search and navigation beside its content. `words` are those of the search.
pub(super) fn framed(contents: &Contents, words: &str, name: &str, title: &str, main: &Markup) -> Page {
    let main = html! {
        div.docs {
            div.beside {
                (field(words))
                details.fold {
                    summary { "All documents" }
                    (contents.navigation(name))
                }
            }
            div.content { (main) }
        }
    };
    Page { style: Some(STYLE), searches: true, ..Page::new(Area::Documents, title, main) }
}

/// Returns the search field.
fn field(words: &str) -> Markup {
    html! {
        form.search role="search" aria-label="Docs" action=(SEARCH) {
            label.aside for="find" { "Search the docs" }
            input #find name="q" type="search" value=(plain(words)) placeholder="Search" maxlength="200" data-key="/";
            button { "Search" }
        }
    }
}

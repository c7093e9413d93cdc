//! The line that does for programs what a page shows to people.

use maud::{Markup, html};
use tollhouse_account::session::Kind;

use super::code;
use crate::visitor::Visitor;

/// How a path of the API, that is encoded as paths are, is asked by who looks at the page.
pub(crate) fn line(visitor: &Visitor, path: &str) -> String {
    let credential = match visitor.kind() {
        Some(Kind::Admin) => " \\\n  -H \"x-admin-token: $ADMIN_TOKEN\"",
        Some(Kind::Builder) => " \\\n  -H \"x-builder-key: $BUILDER_KEY\"",
        Some(Kind::Holder) => " \\\n  -H \"x-developer-credit: $CREDIT\"",
        None => "",
    };
    format!("curl -s '{}{path}'{credential}", visitor.base_url())
}

/// The same as a part of a page.
pub(crate) fn same(visitor: &Visitor, path: &str) -> Markup {
    html! {
        section {
            h2 { "For programs" }
            (code::block("The same as JSON", "sh", &line(visitor, path)))
        }
    }
}

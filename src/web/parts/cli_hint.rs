//! The command line for programs with the same content as a page.

use maud::{Markup, html};
use tollhouse_account::session::SessionKind;

use super::code;
use crate::visitor::Visitor;

/// Returns the command for an API path, which must be percent-encoded, with the visitor's kind of
/// credential.
pub(crate) fn curl_command(visitor: &Visitor, path: &str) -> String {
    let credential = match visitor.kind() {
        Some(SessionKind::Admin) => " \\\n  -H \"x-admin-token: $ADMIN_TOKEN\"",
        Some(SessionKind::Builder) => " \\\n  -H \"x-builder-key: $BUILDER_KEY\"",
        Some(SessionKind::Holder) => " \\\n  -H \"x-developer-credit: $CREDIT\"",
        None => "",
    };
    format!("curl -s '{}{path}'{credential}", visitor.base_url())
}

pub(crate) fn api_section(visitor: &Visitor, path: &str) -> Markup {
    html! {
        section {
            h2 { "For programs" }
            (code::block("Get this page as JSON", "sh", &curl_command(visitor, path)))
        }
    }
}

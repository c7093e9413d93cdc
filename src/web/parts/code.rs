//! Code as it is copied: what is seen is what the button takes.

use maud::{Markup, html};

use super::text::plain;

/// A block of code with its name. Of others' words there must be none in it that are not escaped for what reads it.
pub(crate) fn block(name: &str, language: &str, code: &str) -> Markup {
    html! {
        figure.code {
            figcaption { span { (name) } (copy(name)) }
            pre { code class=(format!("language-{language}")) { (plain(code)) } }
        }
    }
}

/// The button that copies the code beside it, which is called `what`.
pub(crate) fn copy(what: &str) -> Markup {
    html! { button.copy type="button" aria-label={ "Copy: " (what) } { "Copy" } }
}

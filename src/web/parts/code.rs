//! Code blocks with copy buttons. The button copies exactly the visible text.

use maud::{Markup, html};

use super::{languages, plain, text::classed};

/// Returns a named block of code. Text of others in it must be escaped for the language.
pub(crate) fn block(name: &str, language: &str, code: &str) -> Markup {
    html! {
        figure.code {
            figcaption { span { (name) } (copy(name)) }
            pre { code class=(format!("language-{language}")) { (plain(code)) } }
        }
    }
}

/// Returns a named block of code with highlighted syntax. Lines of plain text are not broken, because
/// it can be a drawing.
pub(crate) fn highlighted(name: &str, language: &str, code: &str) -> Markup {
    let is_wide = matches!(language, "" | "text" | "mermaid");
    html! {
        figure.code {
            figcaption { span { (name) } (copy(name)) }
            pre.wide[is_wide] role=[is_wide.then_some("group")] aria-label=[is_wide.then_some(name)] tabindex=[is_wide.then_some("0")] {
                code class=(format!("language-{language}")) { (classed(languages::pieces(language, code))) }
            }
        }
    }
}

/// Returns a button that copies the adjacent code, which is named `what`.
pub(crate) fn copy(what: &str) -> Markup {
    html! { button.copy type="button" aria-label={ "Copy: " (what) } { "Copy" } }
}

//! Placeholder for an empty list: a sentence, an action, and the command for it.

use maud::{Markup, html};

use super::code;

pub(crate) fn empty(sentence: &str, action: Option<(&str, &str)>, command: &str) -> Markup {
    html! {
        div.empty {
            p { (sentence) }
            @if let Some((path, name)) = action { p { a.button href=(path) { (name) } } }
            (code::block("Command", "sh", command))
        }
    }
}

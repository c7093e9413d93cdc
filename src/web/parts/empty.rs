//! What stands where nothing is: a sentence, what to do, and the command that does it.

use maud::{Markup, html};

use super::code;

/// Nothing is here.
pub(crate) fn empty(sentence: &str, action: Option<(&str, &str)>, command: &str) -> Markup {
    html! {
        div.empty {
            p { (sentence) }
            @if let Some((path, name)) = action { p { a.button href=(path) { (name) } } }
            (code::block("Command", "sh", command))
        }
    }
}

//! Names and what they are: a list of facts.

use maud::{Markup, html};

use super::{
    code::copy,
    text::{plain, words},
};

/// Facts by their names; those that are not known are left out.
pub(crate) fn list(facts: &[(&str, Option<Markup>)]) -> Markup {
    html! {
        dl.facts {
            @for (name, fact) in facts {
                @if let Some(fact) = fact { div { dt { (name) } dd { (fact) } } }
            }
        }
    }
}

/// The same, of which only a part is seen.
pub(crate) fn id_in_brief(text: &str, shown: &str) -> Markup {
    let (before, after) = text.split_once(shown).unwrap_or_default();
    html! { span.id { code { span.aside { (words(before)) } (words(shown)) span.aside { (words(after)) } } (copy(&plain(text))) } }
}

/// An id, hash or address, to be copied.
pub(crate) fn id(text: &str) -> Markup {
    html! { span.id { code { (words(text)) } (copy(&plain(text))) } }
}

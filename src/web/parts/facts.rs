//! Lists of names and values.

use maud::{Markup, html};

use super::{code::copy, plain, words};

/// Shows values by name. Unknown ones are left out.
pub(crate) fn list(facts: &[(&str, Option<Markup>)]) -> Markup {
    html! {
        dl.facts {
            @for (name, fact) in facts {
                @if let Some(fact) = fact { div { dt { (name) } dd { (fact) } } }
            }
        }
    }
}

/// Shows an id of which only a part is visible.
pub(crate) fn id_in_brief(text: &str, shown: &str) -> Markup {
    let (before, after) = text.split_once(shown).unwrap_or_default();
    html! { span.id { code { span.aside { (words(before)) } (words(shown)) span.aside { (words(after)) } } (copy(&plain(text))) } }
}

/// Shows an id, hash or address with a copy button.
pub(crate) fn id(text: impl AsRef<str>) -> Markup {
    let text = text.as_ref();
    html! { span.id { code { (words(text)) } (copy(&plain(text))) } }
}

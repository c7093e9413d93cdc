//! Forms: fields, and the API operation of a button.

use maud::{Markup, html};

use super::plain;
use crate::{form_table, visitor::Visitor};

/// Returns a form for an API operation, with values for the names in its path, which leads back to
/// a page of the dashboard.
///
/// The names of its fields determine the request: see [`crate::forms`].
pub(crate) fn operation(visitor: &Visitor, id: &str, names: &[(&str, &str)], back: &str, fields: Markup) -> Markup {
    html! {
        // A one-time answer needs a page, so the browser must submit this form without the script.
        form.form method="post" action={ "/dashboard/do/" (id) } data-do[!form_table::is_once(id)] {
            (token(visitor))
            @for (name, value) in names { input type="hidden" name={ "path:" (name) } value=(value); }
            input type="hidden" name="back" value=(back);
            (fields)
        }
    }
}

/// Returns the revision that a change is based on. If it is outdated, nothing is changed.
pub(crate) fn revision(revision: u64) -> Markup {
    html! { input type="hidden" name="header:if-match" value={ "\"" (revision) "\"" }; }
}

/// Returns the hidden form token of a session.
pub(crate) fn token(visitor: &Visitor) -> Markup {
    html! { @if let Some(session) = visitor.session() { input type="hidden" name="csrf" value=(session.form_token); } }
}

pub(crate) fn hidden(name: &str, value: &str) -> Markup {
    html! { input type="hidden" name=(name) value=(value); }
}

/// Returns a choice of a filter: value and text of each option. A current value that is none of them
/// is added, with the text that `other` returns.
pub(crate) fn select(id: &str, label: &str, options: &[(&str, &str)], now: &str, other: impl FnOnce(&str) -> String) -> Markup {
    let mut options = options.to_vec();
    let added = options.iter().all(|(value, _)| *value != now).then(|| other(now));
    options.extend(added.as_deref().map(|text| (now, text)));
    choice(id, id, label, &options, now)
}

/// Returns a choice with its label: value and text of each option.
pub(crate) fn choice(id: &str, name: &str, label: &str, options: &[(&str, &str)], now: &str) -> Markup {
    let options = html! {
        select id=(id) name=(name) {
            @for (value, text) in options { option value=(plain(value)) selected[*value == now] { (plain(text)) } }
        }
    };
    field(id, label, None, options)
}

/// Returns a field with its label. `note` explains what is expected.
pub(crate) fn field(id: &str, label: &str, note: Option<&str>, input: Markup) -> Markup {
    html! {
        div.field {
            label for=(id) { (label) }
            (input)
            @if let Some(note) = note { p.note { (note) } }
        }
    }
}

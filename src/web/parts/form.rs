//! Forms: fields, and the API operation of a button.

use maud::{Markup, html};

use crate::{forms, visitor::Visitor};

/// Returns a form for an API operation, with values for the names in its path, which leads back to
/// a page of the dashboard.
///
/// The names of its fields determine the request: see [`forms`].
pub(crate) fn of(visitor: &Visitor, operation: &str, names: &[(&str, &str)], back: &str, fields: Markup) -> Markup {
    html! {
        // A one-time answer needs a page, so the browser must submit this form without the script.
        form.form method="post" action={ "/dashboard/do/" (operation) } data-do[!forms::is_once(operation)] {
            (token(visitor))
            @for (name, value) in names { input type="hidden" name={ "path:" (name) } value=(value); }
            input type="hidden" name="back" value=(back);
            (fields)
        }
    }
}

/// Returns the revision that a change is based on. If it is outdated, nothing is changed.
pub(crate) fn onto(revision: u64) -> Markup {
    html! { input type="hidden" name="header:if-match" value={ "\"" (revision) "\"" }; }
}

/// Returns the hidden form token of a session.
pub(crate) fn token(visitor: &Visitor) -> Markup {
    html! { @if let Some(session) = visitor.session() { input type="hidden" name="csrf" value=(session.form_token); } }
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

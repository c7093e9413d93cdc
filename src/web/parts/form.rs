//! Forms: what is filled in, and which operation of the API a button asks for.

use maud::{Markup, html};

use crate::{forms, visitor::Visitor};

/// A form that asks for an operation of the API, by its id, about what these names of its path name, and leads back to a page of the
/// dashboard.
///
/// What its fields are called says what of the request they are: see [`forms`].
pub(crate) fn of(visitor: &Visitor, operation: &str, names: &[(&str, &str)], back: &str, fields: Markup) -> Markup {
    html! {
        // What is shown once is shown on a page: script leaves it to the browser.
        form.form method="post" action={ "/dashboard/do/" (operation) } data-do[!forms::is_once(operation)] {
            (token(visitor))
            @for (name, value) in names { input type="hidden" name={ "path:" (name) } value=(value); }
            input type="hidden" name="back" value=(back);
            (fields)
        }
    }
}

/// The revision that a change is made to: if there is another one by then, nothing is changed.
pub(crate) fn onto(revision: u64) -> Markup {
    html! { input type="hidden" name="header:if-match" value={ "\"" (revision) "\"" }; }
}

/// What every form of a session holds.
pub(crate) fn token(visitor: &Visitor) -> Markup {
    html! { @if let Some(session) = visitor.session() { input type="hidden" name="csrf" value=(session.form_token); } }
}

/// A field under its label. `note` says what is expected.
pub(crate) fn field(id: &str, label: &str, note: Option<&str>, input: Markup) -> Markup {
    html! {
        div.field {
            label for=(id) { (label) }
            (input)
            @if let Some(note) = note { p.note { (note) } }
        }
    }
}

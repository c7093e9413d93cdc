//! The sign-in form.

use maud::{Markup, html};

use super::form;
use crate::visitor::Visitor;

/// Returns the form that begins a session, with carried fields and the error of the last attempt.
pub(crate) fn sign_in(visitor: &Visitor, carried: &Markup, wrong: Option<&str>) -> Markup {
    html! {
        form.form method="post" action="/dashboard/session" {
            (form::token(visitor))
            (carried)
            @if let Some(wrong) = wrong { p.problem #wrong role="alert" { (wrong) } }
            (form::field("credential", "Credential", None, html! {
                input #credential name="credential" type="password" required autocomplete="off" spellcheck="false"
                    aria-describedby=[wrong.map(|_| "wrong")] aria-invalid=[wrong.map(|_| "true")];
            }))
            button.primary { "Sign in" }
        }
    }
}

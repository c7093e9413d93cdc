//! Forms that continue from a page: the same call again, its terms, or its input for editing.

use maud::{Markup, html};
use serde_json::Value;

use super::{
    asked::Asked,
    call::{OnCredit, Pays},
    name::FormName,
};
use crate::parts::form;

/// Returns hidden fields with a signed payment and what it pays.
pub(super) fn signed(header: &str, accepted: &Value) -> Markup {
    html! {
        input type="hidden" name="payment" value=(header);
        @for name in ["amount", "asset", "network"] {
            input type="hidden" name=(name) value=(accepted[name].as_str().unwrap_or_default());
        }
    }
}

/// The button for a new answer to a call that was answered.
pub(super) const NEW_ANSWER: &str = "See the terms of a new answer";

/// The buttons for a call that was charged before its run and not answered.
pub(super) const RUN_AGAIN: &str = "Run again with the payment you made";
pub(super) const NEW_PAYMENT: &str = "Pay for a new call";

/// Returns a button for the terms of another payment for the same input. The next page names that
/// payment, so that it can be reloaded.
pub(super) fn anew(asked: &Asked, label: &'static str) -> Markup {
    let name = FormName::new(asked.visitor.now());
    Edited { label, step: "call", anew: true }.form(asked, &name)
}

/// A step with the same input, without a payment.
pub(super) struct Edited {
    pub(super) label: &'static str,
    pub(super) step: &'static str,
    /// Whether a new answer is wanted instead of the paid one.
    pub(super) anew: bool,
}

impl Edited {
    pub(super) fn form(&self, asked: &Asked, name: &FormName) -> Markup {
        html! {
            form.form method="post" action=(asked.tool.here()) {
                (form::token(asked.visitor))
                (name.field())
                input type="hidden" name="as" value=(asked.state());
                input type="hidden" name="input" value=(asked.input);
                @if self.anew { input type="hidden" name="anew" value="1"; }
                button name="step" value=(self.step) { (self.label) }
            }
        }
    }
}

/// Returns a form for the same call with the same payment.
pub(super) fn again(asked: &Asked, pays: &Pays, step: &str, label: &str) -> Markup {
    let said = |name: &str| html! { input type="hidden" name=(name) value=(asked.fields.get(name).unwrap_or_default()); };
    html! {
        form.form.try method="post" action=(asked.tool.here()) data-call[step != "save"] data-payment=[payment(pays)] {
            (form::token(asked.visitor))
            @for name in ["try", "as", "usd"] { (said(name)) }
            input type="hidden" name="input" value=(asked.input);
            input type="hidden" name="step" value=(step);
            @match pays {
                Pays::Nothing => {}
                Pays::Signed(_) => { @for name in ["way", "payment", "amount", "asset", "network"] { (said(name)) } }
                Pays::Credit(OnCredit { token, .. }) => {
                    @for name in ["way", "key", "quote"] { (said(name)) }
                    @if token.is_some() {
                        @let id = format!("credit-{step}");
                        (form::field(&id, "Token of the same credit", None, html! {
                            input id=(id) name="credit" type="password" required autocomplete="off" spellcheck="false";
                        }))
                    }
                }
            }
            button.primary[label == RUN_AGAIN] { (label) }
        }
    }
}

fn payment(pays: &Pays) -> Option<&str> {
    match pays {
        Pays::Signed(payment) => Some(&payment.id),
        Pays::Nothing | Pays::Credit(_) => None,
    }
}

/// Returns a form for another call that starts with this input.
pub(super) fn other(asked: &Asked) -> Markup {
    let name = FormName::new(asked.visitor.now());
    Edited { label: "Call with another input", step: asked.state(), anew: false }.form(asked, &name)
}

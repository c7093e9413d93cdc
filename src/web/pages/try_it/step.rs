//! Forms that continue from a page: the same call again, its terms, or its input for editing.

use maud::{Markup, html};
use tollhouse_api::PaymentRequirements;

use super::{
    call::{CreditCall, PaymentSource},
    name::FormName,
    tool::CallRequest,
};
use crate::form;

/// Returns hidden fields with a signed payment and what it pays.
pub(super) fn signed(header: &str, accepted: &PaymentRequirements) -> Markup {
    let PaymentRequirements { amount, asset, network, .. } = accepted;
    html! {
        @for (name, value) in [("payment", header), ("amount", &**amount), ("asset", &**asset), ("network", &**network)] { (form::hidden(name, value)) }
    }
}

/// The button for a new answer to a call that was answered.
pub(super) const NEW_ANSWER: &str = "See the terms for a new call";

/// The buttons for a call that was charged before its run and not answered.
pub(super) const RUN_AGAIN: &str = "Run again with the same payment";
pub(super) const NEW_PAYMENT: &str = "Pay for a new call";

/// Returns a button for the terms of another payment for the same input. The next page names that
/// payment, so that it can be reloaded.
pub(super) fn restart(request: &CallRequest, label: &'static str) -> Markup {
    let name = FormName::new(request.visitor.now());
    EditStep { label, step: "call", restarts: true }.form(request, &name)
}

/// A step with the same input, without a payment.
pub(super) struct EditStep {
    pub(super) label: &'static str,
    pub(super) step: &'static str,
    /// Whether a new answer is wanted instead of the paid one.
    pub(super) restarts: bool,
}

impl EditStep {
    pub(super) fn form(&self, request: &CallRequest, name: &FormName) -> Markup {
        html! {
            form.form method="post" action=(request.tool.here()) {
                (form::token(request.visitor))
                (name.field())
                input type="hidden" name="as" value=(request.state());
                input type="hidden" name="input" value=(request.input);
                @if self.restarts { input type="hidden" name="restart" value="1"; }
                button name="step" value=(self.step) { (self.label) }
            }
        }
    }
}

/// Returns a form for the same call with the same payment.
pub(super) fn repeat_form(request: &CallRequest, pays: &PaymentSource, step: &str, label: &str) -> Markup {
    let same = |name: &str| form::hidden(name, request.fields.get(name).unwrap_or_default());
    html! {
        form.form.try method="post" action=(request.tool.here()) data-call[step != "save"] data-payment=[payment(pays)] {
            (form::token(request.visitor))
            @for name in ["try", "as", "usd"] { (same(name)) }
            input type="hidden" name="input" value=(request.input);
            input type="hidden" name="step" value=(step);
            @match pays {
                PaymentSource::Nothing => {}
                PaymentSource::Signed(_) => { @for name in ["way", "payment", "amount", "asset", "network"] { (same(name)) } }
                PaymentSource::Credit(CreditCall { token, .. }) => {
                    @for name in ["way", "key", "quote"] { (same(name)) }
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

fn payment(pays: &PaymentSource) -> Option<&str> {
    match pays {
        PaymentSource::Signed(payment) => Some(&payment.id),
        PaymentSource::Nothing | PaymentSource::Credit(_) => None,
    }
}

/// Returns a form for another call that starts with this input.
pub(super) fn other(request: &CallRequest) -> Markup {
    let name = FormName::new(request.visitor.now());
    EditStep { label: "Call with another input", step: request.state(), restarts: false }.form(request, &name)
}

//! The second step: the price, and the ways to pay. Each is a form that names the amount.

use maud::{Markup, html};
use serde_json::json;
use tollhouse_account::session::SessionKind;
use tollhouse_api::{PaymentRequirements, PaymentState};

use super::{
    form_memory::{self, FormMemory, UsedForm},
    name::FormName,
    play::{self, PlayOption, SentState},
    step::{EditStep, NEW_ANSWER, NEW_PAYMENT, RUN_AGAIN, restart, signed},
    terms::CallTerms,
    tool::CallRequest,
};
use crate::{
    Page, PageResult, facts, form, header, moment, money, pages::tool::paid_with, parts::schema_form::spread, play_wallet::Payment, sample,
    segment, state, text,
};

/// Maximum shown characters of the input.
const SHOWN: usize = 1_500;

/// Shows the price and the ways to pay.
pub(super) async fn show(request: &CallRequest<'_>, terms: &CallTerms<'_>) -> PageResult {
    let (cookies, now) = (&request.visitor.services.cookie, request.visitor.now());
    let (cookie, call) = (cookies.companion("try"), form_memory::call(request.tool.slug(), request.input));
    let mut memory: FormMemory = cookie.read(request.headers).unwrap_or_default();
    let name = match request.fields.get("restart") {
        Some(_) => None,
        None => known_name(request, terms, &memory, &call).await,
    };
    let name = name.unwrap_or_else(|| FormName::from_fields(request.fields, now));
    let (play, wallet) = match terms.simulated() {
        true => play::offered(request, &name, terms, &memory.other_payments(&call).collect::<Vec<_>>()).await,
        false => (PlayOption::Away(String::new()), None),
    };
    let offer = PaymentPrompt { requested: request, name: &name, terms, play: &play };
    let main = request.visitor.render(|| offer.view()).await?;
    let page = Page { unlisted: true, ..request.tool.page("Terms of", main) };
    let mut response = request.visitor.show(page).await;
    let payment = if let PlayOption::Signed { payment, .. } = &play { Some(payment.id.clone()) } else { None };
    memory.remember(UsedForm { name, call, payment });
    for stored in wallet.into_iter().chain([cookie.set(&memory)]) {
        response.headers_mut().append(header::SET_COOKIE, stored);
    }
    Ok(response)
}

/// Returns the name of the form that this browser got for the call: while it is valid, or as long as the host owes a run
/// for its payment.
async fn known_name(request: &CallRequest<'_>, terms: &CallTerms<'_>, memory: &FormMemory, call: &str) -> Option<FormName> {
    if let Some(name) = memory.name(call, request.visitor.now()) {
        return Some(name.clone());
    }
    for UsedForm { name, payment, .. } in memory.forms(call) {
        if let Some(id) = payment
            && play::is_owed(request, name, id, terms).await
        {
            return Some(name.clone());
        }
    }
    None
}

struct PaymentPrompt<'a> {
    requested: &'a CallRequest<'a>,
    name: &'a FormName,
    terms: &'a CallTerms<'a>,
    play: &'a PlayOption,
}

impl PaymentPrompt<'_> {
    fn price(&self) -> String {
        format!("{}{}", if self.terms.is_maximum() { "up to " } else { "" }, money::usd(self.terms.price()))
    }

    /// Returns the price, and whether it is simulated.
    fn explain(&self) -> String {
        money::heading(&self.price(), self.terms.simulated())
    }

    fn view(&self) -> Markup {
        let accepts = &self.terms.accepts;
        html! {
            p.figure { (self.price()) @if self.terms.simulated() { " " span.stamp { (state("simulated")) } } }
            p.lead {
                @if matches!(self.play, PlayOption::Away(_) | PlayOption::Signed { state: None, .. }) {
                    "Nothing is charged before you press a button. "
                }
                @if self.terms.is_upfront() {
                    "A call is charged once, before the tool runs. If the run fails, you can repeat it with the same payment."
                } @else {
                    "A call is charged once, and only for a result that matches the output schema."
                }
            }
            @match self.play {
                PlayOption::Open { id, state } => (self.open(id, *state)),
                PlayOption::Signed { payment, accepted, state: Some(sent) }
                    if !matches!(sent, SentState::Known(PaymentState::Refused | PaymentState::Released)) =>
                {
                    (self.sent_before(payment, accepted, *sent))
                }
                PlayOption::Signed { payment, accepted, .. } => {
                    (self.with_play_money(payment, accepted))
                    (self.options())
                }
                PlayOption::Away(reason) => {
                    @if !reason.is_empty() { p.note { "The play wallet cannot pay: " (text::line(reason)) "." } }
                    (self.options())
                }
            }
            @if !accepts.is_empty() { section { h2 { "Accepted payments" } (paid_with(accepts, self.terms.price(), &self.terms.manifest.payment)) } }
            section {
                h2 { "Input" }
                (self.input())
            }
            section aria-labelledby="happens" data-happens="" hidden { h2 #happens { "What happens" } }
        }
    }

    /// Shows the ways to pay with the payer's own credit or wallet.
    fn options(&self) -> Markup {
        html! {
            @if self.requested.visitor.kind() == Some(SessionKind::Holder) { (self.on_own_credit()) }
            (self.on_credit())
            // A wallet's signature is worth real money elsewhere, so a simulated host never asks
            // for one.
            @if let Some(accepted) = self.terms.signable().filter(|_| !self.terms.simulated()) { (self.with_wallet(accepted)) }
            // The script shows it if the run fails.
            @if self.terms.is_upfront() { div data-restart="" hidden { (restart(self.requested, NEW_PAYMENT)) } }
        }
    }

    /// Returns a form with the fields that every payment needs.
    fn form(&self, option: &str, payment: Option<&Payment>, fields: Markup) -> Markup {
        html! {
            form.form.try method="post" action=(self.requested.tool.here()) data-call="" data-told=(self.explain())
                data-payment=[payment.map(|payment| payment.id.as_str())] {
                (form::token(self.requested.visitor))
                (self.name.field())
                input type="hidden" name="step" value="pay";
                input type="hidden" name="as" value=(self.requested.state());
                input type="hidden" name="way" value=(option);
                input type="hidden" name="input" value=(self.requested.input);
                input type="hidden" name="usd" value=(self.terms.price());
                (fields)
            }
        }
    }

    fn with_play_money(&self, payment: &Payment, accepted: &PaymentRequirements) -> Markup {
        html! {
            section {
                h2 { "Pay with play money" }
                p { "This host created a wallet for your browser, put play money in it, and signed this one payment. The payment has not been sent yet." }
                (self.form("signed", Some(payment), html! {
                    (signed(&payment.header, accepted))
                    button.primary { "Call for " (self.price()) " of play money" }
                }))
                p.note {
                    "If the answer is lost, send the form again. It is the same payment and is charged once. "
                    a href={ "/dashboard/payments/" (segment(&payment.id)) } { "See its state" }
                }
            }
        }
    }

    /// Shows that this call was sent before: it was paid, it is owed a run, or it is running.
    fn sent_before(&self, payment: &Payment, accepted: &PaymentRequirements, sent: SentState) -> Markup {
        let is_owed = sent == SentState::Known(PaymentState::Owed);
        let (heading, button, again) = match sent {
            SentState::Known(PaymentState::Settled) => {
                ("You already paid for this call", "Show the answer · cannot be charged twice", Some(NEW_ANSWER))
            }
            _ if is_owed => ("You are owed a run", RUN_AGAIN, Some(NEW_PAYMENT)),
            _ => ("This call is running", "Send the same payment again · cannot be charged twice", None),
        };
        html! {
            section {
                h2 { (heading) }
                p { (state(&sent.word())) " " (facts::id(&payment.id)) }
                @if is_owed { p { "You have paid for this call, but no run has answered yet. Another run with the same payment charges nothing more." } }
                (self.form("signed", Some(payment), html! {
                    (signed(&payment.header, accepted))
                    button.primary { (button) }
                }))
                @if let Some(label) = again { (restart(self.requested, label)) }
            }
        }
    }

    fn on_own_credit(&self) -> Markup {
        html! {
            section {
                h2 { "Pay with your credit" }
                (self.form("own", None, html! { (self.key_and_quote()) button { "Call for " (self.price()) " with your credit" } }))
            }
        }
    }

    fn on_credit(&self) -> Markup {
        html! {
            section {
                h2 { "Pay with a prepaid credit" }
                (self.form("credit", None, html! {
                    (self.key_and_quote())
                    (form::field("credit", "Token of the credit", Some("It begins with dc_. Admins of this host mint credits. The token is not stored."), html! {
                        input #credit name="credit" type="password" required autocomplete="off" spellcheck="false";
                    }))
                    button { "Call for " (self.price()) " with this credit" }
                }))
                p.note { "The price holds until " (moment(self.terms.quote.quote.expires_at)) "." }
            }
        }
    }

    /// Returns hidden fields with the idempotency key and the quote.
    fn key_and_quote(&self) -> Markup {
        html! {
            input type="hidden" name="key" value=(self.name.key(self.requested.tool.slug(), self.requested.input));
            input type="hidden" name="quote" value=(self.terms.quote.quote.quote_id);
        }
    }

    /// Returns the section that the script shows if the browser has a wallet.
    fn with_wallet(&self, accepted: &PaymentRequirements) -> Markup {
        let offer = json!({ "accepted": accepted, "resource": self.terms.resource });
        html! {
            section data-wallet=(sample::json(&offer)) hidden {
                h2 { "Pay with a browser wallet" }
                p data-says="" role="status" { "The wallet shows what you sign. This tab stores the signed payment until it has an answer." }
                (self.form("signed", None, html! {
                    (signed("", accepted))
                    button type="button" data-sign="" { "Sign and call for " (self.price()) }
                }))
            }
        }
    }

    /// Shows that another payment is still open.
    fn open(&self, id: &str, sent: SentState) -> Markup {
        html! {
            section {
                h2 { "You have an open payment" }
                p { (state(&sent.word())) " " (facts::id(id)) }
                p { "Nothing else is signed until that payment has ended. " a href={ "/dashboard/payments/" (segment(id)) } { "See its state" } }
                (EditStep { label: "Check again", step: "call", restarts: false }.form(self.requested, self.name))
            }
        }
    }

    fn input(&self) -> Markup {
        html! {
            div.code { pre { code { (text::first(spread(self.requested.input), SHOWN)) } } }
            (EditStep { label: "Change the input", step: self.requested.state(), restarts: false }.form(self.requested, self.name))
        }
    }
}

//! Failed calls: the reason, whether anything was charged, and next steps that cannot charge twice.

use maud::{Markup, html};
use serde_json::Value;
use tollhouse_api::{ErrorDetails, PaymentResponse, PaymentState};
use tollhouse_front::{Charged, Code};

use super::{
    answer::CallAnswer,
    call::PaymentSource,
    name::FormName,
    step::{EditStep, NEW_PAYMENT, RUN_AGAIN, other, repeat_form, restart},
    tool::CallRequest,
};
use crate::{Page, PageResult, facts, moment, parts::schema_form::Problem, refusal, segment, state, text, word};

/// Maximum shown problems of an input.
const PROBLEMS: usize = 20;

pub(super) fn problems(answer: &CallAnswer) -> Vec<Problem> {
    let problems = refusal::read(&answer.body).problems.unwrap_or_default();
    let text = |value: Option<&Value>| value.and_then(Value::as_str).unwrap_or_default().to_owned();
    problems.iter().take(PROBLEMS).map(|problem| Problem::new(&text(problem.get("pointer")), text(problem.get("message")))).collect()
}

pub(super) async fn show(request: &CallRequest<'_>, pays: &PaymentSource, code: Code, answer: &CallAnswer) -> PageResult {
    let error = refusal::read(&answer.body);
    let id = match pays {
        PaymentSource::Signed(payment) => Some(payment.id.clone()),
        PaymentSource::Credit(_) | PaymentSource::Nothing => error.payment_id.clone(),
    };
    let state = match &id {
        Some(id) => match request.visitor.without_session().get::<PaymentResponse>(&format!("/ai/payments/{}", segment(id))).await {
            Ok(answer) => Some(answer.payment.state),
            // The host deletes a payment that bought no run.
            Err(refused) if refused.is(Code::UnknownPayment) && is_uncharged(code) => Some(PaymentState::Released),
            Err(_) => None,
        },
        None => None,
    };
    let failure = Failure { requested: request, pays, code, error: &error, id: id.as_deref(), state };
    let main = request.visitor.render(|| failure.view()).await?;
    let page = Page { status: answer.status, unlisted: true, ..request.tool.page("No answer from", main) };
    Ok(request.visitor.show(page).await)
}

/// Returns whether nothing was charged if a call ended with this error. Another call can charge a payment in progress.
fn is_uncharged(code: Code) -> bool {
    code.row().charged == Charged::No && code != Code::PaymentInProgress
}

struct Failure<'a> {
    requested: &'a CallRequest<'a>,
    pays: &'a PaymentSource,
    code: Code,
    error: &'a ErrorDetails,
    /// The payment's id, if known.
    id: Option<&'a str>,
    /// The payment's state, if known.
    state: Option<PaymentState>,
}

impl Failure<'_> {
    /// Returns whether the payment may still be charged.
    fn is_open(&self) -> bool {
        match self.state {
            Some(PaymentState::Reserved | PaymentState::Settling | PaymentState::Unresolved) => true,
            Some(PaymentState::Released | PaymentState::Refused | PaymentState::Settled | PaymentState::Owed) => false,
            None => !is_uncharged(self.code) && *self.pays != PaymentSource::Nothing,
        }
    }

    /// Returns whether it was charged before its run and not answered.
    fn is_owed(&self) -> bool {
        *self.pays != PaymentSource::Nothing && self.state == Some(PaymentState::Owed)
    }

    fn runs_left(&self) -> Option<u64> {
        self.error.more.get("runsLeft").and_then(Value::as_u64)
    }

    /// Returns whether no runs are left for its payment.
    fn is_used_up(&self) -> bool {
        self.code == Code::NoMoreRuns || self.runs_left() == Some(0)
    }

    /// Returns whether its payment was refused, so that the same one is refused again.
    fn does_not_pay(&self) -> bool {
        let refused = [Code::PaymentRequired, Code::PaymentReused, Code::WrongCredit, Code::CreditTooLow, Code::CreditRevoked];
        refused.contains(&self.code)
    }

    fn view(&self) -> Markup {
        let (row, error) = (self.code.row(), self.error);
        let more = |name: &str| error.more.get(name).and_then(Value::as_str).filter(|text| !text.is_empty());
        let message = if error.message.is_empty() { row.sentence } else { &error.message };
        let link = |kind: &str, id: &str| html! { a href={ "/dashboard/" (kind) "/" (segment(id)) } { code { (text::words(id)) } } };
        html! {
            div.problem role="alert" { p { (text::line(message)) } p { (self.charged()) } }
            @if let Some(hint) = error.hint.as_deref().or(row.hint) { p.lead { (text::line(hint)) } }
            (facts::list(&[
                ("Code", Some(facts::id(row.name))),
                ("Reason", (!error.code.is_empty() && error.code != row.name).then(|| facts::id(&error.code))),
                ("Request", error.request_id.as_deref().map(facts::id)),
                ("Payment", self.id.map(|id| link("payments", id))),
                ("State", self.state.filter(|_| self.id.is_some()).map(|sent| state(&word(sent)))),
                ("Receipt", more("receiptId").map(|id| link("receipts", id))),
                ("Runs left", self.runs_left().map(|remaining| html! { (remaining) })),
                ("Can run again until", more("repeatUntil").map(moment)),
            ]))
            (self.next())
            section aria-labelledby="happens" data-happens="" hidden { h2 #happens { "What happens" } }
        }
    }

    fn charged(&self) -> &'static str {
        match self.state {
            _ if self.is_owed() && self.is_used_up() => "Charged once, before the run. No runs are left.",
            _ if self.is_owed() => {
                "Charged once, before the run. You are owed a run. Running it again with the same payment charges nothing more."
            }
            Some(PaymentState::Settled) if *self.pays != PaymentSource::Nothing => {
                "Charged once. Send the same payment again to get the answer."
            }
            _ if self.is_open() => "Not known yet whether it was charged. It was charged at most once.",
            _ => "Nothing was charged.",
        }
    }

    /// Shows the next steps. While a payment is open, only a retry with it. If a run is owed, that run or another
    /// payment.
    fn next(&self) -> Markup {
        let is_paid = *self.pays != PaymentSource::Nothing;
        html! {
            div.buttons {
                @if !is_paid {
                    (repeat_form(self.requested, self.pays, "call", "Call again"))
                } @else if self.is_owed() {
                    @if !self.is_used_up() { (repeat_form(self.requested, self.pays, "pay", RUN_AGAIN)) }
                    (restart(self.requested, NEW_PAYMENT))
                } @else if !self.does_not_pay() {
                    (repeat_form(self.requested, self.pays, "pay", "Send the same payment again · cannot be charged twice"))
                }
                @if !self.is_open() {
                    @if is_paid && !matches!(self.state, Some(PaymentState::Settled | PaymentState::Owed)) {
                        @let name = FormName::from_fields(self.requested.fields, self.requested.visitor.now());
                        (EditStep { label: "See the terms again", step: "call", restarts: false }.form(self.requested, &name))
                    }
                    (other(self.requested))
                }
            }
        }
    }
}

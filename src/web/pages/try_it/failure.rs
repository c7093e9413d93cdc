//! Failed calls: the reason, whether anything was charged, and next steps that cannot charge twice.

use axum::response::Response;
use maud::{Markup, html};
use serde_json::Value;
use tollhouse_base::offload::DropOffThread;
use tollhouse_front::{Charged, Code};

use super::{
    answer::CallAnswer,
    call::PaymentSource,
    name::FormName,
    request::CallRequest,
    step::{EditStep, NEW_PAYMENT, RUN_AGAIN, again, other, restart},
};
use crate::{
    page::Page,
    parts::{facts, schema_form::Problem, state::state, text, time::moment},
    visitor::{ApiRefusal, segment},
};

/// Maximum shown problems of an input.
const PROBLEMS: usize = 20;

/// Returns the problems of the input.
pub(super) fn problems(answer: &CallAnswer) -> Vec<Problem> {
    let error = error(answer);
    let of =
        |problem: &Value| Problem::new(problem["pointer"].as_str().unwrap_or_default(), problem["message"].as_str().unwrap_or_default());
    error["problems"].as_array().into_iter().flatten().take(PROBLEMS).map(of).collect()
}

/// Returns the error of the envelope, or of an x402 challenge.
fn error(answer: &CallAnswer) -> Value {
    let mut body: Value = serde_json::from_slice(&answer.body).unwrap_or_default();
    match &body["error"] {
        Value::Object(_) => body["error"].take(),
        reason => serde_json::json!({ "code": reason, "message": body["message"], "charged": false }),
    }
}

/// Shows the page of a refusal.
pub(super) async fn show(request: &CallRequest<'_>, pays: &PaymentSource, code: Code, answer: &CallAnswer) -> Result<Response, ApiRefusal> {
    let error = error(answer);
    let id = match pays {
        PaymentSource::Signed(payment) => Some(payment.id.clone()),
        PaymentSource::Credit(_) | PaymentSource::Nothing => error["paymentId"].as_str().map(str::to_owned),
    };
    let payment = match &id {
        Some(id) => request.visitor.unsigned().get(&format!("/ai/payments/{}", segment(id))).await,
        None => Ok(DropOffThread::default()),
    };
    let state = match &payment {
        Ok(payment) => payment["payment"]["state"].as_str(),
        Err(refused) if refused.is(Code::UnknownPayment) => Some("released"),
        Err(_) => None,
    };
    let failure = Failure { requested: request, pays, code, error: &error, id: id.as_deref(), state };
    let main = request.visitor.made(|| failure.view()).await?;
    let page = Page { status: answer.status, unlisted: true, ..request.tool.page("No answer of", main) };
    Ok(request.visitor.show(page).await)
}

struct Failure<'a> {
    requested: &'a CallRequest<'a>,
    pays: &'a PaymentSource,
    code: Code,
    error: &'a Value,
    /// The payment's id, if known.
    id: Option<&'a str>,
    /// The payment's state.
    state: Option<&'a str>,
}

impl Failure<'_> {
    /// Returns whether the payment may still be charged.
    fn is_open(&self) -> bool {
        let is_told = self.code.row().charged == Charged::No && self.code != Code::PaymentInProgress;
        match self.state {
            Some("reserved" | "settling" | "unresolved") => true,
            Some("released" | "refused" | "settled" | "owed") => false,
            _ => !is_told && *self.pays != PaymentSource::Nothing,
        }
    }

    /// Returns whether it was charged before its run and not answered.
    fn is_owed(&self) -> bool {
        *self.pays != PaymentSource::Nothing && self.state == Some("owed")
    }

    /// Returns whether no runs are left for its payment.
    fn is_used_up(&self) -> bool {
        self.code == Code::NoMoreRuns || self.error["runsLeft"] == 0
    }

    fn view(&self) -> Markup {
        let describe = |name: &str| self.error[name].as_str().filter(|words| !words.is_empty());
        let message = describe("message").unwrap_or(self.code.row().sentence);
        let link = |kind: &str, id: &str| html! { a href={ "/dashboard/" (kind) "/" (segment(id)) } { code { (text::words(id)) } } };
        html! {
            div.problem role="alert" { p { (text::line(message)) } p { (self.charged()) } }
            @if let Some(hint) = describe("hint").or(self.code.row().hint) { p.lead { (text::line(hint)) } }
            (facts::list(&[
                ("Code", Some(facts::id(self.code.row().name))),
                ("Reason", describe("code").filter(|reason| *reason != self.code.row().name).map(facts::id)),
                ("Request", describe("requestId").map(facts::id)),
                ("Payment", self.id.map(|id| link("payments", id))),
                ("State", self.state.filter(|_| self.id.is_some()).map(state)),
                ("Receipt", describe("receiptId").map(|id| link("receipts", id))),
                ("Runs left", self.error["runsLeft"].as_u64().map(|remaining| html! { (remaining) })),
                ("Can run again until", self.error["repeatUntil"].is_string().then(|| moment(&self.error["repeatUntil"]))),
            ]))
            (self.next())
            section aria-labelledby="happens" data-happens="" hidden { h2 #happens { "What happens" } }
        }
    }

    fn charged(&self) -> &'static str {
        match self.state {
            _ if self.is_owed() && self.is_used_up() => "It was charged once, before its run, and no runs are left for it.",
            _ if self.is_owed() => {
                "It was charged once, before its run, and you are owed a run. Running it again with the same payment charges nothing more."
            }
            Some("settled") if *self.pays != PaymentSource::Nothing => {
                "It was charged, once: ask again with the same payment for the answer."
            }
            _ if self.is_open() => "Not known yet: it was charged at most once.",
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
                    (again(self.requested, self.pays, "call", "Call again"))
                } @else if self.is_owed() {
                    @if !self.is_used_up() { (again(self.requested, self.pays, "pay", RUN_AGAIN)) }
                    (restart(self.requested, NEW_PAYMENT))
                } @else if !matches!(self.code, Code::PaymentRequired | Code::PaymentReused) {
                    (again(self.requested, self.pays, "pay", "Ask again with the same payment · cannot be charged twice"))
                }
                @if !self.is_open() {
                    @if is_paid && !matches!(self.state, Some("settled" | "owed")) {
                        @let name = FormName::of(self.requested.fields, self.requested.visitor.now());
                        (EditStep { label: "See the terms again", step: "call", restarts: false }.form(self.requested, &name))
                    }
                    (other(self.requested))
                }
            }
        }
    }
}

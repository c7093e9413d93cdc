//! Failed calls: the reason, whether anything was charged, and next steps that cannot charge twice.

use axum::response::Response;
use maud::{Markup, html};
use serde_json::Value;
use tollhouse_base::aside::Bulk;
use tollhouse_front::{Charged, Code};

use super::{
    answer::Answer,
    asked::Asked,
    call::Pays,
    name::FormName,
    step::{Edited, NEW_PAYMENT, RUN_AGAIN, again, anew, other},
};
use crate::{
    page::Page,
    parts::{facts, schema_form::Problem, state::state, text, time::moment},
    visitor::{Refused, segment},
};

/// Maximum shown problems of an input.
const PROBLEMS: usize = 20;

/// Returns the problems of the input.
pub(super) fn problems(answer: &Answer) -> Vec<Problem> {
    let error = error(answer);
    let of =
        |problem: &Value| Problem::new(problem["pointer"].as_str().unwrap_or_default(), problem["message"].as_str().unwrap_or_default());
    error["problems"].as_array().into_iter().flatten().take(PROBLEMS).map(of).collect()
}

/// Returns the error of the envelope, or of an x402 challenge.
fn error(answer: &Answer) -> Value {
    let mut body: Value = serde_json::from_slice(&answer.body).unwrap_or_default();
    match &body["error"] {
        Value::Object(_) => body["error"].take(),
        reason => serde_json::json!({ "code": reason, "message": body["message"], "charged": false }),
    }
}

/// Shows the page of a refusal.
pub(super) async fn show(asked: &Asked<'_>, pays: &Pays, code: Code, answer: &Answer) -> Result<Response, Refused> {
    let error = error(answer);
    let id = match pays {
        Pays::Signed(payment) => Some(payment.id.clone()),
        Pays::Credit(_) | Pays::Nothing => error["paymentId"].as_str().map(str::to_owned),
    };
    let payment = match &id {
        Some(id) => asked.visitor.unsigned().get(&format!("/ai/payments/{}", segment(id))).await,
        None => Ok(Bulk::default()),
    };
    let state = match &payment {
        Ok(payment) => payment["payment"]["state"].as_str(),
        Err(refused) if refused.is(Code::UnknownPayment) => Some("released"),
        Err(_) => None,
    };
    let failure = Failure { asked, pays, code, error: &error, id: id.as_deref(), state };
    let main = asked.visitor.made(|| failure.view()).await?;
    let page = Page { status: answer.status, unlisted: true, ..asked.tool.page("No answer of", main) };
    Ok(asked.visitor.show(page).await)
}

struct Failure<'a> {
    asked: &'a Asked<'a>,
    pays: &'a Pays,
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
            _ => !is_told && *self.pays != Pays::Nothing,
        }
    }

    /// Returns whether it was charged before its run and not answered.
    fn is_owed(&self) -> bool {
        *self.pays != Pays::Nothing && self.state == Some("owed")
    }

    /// Returns whether no runs are left for its payment.
    fn is_used_up(&self) -> bool {
        self.code == Code::NoMoreRuns || self.error["runsLeft"] == 0
    }

    fn view(&self) -> Markup {
        let said = |name: &str| self.error[name].as_str().filter(|words| !words.is_empty());
        let message = said("message").unwrap_or(self.code.row().sentence);
        let link = |kind: &str, id: &str| html! { a href={ "/dashboard/" (kind) "/" (segment(id)) } { code { (text::words(id)) } } };
        html! {
            div.problem role="alert" { p { (text::line(message)) } p { (self.charged()) } }
            @if let Some(hint) = said("hint").or(self.code.row().hint) { p.lead { (text::line(hint)) } }
            (facts::list(&[
                ("Code", Some(facts::id(self.code.row().name))),
                ("Reason", said("code").filter(|reason| *reason != self.code.row().name).map(facts::id)),
                ("Request", said("requestId").map(facts::id)),
                ("Payment", self.id.map(|id| link("payments", id))),
                ("State", self.state.filter(|_| self.id.is_some()).map(state)),
                ("Receipt", said("receiptId").map(|id| link("receipts", id))),
                ("Runs left", self.error["runsLeft"].as_u64().map(|left| html! { (left) })),
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
            Some("settled") if *self.pays != Pays::Nothing => "It was charged, once: ask again with the same payment for the answer.",
            _ if self.is_open() => "Not known yet: it was charged at most once.",
            _ => "Nothing was charged.",
        }
    }

    /// Shows the next steps. While a payment is open, only a retry with it. If a run is owed, that run or another
    /// payment.
    fn next(&self) -> Markup {
        let is_paid = *self.pays != Pays::Nothing;
        html! {
            div.buttons {
                @if !is_paid {
                    (again(self.asked, self.pays, "call", "Call again"))
                } @else if self.is_owed() {
                    @if !self.is_used_up() { (again(self.asked, self.pays, "pay", RUN_AGAIN)) }
                    (anew(self.asked, NEW_PAYMENT))
                } @else if !matches!(self.code, Code::PaymentRequired | Code::PaymentReused) {
                    (again(self.asked, self.pays, "pay", "Ask again with the same payment · cannot be charged twice"))
                }
                @if !self.is_open() {
                    @if is_paid && !matches!(self.state, Some("settled" | "owed")) {
                        @let name = FormName::of(self.asked.fields, self.asked.visitor.now());
                        (Edited { label: "See the terms again", step: "call", anew: false }.form(self.asked, &name))
                    }
                    (other(self.asked))
                }
            }
        }
    }
}

//! `/dashboard/payments/{id}`: the state of a payment, for payers who lost the answer.

use maud::{Markup, html};
use tollhouse_api::{PaymentResponse, PaymentState, Reorganization, ReorganizationState, SettlementLoss};
use tollhouse_front::{Code, PathParams};

use super::receipt_lookup::not_found;
use crate::{Area, Page, PageResult, Visitor, facts, moment, page_links, segment, state, state::badge, text, word};

pub(crate) async fn page(visitor: Visitor, PathParams(id): PathParams) -> PageResult {
    let source = format!("/ai/payments/{}", segment(&id));
    let answer = match visitor.get::<PaymentResponse>(&source).await {
        Err(refused) if refused.is(Code::UnknownPayment) => {
            let lead = html! {
                "No payment called " code { (text::first(&id, 100)) } " is stored on this host. It is not known whether it was charged. "
                "Before you pay again, look for the charge among the movements of your credit, or among the transfers of your address."
            };
            return Ok(not_found(&visitor, "No payment has this id", &lead).await);
        }
        answer => answer?,
    };
    let payment = &answer.payment;
    let main = html! {
        article.slip {
            p.figure { (state(&word(payment.state))) }
            p { (meaning(payment.state)) }
            (facts::list(&[
                ("Payment", Some(facts::id(&payment.payment_id))),
                ("Receipt", payment.receipt_id.as_ref().map(page_links::receipt)),
                ("Reason", payment.reason.as_ref().map(text::words)),
                ("Transaction", payment.transaction.as_ref().map(facts::id)),
                ("Since", Some(moment(payment.updated_at))),
            ]))
            @if let Some(settlement) = &payment.settlement { (reorganized(settlement)) }
        }
        p { a href=(source) { "See this payment as JSON" } }
    };
    let page = Page { unlisted: true, ..Page::new(Area::Receipts, "Payment", main) };
    Ok(visitor.show(page.under("/dashboard/receipts", "Receipts")).await)
}

/// Explains a state, and what a payer can do.
fn meaning(state: PaymentState) -> &'static str {
    match state {
        PaymentState::Reserved => "The call is running. Nothing has been charged yet. To get the answer, send the same payment again.",
        PaymentState::Settling => {
            "The settlement has started, and its outcome is not known yet. Do not make a new payment. Send the same payment again."
        }
        PaymentState::Unresolved => "It is unknown whether the money moved. An admin of the host will decide. Do not pay again.",
        PaymentState::Settled => "Charged once. For 24 hours, you get the answer if you send the same payment with the same request again.",
        PaymentState::Owed => {
            "Charged before the run, and no run has answered yet. Send the same payment with the same request again: the tool runs again, and nothing more is charged."
        }
        PaymentState::Refused => "The settlement was refused. Nothing was charged.",
        PaymentState::Released => "The call was not charged. The payment can be used again.",
    }
}

/// Shows the current state of a payment that a reorganization of the chain undid.
pub(super) fn reorganized(settlement: &Reorganization) -> Markup {
    let lost = settlement.lost.map(|lost| match lost {
        SettlementLoss::Canceled => "the payer canceled the authorization",
        SettlementLoss::UsedElsewhere => "the payer used the authorization for another transfer",
        SettlementLoss::Expired => "the authorization expired unused",
    });
    let (shown, meaning) = match settlement.state {
        ReorganizationState::Reorganized => {
            (badge("unresolved", "reorganized"), "The chain dropped the transaction of this payment: the money has not moved.")
        }
        ReorganizationState::Settled => {
            (state("settled"), "The chain dropped an earlier transaction of this payment. Another transaction made the payment.")
        }
    };
    let former = &settlement.former;
    html! {
        h2 { "Settlement" }
        p { (shown) " " (meaning) }
        (facts::list(&[
            ("Transaction", Some(facts::id(&settlement.transaction))),
            ("Detected", Some(moment(settlement.since))),
            ("Reason for the loss", lost.map(|lost| html! { (lost) })),
            ("Dropped transactions", (!former.is_empty()).then(|| html! { @for id in former { div { (facts::id(id)) } } })),
        ]))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    #[test]
    fn reorganization_shows_its_state_and_transactions() {
        let shown = |settlement: Value| reorganized(&serde_json::from_value(settlement).unwrap()).into_string();
        let at = "2026-11-22T09:58:03.000Z";
        let lost = shown(json!({ "state": "reorganized", "transaction": "0x1", "since": at, "lost": "expired" }));
        assert!(lost.contains("> reorganized</span>") && lost.contains("0x1") && lost.contains("expired unused"), "{lost}");
        let replaced = shown(json!({ "state": "settled", "transaction": "0x2", "since": at, "former": ["0x1"] }));
        assert!(replaced.contains("> settled</span>") && replaced.contains("0x1") && !replaced.contains("lost"), "{replaced}");
    }
}

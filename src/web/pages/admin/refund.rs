//! Refunds, on the page of a receipt.

use maud::{Markup, html};
use serde_json::Value;
use tollhouse_account::session::SessionKind;

use super::shared::{once, text_of};
use crate::{
    parts::form,
    visitor::{Visitor, segment},
};

/// Returns the refund form for an admin if the receipt was paid, else nothing.
pub(crate) fn offer(visitor: &Visitor, receipt: &Value) -> Markup {
    let (id, kind) = (text_of(receipt, "receiptId"), text_of(receipt, "kind"));
    if visitor.kind() != Some(SessionKind::Admin) || kind == "free" {
        return html! {};
    }
    let fields = html! {
        (once())
        input type="hidden" name="text:/receiptId" value=(id);
        (form::field("refund", "Amount in US dollars", Some("Left empty, all that is left is given back."), html! {
            input #refund name="number:/amountUsd" inputmode="decimal" autocomplete="off";
        }))
        @if kind == "x402" {
            (form::field("sent", "Transaction that sent it back", Some("Send it first: the host sends nothing."), html! {
                input #sent name="some:/transaction" autocomplete="off" spellcheck="false";
            }))
        }
        (form::field("why", "Reason", None, html! { input #why name="some:/reason" maxlength=(tollhouse_tool::public_texts::MAX_MONEY_REASON) autocomplete="off"; }))
        button { "Refund this, or all that is left" }
    };
    html! {
        details.way {
            summary { "Refund it" }
            (form::of(visitor, "giveRefund", &[], &format!("/dashboard/receipts/{}", segment(id)), fields))
        }
    }
}

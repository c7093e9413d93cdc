//! Refunds, on the page of a receipt.

use maud::{Markup, html};
use tollhouse_account::session::SessionKind;
use tollhouse_api::{Receipt, ReceiptKind};

use super::shared::once;
use crate::{Visitor, form, segment};

/// Returns the refund form for an admin if the receipt was paid, else nothing.
pub(crate) fn offer(visitor: &Visitor, receipt: &Receipt) -> Markup {
    let (id, kind) = (&*receipt.receipt_id, receipt.kind);
    if visitor.kind() != Some(SessionKind::Admin) || kind == ReceiptKind::Free {
        return html! {};
    }
    let fields = html! {
        (once())
        input type="hidden" name="text:/receiptId" value=(id);
        (form::field("refund", "Amount in US dollars", Some("If empty, the rest of the payment is refunded."), html! {
            input #refund name="number:/amountUsd" inputmode="decimal" autocomplete="off";
        }))
        @if kind == ReceiptKind::X402 {
            (form::field("sent", "Transaction of the refund", Some("Send the money first. The host only records the refund and sends nothing."), html! {
                input #sent name="some:/transaction" autocomplete="off" spellcheck="false";
            }))
        }
        (form::field("why", "Reason", None, html! { input #why name="some:/reason" maxlength=(tollhouse_tool::public_texts::MAX_MONEY_REASON) autocomplete="off"; }))
        button { (if kind == ReceiptKind::X402 { "Record the refund" } else { "Refund" }) }
    };
    html! {
        details.way {
            summary { "Refund this payment" }
            (form::operation(visitor, "giveRefund", &[], &format!("/dashboard/receipts/{}", segment(id)), fields))
        }
    }
}

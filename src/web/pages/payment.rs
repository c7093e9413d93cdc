//! `/dashboard/payments/{id}`: the state of a payment, for payers who lost the answer.

use axum::{http::StatusCode, response::Response};
use maud::html;
use tollhouse_front::{Code, PathParams};

use super::receipt_lookup::field;
use crate::{
    page::{Area, Page},
    parts::{facts, state::state, text, time::moment},
    visitor::{ApiRefusal, Visitor, segment},
};

pub(crate) async fn page(visitor: Visitor, PathParams(id): PathParams<String>) -> Result<Response, ApiRefusal> {
    let source = format!("/ai/payments/{}", segment(&id));
    let answer = match visitor.get(&source).await {
        Ok(answer) => answer,
        Err(refused) if refused.is(Code::UnknownPayment) => return Ok(unknown(&visitor, &id).await),
        Err(refused) => return Err(refused),
    };
    let payment = &answer["payment"];
    let word = payment["state"].as_str().unwrap_or_default();
    let receipt = payment["receiptId"].as_str();
    let main = html! {
        article.slip {
            p.figure { (state(word)) }
            p { (meaning(word)) }
            (facts::list(&[
                ("Payment", payment["paymentId"].as_str().map(facts::id)),
                ("Receipt", receipt.map(|id| html! { a href={ "/dashboard/receipts/" (segment(id)) } { code { (text::words(id)) } } })),
                ("Reason", payment["reason"].as_str().map(text::words)),
                ("Transaction", payment["transaction"].as_str().map(facts::id)),
                ("Since", payment["updatedAt"].is_string().then(|| moment(&payment["updatedAt"]))),
            ]))
        }
        p { a href=(source) { "This payment as JSON" } }
    };
    let page = Page { unlisted: true, ..Page::new(Area::Receipts, "Payment", main) };
    Ok(visitor.show(page.under("/dashboard/receipts", "Receipts")).await)
}

/// Returns what a payer can do in each state.
fn meaning(state: &str) -> &'static str {
    match state {
        "reserved" => "The call runs. Nothing was taken yet: show the same payment again for its answer.",
        "settling" => "The money is on its way, and its end is not known yet. Do not pay again: show the same payment again.",
        "unresolved" => "Nobody could say whether the money moved, and whoever runs the host decides. Do not pay again.",
        "settled" => "It was charged, once. Show the same payment with the same request again for the answer, for a day.",
        "owed" => {
            "It was charged before the run, and no run has answered yet. Show the same payment with the same request again: the tool runs again, and nothing more is charged."
        }
        "refused" => "It was refused when it was to be settled. Nothing was taken.",
        "released" => "The call was not charged. The payment is as good as before.",
        _ => "The host has no words for this state.",
    }
}

async fn unknown(visitor: &Visitor, id: &str) -> Response {
    let main = html! {
        p.lead { "None called " code { (text::first(id, 100)) } " has reached a tool here: nothing was taken for it." }
        (field())
    };
    let page = Page::new(Area::Receipts, "No payment has this id", main).under("/dashboard/receipts", "Receipts");
    visitor.show(Page { status: StatusCode::NOT_FOUND, unlisted: true, ..page }).await
}

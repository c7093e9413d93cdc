//! `/dashboard/receipts/{id}`: a receipt, whose signature is verified in the browser.

use axum::{http::StatusCode, response::Response};
use maud::{Markup, html};
use serde_json::Value;
use tollhouse_front::{Code, PathParams};

use super::{admin::refund, receipt_lookup::field};
use crate::{
    page::{Area, Page},
    parts::{
        code, facts,
        link::link,
        money,
        state::{self, state},
        text,
        time::moment,
    },
    visitor::{ApiRefusal, Visitor, segment},
};

pub(crate) async fn page(visitor: Visitor, PathParams(id): PathParams<String>) -> Result<Response, ApiRefusal> {
    let source = format!("/ai/receipts/{}", segment(&id));
    let answer = match visitor.get(&source).await {
        Ok(answer) => answer,
        Err(refused) if refused.is(Code::UnknownReceipt) => return Ok(unknown(&visitor, &id).await),
        Err(refused) => return Err(refused),
    };
    let receipt = &answer["receipt"];
    let main = html! {
        article.slip data-receipt=(source) {
            (amount(receipt, visitor.plays().await?))
            (facts::list(&facts(receipt)))
            @if answer["refundedUsd"].is_number() { (refunds(&answer)) }
            div.check data-check="" role="status" {
                p { "The signature is checked by your browser, where it runs scripts and knows Ed25519." }
            }
        }
        (refund::offer(&visitor, receipt))
        section {
            h2 { "Check it without this page" }
            (code::block("Command line", "sh", &format!("tollhouse verify-receipt {}{source}", visitor.base_url())))
        }
        p { a href=(source) { "This receipt as JSON" } }
    };
    let page = Page { script: Some("slip.js"), unlisted: true, ..Page::new(Area::Receipts, "Receipt", main) };
    Ok(visitor.show(page.under("/dashboard/receipts", "Receipts")).await)
}

/// Shows the paid amount, and how it was paid. The stamp for simulated money comes from the host,
/// because a receipt paid by credit only says that it is not a payment on a network.
fn amount(receipt: &Value, simulated: bool) -> Markup {
    let kind = receipt["kind"].as_str().unwrap_or_default();
    html! {
        p.figure {
            @if kind == "free" { "free" } @else { (money::usd(&receipt["priceUsd"])) }
            " "
            @match kind {
                "x402" => (state("settled")),
                "credit" => (state::badge("settled", "paid from credit")),
                kind => (state(kind)),
            }
            @if receipt["simulated"] == true || (kind == "credit" && simulated) { " " span.stamp { (state("simulated")) } }
        }
    }
}

fn facts(receipt: &Value) -> [(&'static str, Option<Markup>); 18] {
    let id = |name: &str| receipt[name].as_str().map(facts::id);
    let describe = |name: &str| receipt[name].as_str().map(text::words);
    let slug = receipt["slug"].as_str().unwrap_or_default();
    let tool = html! { a href={ "/dashboard/tools/" (segment(slug)) } { code { (text::words(slug)) } } };
    [
        ("Receipt", id("receiptId")),
        ("Tool", Some(if slug == "builder-registration" { text::words(slug) } else { tool })),
        ("Version", id("version")),
        ("Began", receipt["startedAt"].is_string().then(|| moment(&receipt["startedAt"]))),
        ("Issued", receipt["issuedAt"].is_string().then(|| moment(&receipt["issuedAt"]))),
        ("At most", receipt["maxPriceUsd"].is_number().then(|| html! { (money::usd(&receipt["maxPriceUsd"])) })),
        ("Amount", describe("amount").map(|amount| html! { (amount) " of the token's smallest units" })),
        ("Token", id("asset")),
        ("Network", describe("network")),
        ("Payer", describe("payer")),
        ("Scheme", describe("scheme")),
        ("Transaction", id("transaction")),
        ("Quote", id("quoteId")),
        ("Address", receipt["resourceUrl"].as_str().map(link)),
        ("Request", id("requestHash")),
        ("Result", id("resultHash")),
        (
            "Charged",
            (receipt["settle"] == "before").then(|| {
                html! {
                    "before the run" @if !receipt["resultHash"].is_string() { "; no run has answered yet" }
                }
            }),
        ),
        ("Owner's call", (receipt["owner"] == true).then(|| html! { "free of charge" })),
    ]
}

fn refunds(answer: &Value) -> Markup {
    html! {
        h2 { "Given back: " (money::usd(&answer["refundedUsd"])) }
        ul.plain {
            @for refund in answer["refunds"].as_array().into_iter().flatten() {
                li {
                    (money::usd(&refund["amountUsd"])) ", " (moment(&refund["at"]))
                    @if let Some(transaction) = refund["transaction"].as_str() { " " (facts::id(transaction)) }
                }
            }
        }
    }
}

async fn unknown(visitor: &Visitor, id: &str) -> Response {
    let main = html! {
        p.lead { "There is none called " code { (text::first(id, 100)) } ". Receipts of free calls are kept for some days only." }
        (field())
    };
    let page = Page::new(Area::Receipts, "No receipt has this id", main).under("/dashboard/receipts", "Receipts");
    visitor.show(Page { status: StatusCode::NOT_FOUND, unlisted: true, ..page }).await
}

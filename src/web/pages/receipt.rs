//! `/dashboard/receipts/{id}`: a receipt, whose signature is verified in the browser.

use maud::{Markup, html};
use tollhouse_api::{Receipt, ReceiptKind, ReceiptResponse, Refund};
use tollhouse_front::{Code, PathParams};
use tollhouse_tool::MicroUsd;

use super::{admin::refund, payment::reorganized, receipt_lookup::not_found};
use crate::{Area, Page, PageResult, Visitor, code, facts, link, moment, money, page_links, segment, state, text, word};

pub(crate) async fn page(visitor: Visitor, PathParams(id): PathParams) -> PageResult {
    let source = format!("/ai/receipts/{}", segment(&id));
    let answer = match visitor.get::<ReceiptResponse>(&source).await {
        Err(refused) if refused.is(Code::UnknownReceipt) => {
            let lead = html! { "No receipt is called " code { (text::first(&id, 100)) } ". Receipts of free calls are stored for a few days only." };
            return Ok(not_found(&visitor, "No receipt has this id", &lead).await);
        }
        answer => answer?,
    };
    let receipt = &answer.receipt;
    let main = html! {
        article.slip data-receipt=(source) {
            (amount(receipt, visitor.is_simulated().await?))
            (facts::list(&facts(receipt)))
            @if let Some(sum) = answer.refunded_usd { (refunds(sum, &answer.refunds)) }
            @if let Some(settlement) = &answer.settlement { (reorganized(settlement)) }
            div.check data-check="" role="status" {
                p { "Your browser verifies the signature if it runs scripts and supports Ed25519." }
            }
        }
        (refund::offer(&visitor, receipt))
        section {
            h2 { "Verify the receipt yourself" }
            (code::block("Command line", "sh", &format!("tollhouse verify-receipt {}{source}", visitor.base_url())))
        }
        p { a href=(source) { "See this receipt as JSON" } }
    };
    let page = Page { script: Some("slip.js"), unlisted: true, ..Page::new(Area::Receipts, "Receipt", main) };
    Ok(visitor.show(page.under("/dashboard/receipts", "Receipts")).await)
}

/// Shows the paid amount, and how it was paid. The stamp for simulated money comes from the host,
/// because a receipt paid by credit only says that it is not a payment on a network.
fn amount(receipt: &Receipt, simulated: bool) -> Markup {
    html! {
        p.figure {
            @if receipt.kind == ReceiptKind::Free { "free" } @else { (money::usd(receipt.price_usd)) }
            " "
            @match receipt.kind {
                ReceiptKind::X402 => (state("settled")),
                ReceiptKind::Credit => (state::badge("settled", "paid from credit")),
                ReceiptKind::Free => (state(&word(receipt.kind))),
            }
            @if receipt.simulated == Some(true) || (receipt.kind == ReceiptKind::Credit && simulated) { " " span.stamp { (state("simulated")) } }
        }
    }
}

/// Explains when a call was charged before its answer, and whether all of the answer was sent.
fn charged(receipt: &Receipt) -> Markup {
    let is_open = receipt.result_hash.is_none();
    html! {
        @if receipt.streamed == Some(true) {
            "before the first byte of the answer" @if is_open { "; not all of the answer was sent" }
        } @else {
            "before the run" @if is_open { "; no run has answered yet" }
        }
    }
}

fn facts(receipt: &Receipt) -> [(&'static str, Option<Markup>); 18] {
    let id = |id: &Option<String>| id.as_deref().map(facts::id);
    let words = |words: &Option<String>| words.as_deref().map(text::words);
    let is_registration = receipt.slug == "builder-registration";
    [
        ("Receipt", Some(facts::id(&receipt.receipt_id))),
        ("Tool", Some(if is_registration { text::words(&receipt.slug) } else { page_links::tool(&receipt.slug) })),
        ("Version", Some(facts::id(&receipt.version))),
        ("Started", Some(moment(receipt.started_at))),
        ("Issued", Some(moment(receipt.issued_at))),
        ("Maximum price", receipt.max_price_usd.map(|max| html! { (money::usd(max)) })),
        ("Amount", words(&receipt.amount).map(|amount| html! { (amount) " smallest units of the token" })),
        ("Token", id(&receipt.asset)),
        ("Network", words(&receipt.network)),
        ("Payer", words(&receipt.payer)),
        ("Scheme", words(&receipt.scheme)),
        ("Transaction", id(&receipt.transaction)),
        ("Quote", id(&receipt.quote_id)),
        ("URL", Some(link(&receipt.resource_url))),
        ("Request", Some(facts::id(&receipt.request_hash))),
        ("Result", id(&receipt.result_hash)),
        ("Charged", receipt.settle.map(|_| charged(receipt))),
        ("Owner's call", (receipt.owner == Some(true)).then(|| html! { "free of charge" })),
    ]
}

fn refunds(sum: MicroUsd, refunds: &[Refund]) -> Markup {
    html! {
        h2 { "Refunded: " (money::usd(sum)) }
        ul.plain {
            @for refund in refunds {
                li {
                    (money::usd(refund.amount_usd)) ", " (moment(refund.at))
                    @if let Some(transaction) = &refund.transaction { " " (facts::id(transaction)) }
                }
            }
        }
    }
}

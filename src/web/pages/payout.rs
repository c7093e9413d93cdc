//! `/dashboard/payouts/{id}`: a payout, its proof, and the receipts that it covers.

use axum::{extract::RawQuery, response::Response};
use maud::{Markup, html};
use serde_json::Value;
use tollhouse_front::PathParams;

use super::payouts::{self, PATH};
use crate::{
    page::{Area, Page},
    parts::{
        cli_hint::same,
        facts, money, page_links,
        pager::pager,
        state::state,
        table::{Column, table},
        text,
        time::moment,
    },
    query::PageQuery,
    visitor::{ApiRefusal, SignedIn, segment, with_query},
};

/// Rows of a page.
const ROWS: &str = "50";

pub(crate) async fn page(
    SignedIn(visitor): SignedIn,
    PathParams(id): PathParams<String>,
    RawQuery(query): RawQuery,
) -> Result<Response, ApiRefusal> {
    let request = PageQuery::read(query.as_deref(), &["builderId", "cursor"]);
    let fields = [("builderId", request.get("builderId")), ("limit", ROWS), ("cursor", request.get("cursor"))];
    let path = with_query(&format!("/ai/builders/payouts/{}", segment(&id)), fields);
    let answer = visitor.get(&path).await?;
    let simulated = visitor.plays().await?;
    let here = format!("{PATH}/{}", segment(&id));
    let main = visitor
        .made(|| {
            html! {
                (slip(&answer["payout"], simulated))
                section { h2 { "Receipts that it pays" } (receipts(&answer, &request, &here, simulated)) }
                (same(&visitor, &path))
            }
        })
        .await?;
    let page = Page::new(Area::Payouts, "Packet", main).under(&request.with(PATH, &[("cursor", "")]), "Payouts");
    Ok(visitor.show(page).await)
}

fn slip(packet: &Value, simulated: bool) -> Markup {
    let id = |name: &str| packet[name].as_str().map(facts::id);
    let describe = |name: &str| packet[name].as_str().map(text::words);
    let at = |at: &Value| at.is_string().then(|| moment(at));
    let period = &packet["period"];
    html! {
        article.slip {
            p.figure {
                (money::usd(&packet["amountUsd"])) " " (payouts::standing(packet["status"].as_str().unwrap_or_default()))
                @if simulated { " " span.stamp { (state("simulated")) } }
            }
            (facts::list(&[
                ("Packet", id("id")),
                ("Receipts", Some(html! { (packet["receiptCount"]) })),
                ("Withheld", packet["withheldUsd"].is_number().then(|| html! { (money::usd(&packet["withheldUsd"])) (money::mark(simulated)) ", given back of earlier sales" })),
                ("Sold from", at(&period["from"])),
                ("Sold until", at(&period["to"])),
                ("Address", id("address")),
                ("Network", describe("network")),
                ("Token", id("asset")),
                ("Digest", id("digest")),
                ("Signature", id("signature").map(|signature| html! { details { summary { "Show" } (signature) } })),
                ("Transaction", id("transaction")),
                ("Reason", packet["reason"].as_str().map(text::line)),
                ("Made", at(&packet["createdAt"])),
                ("Decided", at(&packet["updatedAt"]).filter(|_| packet["status"] != "created")),
            ]))
        }
    }
}

fn receipts(answer: &Value, request: &PageQuery, here: &str, simulated: bool) -> Markup {
    let receipts = answer["receipts"].as_array().map(Vec::as_slice).unwrap_or_default();
    let total = answer["payout"]["receiptCount"].as_u64().unwrap_or_default();
    let next = answer["nextCursor"].as_str().map(|cursor| request.with(here, &[("cursor", cursor)]));
    let first = (!request.get("cursor").is_empty()).then(|| request.with(here, &[("cursor", "")]));
    html! {
        (table("Receipts", [Column::Words("Receipt"), Column::Number(&money::heading("Net", simulated))], receipts.iter().map(|receipt| [
            page_links::receipt(receipt["receiptId"].as_str().unwrap_or_default()),
            html! { (money::usd(&receipt["netUsd"])) },
        ])))
        (pager(receipts.len(), total, first.as_deref(), next.as_deref()))
    }
}

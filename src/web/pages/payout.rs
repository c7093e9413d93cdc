//! `/dashboard/payouts/{id}`: a payout, its proof, and the receipts that it covers.

use maud::{Markup, html};
use tollhouse_api::{Payout, PayoutReceiptPage, PayoutStatus};
use tollhouse_front::PathParams;

use super::payouts::{self, PATH};
use crate::{
    Area, Number, Page, PageQuery, PageResult, RawQuery, SignedIn, Words, api_section, facts, lazy_html, moment, money, page_links, pager,
    segment, state, table, text, with_query,
};

const ROWS: &str = "50";

pub(crate) async fn page(SignedIn(visitor): SignedIn, PathParams(id): PathParams, RawQuery(raw): RawQuery) -> PageResult {
    let query = PageQuery::read(raw.as_deref(), &["builderId", "cursor"]);
    let fields = [("builderId", query.get("builderId")), ("limit", ROWS), ("cursor", query.get("cursor"))];
    let path = with_query(&format!("/ai/builders/payouts/{}", segment(&id)), fields);
    let answer = visitor.get::<PayoutReceiptPage>(&path).await?;
    let simulated = visitor.is_simulated().await?;
    let here = format!("{PATH}/{}", segment(&id));
    let main = lazy_html! {
        (slip(&answer.payout, simulated))
        section { h2 { "Paid receipts" } (receipts(&answer, &query, &here, simulated)) }
        (api_section(&visitor, &path))
    };
    let main = visitor.render(main).await?;
    let page = Page::new(Area::Payouts, "Payout", main).under(&query.with(PATH, &[("cursor", "")]), "Payouts");
    Ok(visitor.show(page).await)
}

fn slip(packet: &Payout, simulated: bool) -> Markup {
    let id = |id: &Option<String>| id.as_deref().map(facts::id);
    let period = packet.period.as_ref();
    html! {
        article.slip {
            p.figure {
                (money::usd(packet.amount_usd)) " " (payouts::status_badge(packet.status))
                @if simulated { " " span.stamp { (state("simulated")) } }
            }
            (facts::list(&[
                ("Payout", Some(facts::id(&packet.id))),
                ("Receipts", Some(html! { (packet.receipt_count) })),
                ("Withheld", packet.withheld_usd.map(|usd| html! { (money::amount(usd, simulated)) ", for refunds of earlier sales" })),
                ("Sold from", period.map(|period| moment(period.from))),
                ("Sold until", period.map(|period| moment(period.to))),
                ("Address", Some(facts::id(&packet.address))),
                ("Network", Some(text::words(&packet.network))),
                ("Token", Some(facts::id(&packet.asset))),
                ("Digest", id(&packet.digest)),
                ("Signature", id(&packet.signature).map(|signature| html! { details { summary { "Show" } (signature) } })),
                ("Transaction", id(&packet.transaction)),
                ("Warning", packet.warning.as_deref().map(text::line)),
                ("Reason", packet.reason.as_deref().map(text::line)),
                ("Created", Some(moment(packet.created_at))),
                ("Decided", (packet.status != PayoutStatus::Created).then(|| moment(packet.updated_at))),
            ]))
        }
    }
}

fn receipts(answer: &PayoutReceiptPage, query: &PageQuery, here: &str, simulated: bool) -> Markup {
    let columns = [Words("Receipt"), Number(&money::heading("Net", simulated))];
    let rows = answer.receipts.iter().map(|receipt| [page_links::receipt(&receipt.receipt_id), html! { (money::usd(receipt.net_usd)) }]);
    html! {
        (table("Receipts", columns, rows))
        (pager(answer.receipts.len(), answer.payout.receipt_count, query, here, answer.next_cursor.as_deref()))
    }
}

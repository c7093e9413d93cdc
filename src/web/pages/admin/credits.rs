//! `/dashboard/admin/credits`: prepaid credits, oldest first, and a form for a new one.

use axum::{extract::RawQuery, response::Response};
use maud::{Markup, html};
use serde_json::Value;

use super::shared::{Admin, ROWS, entries, heading, once, text_of};
use crate::{
    page::{Area, Page},
    parts::{
        cli_hint::line,
        empty::empty,
        form, money,
        pager::onward,
        state::state,
        table::{Column, table},
        text,
        time::moment,
    },
    query::PageQuery,
    visitor::{ApiRefusal, Visitor, segment, with_query},
};

pub(super) const PATH: &str = "/dashboard/admin/credits";

pub(crate) async fn page(Admin(visitor): Admin, RawQuery(query): RawQuery) -> Result<Response, ApiRefusal> {
    let request = PageQuery::read(query.as_deref(), &["cursor"]);
    let found = visitor.get(&with_query("/ai/credits", [("limit", ROWS), ("cursor", request.get("cursor"))])).await?;
    let simulated = visitor.plays().await?;
    let main = visitor.made(|| view(&visitor, &found, &request, simulated)).await?;
    Ok(visitor.show(Page::new(Area::Credits, "Credits", main)).await)
}

fn view(visitor: &Visitor, found: &Value, request: &PageQuery, simulated: bool) -> Markup {
    let credits = entries(found, "credits");
    let balance = heading("Balance", simulated);
    let columns =
        [Column::Words("Credit"), Column::Words("Label"), Column::Number(&balance), Column::Words("Made"), Column::Words("State")];
    html! {
        section aria-labelledby="credits" {
            h2 #credits { "Credits" }
            @if credits.is_empty() { (empty("No credit was minted yet.", None, &minting(visitor))) }
            @else {
                (table("Credits", columns, credits.iter().map(row)))
                (onward(credits.len(), request.first(PATH).as_deref(), request.next(PATH, found).as_deref()))
            }
        }
        section aria-labelledby="mint" { h2 #mint { "Mint a credit" } (mint(visitor)) }
    }
}

/// Returns a command that creates a credit of one dollar.
fn minting(visitor: &Visitor) -> String {
    format!("{} \\\n  -H 'content-type: application/json' -d '{{\"amountUsd\":1}}'", line(visitor, "/ai/credits"))
}

fn mint(visitor: &Visitor) -> Markup {
    form::of(
        visitor,
        "mintCredit",
        &[],
        PATH,
        html! {
            (once())
            (form::field("amount", "Amount in US dollars", None, html! { input #amount name="number:/amountUsd" inputmode="decimal" required autocomplete="off"; }))
            (form::field("label", "Label", Some("Whose it is, or what for. Its holder reads it."), html! { input #label name="some:/label" maxlength=(tollhouse_tool::public_texts::MAX_CREDIT_LABEL) autocomplete="off"; }))
            button.primary { "Mint the credit" }
        },
    )
}

fn row(credit: &Value) -> [Markup; 5] {
    let id = text_of(credit, "creditId");
    [
        html! { a href={ (PATH) "/" (segment(id)) } { code { (id) } } },
        text::words(text_of(credit, "label")),
        html! { (money::usd(&credit["balanceUsd"])) },
        moment(&credit["createdAt"]),
        state(if credit["revoked"].is_null() { "active" } else { "revoked" }),
    ]
}

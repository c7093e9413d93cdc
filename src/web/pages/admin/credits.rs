//! `/dashboard/admin/credits`: prepaid credits, the oldest first, and a new one.

use axum::{extract::RawQuery, response::Response};
use maud::{Markup, html};
use serde_json::Value;

use super::shared::{Admin, ROWS, asked, entries, heading, once, onward, plays, said, table};
use crate::web::{
    page::{Area, Page},
    parts::{empty::empty, form, money, state::state, text, time::moment},
    visitor::{Refused, Visitor, segment, with_query},
};

pub(super) const PATH: &str = "/dashboard/admin/credits";

pub(in crate::web) async fn page(Admin(visitor): Admin, RawQuery(query): RawQuery) -> Result<Response, Refused> {
    let cursor = asked(query.as_deref(), "cursor");
    let found = visitor.get(&with_query("/ai/credits", [("limit", ROWS), ("cursor", &*cursor)])).await?;
    let simulated = plays(&visitor).await?;
    let main = visitor.made(|| view(&visitor, &found, !cursor.is_empty(), simulated)).await?;
    Ok(visitor.show(Page::new(Area::Credits, "Credits", main)).await)
}

fn view(visitor: &Visitor, found: &Value, is_later: bool, simulated: bool) -> Markup {
    let credits = entries(found, "credits");
    let next = found["nextCursor"].as_str().map(|cursor| with_query(PATH, [("cursor", cursor)]));
    html! {
        section aria-labelledby="mint" { h2 #mint { "Mint a credit" } (mint(visitor)) }
        section aria-labelledby="credits" {
            h2 #credits { "Credits" }
            @if credits.is_empty() { (empty("No credit was minted yet.", None, None)) }
            @else {
                (table("Credits", &["Credit", "Label", &heading("Balance", simulated), "Made", "State"], &html! { @for credit in credits { (row(credit)) } }))
                (onward(is_later.then_some(PATH), next.as_deref()))
            }
        }
    }
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
            (form::field("label", "Label", Some("Whose it is, or what for. Its holder reads it."), html! { input #label name="some:/label" maxlength="120" autocomplete="off"; }))
            button.primary { "Mint" }
        },
    )
}

fn row(credit: &Value) -> Markup {
    let id = said(credit, "creditId");
    html! {
        tr {
            th scope="row" { a href={ (PATH) "/" (segment(id)) } { code { (id) } } }
            td { (text::words(said(credit, "label"))) }
            td.number { (money::usd(&credit["balanceUsd"])) }
            td { (moment(&credit["createdAt"])) }
            td { (state(if credit["revoked"].is_null() { "active" } else { "revoked" })) }
        }
    }
}

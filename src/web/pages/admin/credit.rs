//! `/dashboard/admin/credits/{id}`: a credit, what moved it, and what is decided about it.

use axum::{extract::RawQuery, response::Response};
use maud::{Markup, html};
use serde_json::Value;

use super::{
    credits,
    shared::{Admin, ROWS, asked, entries, heading, mark, once, onward, plays, reason, said, table, tool},
};
use crate::{
    front::PathParams,
    web::{
        page::{Area, Page},
        parts::{facts, form, money, state::state, text, time::moment},
        visitor::{Refused, Visitor, segment, with_query},
    },
};

pub(in crate::web) async fn page(
    Admin(visitor): Admin,
    PathParams(id): PathParams<String>,
    RawQuery(query): RawQuery,
) -> Result<Response, Refused> {
    let cursor = asked(query.as_deref(), "cursor");
    let credit = visitor.get(&with_query("/ai/credits", [("creditId", &*id), ("limit", ROWS), ("cursor", &cursor)])).await?;
    let path = format!("{}/{}", credits::PATH, segment(&id));
    let simulated = plays(&visitor).await?;
    let main = visitor
        .made(|| {
            html! {
                div.split {
                    div {
                        (about(&credit, simulated))
                        section aria-labelledby="movements" { h2 #movements { "Movements" } (movements(&credit, &path, !cursor.is_empty(), simulated)) }
                    }
                    aside aria-labelledby="decide" { h2 #decide { "Decide" } (decisions(&visitor, &id, &credit, &path)) }
                }
            }
        })
        .await?;
    Ok(visitor.show(Page::new(Area::Credits, "Credit", main).under(credits::PATH, "Credits")).await)
}

fn about(credit: &Value, simulated: bool) -> Markup {
    let revoked = &credit["revoked"];
    html! {
        p.figure { (money::usd(&credit["balanceUsd"])) (mark(simulated)) " " (state(if revoked.is_null() { "active" } else { "revoked" })) }
        (facts::list(&[
            ("Id", Some(facts::id(said(credit, "creditId")))),
            ("Label", Some(text::words(said(credit, "label")))),
            ("Made", Some(moment(&credit["createdAt"]))),
            ("Spent today", credit["today"]["spentUsd"].is_number().then(|| html! { (money::usd(&credit["today"]["spentUsd"])) })),
            ("Revoked", revoked.is_object().then(|| html! {
                (money::usd(&revoked["amountUsd"])) " taken, " (moment(&revoked["since"]))
                @if let Some(reason) = revoked["reason"].as_str() { ": " (text::words(reason)) }
            })),
        ]))
    }
}

fn movements(credit: &Value, path: &str, is_later: bool, simulated: bool) -> Markup {
    let next = credit["nextCursor"].as_str().map(|cursor| with_query(path, [("cursor", cursor)]));
    let rows = html! {
        @for movement in entries(credit, "movements") {
            tr {
                th scope="row" { (moment(&movement["at"])) }
                td { (said(movement, "kind")) }
                td.number { (money::usd(&movement["amountUsd"])) }
                td.number { (money::usd(&movement["balanceUsd"])) }
                td { @if let Some(slug) = movement["slug"].as_str() { (tool(slug)) } }
                td { @if let Some(id) = movement["receiptId"].as_str() { a href={ "/dashboard/receipts/" (segment(id)) } { code { (text::words(id)) } } } }
            }
        }
    };
    html! {
        (table("Movements", &["When", "What", &heading("Amount", simulated), &heading("Balance after", simulated), "Tool", "Receipt"], &rows))
        (onward(is_later.then_some(path), next.as_deref()))
    }
}

fn decisions(visitor: &Visitor, id: &str, credit: &Value, back: &str) -> Markup {
    let judged = |decision: &str, fields: Markup| {
        form::of(
            visitor,
            "judgeCredit",
            &[("id", id)],
            back,
            html! { input type="hidden" name="text:/decision" value=(decision); (fields) },
        )
    };
    html! {
        @if credit["revoked"].is_null() {
            (form::of(visitor, "mintCredit", &[], back, html! {
                h3 { "Top up" }
                (once())
                input type="hidden" name="text:/creditId" value=(id);
                (form::field("amount", "Amount in US dollars", None, html! { input #amount name="number:/amountUsd" inputmode="decimal" required autocomplete="off"; }))
                button.primary { "Top up" }
            }))
            (judged("revoke", html! {
                h3 { "Revoke" }
                p.note { "What is left is taken, and it pays for nothing any more, until it is restored." }
                (reason("why-revoke", "the holder", None))
                button.danger { "Revoke" }
            }))
        } @else {
            (judged("restore", html! {
                h3 { "Restore" }
                p.note { "It gets back what was taken." }
                button.primary { "Restore" }
            }))
        }
    }
}

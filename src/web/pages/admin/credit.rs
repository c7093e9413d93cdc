//! `/dashboard/admin/credits/{id}`: a credit, its movements, and decisions about it.

use axum::{extract::RawQuery, response::Response};
use maud::{Markup, html};
use serde_json::Value;
use tollhouse_front::PathParams;

use super::{
    credits,
    shared::{Admin, DecisionTarget, ROWS, mark, once, reason, text_of},
};
use crate::{
    page::{Area, Page},
    pages::credit::movements,
    parts::{facts, form, money, state::state, text, time::moment},
    query::PageQuery,
    visitor::{ApiRefusal, Visitor, segment, with_query},
};

pub(crate) async fn page(
    Admin(visitor): Admin,
    PathParams(id): PathParams<String>,
    RawQuery(query): RawQuery,
) -> Result<Response, ApiRefusal> {
    let request = PageQuery::read(query.as_deref(), &["cursor"]);
    let fields = [("creditId", &*id), ("limit", ROWS), ("cursor", request.get("cursor"))];
    let credit = visitor.get(&with_query("/ai/credits", fields)).await?;
    let path = format!("{}/{}", credits::PATH, segment(&id));
    let simulated = visitor.plays().await?;
    let main = visitor
        .made(|| {
            html! {
                div.split {
                    div {
                        (about(&credit, simulated))
                        section aria-labelledby="movements" { h2 #movements { "Movements" } (movements(&credit, &request, &path, simulated)) }
                    }
                    aside aria-labelledby="decide" { h2 #decide { "Decide" } (decisions(&visitor, &id, &credit, &path)) }
                }
            }
        })
        .await?;
    let page = Page { style: Some("make.css"), ..Page::new(Area::Credits, "Credit", main) };
    Ok(visitor.show(page.under(credits::PATH, "Credits")).await)
}

fn about(credit: &Value, simulated: bool) -> Markup {
    let revoked = &credit["revoked"];
    html! {
        p.figure { (money::usd(&credit["balanceUsd"])) (mark(simulated)) " " (state(if revoked.is_null() { "active" } else { "revoked" })) }
        (facts::list(&[
            ("Id", Some(facts::id(text_of(credit, "creditId")))),
            ("Label", Some(text::words(text_of(credit, "label")))),
            ("Made", Some(moment(&credit["createdAt"]))),
            ("Spent today", credit["today"]["spentUsd"].is_number().then(|| html! { (money::usd(&credit["today"]["spentUsd"])) (mark(simulated)) })),
            ("Revoked", revoked.is_object().then(|| html! {
                (money::usd(&revoked["amountUsd"])) (mark(simulated)) " taken, " (moment(&revoked["since"]))
                @if let Some(reason) = revoked["reason"].as_str() { ": " (text::words(reason)) }
            })),
        ]))
    }
}

fn decisions(visitor: &Visitor, id: &str, credit: &Value, back: &str) -> Markup {
    let decided = DecisionTarget { visitor, operation: "judgeCredit", id, back };
    let judged = |decision: &str, fields: Markup| decided.form(decision, fields);
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
                (reason("why-revoke", "the holder"))
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

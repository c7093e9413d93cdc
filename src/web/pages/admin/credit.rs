//! `/dashboard/admin/credits/{id}`: a credit, its movements, and decisions about it.

use maud::{Markup, html};
use tollhouse_api::CreditHistory;
use tollhouse_front::PathParams;

use super::{
    credits,
    shared::{Admin, DecisionTarget, ROWS, once, reason},
};
use crate::{
    Area, Page, PageQuery, PageResult, RawQuery, Visitor, facts, form, lazy_html, moment, money, pages::credit::movements, segment, state,
    text, with_query,
};

pub(crate) async fn page(Admin(visitor): Admin, PathParams(id): PathParams, RawQuery(raw): RawQuery) -> PageResult {
    let query = PageQuery::read(raw.as_deref(), &["cursor"]);
    let fields = [("creditId", &*id), ("limit", ROWS), ("cursor", query.get("cursor"))];
    let credit = visitor.get::<CreditHistory>(&with_query("/ai/credits", fields)).await?;
    let path = format!("{}/{}", credits::PATH, segment(&id));
    let simulated = visitor.is_simulated().await?;
    let main = lazy_html! {
        div.split {
            div {
                (about(&credit, simulated))
                section aria-labelledby="movements" { h2 #movements { "Movements" } (movements(&credit, &query, &path, simulated)) }
            }
            aside aria-labelledby="decide" { h2 #decide { "Decisions" } (decisions(&visitor, &id, &credit, &path)) }
        }
    };
    let main = visitor.render(main).await?;
    let page = Page { style: Some("make.css"), ..Page::new(Area::Credits, "Credit", main) };
    Ok(visitor.show(page.under(credits::PATH, "Credits")).await)
}

fn about(CreditHistory { credit, today, .. }: &CreditHistory, simulated: bool) -> Markup {
    let amount = |usd| money::amount(usd, simulated);
    html! {
        p.figure { (amount(credit.balance_usd)) " " (state(if credit.revoked.is_none() { "active" } else { "revoked" })) }
        (facts::list(&[
            ("Id", Some(facts::id(&credit.credit_id))),
            ("Label", Some(text::words(&credit.label))),
            ("Created", Some(moment(credit.created_at))),
            ("Spent today", Some(amount(today.spent_usd))),
            ("Revoked", credit.revoked.as_ref().map(|revoked| html! {
                (amount(revoked.amount_usd)) " removed, " (moment(revoked.since))
                @if let Some(reason) = &revoked.reason { ": " (text::words(reason)) }
            })),
        ]))
    }
}

fn decisions(visitor: &Visitor, id: &str, CreditHistory { credit, .. }: &CreditHistory, back: &str) -> Markup {
    let decided = DecisionTarget { visitor, operation: "judgeCredit", id, back };
    let judged = |decision: &str, fields: Markup| decided.form(decision, fields);
    html! {
        @if credit.revoked.is_none() {
            (form::operation(visitor, "mintCredit", &[], back, html! {
                h3 { "Top up" }
                (once())
                input type="hidden" name="text:/creditId" value=(id);
                (form::field("amount", "Amount in US dollars", None, html! { input #amount name="number:/amountUsd" inputmode="decimal" required autocomplete="off"; }))
                button.primary { "Top up" }
            }))
            (judged("revoke", html! {
                h3 { "Revoke" }
                p.note { "Removes the balance. The credit cannot pay for calls until you restore it." }
                (reason("why-revoke", "the holder"))
                button.danger { "Revoke" }
            }))
        } @else {
            (judged("restore", html! {
                h3 { "Restore" }
                p.note { "Returns the balance to the credit." }
                button.primary { "Restore" }
            }))
        }
    }
}

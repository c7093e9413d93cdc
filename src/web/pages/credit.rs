//! `/dashboard/credit`: the balance, movements and budget of a credit.

use axum::{
    extract::RawQuery,
    response::{IntoResponse as _, Redirect, Response},
};
use maud::{Markup, html};
use serde_json::Value;
use tollhouse_account::session::SessionKind;

use crate::{
    page::{Area, Page},
    parts::{
        cli_hint::same,
        empty::empty,
        facts, form, money, page_links,
        pager::onward,
        state::state,
        table::{Column, table},
        text,
        time::moment,
    },
    query::PageQuery,
    visitor::{ApiRefusal, SignedIn, Visitor, with_query},
};

const PATH: &str = "/dashboard/credit";
/// Rows of a page.
const ROWS: &str = "50";

/// Slug of a movement that is not for a tool.
const REGISTRATION: &str = "builder-registration";

/// The parts of a budget: field, label, and note.
const PARTS: [(&str, &str, &str); 4] = [
    ("perCallUsd", "A call", "more than this is not paid for one call"),
    ("perToolUsd", "A tool in a day", "more than this is not paid to one tool in a day of UTC"),
    ("perDayUsd", "A day", "more than this is not paid in a day of UTC"),
    ("alertAtUsd", "Told of from", "once so much is spent in a day, answers say so"),
];

pub(crate) async fn page(SignedIn(visitor): SignedIn, RawQuery(query): RawQuery) -> Result<Response, ApiRefusal> {
    // Admins have no credit of their own, but a page with all of them.
    if visitor.kind() == Some(SessionKind::Admin) {
        return Ok(Redirect::to("/dashboard/admin/credits").into_response());
    }
    let request = PageQuery::read(query.as_deref(), &["cursor"]);
    let path = with_query("/ai/credits", [("limit", ROWS), ("cursor", request.get("cursor"))]);
    let credit = visitor.get(&path).await?;
    let simulated = visitor.plays().await?;
    let main = visitor
        .made(|| {
            html! {
                (balance(&credit, simulated))
                div.split {
                    section { h2 { "What moved it" } (moved(&visitor, &credit, &request, simulated)) }
                    aside aria-labelledby="budget" { h2 #budget { "Your budget" } (budget(&visitor, &credit, simulated)) }
                }
                (same(&visitor, &path))
            }
        })
        .await?;
    Ok(visitor.show(Page::new(Area::Credit, "Credit", main)).await)
}

fn balance(credit: &Value, simulated: bool) -> Markup {
    let (today, revoked) = (&credit["today"], &credit["revoked"]);
    let frozen = credit["budget"]["frozen"] == true;
    html! {
        p.figure {
            (money::usd(&credit["balanceUsd"]))
            (money::mark(simulated))
            @if !revoked.is_null() { " " (state("revoked")) } @else if frozen { " " (state("frozen")) }
        }
        p {
            "Today " (money::usd(&today["spentUsd"])) (money::mark(simulated)) " was spent"
            @if today["leftUsd"].is_number() { ", and " (money::usd(&today["leftUsd"])) (money::mark(simulated)) " more may be" }
            ". The day ends at " (moment(&today["resetsAt"])) "."
            @if today["alert"] == true { " That is as much as is told of." }
        }
        (facts::list(&[
            ("Credit", credit["creditId"].as_str().map(facts::id)),
            ("Label", credit["label"].as_str().filter(|label| !label.is_empty()).map(text::words)),
            ("Made", Some(moment(&credit["createdAt"]))),
            ("Revoked", revoked["since"].is_string().then(|| html! { (moment(&revoked["since"])) ", with " (money::usd(&revoked["amountUsd"])) (money::mark(simulated)) })),
            ("Because", revoked["reason"].as_str().map(text::line)),
        ]))
    }
}

fn moved(visitor: &Visitor, credit: &Value, request: &PageQuery, simulated: bool) -> Markup {
    if credit["movements"].as_array().is_none_or(Vec::is_empty) {
        let call = format!("curl -s {}/ai/endpoints", visitor.base_url());
        return empty("Nothing has moved it.", Some(("/dashboard", "Tools to call")), &call);
    }
    movements(credit, request, PATH, simulated)
}

/// Shows the movements of a credit, latest first, on the page at `path`.
pub(super) fn movements(credit: &Value, request: &PageQuery, path: &str, simulated: bool) -> Markup {
    let movements = credit["movements"].as_array().map(Vec::as_slice).unwrap_or_default();
    let [amount, remaining] = ["Amount", "Left"].map(|name| money::heading(name, simulated));
    let columns =
        [Column::Words("When"), Column::Words("What"), Column::Number(&amount), Column::Number(&remaining), Column::Words("Receipt")];
    html! {
        (table("Movements", columns, movements.iter().map(row)))
        (onward(movements.len(), request.first(path).as_deref(), request.next(path, credit).as_deref()))
    }
}

fn row(movement: &Value) -> [Markup; 5] {
    let slug = movement["slug"].as_str().unwrap_or_default();
    let (sign, what) = match movement["kind"].as_str().unwrap_or_default() {
        "mint" => ("+", "added"),
        "debit" => ("−", "paid"),
        "refund" => ("+", "given back"),
        "revoke" => ("−", "revoked"),
        "restore" => ("+", "restored"),
        _ => ("", "moved"),
    };
    [
        moment(&movement["at"]),
        html! { (what) @if slug == REGISTRATION { " for a registration" } @else if !slug.is_empty() { " " (page_links::tool(slug)) } },
        html! { (sign) (money::usd(&movement["amountUsd"])) },
        html! { (money::usd(&movement["balanceUsd"])) },
        html! { @if let Some(id) = movement["receiptId"].as_str() { (page_links::receipt_in_brief(id)) } },
    ]
}

/// Shows the admin's limits, and the form for the holder's.
fn budget(visitor: &Visitor, credit: &Value, simulated: bool) -> Markup {
    let (admins, own) = (&credit["budgets"]["admin"], &credit["budgets"]["holder"]);
    let bounded: Vec<_> = PARTS.iter().filter(|(member, ..)| admins[member].is_number()).collect();
    let fields = html! {
        (form::onto(credit["budgets"]["revision"].as_u64().unwrap_or_default()))
        @for (member, name, words) in PARTS {
            (form::field(member, &format!("{name}, in USD"), Some(words), html! {
                input id=(member) name={ "number:/" (member) } inputmode="decimal" autocomplete="off" placeholder="no bound"
                    value=(super::payouts::amount(&own[member]));
            }))
        }
        input type="hidden" name="flag:/frozen" value="false";
        label.box { input type="checkbox" name="flag:/frozen" value="true" checked[own["frozen"] == true]; "Frozen: it pays for nothing" }
        button.primary { "Set the budget" }
    };
    html! {
        p.muted { "Of what is left, so much may go. Whoever has the credit's token can change it." }
        @if !bounded.is_empty() || admins["frozen"] == true {
            p { "The host's operator bounds it too:" }
            ul.plain {
                @for (member, name, _) in bounded { li { (name) " " (money::usd(&admins[member])) (money::mark(simulated)) } }
                @if admins["frozen"] == true { li { "frozen" } }
            }
        }
        (form::of(visitor, "setBudget", &[], PATH, fields))
    }
}

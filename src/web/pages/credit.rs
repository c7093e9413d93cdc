//! `/dashboard/credit`: the balance, movements and budget of a credit.

use maud::{Markup, html};
use tollhouse_account::session::SessionKind;
use tollhouse_api::{Budget, CreditHistory, CreditMovement, MovementKind};
use tollhouse_tool::{MicroUsd, Slug};

use crate::{
    Area, IntoResponse as _, Number, Page, PageQuery, PageResult, RawQuery, Redirect, SignedIn, Visitor, Words, api_section, empty, facts,
    form, lazy_html, moment, money, onward, page_links, state, table, text, with_query,
};

const PATH: &str = "/dashboard/credit";
const ROWS: &str = "50";

/// Slug of a movement that is not for a tool.
const REGISTRATION: &str = "builder-registration";

/// A part of a budget: its field in the API, label, note, and value.
type BudgetPart = (&'static str, &'static str, &'static str, fn(&Budget) -> Option<MicroUsd>);

const PARTS: [BudgetPart; 4] = [
    ("perCallUsd", "Per call", "Maximum for one call.", |budget| budget.per_call_usd),
    ("perToolUsd", "Per tool and day", "Maximum for one tool per UTC day.", |budget| budget.per_tool_usd),
    ("perDayUsd", "Per day", "Maximum per UTC day.", |budget| budget.per_day_usd),
    ("alertAtUsd", "Alert at", "Answers include an alert when a day's spending reaches this amount.", |budget| budget.alert_at_usd),
];

pub(crate) async fn page(SignedIn(visitor): SignedIn, RawQuery(raw): RawQuery) -> PageResult {
    // Admins have no credit of their own, but a page with all of them.
    if visitor.kind() == Some(SessionKind::Admin) {
        return Ok(Redirect::to("/dashboard/admin/credits").into_response());
    }
    let query = PageQuery::read(raw.as_deref(), &["cursor"]);
    let path = with_query("/ai/credits", [("limit", ROWS), ("cursor", query.get("cursor"))]);
    let credit = visitor.get::<CreditHistory>(&path).await?;
    let simulated = visitor.is_simulated().await?;
    let main = lazy_html! {
        (balance(&credit, simulated))
        div.split {
            section { h2 { "Movements" } (movement_list(&visitor, &credit, &query, simulated)) }
            aside aria-labelledby="budget" { h2 #budget { "Your budget" } (budget(&visitor, &credit, simulated)) }
        }
        (api_section(&visitor, &path))
    };
    let main = visitor.render(main).await?;
    Ok(visitor.show(Page::new(Area::Credit, "Credit", main)).await)
}

fn balance(CreditHistory { credit, today, .. }: &CreditHistory, simulated: bool) -> Markup {
    let revoked = credit.revoked.as_ref();
    let amount = |amount| money::amount(amount, simulated);
    html! {
        p.figure {
            (amount(credit.balance_usd))
            @if revoked.is_some() { " " (state("revoked")) } @else if credit.budget.frozen { " " (state("frozen")) }
        }
        p {
            "Spent today: " (amount(today.spent_usd))
            @if let Some(left) = today.left_usd { ", left today: " (amount(left)) }
            ". The day ends at " (moment(today.resets_at)) "."
            @if today.alert { " You've reached your daily alert amount." }
        }
        (facts::list(&[
            ("Credit", Some(facts::id(&credit.credit_id))),
            ("Label", Some(text::words(&credit.label)).filter(|_| !credit.label.is_empty())),
            ("Created", Some(moment(credit.created_at))),
            ("Revoked", revoked.map(|revoked| html! { (moment(revoked.since)) ", removing " (amount(revoked.amount_usd)) })),
            ("Reason", revoked.and_then(|revoked| revoked.reason.as_deref()).map(text::line)),
        ]))
    }
}

fn movement_list(visitor: &Visitor, credit: &CreditHistory, query: &PageQuery, simulated: bool) -> Markup {
    if credit.movements.is_empty() {
        let call = format!("curl -s {}/ai/endpoints", visitor.base_url());
        return empty("No movements yet.", Some(("/dashboard", "Find a tool to call")), &call);
    }
    movements(credit, query, PATH, simulated)
}

/// Shows the movements of a credit, latest first, on the page at `path`.
pub(super) fn movements(credit: &CreditHistory, query: &PageQuery, path: &str, simulated: bool) -> Markup {
    let [amount, remaining] = ["Amount", "Left"].map(|name| money::heading(name, simulated));
    let columns = [Words("When"), Words("What"), Number(&amount), Number(&remaining), Words("Receipt")];
    html! {
        (table("Movements", columns, credit.movements.iter().map(row)))
        (onward(credit.movements.len(), query, path, credit.next_cursor.as_deref()))
    }
}

fn row(movement: &CreditMovement) -> [Markup; 5] {
    let (sign, what) = match movement.kind {
        MovementKind::Mint => ("+", "added"),
        MovementKind::Debit => ("−", "paid"),
        MovementKind::Refund => ("+", "refunded"),
        MovementKind::Revoke => ("−", "revoked"),
        MovementKind::Restore => ("+", "restored"),
    };
    [
        moment(movement.at),
        html! {
            (what)
            @match movement.slug.as_ref().map(Slug::as_str) {
                Some(REGISTRATION) => " for a registration",
                Some(slug) => { " " (page_links::tool(slug)) }
                None => {}
            }
        },
        html! { (sign) (money::usd(movement.amount_usd)) },
        html! { (money::usd(movement.balance_usd)) },
        html! { @if let Some(id) = &movement.receipt_id { (page_links::receipt_in_brief(id)) } },
    ]
}

/// Shows the admin's limits, and the form for the holder's.
fn budget(visitor: &Visitor, credit: &CreditHistory, simulated: bool) -> Markup {
    let budgets = &credit.credit.budgets;
    let limits: Vec<_> = PARTS.iter().filter_map(|(_, name, _, value)| Some((*name, value(&budgets.admin)?))).collect();
    let fields = html! {
        (form::revision(budgets.revision))
        @for (member, name, words, value) in PARTS {
            (form::field(member, &format!("{name}, in USD"), Some(words), html! {
                input id=(member) name={ "number:/" (member) } inputmode="decimal" autocomplete="off" placeholder="no limit"
                    value=[value(&budgets.holder)];
            }))
        }
        input type="hidden" name="flag:/frozen" value="false";
        label.box { input type="checkbox" name="flag:/frozen" value="true" checked[budgets.holder.frozen]; "Freeze the credit, so that it cannot pay for calls" }
        button.primary { "Save the budget" }
    };
    html! {
        p.muted { "Limits on what the credit pays for. Everyone who has its token can change them." }
        @if !limits.is_empty() || budgets.admin.frozen {
            p { "The host's admins have also set:" }
            ul.plain {
                @for (name, limit) in limits { li { (name) " " (money::amount(limit, simulated)) } }
                @if budgets.admin.frozen { li { "Frozen" } }
            }
        }
        (form::operation(visitor, "setBudget", &[], PATH, fields))
    }
}

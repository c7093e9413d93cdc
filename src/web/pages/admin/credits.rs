//! `/dashboard/admin/credits`: prepaid credits, oldest first, and a form for a new one.

use maud::{Markup, html};
use tollhouse_api::{Credit, CreditPage};

use super::shared::{Admin, ROWS, once};
use crate::{
    Area, Number, Page, PageQuery, PageResult, RawQuery, Visitor, Words, curl_command, empty, form, moment, money, onward, segment, state,
    table, text, with_query,
};

pub(super) const PATH: &str = "/dashboard/admin/credits";

pub(crate) async fn page(Admin(visitor): Admin, RawQuery(raw): RawQuery) -> PageResult {
    let query = PageQuery::read(raw.as_deref(), &["cursor"]);
    let found = visitor.get::<CreditPage>(&with_query("/ai/credits", [("limit", ROWS), ("cursor", query.get("cursor"))])).await?;
    let simulated = visitor.is_simulated().await?;
    let main = visitor.render(|| view(&visitor, &found, &query, simulated)).await?;
    Ok(visitor.show(Page::new(Area::Credits, "Credits", main)).await)
}

fn view(visitor: &Visitor, CreditPage { credits, next_cursor, .. }: &CreditPage, query: &PageQuery, simulated: bool) -> Markup {
    let balance = money::heading("Balance", simulated);
    let columns = [Words("Credit"), Words("Label"), Number(&balance), Words("Created"), Words("State")];
    html! {
        section aria-labelledby="credits" {
            h2 #credits { "Credits" }
            @if credits.is_empty() { (empty("No credits yet.", None, &minting(visitor))) }
            @else {
                (table("Credits", columns, credits.iter().map(row)))
                (onward(credits.len(), query, PATH, next_cursor.as_ref()))
            }
        }
        section aria-labelledby="mint" { h2 #mint { "Mint a credit" } (mint(visitor)) }
    }
}

/// Returns a command that creates a credit of one dollar.
fn minting(visitor: &Visitor) -> String {
    format!("{} \\\n  -H 'content-type: application/json' -d '{{\"amountUsd\":1}}'", curl_command(visitor, "/ai/credits"))
}

fn mint(visitor: &Visitor) -> Markup {
    form::operation(
        visitor,
        "mintCredit",
        &[],
        PATH,
        html! {
            (once())
            (form::field("amount", "Amount in US dollars", None, html! { input #amount name="number:/amountUsd" inputmode="decimal" required autocomplete="off"; }))
            (form::field("label", "Label", Some("Owner or purpose. The holder can read it."), html! { input #label name="some:/label" maxlength=(tollhouse_tool::public_texts::MAX_CREDIT_LABEL) autocomplete="off"; }))
            button.primary { "Mint the credit" }
        },
    )
}

fn row(credit: &Credit) -> [Markup; 5] {
    let id = &credit.credit_id;
    [
        html! { a href={ (PATH) "/" (segment(id)) } { code { (id) } } },
        text::words(&credit.label),
        html! { (money::usd(credit.balance_usd)) },
        moment(credit.created_at),
        state(if credit.revoked.is_none() { "active" } else { "revoked" }),
    ]
}

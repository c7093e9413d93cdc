//! `/dashboard/admin/builders`: the registered builders, oldest first, with their tools and
//! earnings.

use axum::{extract::RawQuery, response::Response};
use maud::{Markup, html};
use serde_json::Value;

use super::shared::{Admin, ROWS, entries, heading, said};
use crate::{
    asked::Asked,
    page::{Area, Page},
    parts::{
        empty::empty,
        money,
        pager::onward,
        same::line,
        state::state,
        table::{Column, table},
        text,
        time::moment,
    },
    visitor::{Refused, Visitor, segment, with_query},
};

pub(super) const PATH: &str = "/dashboard/admin/builders";

pub(crate) async fn page(Admin(visitor): Admin, RawQuery(query): RawQuery) -> Result<Response, Refused> {
    let asked = Asked::read(query.as_deref(), &["cursor"]);
    let found = visitor.get(&with_query("/ai/admin/builders", [("limit", ROWS), ("cursor", asked.get("cursor"))])).await?;
    let simulated = visitor.plays().await?;
    let main = visitor.made(|| view(&visitor, &found, &asked, simulated)).await?;
    Ok(visitor.show(Page::new(Area::Builders, "Builders", main)).await)
}

fn view(visitor: &Visitor, found: &Value, asked: &Asked, simulated: bool) -> Markup {
    let builders = entries(found, "builders");
    let command = line(visitor, "/ai/admin/builders");
    let net = heading("Net, 30 days", simulated);
    let columns = [
        Column::Words("Builder"),
        Column::Words("State"),
        Column::Number("Tools"),
        Column::Number("Calls, 30 days"),
        Column::Number(&net),
        Column::Words("Last seen"),
        Column::Words("Tier"),
    ];
    html! {
        @if builders.is_empty() { (empty("Nobody has registered yet.", Some(("/guides/build-a-tool", "How builders do")), &command)) }
        @else {
            (table("Builders", columns, builders.iter().map(row)))
            (onward(builders.len(), asked.first(PATH).as_deref(), asked.next(PATH, found).as_deref()))
        }
    }
}

fn row(builder: &Value) -> [Markup; 7] {
    let (id, earned) = (said(builder, "builderId"), &builder["last30Days"]);
    [
        html! { a href={ (PATH) "/" (segment(id)) } { (text::words(said(builder, "name"))) } p.note { code { (id) } } },
        state(if builder["suspended"].is_null() { "active" } else { "suspended" }),
        html! { (builder["endpoints"]) },
        html! { (earned["calls"]) },
        html! { (money::usd(&earned["netUsd"])) },
        html! { @if builder["seenAt"].is_null() { "never" } @else { (moment(&builder["seenAt"])) } },
        html! { (said(builder, "tier")) },
    ]
}

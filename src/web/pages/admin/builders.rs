//! `/dashboard/admin/builders`: the registered builders, oldest first, with their tools and
//! earnings.

use axum::{extract::RawQuery, response::Response};
use maud::{Markup, html};
use serde_json::Value;

use super::shared::{Admin, ROWS, entries, heading, text_of};
use crate::{
    page::{Area, Page},
    parts::{
        cli_hint::line,
        empty::empty,
        money,
        pager::onward,
        state::state,
        table::{Column, table},
        text,
        time::moment,
    },
    query::PageQuery,
    visitor::{ApiRefusal, Visitor, segment, with_query},
};

pub(super) const PATH: &str = "/dashboard/admin/builders";

pub(crate) async fn page(Admin(visitor): Admin, RawQuery(query): RawQuery) -> Result<Response, ApiRefusal> {
    let request = PageQuery::read(query.as_deref(), &["cursor"]);
    let found = visitor.get(&with_query("/ai/admin/builders", [("limit", ROWS), ("cursor", request.get("cursor"))])).await?;
    let simulated = visitor.plays().await?;
    let main = visitor.made(|| view(&visitor, &found, &request, simulated)).await?;
    Ok(visitor.show(Page::new(Area::Builders, "Builders", main)).await)
}

fn view(visitor: &Visitor, found: &Value, request: &PageQuery, simulated: bool) -> Markup {
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
            (onward(builders.len(), request.first(PATH).as_deref(), request.next(PATH, found).as_deref()))
        }
    }
}

fn row(builder: &Value) -> [Markup; 7] {
    let (id, earned) = (text_of(builder, "builderId"), &builder["last30Days"]);
    [
        html! { a href={ (PATH) "/" (segment(id)) } { (text::words(text_of(builder, "name"))) } p.note { code { (id) } } },
        state(if builder["suspended"].is_null() { "active" } else { "suspended" }),
        html! { (builder["endpoints"]) },
        html! { (earned["calls"]) },
        html! { (money::usd(&earned["netUsd"])) },
        html! { @if builder["seenAt"].is_null() { "never" } @else { (moment(&builder["seenAt"])) } },
        html! { (text_of(builder, "tier")) },
    ]
}

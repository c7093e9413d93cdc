//! `/dashboard/admin/builders`: the registered builders, oldest first, with their tools and
//! earnings.

use maud::{Markup, html};
use tollhouse_api::{BuilderListEntry, BuilderPage};

use super::shared::{Admin, ROWS};
use crate::{
    Area, Number, Page, PageQuery, PageResult, RawQuery, Visitor, Words, curl_command, empty, moment, money, onward, segment, state, table,
    text, with_query, word,
};

pub(super) const PATH: &str = "/dashboard/admin/builders";

pub(crate) async fn page(Admin(visitor): Admin, RawQuery(raw): RawQuery) -> PageResult {
    let query = PageQuery::read(raw.as_deref(), &["cursor"]);
    let found = visitor.get::<BuilderPage>(&with_query("/ai/admin/builders", [("limit", ROWS), ("cursor", query.get("cursor"))])).await?;
    let simulated = visitor.is_simulated().await?;
    let main = visitor.render(|| view(&visitor, &found, &query, simulated)).await?;
    Ok(visitor.show(Page::new(Area::Builders, "Builders", main)).await)
}

fn view(visitor: &Visitor, BuilderPage { builders, next_cursor, .. }: &BuilderPage, query: &PageQuery, simulated: bool) -> Markup {
    let command = curl_command(visitor, "/ai/admin/builders");
    let net = money::heading("Net, 30 days", simulated);
    let columns =
        [Words("Builder"), Words("State"), Number("Tools"), Number("Calls, 30 days"), Number(&net), Words("Last seen"), Words("Tier")];
    html! {
        @if builders.is_empty() { (empty("Nobody has registered yet.", Some(("/guides/build-a-tool", "Read the guide for builders")), &command)) }
        @else {
            (table("Builders", columns, builders.iter().map(row)))
            (onward(builders.len(), query, PATH, next_cursor.as_ref()))
        }
    }
}

fn row(BuilderListEntry { builder, endpoints, last30_days, seen_at }: &BuilderListEntry) -> [Markup; 7] {
    let id = &builder.builder_id;
    [
        html! { a href={ (PATH) "/" (segment(id)) } { (text::words(&builder.name)) } p.note { code { (id) } } },
        state(if builder.suspended.is_none() { "active" } else { "suspended" }),
        html! { (endpoints) },
        html! { (last30_days.calls) },
        html! { (money::usd(last30_days.net_usd)) },
        html! { @match seen_at { Some(at) => (moment(at)), None => "never" } },
        html! { (word(builder.tier)) },
    ]
}

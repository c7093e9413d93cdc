//! `/dashboard/admin/builders/{id}`: a builder, their tools and earnings, and decisions about them.

use maud::{Markup, html};
use tollhouse_api::{Builder, BuilderResponse, EndpointSummary, EndpointSummaryPage, Revenue, RevenueTotals};
use tollhouse_base::plural::plural;
use tollhouse_front::PathParams;
use tollhouse_tool::ANY_PUBLIC_HOST;

use super::{
    builders,
    shared::{Admin, DecisionTarget, ROWS, reason, tiers},
};
use crate::{
    Area, MONTH, Page, PageQuery, PageResult, RawQuery, Visitor, Words, curl_command, empty, facts, form, lazy_html, moment, money, onward,
    page_links::tool, segment, state, table, text, with_query, word,
};

pub(crate) async fn page(Admin(visitor): Admin, PathParams(id): PathParams, RawQuery(raw): RawQuery) -> PageResult {
    let query = PageQuery::read(raw.as_deref(), &["cursor"]);
    let found = visitor.get::<BuilderResponse>(&with_query("/ai/builders/me", [("builderId", &*id)])).await?;
    let fields = [("builderId", &*id), ("limit", ROWS), ("cursor", query.get("cursor"))];
    let tools = visitor.get::<EndpointSummaryPage>(&with_query("/ai/builders/endpoints", fields)).await?;
    let revenue = visitor.get::<Revenue>(&with_query("/ai/builders/revenue", [("builderId", &*id), ("since", MONTH)])).await?;
    let builder = &found.builder;
    let simulated = visitor.is_simulated().await?;
    let path = format!("{}/{}", builders::PATH, segment(&id));
    let main = lazy_html! {
        div.split {
            div {
                (about(builder, &revenue.totals, simulated))
                section aria-labelledby="tools" { h2 #tools { "Tools" } (offered(&visitor, &id, &tools, &path, &query)) }
            }
            aside aria-labelledby="decide" { h2 #decide { "Decisions" } (decisions(&visitor, &id, builder, &path)) }
        }
    };
    let main = visitor.render(main).await?;
    let page = Page { style: Some("make.css"), ..Page::new(Area::Builders, &*builder.name, main) }.under(builders::PATH, "Builders");
    Ok(visitor.show(page).await)
}

fn about(builder: &Builder, totals: &RevenueTotals, simulated: bool) -> Markup {
    facts::list(&[
        ("Id", Some(facts::id(&builder.builder_id))),
        ("Contact", builder.contact.as_deref().map(text::words)),
        ("Registered", Some(moment(builder.created_at))),
        ("Key created", Some(moment(builder.key_created_at))),
        ("Tier", Some(html! { (word(builder.tier)) })),
        ("Hosts", (!builder.allowed_hosts.is_empty()).then(|| html! { "any public host" })),
        (
            "Suspended",
            builder.suspended.as_ref().map(|suspended| {
                html! {
                    (state("suspended")) " since " (moment(suspended.since))
                    @if let Some(reason) = &suspended.reason { ": " (text::words(reason)) }
                }
            }),
        ),
        (
            "Last 30 days",
            Some(html! {
                (plural(totals.calls, "call")) ", "
                (plural(totals.failed_calls, "failure")) ", "
                (money::usd(totals.net_usd)) " net of " (money::amount(totals.gross_usd, simulated))
            }),
        ),
    ])
}

fn offered(visitor: &Visitor, id: &str, found: &EndpointSummaryPage, path: &str, query: &PageQuery) -> Markup {
    let endpoints = &found.endpoints;
    let row = |endpoint: &EndpointSummary| {
        let endpoint = &endpoint.brief;
        let slug = &endpoint.slug;
        [
            tool(slug),
            text::words(&endpoint.title),
            state(&word(endpoint.state)),
            moment(endpoint.updated_at),
            html! { a href={ "/dashboard/admin/reviews/" (segment(slug)) } { "Review" span.aside { " " (slug) } } },
        ]
    };
    html! {
        @if endpoints.is_empty() { (empty("This builder has published no tools yet.", None, &curl_command(visitor, &with_query("/ai/builders/endpoints", [("builderId", id)])))) }
        @else {
            (table("Tools", ["Tool", "Title", "State", "Changed", "Review"].map(Words), endpoints.iter().map(row)))
            (onward(endpoints.len(), query, path, found.next_cursor.as_deref()))
        }
    }
}

fn decisions(visitor: &Visitor, id: &str, builder: &Builder, back: &str) -> Markup {
    let decided = DecisionTarget { visitor, operation: "judgeBuilder", id, back };
    let judged = |decision: &str, fields: Markup| decided.form(decision, fields);
    html! {
        @if builder.suspended.is_none() {
            (judged("suspend", html! {
                h3 { "Suspend" }
                p.note { "Until you restore the builder, the builder's key cannot change anything, and the builder's tools take no calls." }
                (reason("why-suspend", "the builder"))
                button.danger { "Suspend" }
            }))
        } @else {
            (judged("restore", html! {
                h3 { "Restore" }
                p.note { "The builder's tools return to their previous states." }
                button.primary { "Restore" }
            }))
        }
        (judged("tier", html! {
            h3 { "Tier" }
            (form::field("tier", "Least strict tier allowed for the builder's tools", None, tiers("tier", "text:/tier", Some(builder.tier), None)))
            button { "Set the tier" }
        }))
        @if builder.allowed_hosts.is_empty() {
            (judged("grant", html! {
                h3 { "Any public host" }
                p.note { "The builder's tools can list " code { (ANY_PUBLIC_HOST) } " in " code { "allowedHosts" } " without approval." }
                input type="hidden" name="each:/allowedHosts" value=(ANY_PUBLIC_HOST);
                button { "Grant any public host" }
            }))
        } @else {
            (judged("revoke", html! {
                h3 { "Any public host" }
                p.note { "This applies to later publishes. Tools that list it keep it until you revoke it for each tool." }
                input type="hidden" name="each:/allowedHosts" value=(ANY_PUBLIC_HOST);
                button { "Revoke any public host" }
            }))
        }
        (form::operation(visitor, "rotateBuilderKey", &[], back, html! {
            h3 { "New key" }
            p.note { "For builders who lost their key. The old key stops working. The new one is shown once, to you." }
            input type="hidden" name="query:builderId" value=(id);
            button { "Create a new key" }
        }))
    }
}

//! `/dashboard/admin/reviews/{slug}`: the review of a tool: pending requests, changes since the
//! last approval, findings, and its builder.

use maud::{Markup, html};
use tollhouse_api::{BuilderResponse, EndpointSummaryPage, Event, EventPage, OwnEndpoint, ReviewPage, ReviewState};
use tollhouse_front::PathParams;
use tollhouse_tool::{EndpointState, ReviewRecord};

use super::{
    capabilities,
    changes::{self, SourcePart, UploadedVersion},
    findings::{self, findings},
    read_tool::ReadTool,
    review_form,
    shared::{Admin, owner, owner_by_name},
};
use crate::{
    Answer, ApiRefusal, Area, Page, PageQuery, PageResult, RawQuery, Visitor, facts, moment, money, pages::owner_pages, segment, state,
    tabs, text, with_query, word,
};

/// Maximum other tools of the builder whose last decisions are shown.
const OTHERS: &str = "50";
/// Maximum changes shown to an admin who read an older revision.
const CHANGES: &str = "20";

pub(crate) async fn page(Admin(visitor): Admin, PathParams(slug): PathParams, RawQuery(raw): RawQuery) -> PageResult {
    let tool = &*owner_pages::record(&visitor, &slug).await?;
    let approved = tool.review.approved_version.as_deref();
    let now = owner_pages::handler(&visitor, &slug, &tool.version).await?;
    let before = match approved.filter(|approved| *approved != tool.version) {
        Some(approved) => owner_pages::handler(&visitor, &slug, approved).await?,
        None => None,
    };
    let builder = match tool.owner.starts_with("bld_") {
        true => Some(BuilderContext::read(&visitor, &slug, &tool.owner).await?),
        false => None,
    };
    let next = visitor.get::<ReviewPage>("/ai/admin/reviews?limit=2").await?;
    let simulated = visitor.is_simulated().await?;
    let query = PageQuery::read(raw.as_deref(), &["done", "read", "after", "from"]);
    let received = if query.get("done").is_empty() {
        changes_since_read(tool, builder.as_ref().map_or(&[][..], BuilderContext::events), query.get("read"), query.get("after"))
    } else {
        html! {}
    };
    let main = visitor
        .render(|| {
            let from = query.get("from").parse().unwrap_or(1);
            let seen = ReviewView { visitor: &visitor, slug: &slug, tool, builder: builder.as_ref(), from, simulated };
            let now = UploadedVersion { version: &tool.version, handler: now.as_ref().map(|now| &now.handler) };
            let before = approved.map(|version| UploadedVersion { version, handler: before.as_ref().map(|before| &before.handler) });
            html! {
                (tabs::tool_tabs(&visitor, &slug, tabs::Tab::Review))
                (received)
                (view(&seen, before.as_ref(), &now))
                (onward(&slug, &next))
            }
        })
        .await?;
    let name = builder.as_ref().map(|builder| &*builder.record.builder.name);
    let heading = html! {
        h1 { (text::words(&tool.common.title)) }
        p.marks { code { (text::words(&slug)) } (state_badge(tool)) span { "revision " (tool.revision) } span { "of " (owner_by_name(&tool.owner, name)) } }
    };
    let page = Page {
        heading: Some(heading),
        style: Some("make.css"),
        ..Page::new(Area::Reviews, &*tool.common.title, main).under("/dashboard/admin/reviews", "Reviews")
    };
    Ok(visitor.show(page).await)
}

/// The builder of the tool, with their other tools, and the latest changes of the tool.
struct BuilderContext {
    record: Answer<BuilderResponse>,
    others: Answer<EndpointSummaryPage>,
    events: Answer<EventPage>,
}

impl BuilderContext {
    async fn read(visitor: &Visitor, slug: &str, id: &str) -> Result<Self, ApiRefusal> {
        let changes = [("builderId", id), ("endpointSlug", slug), ("kind", "endpoint.updated"), ("limit", CHANGES)];
        Ok(Self {
            record: visitor.get(&with_query("/ai/builders/me", [("builderId", id)])).await?,
            others: visitor.get(&with_query("/ai/builders/endpoints", [("builderId", id), ("limit", OTHERS)])).await?,
            events: visitor.get(&with_query("/ai/builders/events", changes)).await?,
        })
    }

    fn events(&self) -> &[Event] {
        &self.events.events
    }
}

fn state_badge(tool: &OwnEndpoint) -> Markup {
    match tool.review.state {
        ReviewState::TakenDown => state("taken down"),
        ReviewState::ContentReview => state("in review"),
        ReviewState::ContentBlocked => state("blocked"),
        ReviewState::OwnerSuspended => state("suspended"),
        ReviewState::None | ReviewState::CapabilitiesRequested => state(&word(tool.common.status)),
    }
}

struct ReviewView<'a> {
    visitor: &'a Visitor,
    slug: &'a str,
    tool: &'a OwnEndpoint,
    /// `None` for a tool of the host.
    builder: Option<&'a BuilderContext>,
    /// First shown line of the source.
    from: usize,
    simulated: bool,
}

fn view(seen: &ReviewView, before: Option<&UploadedVersion>, now: &UploadedVersion) -> Markup {
    let ReviewView { visitor, slug, tool, builder, .. } = *seen;
    let path = format!("/dashboard/admin/reviews/{}", segment(slug));
    let newest = builder.and_then(|builder| builder.events().first()).map_or("", |event| event.id.as_str());
    let revision = tool.revision.to_string();
    let back = with_query(&path, [("read", &*revision), ("after", newest)]);
    let read = ReadTool { visitor, slug, tool, back: &back };
    let source = now.handler.and_then(|handler| handler.source.as_deref());
    let found = &tool.review.findings;
    let part = SourcePart { from: seen.from, found: &findings::lines(found), path: &path };
    html! {
        div.split {
            div {
                section aria-labelledby="asked" { h2 #asked { "Requests" } (requested(tool)) }
                section aria-labelledby="found" { h2 #found { "Findings" } (findings(found, source, &path)) }
                section aria-labelledby="fields" {
                    h2 #fields { "Fields" }
                    @if before.is_some() { (changes::fields(tool)) } @else { (all(tool, seen.simulated)) }
                }
                section aria-labelledby="handler" { h2 #handler { "Handler" } (changes::handler(before, now, &part)) }
            }
            aside aria-labelledby="decide" {
                h2 #decide { "Decisions" }
                @if read.waits() { (review_form::answers(&read)) } @else { p.muted { "Nothing waits for a decision." } }
                (review_form::others(&read))
                h2 { "Builder" }
                (history(tool, builder))
            }
        }
    }
}

/// Shows what the tool requests, and since when.
fn requested(tool: &OwnEndpoint) -> Markup {
    let (hosts, review) = (&tool.requested_hosts, &tool.review);
    let names: Vec<_> = tool.requested_capabilities.names().collect();
    let content = match review.state {
        ReviewState::ContentReview => Some("waits for review and takes no calls"),
        ReviewState::ContentBlocked => Some("blocked, because it was rejected or matches a newer rule"),
        _ => None,
    };
    facts::list(&[
        ("Content", content.map(|words| html! { (words) })),
        (
            "Requests",
            (!names.is_empty()).then(|| {
                html! {
                    ul.plain { @for name in &names { li { code { (text::words(name)) } ": can " (capabilities::meaning(name)) } } }
                }
            }),
        ),
        ("Hosts", (!hosts.is_empty()).then(|| html! { ul.plain { @for host in hosts { li { code { (text::words(host)) } } } } })),
        ("Granted", Some(capabilities::granted(tool))),
        ("Since", review.since.map(moment)),
        (
            "Approved",
            Some(html! {
                @match &review.approved_version {
                    None => "never",
                    Some(version) if *version == tool.version => "the running version",
                    Some(version) => { "version " (facts::id(version)) }
                }
            }),
        ),
        ("Last decision", review.decision.as_ref().map(decided)),
    ])
}

fn decided(record: &ReviewRecord) -> Markup {
    html! {
        (word(record.decision)) ", " (moment(record.at))
        @if let Some(reason) = &record.reason { ": " (text::words(reason)) }
    }
}

/// Shows all texts of a tool that was never approved.
fn all(tool: &OwnEndpoint, simulated: bool) -> Markup {
    let common = &tool.common;
    html! {
        (text::paragraphs(&common.description))
        (facts::list(&[
            ("Price", Some(money::price(common.price_usd, tool.max_price_usd, simulated))),
            ("Tags", (!common.tags.is_empty()).then(|| text::words(common.tags.join(", ")))),
            ("Runs", Some(html! { code { (word(common.handler_type)) } ", tier " (word(tool.tier)) })),
        ]))
        p { a href={ "/dashboard/tools/" (segment(&common.slug)) } { "See the tool's page, with its schemas" } }
    }
}

/// Shows decisions about the builder's other tools.
fn history(tool: &OwnEndpoint, builder: Option<&BuilderContext>) -> Markup {
    let Some(BuilderContext { others, .. }) = builder else { return html! { p.muted { "This tool belongs to the host." } } };
    let tools: Vec<_> = others.endpoints.iter().map(|other| &other.brief).filter(|other| other.slug != tool.common.slug).collect();
    let in_state = |states: &[EndpointState]| tools.iter().filter(|other| states.contains(&other.state)).count();
    let decided_on: Vec<_> = tools.iter().filter_map(|other| Some((&other.slug, other.decision.as_ref()?))).take(5).collect();
    html! {
        p { (owner(&tool.owner)) }
        (facts::list(&[
            ("Other tools", Some(html! { (tools.len()) @if others.next_cursor.is_some() { " or more" } })),
            ("Waiting or rejected", Some(html! { (in_state(&[EndpointState::Held, EndpointState::Rejected])) })),
            ("Taken down", Some(html! { (in_state(&[EndpointState::TakenDown])) })),
        ]))
        @if !decided_on.is_empty() {
            ul.plain {
                @for (slug, record) in decided_on {
                    li { a href={ "/dashboard/admin/reviews/" (segment(slug)) } { code { (text::words(slug)) } } ": " (decided(record)) }
                }
            }
        }
    }
}

/// Shows changes since the revision that was read, so that a decision does not overwrite them
/// unnoticed.
fn changes_since_read(tool: &OwnEndpoint, events: &[Event], read: &str, after: &str) -> Markup {
    let now = tool.revision.to_string();
    if read.is_empty() || read == now {
        return html! {};
    }
    let since = events.iter().take_while(|event| after.is_empty() || event.id.as_str() != after);
    html! {
        section.notice aria-labelledby="came" {
            h2 #came { "The tool has changed since you read it" }
            p { "You read revision " (text::first(read, 20)) ", but this page shows revision " (now) ". Your decision was not saved." }
            ul.plain {
                @for event in since {
                    @let fields: Vec<_> = event.data["changed"].as_array().into_iter().flatten().filter_map(|field| field.as_str()).collect();
                    @let by = event.data["by"].as_str().unwrap_or_default();
                    li { (moment(event.at)) ", by " (text::words(by)) ": " (text::words(fields.join(", "))) }
                }
                @if let Some(record) = &tool.review.decision { li { "Latest decision: " (decided(record)) } }
            }
        }
    }
}

/// Links to the next pending review.
fn onward(slug: &str, queue: &ReviewPage) -> Markup {
    let next = queue.reviews.iter().find(|review| review.slug.as_str() != slug);
    html! {
        @if let Some(next) = next {
            p { a.button href={ "/dashboard/admin/reviews/" (segment(&next.slug)) } { "Next: " (text::words(&next.title)) } }
        }
    }
}

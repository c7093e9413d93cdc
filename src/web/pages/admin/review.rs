//! `/dashboard/admin/reviews/{slug}`: the review of a tool: pending requests, changes since the
//! last approval, findings, and its builder.

use axum::{extract::RawQuery, response::Response};
use maud::{Markup, html};
use serde_json::Value;
use tollhouse_base::offload::DropOffThread;
use tollhouse_front::{Code, PathParams};

use super::{
    capabilities,
    changes::{self, SourcePart, UploadedVersion},
    findings::{self, findings},
    read_tool::ReadTool,
    review_form,
    shared::{Admin, entries, owner, owner_by_name, text_of},
};
use crate::{
    page::{Area, Page},
    parts::{facts, money, state::state, tabs, text, time::moment},
    query::PageQuery,
    visitor::{ApiRefusal, Visitor, segment, with_query},
};

/// Maximum other tools of the builder whose last decisions are shown.
const OTHERS: &str = "50";
/// Maximum changes shown to an admin who read an older revision.
const CHANGES: &str = "20";

pub(crate) async fn page(
    Admin(visitor): Admin,
    PathParams(slug): PathParams<String>,
    RawQuery(query): RawQuery,
) -> Result<Response, ApiRefusal> {
    let record = visitor.get(&format!("/ai/endpoints/{}", segment(&slug))).await?;
    let tool = &record["endpoint"];
    let (version, approved) = (text_of(tool, "version"), text_of(&tool["review"], "approvedVersion"));
    let now = uploaded(&visitor, &slug, version).await?;
    let before = if approved.is_empty() || approved == version { None } else { uploaded(&visitor, &slug, approved).await? };
    let builder = Some(text_of(tool, "owner")).filter(|owner| owner.starts_with("bld_"));
    let (mut others, mut events, mut owner) = (DropOffThread::default(), DropOffThread::default(), DropOffThread::default());
    if let Some(id) = builder {
        owner = visitor.get(&with_query("/ai/builders/me", [("builderId", id)])).await?;
        others = visitor.get(&with_query("/ai/builders/endpoints", [("builderId", id), ("limit", OTHERS)])).await?;
        let of = [("builderId", id), ("endpointSlug", &*slug), ("kind", "endpoint.updated"), ("limit", CHANGES)];
        events = visitor.get(&with_query("/ai/builders/events", of)).await?;
    }
    let next = visitor.get("/ai/admin/reviews?limit=2").await?;
    let simulated = visitor.plays().await?;
    let request = PageQuery::read(query.as_deref(), &["done", "read", "after", "from"]);
    let received = if request.get("done").is_empty() {
        came(tool, &events, request.get("read"), request.get("after"))
    } else {
        html! {}
    };
    let main = visitor
        .made(|| {
            let seen = ReviewView {
                visitor: &visitor,
                slug: &slug,
                tool,
                events: &events,
                from: request.get("from").parse().unwrap_or(1),
                simulated,
            };
            let now = UploadedVersion { version, handler: now.as_ref().map(|now| &now["handler"]) };
            let before = (!approved.is_empty())
                .then(|| UploadedVersion { version: approved, handler: before.as_ref().map(|before| &before["handler"]) });
            html! {
                (tabs::of_tool(&visitor, &slug, tabs::Tab::Review))
                (received)
                (view(&seen, before.as_ref(), &now, &others))
                (onward(&slug, &next))
            }
        })
        .await?;
    let heading = html! {
        h1 { (text::words(text_of(tool, "title"))) }
        p.marks { code { (text::words(&slug)) } (standing(tool)) span { "revision " (tool["revision"]) } span { "of " (owner_by_name(text_of(tool, "owner"), &owner["builder"]["name"])) } }
    };
    let page = Page {
        heading: Some(heading),
        style: Some("make.css"),
        ..Page::new(Area::Reviews, text_of(tool, "title"), main).under("/dashboard/admin/reviews", "Reviews")
    };
    Ok(visitor.show(page).await)
}

/// Fetches a version as uploaded, with a static response as its text. Returns `None` if there is none.
async fn uploaded(visitor: &Visitor, slug: &str, version: &str) -> Result<Option<DropOffThread>, ApiRefusal> {
    match visitor.get_handler(&with_query(&format!("/ai/endpoints/{}/source", segment(slug)), [("version", version)])).await {
        Ok(answer) => Ok(Some(answer)),
        Err(refused) if refused.is(Code::UnknownVersion) => Ok(None),
        Err(refused) => Err(refused),
    }
}

fn standing(tool: &Value) -> Markup {
    match text_of(&tool["review"], "state") {
        "taken_down" => state("taken down"),
        "content_review" => state("in review"),
        "content_blocked" => state("blocked"),
        "owner_suspended" => state("suspended"),
        _ => state(text_of(tool, "status")),
    }
}

/// The data of the page.
struct ReviewView<'a> {
    visitor: &'a Visitor,
    slug: &'a str,
    tool: &'a Value,
    events: &'a Value,
    /// First shown line of the source.
    from: usize,
    simulated: bool,
}

fn view(seen: &ReviewView, before: Option<&UploadedVersion>, now: &UploadedVersion, others: &Value) -> Markup {
    let ReviewView { visitor, slug, tool, events, .. } = *seen;
    let path = format!("/dashboard/admin/reviews/{}", segment(slug));
    let newest = text_of(&events["events"][0], "id");
    let revision = tool["revision"].to_string();
    let back = with_query(&path, [("read", &*revision), ("after", newest)]);
    let read = ReadTool { visitor, slug, tool, back: &back };
    let review = &tool["review"];
    let source = now.handler.filter(|handler| handler["source"].is_string()).map(changes::as_text);
    let found = entries(review, "findings");
    let part = SourcePart { from: seen.from, found: &findings::lines(found), path: &path };
    html! {
        div.split {
            div {
                section aria-labelledby="asked" { h2 #asked { "What is asked" } (requested(tool)) }
                section aria-labelledby="found" { h2 #found { "Findings" } (findings(found, source.as_deref(), &path)) }
                section aria-labelledby="fields" {
                    h2 #fields { "Fields" }
                    @if before.is_some() { (changes::fields(tool)) } @else { (all(tool, seen.simulated)) }
                }
                section aria-labelledby="handler" { h2 #handler { "Handler" } (changes::handler(before, now, &part)) }
            }
            aside aria-labelledby="decide" {
                h2 #decide { "Decide" }
                @if read.waits() { (review_form::answers(&read)) } @else { p.muted { "Nothing waits for a decision." } }
                (review_form::others(&read))
                h2 { "Its builder" }
                (history(tool, others))
            }
        }
    }
}

/// Shows what the tool requests, and since when.
fn requested(tool: &Value) -> Markup {
    let hosts: Vec<_> = entries(tool, "requestedHosts").iter().filter_map(Value::as_str).collect();
    let names: Vec<_> = capabilities::named(&tool["requestedCapabilities"]).collect();
    let review = &tool["review"];
    let content = match text_of(review, "state") {
        "content_review" => Some("waits for you, and answers no call"),
        "content_blocked" => Some("is held back: it was rejected, or a later rule blocks it"),
        _ => None,
    };
    facts::list(&[
        ("Content", content.map(|words| html! { (words) })),
        (
            "Asks for",
            (!names.is_empty()).then(|| {
                html! {
                    ul.plain { @for name in &names { li { code { (text::words(name)) } ": may " (capabilities::meaning(name)) } } }
                }
            }),
        ),
        ("Hosts", (!hosts.is_empty()).then(|| html! { ul.plain { @for host in &hosts { li { code { (text::words(host)) } } } } })),
        ("Has", Some(capabilities::had(tool))),
        ("Since", review["since"].is_string().then(|| moment(&review["since"]))),
        (
            "Approved",
            Some(html! {
                @match review["approvedVersion"].as_str() {
                    None => "never",
                    Some(version) if version == text_of(tool, "version") => "the version that runs",
                    Some(version) => { "version " (facts::id(version)) }
                }
            }),
        ),
        ("Last decision", review["decision"].is_object().then(|| decided(&review["decision"]))),
    ])
}

fn decided(decision: &Value) -> Markup {
    html! {
        (text_of(decision, "decision")) ", " (moment(&decision["at"]))
        @if let Some(reason) = decision["reason"].as_str() { ": " (text::words(reason)) }
    }
}

/// Shows all texts of a tool that was never approved.
fn all(tool: &Value, simulated: bool) -> Markup {
    let tags: Vec<_> = entries(tool, "tags").iter().filter_map(Value::as_str).collect();
    html! {
        (text::paragraphs(text_of(tool, "description")))
        (facts::list(&[
            ("Price", Some(money::price(tool, simulated))),
            ("Tags", (!tags.is_empty()).then(|| text::words(&tags.join(", ")))),
            ("Runs", Some(html! { code { (text_of(tool, "handlerType")) } ", tier " (text_of(tool, "tier")) })),
        ]))
        p { a href={ "/dashboard/tools/" (segment(text_of(tool, "slug"))) } { "Its page, with its schemas" } }
    }
}

/// Shows decisions about the builder's other tools.
fn history(tool: &Value, others: &Value) -> Markup {
    let id = text_of(tool, "owner");
    let tools: Vec<_> = entries(others, "endpoints").iter().filter(|other| other["slug"] != tool["slug"]).collect();
    let in_state = |requested: &[&str]| tools.iter().filter(|other| requested.contains(&text_of(other, "state"))).count();
    let decided_on: Vec<_> = tools.iter().filter(|other| other["decision"].is_object()).collect();
    if !id.starts_with("bld_") {
        return html! { p.muted { "It is this host's own." } };
    }
    html! {
        p { (owner(id)) }
        (facts::list(&[
            ("Other tools", Some(html! { (tools.len()) @if others["nextCursor"].is_string() { " or more" } })),
            ("Held back", Some(html! { (in_state(&["held", "rejected"])) })),
            ("Taken down", Some(html! { (in_state(&["taken_down"])) })),
        ]))
        @if !decided_on.is_empty() {
            ul.plain {
                @for other in decided_on.iter().take(5) {
                    li { a href={ "/dashboard/admin/reviews/" (segment(text_of(other, "slug"))) } { code { (text::words(text_of(other, "slug"))) } } ": " (decided(&other["decision"])) }
                }
            }
        }
    }
}

/// Shows changes since the revision that was read, so that a decision does not overwrite them
/// unnoticed.
fn came(tool: &Value, events: &Value, read: &str, after: &str) -> Markup {
    let now = tool["revision"].to_string();
    if read.is_empty() || read == now {
        return html! {};
    }
    let since: Vec<_> = entries(events, "events").iter().take_while(|event| after.is_empty() || text_of(event, "id") != after).collect();
    let decision = &tool["review"]["decision"];
    html! {
        section.notice aria-labelledby="came" {
            h2 #came { "It has changed since you read it" }
            p { "You read revision " (text::first(read, 20)) "; it is " (now) " now, which is what this page shows. What you decided then was not done." }
            ul.plain {
                @for event in since {
                    @let fields: Vec<_> = entries(&event["data"], "changed").iter().filter_map(Value::as_str).collect();
                    li { (moment(&event["at"])) ", by " (text::words(text_of(&event["data"], "by"))) ": " (text::words(&fields.join(", "))) }
                }
                @if decision.is_object() { li { "last decision: " (decided(decision)) } }
            }
        }
    }
}

/// Links to the next pending review.
fn onward(slug: &str, queue: &Value) -> Markup {
    let next = entries(queue, "reviews").iter().find(|review| review["slug"] != slug);
    html! {
        @if let Some(next) = next {
            p { a.button href={ "/dashboard/admin/reviews/" (segment(text_of(next, "slug"))) } { "Next: " (text::words(text_of(next, "title"))) } }
        }
    }
}

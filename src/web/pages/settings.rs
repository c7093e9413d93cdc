//! `/dashboard/tools/{slug}/settings`: pausing, limits, isolation, and deletion of a tool.

mod limits;

use maud::{Markup, html};
use tollhouse_account::session::SessionKind;
use tollhouse_api::{OwnEndpoint, ReviewState};
use tollhouse_front::PathParams;
use tollhouse_tool::Status;

use super::owner_pages;
use crate::{
    BackLink, Body, HeaderValue, IntoResponse as _, Method, Page, PageResult, PostedBySession, PostedForm, Redirect, SignedIn, StatusCode,
    Tab, Visitor, code, curl_command, form, forms::done, header, lazy_html, moment, page_frame::home, state, text, word,
};

/// Choices: value in the API and text.
const SETTLE_TIMES: [(&str, &str); 2] = [("after", "after the handler has succeeded"), ("before", "before the handler runs")];
const ISOLATIONS: [(&str, &str); 2] = [("warm", "many calls, one after another"), ("fresh", "one call, then stops")];

pub(crate) async fn page(SignedIn(visitor): SignedIn, PathParams(slug): PathParams) -> PageResult {
    show(&visitor, &slug, None).await
}

/// Deletes the tool if its name was typed.
pub(crate) async fn delete(PathParams(slug): PathParams, posted: PostedBySession) -> PageResult {
    let PostedBySession(PostedForm { visitor, fields, .. }) = posted;
    let typed = fields.get("typed").unwrap_or_default().trim();
    owner_pages::record(&visitor, &slug).await?;
    if typed != slug {
        return show(&visitor, &slug, Some(typed)).await;
    }
    let revision = fields.get("header:if-match").and_then(|revision| HeaderValue::from_str(revision).ok());
    let headers = revision.into_iter().map(|revision| (header::IF_MATCH, revision)).collect();
    let answer = visitor.send(Method::DELETE, &owner_pages::api_path(&slug), headers, Body::empty()).await;
    if !answer.status().is_success() {
        return Err(visitor.refused(answer).await.with(BackLink(back(&slug))));
    }
    let home = visitor.kind().map_or("/dashboard", home);
    Ok(Redirect::to(&done(&visitor, home, "deleteEndpoint")).into_response())
}

/// Shows the page, with an error if another text than the tool's name was typed.
async fn show(visitor: &Visitor, slug: &str, mistyped: Option<&str>) -> PageResult {
    let tool = &*owner_pages::record(visitor, slug).await?;
    let manifest = visitor.manifest().await?;
    let main = lazy_html! {
        section { h2 { "Calls" } (calls(visitor, slug, tool)) }
        section { h2 { "Limits" } (limits::limits(visitor, slug, tool, &manifest.builders.limits)) }
        section { h2 { "Payment" } (settle(visitor, slug, tool)) }
        section { h2 { "Isolation" } (isolation(visitor, slug, tool)) }
        section { h2 { "Delete" } (deletion(visitor, slug, tool, mistyped)) }
    };
    let main = visitor.render(main).await?;
    let status = if mistyped.is_some() { StatusCode::UNPROCESSABLE_ENTITY } else { StatusCode::OK };
    Ok(visitor.show(Page { status, ..owner_pages::page(visitor, slug, Tab::Settings, format!("Settings of {slug}"), &main) }).await)
}

fn back(slug: &str) -> String {
    owner_pages::page_path(slug, "settings")
}

/// Returns why the tool takes no calls, if that is not its owner's decision.
fn hold_reason(review: ReviewState) -> Option<&'static str> {
    match review {
        ReviewState::ContentReview => Some("The scan found something that an admin must review first."),
        ReviewState::ContentBlocked => Some("The current rules refuse the content. Change it and publish it again."),
        ReviewState::OwnerSuspended => Some("The builder is suspended. Only an admin can restore a builder."),
        ReviewState::TakenDown => Some("An admin has taken the tool down."),
        ReviewState::None | ReviewState::CapabilitiesRequested => None,
    }
}

fn calls(visitor: &Visitor, slug: &str, tool: &OwnEndpoint) -> Markup {
    let (review, status) = (&tool.review, tool.common.status);
    let reason = review.decision.as_ref().and_then(|decision| decision.reason.as_deref());
    let change = |to: &str, button: Markup| update(visitor, slug, tool, form::hidden("text:/status", to), button);
    html! {
        p { (state(&word(status))) }
        @if let Some(cause) = hold_reason(review.state) {
            p.words { (cause) @if let Some(since) = review.since { " Since " (moment(since)) "." } }
            @if let Some(reason) = reason.filter(|reason| !reason.is_empty()) {
                p.words { "Reason: " (text::line(reason)) }
            }
        } @else if status == Status::Active {
            p.words { "While the tool is paused, calls are refused and nothing is charged. Running calls continue to their end." }
            (change("paused", html! { button { "Pause" } }))
        } @else {
            p.words { "The tool takes no calls. Each call is refused, and nothing is charged." }
            (change("active", html! { button.primary { "Resume" } }))
        }
    }
}

/// Returns the form for a change of one field.
fn update(visitor: &Visitor, slug: &str, tool: &OwnEndpoint, field: Markup, button: Markup) -> Markup {
    let fields = html! { (field) (owner_pages::if_match(tool)) (button) };
    form::operation(visitor, "updateEndpoint", &[("slug", slug)], &back(slug), fields)
}

fn settle(visitor: &Visitor, slug: &str, tool: &OwnEndpoint) -> Markup {
    let choice = form::choice("settle", "text:/settle", "A call is charged", &SETTLE_TIMES, &word(tool.settle));
    html! {
        p.words {
            "After: a call that fails costs nothing. Before: the payment is settled first, and then the handler runs. Use this for tools that send, order or spend something. "
            "If such a run fails, the caller can repeat it with the same payment."
        }
        (update(visitor, slug, tool, choice, html! { button { "Save payment" } }))
    }
}

fn isolation(visitor: &Visitor, slug: &str, tool: &OwnEndpoint) -> Markup {
    let choice = form::choice("isolation", "text:/isolation", "A process serves", &ISOLATIONS, &word(tool.isolation));
    html! {
        p.words {
            "A warm process answers faster, and keeps the handler's variables for the next call, whoever makes that call. "
            "A fresh process starts each call without variables of earlier calls."
        }
        (update(visitor, slug, tool, choice, html! { button { "Save isolation" } }))
    }
}

fn deletion(visitor: &Visitor, slug: &str, tool: &OwnEndpoint, mistyped: Option<&str>) -> Markup {
    let command = format!("{} \\\n  -X DELETE", curl_command(visitor, &owner_pages::api_path(slug)));
    html! {
        p.words {
            "Deletes the handler, the log, the secrets, and all stored keys and files at once. This cannot be undone. "
            "Receipts, revenue and payouts stay. The name " code { (text::words(slug)) }
            " stays " (if visitor.kind() == Some(SessionKind::Admin) { "reserved for its owner" } else { "yours" }) ": nobody else can take it."
        }
        @if let Some(typed) = mistyped {
            p.problem role="alert" {
                "Nothing was deleted: "
                @if typed.is_empty() { "the name was not typed." } @else { "the name is not " code { (text::first(typed, 100)) } "." }
            }
        }
        form.ask method="post" action=(back(slug)) {
            (form::token(visitor))
            (owner_pages::if_match(tool))
            div.field.wide {
                label for="typed" { "Type " code { (text::words(slug)) } " to delete it" }
                input #typed name="typed" required autocomplete="off" spellcheck="false" autocapitalize="off";
            }
            button.danger { "Delete" }
        }
        (code::block("Command line", "sh", &command))
    }
}

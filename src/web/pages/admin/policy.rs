//! `/dashboard/admin/policy`: what builders can do without approval, and their limits.

use axum::{http::header, response::Response};
use maud::{Markup, html};
use serde_json::Value;
use tollhouse_protocol::limits::TABLE;

use super::{
    capabilities,
    shared::{Admin, counted, entries, only_admins, text_of, tiers},
};
use crate::{
    forms::{self, PostedBySession, PostedForm},
    page::{Area, BackLink, Page},
    parts::{
        form,
        page_links::tool,
        table::{Column, table},
        text::grouped,
    },
    visitor::{ApiRefusal, Visitor},
};

const PATH: &str = "/dashboard/admin/policy";

pub(crate) async fn page(Admin(visitor): Admin) -> Result<Response, ApiRefusal> {
    // Read the revision first. If the policy changes before it is read, the form will be refused.
    let head = visitor.head("/ai/admin/policy").await;
    let revision = head.get(header::ETAG).and_then(|revision| revision.to_str().ok()).unwrap_or_default();
    let found = visitor.get("/ai/admin/policy").await?;
    let main = html! {
        p.lead { "The policy holds for what builders do from now on. Only lower ceilings and a stricter tier reach tools that are there already, and those at once." }
        (edited(&visitor, &found["policy"], revision))
    };
    Ok(visitor.show(shown_page(main)).await)
}

/// Shows what the edited policy would narrow. Saves nothing, and editing continues.
pub(crate) async fn look(posted: PostedBySession) -> Result<Response, ApiRefusal> {
    let PostedBySession(PostedForm { visitor, fields, .. }) = posted;
    only_admins(&visitor)?;
    let back = |refused: ApiRefusal| refused.with(BackLink(PATH.to_owned()));
    let draft = visitor.made(|| forms::body(&fields)).await?.map_err(|fault| back(fault.into()))?;
    let answer = visitor.fetch_about("/ai/admin/policy/check", &draft).await.map_err(back)?;
    let main = html! {
        (narrowing(&answer["narrows"]))
        (edited(&visitor, &draft, fields.get("header:if-match").unwrap_or_default()))
    };
    Ok(visitor.show(shown_page(main)).await)
}

fn shown_page(main: Markup) -> Page {
    Page { style: Some("make.css"), ..Page::new(Area::Policy, "Policy", main) }
}

fn narrowing(narrows: &Value) -> Markup {
    let count = |name: &str| narrows[name].as_u64().unwrap_or_default();
    html! {
        section.came aria-labelledby="narrows" {
            h2 #narrows { "Nothing is saved yet" }
            @if count("endpoints") == 0 { p { "Saved like this, it narrows no tool that is there." } }
            @else {
                p { "Saved like this, it narrows " (counted(count("endpoints"), "tool", "tools")) " that " (if count("endpoints") == 1 { "is" } else { "are" }) " there, at once:" }
                ul.plain {
                    @for (name, tools) in narrows["limits"].as_object().into_iter().flatten() { li { code { (name) } " of " (tools) } }
                    @if count("tier") > 0 { li { "a stricter tier for " (count("tier")) } }
                    @if count("longRunning") > 0 { li { (count("longRunning")) " would stop being long-running" } }
                }
                p {
                    @for (position, slug) in entries(narrows, "slugs").iter().filter_map(Value::as_str).enumerate() { @if position > 0 { ", " } (tool(slug)) }
                    @if count("endpoints") > entries(narrows, "slugs").len() as u64 { ", …" }
                }
            }
        }
    }
}

fn edited(visitor: &Visitor, policy: &Value, revision: &str) -> Markup {
    let fields = html! {
        input type="hidden" name="header:if-match" value=(revision);
        fieldset {
            legend { "Granted when a builder asks" }
            @for (name, granted) in policy["builderCapabilities"].as_object().into_iter().flatten() {
                div.box {
                    input type="hidden" name={ "flag:/builderCapabilities/" (name) } value="false";
                    input #{ "free-" (name) } type="checkbox" name={ "flag:/builderCapabilities/" (name) } value="true" checked[*granted == true];
                    label for={ "free-" (name) } { code { (name) } ": may " (capabilities::meaning(name)) }
                }
            }
            p.note { "What is not ticked is asked of an admin. Taking one out revokes nothing that was granted before." }
        }
        fieldset {
            legend { "Reviews" }
            div.box {
                input type="hidden" name="flag:/requireReview" value="false";
                input #review type="checkbox" name="flag:/requireReview" value="true" checked[policy["requireReview"] == true];
                label for="review" { "Every upload of a builder waits for an admin" }
            }
        }
        (form::field("tier", "Least strict tier of builders' tools", None, tiers("tier", "text:/tier", text_of(policy, "tier"), None)))
        (form::field("most", "Tools of one builder at most", None, html! {
            input #most name="number:/maxEndpointsPerBuilder" inputmode="numeric" value=(shown(&policy["maxEndpointsPerBuilder"]));
        }))
        (ceilings(&policy["limits"]))
        div.buttons {
            button formaction=(PATH) { "Show what it narrows" }
            button.primary { "Save the policy" }
        }
    };
    form::of(visitor, "setPolicy", &[], PATH, fields)
}

/// Returns a number for its field, or an empty string if there is none.
fn shown(number: &Value) -> String {
    if number.is_null() { String::new() } else { number.to_string() }
}

/// Shows fields for the ceilings of builders' limits, with the default and the highest possible
/// value of each.
fn ceilings(limits: &Value) -> Markup {
    let columns = [Column::Words("Limit"), Column::Number("Default"), Column::Words("Ceiling"), Column::Number("Highest")];
    html! {
        fieldset {
            legend { "Ceilings of builders' limits" }
            (table("Ceilings", columns, TABLE.iter().map(|row| [
                html! { label for={ "limit-" (row.name) } { code { (row.name) } } p.note { (row.what) } },
                html! { (grouped(row.default)) },
                html! {
                    span.unit {
                        input #{ "limit-" (row.name) } name={ "number:/limits/" (row.name) } inputmode="numeric" value=(shown(&limits[row.name]));
                        (row.unit)
                    }
                },
                html! { (grouped(row.ceiling)) },
            ])))
        }
    }
}

//! `/dashboard/admin/policy`: what builders can do without approval, and their limits.

use maud::{Markup, html};
use serde::Deserialize as _;
use serde_json::{Map, Value};
use tollhouse_api::{Narrowing, Policy, PolicyCheckResponse, PolicyDraft, PolicyResponse};
use tollhouse_base::plural::plural;
use tollhouse_front::{ApiError, Code};
use tollhouse_protocol::limits::TABLE;
use tollhouse_tool::Capability;

use super::{
    capabilities,
    shared::{Admin, only_admins, tiers},
};
use crate::{
    ApiRefusal, Area, BackLink, Number, Page, PageResult, PostedBySession, PostedForm, Visitor, Words, form, forms, header,
    page_links::tool, table, text::grouped,
};

const PATH: &str = "/dashboard/admin/policy";

pub(crate) async fn page(Admin(visitor): Admin) -> PageResult {
    // Read the revision first. If the policy changes before it is read, the form will be refused.
    let head = visitor.head("/ai/admin/policy").await;
    let revision = head.get(header::ETAG).and_then(|revision| revision.to_str().ok()).unwrap_or_default();
    let found = visitor.get::<PolicyResponse>("/ai/admin/policy").await?;
    let main = html! {
        p.lead { "The policy applies to what builders do from now on. Lower ceilings and a stricter tier also apply to existing tools, at once." }
        (edited(&visitor, &draft_of(&found.policy), revision))
    };
    Ok(visitor.show(shown_page(main)).await)
}

/// Shows what the edited policy would narrow. Saves nothing, and editing continues.
pub(crate) async fn look(posted: PostedBySession) -> PageResult {
    let PostedBySession(PostedForm { visitor, fields, .. }) = posted;
    only_admins(&visitor)?;
    let back = |refused: ApiRefusal| refused.with(BackLink(PATH.to_owned()));
    let draft = visitor.render(|| forms::body(&fields)).await?.map_err(|fault| back(fault.into()))?;
    let answer = visitor.post::<PolicyCheckResponse>("/ai/admin/policy/check", &draft).await.map_err(back)?;
    let draft = PolicyDraft::deserialize(&draft).map_err(|_| ApiError::from(Code::InvalidRequest))?;
    let main = html! {
        (narrowing(&answer.narrows))
        (edited(&visitor, &draft, fields.get("header:if-match").unwrap_or_default()))
    };
    Ok(visitor.show(shown_page(main)).await)
}

fn shown_page(main: Markup) -> Page {
    Page { style: Some("make.css"), ..Page::new(Area::Policy, "Policy", main) }
}

fn narrowing(narrows: &Narrowing) -> Markup {
    let count = narrows.endpoints;
    html! {
        section.came aria-labelledby="narrows" {
            h2 #narrows { "Nothing is saved yet" }
            @if count == 0 { p { "This policy would not restrict any existing tools." } }
            @else {
                p { "This policy would restrict " (plural(count, "existing tool")) " at once:" }
                ul.plain {
                    @for (name, tools) in &narrows.limits.0 { li { code { (name) } " of " (tools) } }
                    @if narrows.tier > 0 { li { "a stricter tier for " (narrows.tier) } }
                    @if narrows.long_running > 0 { li { (narrows.long_running) " would stop being long-running" } }
                }
                p {
                    @for (position, slug) in narrows.slugs.iter().enumerate() { @if position > 0 { ", " } (tool(slug)) }
                    @if count > narrows.slugs.len() as u64 { ", …" }
                }
            }
        }
    }
}

/// Returns the draft that sets this policy.
fn draft_of(policy: &Policy) -> PolicyDraft {
    PolicyDraft {
        builder_capabilities: Some(policy.builder_capabilities),
        limits: policy.limits.0.clone(),
        tier: policy.tier,
        require_review: policy.require_review,
        max_endpoints_per_builder: Some(policy.max_endpoints_per_builder),
    }
}

fn edited(visitor: &Visitor, policy: &PolicyDraft, revision: &str) -> Markup {
    let granted = policy.builder_capabilities.unwrap_or_default();
    let fields = html! {
        input type="hidden" name="header:if-match" value=(revision);
        fieldset {
            legend { "Granted without approval" }
            @for capability in Capability::ALL.iter().copied() {
                @let name = capability.row().name;
                div.box {
                    input type="hidden" name={ "flag:/builderCapabilities/" (name) } value="false";
                    input #{ "free-" (name) } type="checkbox" name={ "flag:/builderCapabilities/" (name) } value="true" checked[granted.has(capability)];
                    label for={ "free-" (name) } { code { (name) } ": can " (capabilities::meaning(name)) }
                }
            }
            p.note { "All others need approval by an admin. Removing a capability here does not revoke earlier grants." }
        }
        fieldset {
            legend { "Reviews" }
            div.box {
                input type="hidden" name="flag:/requireReview" value="false";
                input #review type="checkbox" name="flag:/requireReview" value="true" checked[policy.require_review];
                label for="review" { "Every upload of a builder waits for review" }
            }
        }
        (form::field("tier", "Least strict tier allowed for builders' tools", None, tiers("tier", "text:/tier", Some(policy.tier), None)))
        (form::field("most", "Maximum number of tools per builder", None, html! {
            input #most name="number:/maxEndpointsPerBuilder" inputmode="numeric" value=[policy.max_endpoints_per_builder];
        }))
        (ceilings(&policy.limits))
        div.buttons {
            button formaction=(PATH) { "Preview the effect" }
            button.primary { "Save the policy" }
        }
    };
    form::operation(visitor, "setPolicy", &[], PATH, fields)
}

/// Shows fields for the ceilings of builders' limits, with the default and the highest possible
/// value of each.
fn ceilings(limits: &Map<String, Value>) -> Markup {
    let columns = [Words("Limit"), Number("Default"), Words("Ceiling"), Number("Maximum")];
    html! {
        fieldset {
            legend { "Ceilings for builders' limits" }
            (table("Ceilings", columns, TABLE.iter().map(|row| [
                html! { label for={ "limit-" (row.name) } { code { (row.name) } } p.note { (row.what) } },
                html! { (grouped(row.default)) },
                html! {
                    span.unit {
                        input #{ "limit-" (row.name) } name={ "number:/limits/" (row.name) } inputmode="numeric" value=[limits.get(row.name).filter(|limit| !limit.is_null())];
                        (row.unit)
                    }
                },
                html! { (grouped(row.ceiling)) },
            ])))
        }
    }
}

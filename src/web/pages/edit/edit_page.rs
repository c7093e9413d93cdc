//! The page: the result of the last button, and the form as typed.

use maud::{Markup, html};
use tollhouse_account::session::SessionKind;
use tollhouse_api::{Manifest, OwnEndpoint, ReviewState, SafetyPolicyResponse};

use super::{
    current::{CurrentTool, InitialForm},
    draft::ToolDraft,
    feedback::{self, Feedback},
    fields::{self, FormContext},
    problems,
};
use crate::{Area, Page, PageResult, StatusCode, Tab, Visitor, form, pages::owner_pages, state, text, word};

/// Path of the form for a new tool.
const NEW: &str = "/dashboard/new";

pub(super) struct EditPage<'a> {
    pub(super) visitor: &'a Visitor,
    /// Empty for a new tool.
    pub(super) slug: String,
    /// Its record. `None` for a new tool.
    tool: Option<&'a OwnEndpoint>,
    pub(super) draft: ToolDraft,
    pub(super) given: InitialForm,
}

impl<'a> EditPage<'a> {
    pub(super) fn new(visitor: &'a Visitor, draft: ToolDraft) -> Self {
        let given = InitialForm { base: ToolDraft::default(), revision: 0, version: String::new() };
        Self { visitor, slug: String::new(), tool: None, draft, given }
    }

    pub(super) fn for_tool(visitor: &'a Visitor, slug: &str, now: &'a CurrentTool, draft: ToolDraft, given: InitialForm) -> Self {
        Self { visitor, slug: slug.to_owned(), tool: Some(&now.tool), draft, given }
    }

    fn is_new(&self) -> bool {
        self.slug.is_empty()
    }

    /// Returns whether the host keeps all earnings, as for tools that an admin creates.
    fn is_hosts_own(&self) -> bool {
        self.tool.map_or(self.visitor.kind() == Some(SessionKind::Admin), |tool| tool.owner == "platform")
    }

    /// Returns whether the form has another handler than it was opened with.
    pub(super) fn runs_draft(&self) -> bool {
        ["source", "kind"].iter().any(|name| self.draft.get(name) != self.given.base.get(name))
    }

    /// Returns the page without a result.
    pub(super) async fn answer(self) -> PageResult {
        self.with(Feedback::Nothing, StatusCode::OK).await
    }

    /// Shows the other change, before the user continues from it.
    pub(super) async fn conflict(self, now: &CurrentTool) -> PageResult {
        let rendered = Feedback::Conflict { base: self.given.base.clone(), theirs: now.draft.clone(), revision: now.tool.revision };
        self.with(rendered, StatusCode::PRECONDITION_FAILED).await
    }

    /// Returns the form based on the latest revision, with the typed text.
    pub(super) async fn next_step(mut self, now: &CurrentTool) -> PageResult {
        let taken = self.draft.next_step(&self.given.base, &now.draft);
        self.given = now.given();
        self.with(Feedback::Went { revision: now.tool.revision, taken }, StatusCode::OK).await
    }

    pub(super) async fn with(self, rendered: Feedback, status: StatusCode) -> PageResult {
        let manifest = self.visitor.manifest().await?;
        let policy = match rendered {
            Feedback::Review { .. } => Some(self.visitor.get::<SafetyPolicyResponse>("/ai/content-safety/policy").await?),
            _ => None,
        };
        let statement = policy.as_ref().map_or("", |answer| &answer.policy.attestation.statement);
        let main = self.visitor.render(|| self.view(&rendered, manifest, statement)).await?;
        let page = if self.is_new() {
            Page { style: Some("make.css"), ..Page::new(Area::Tools, "New tool", main) }.under("/dashboard", "Tools")
        } else {
            owner_pages::page(self.visitor, &self.slug, Tab::Edit, format!("Edit {}", self.slug), &main)
        };
        Ok(self.visitor.show(Page { status, script: Some("edit.js"), ..page }).await)
    }

    fn view(&self, rendered: &Feedback, manifest: &Manifest, statement: &str) -> Markup {
        let builders = &manifest.builders;
        let fee_bps = if self.is_hosts_own() { 0 } else { builders.fee_bps };
        let known = FormContext {
            tool: self.tool,
            at_once: &builders.capabilities,
            problems: rendered.all_problems(),
            fee_bps: fee_bps.into(),
            gets: if self.visitor.kind() == Some(SessionKind::Admin) { "the builder gets" } else { "you get" },
            simulated: manifest.payment.simulated,
        };
        let position = if self.is_new() { NEW.to_owned() } else { owner_pages::page_path(&self.slug, "edit") };
        html! {
            @match self.tool {
                Some(tool) => (state_summary(tool)),
                None => p.lead { "Describe the input, the output and the price of your tool, and write its code. Nobody else sees it before you publish it." },
            }
            form.sheet #sheet method="post" action=(position) data-slug=(self.slug) data-revision=(self.given.revision) data-owner=(self.visitor.session().map_or("", |session| &session.owner))
                data-began[matches!(rendered, Feedback::Nothing)] {
                (form::token(self.visitor))
                // The first button of a form is what Enter in a field activates.
                button.aside name="do" value="check" tabindex="-1" aria-hidden="true" { "Check" }
                @if !self.is_new() {
                    input type="hidden" name="revision" value=(self.given.revision);
                    input type="hidden" name="version" value=(self.given.version);
                    input type="hidden" name="base" value=(self.given.base.to_json());
                }
                @if matches!(rendered, Feedback::Review { .. }) { input type="hidden" name="reviewed" value=(self.draft.name()); }
                div #told { (feedback::view(rendered, &self.draft, self.tool, statement, self.visitor.kind())) }
                (fields::details(&self.draft, &known, self.is_new()))
                (fields::handler(&self.draft, &known, self.is_new()))
                (fields::schemas(&self.draft, &known))
                (fields::reach(&self.draft, &known))
                @if !self.is_new() { (fields::run(&self.draft, &known)) }
                p.buttons.bar-below {
                    button name="do" value="check" data-keys="s" { "Check" }
                    @if !self.is_new() { button name="do" value="run" data-keys="Enter" { "Run" } }
                    button.primary name="do" value="review" { "Review and publish" }
                }
                p.note {
                    @if self.is_new() { "Check stores nothing and costs nothing. To run the tool before anyone can call it, publish it paused." }
                    @else { "Check and Run store nothing and cost nothing." }
                }
            }
        }
    }
}

/// Shows the tool's state and findings.
fn state_summary(tool: &OwnEndpoint) -> Markup {
    let review = &tool.review;
    html! {
        p.marks {
            (state(&word(tool.common.status)))
            span { "revision " (tool.revision) }
            @match review.state {
                ReviewState::None => {},
                ReviewState::CapabilitiesRequested => { (state("in review")) span { "its requests wait for an admin" } }
                ReviewState::ContentReview => { (state("in review")) span { "an admin must review the content first" } }
                other => { (state("refused")) span { (text::words(word(other).replace('_', " "))) } }
            }
        }
        @if !review.findings.is_empty() {
            section {
                h2 { "Findings in the published version" }
                (problems::findings(&review.findings))
            }
        }
    }
}

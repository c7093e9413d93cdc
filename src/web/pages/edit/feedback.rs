//! The result of a button: problems, the outcome of a check or run, the changes to publish, or
//! somebody else's changes.

mod change;
mod run_result;

use maud::{Markup, html};
use tollhouse_account::session::SessionKind;
use tollhouse_api::{DryRunResponse, EndpointCheckResponse, ErrorDetails, OwnEndpoint};

use super::{
    draft::ToolDraft,
    problems::{self, Problem},
};
use crate::Answer;

/// The result of a button.
pub(super) enum Feedback {
    Nothing,
    Problems(Vec<Problem>),
    Checked(Answer<EndpointCheckResponse>),
    /// The answer to a run, with the text of its result.
    Ran(Answer<DryRunResponse>),
    /// The changes to publish, compared with the existing tool unless it is new.
    Review {
        before: Option<ToolDraft>,
        /// Publishing was refused because the attestation was missing.
        unvouched: bool,
    },
    /// Somebody else has changed the tool.
    Conflict {
        base: ToolDraft,
        theirs: ToolDraft,
        revision: u64,
    },
    /// The form now continues from another change. These fields were taken from it.
    Went {
        revision: u64,
        taken: Vec<&'static str>,
    },
}

impl Feedback {
    pub(super) fn problems(error: &ErrorDetails) -> Self {
        Self::Problems(problems::each(error))
    }

    pub(super) fn all_problems(&self) -> &[Problem] {
        if let Self::Problems(problems) = self { problems } else { &[] }
    }
}

pub(super) fn view(
    rendered: &Feedback,
    draft: &ToolDraft,
    tool: Option<&OwnEndpoint>,
    statement: &str,
    kind: Option<SessionKind>,
) -> Markup {
    match rendered {
        Feedback::Nothing => html! {},
        Feedback::Problems(problems) => problems::render_problems(problems),
        Feedback::Checked(answer) => run_result::checked(&answer.check),
        Feedback::Ran(answer) => run_result::ran(&answer.run, tool),
        Feedback::Review { before, unvouched } => {
            let statement = (kind == Some(SessionKind::Builder)).then_some(statement);
            change::review(before.as_ref(), draft, statement, *unvouched)
        }
        Feedback::Conflict { base, theirs, revision } => change::conflict(base, theirs, draft, *revision),
        Feedback::Went { revision, taken } => change::went(*revision, taken),
    }
}

//! The result of a button: problems, the outcome of a check or run, the changes to publish, or
//! somebody else's changes.

mod change;
mod outcome;

use maud::{Markup, html};
use serde_json::Value;
use tollhouse_account::session::Kind;
use tollhouse_base::aside::Bulk;

use super::{draft::Draft, problems};

/// The result of a button.
pub(super) enum Told {
    Nothing,
    /// Problems in the API's format.
    Problems(Vec<Value>),
    /// The answer to a check.
    Checked(Bulk),
    /// The answer to a run, with the text of its result.
    Ran(Bulk),
    /// The changes to publish, compared with the existing tool unless it is new.
    Review {
        before: Option<Draft>,
        /// Publishing was refused because the attestation was missing.
        unvouched: bool,
    },
    /// Somebody else has changed the tool.
    Conflict {
        base: Draft,
        theirs: Draft,
        revision: u64,
    },
    /// The form now continues from another change. These fields were taken from it.
    Went {
        revision: u64,
        taken: Vec<&'static str>,
    },
}

impl Told {
    /// Returns the problems of a refusal.
    pub(super) fn problems(error: &Value) -> Self {
        Self::Problems(problems::each(error))
    }

    /// Returns the problems.
    pub(super) fn wrong(&self) -> &[Value] {
        if let Self::Problems(problems) = self { problems } else { &[] }
    }
}

pub(super) fn view(told: &Told, draft: &Draft, tool: &Value, statement: &str, kind: Option<Kind>) -> Markup {
    match told {
        Told::Nothing => html! {},
        Told::Problems(problems) => problems::told(problems),
        Told::Checked(answer) => outcome::checked(&answer["check"]),
        Told::Ran(answer) => outcome::ran(&answer["run"], tool),
        Told::Review { before, unvouched } => {
            let statement = (kind == Some(Kind::Builder)).then_some(statement);
            change::review(before.as_ref(), draft, statement, *unvouched)
        }
        Told::Conflict { base, theirs, revision } => change::conflict(base, theirs, draft, *revision),
        Told::Went { revision, taken } => change::went(*revision, taken),
    }
}

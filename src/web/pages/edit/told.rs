//! What came of a button: what is wrong, what a check or a run said, what publishing would change, what somebody else has changed.

mod change;
mod outcome;

use maud::{Markup, html};
use serde_json::Value;
use tollhouse_account::session::Kind;
use tollhouse_base::aside::Bulk;

use super::{draft::Draft, problems};

/// What came of a button.
pub(super) enum Told {
    Nothing,
    /// As the API tells problems.
    Problems(Vec<Value>),
    /// The answer to a check.
    Checked(Bulk),
    /// The answer to a run.
    Ran(Bulk),
    /// What is published next; with what is there, unless it is new.
    Review {
        before: Option<Draft>,
        /// It was to be published, and nobody had vouched for it.
        unvouched: bool,
    },
    /// Somebody else made a change.
    Conflict {
        base: Draft,
        theirs: Draft,
        revision: u64,
    },
    /// It goes on from another change, with these fields as they are there.
    Went {
        revision: u64,
        taken: Vec<&'static str>,
    },
}

impl Told {
    /// What a refusal says.
    pub(super) fn problems(error: &Value) -> Self {
        Self::Problems(problems::each(error))
    }

    /// What is wrong.
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

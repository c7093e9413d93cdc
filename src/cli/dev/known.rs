//! What the host of a folder was given last.

use std::{collections::BTreeSet, sync::Arc};

use serde_json::{Map, Value};

use crate::trial::Secret;

/// A body, and the secrets beside it.
type Given = (Map<String, Value>, Arc<Vec<Secret>>);

/// What the host was given last.
#[derive(Default)]
pub(super) struct Known {
    /// A body and secrets; nothing from before a publish until its end, which one that is given up does not come to.
    pub(super) given: Option<Given>,
    /// Names of the secrets that were set, with those that have gone since.
    pub(super) names: BTreeSet<String>,
}

impl Known {
    /// Whether it is this, wherever the secrets stand.
    pub(super) fn is(&self, body: &Map<String, Value>, secrets: &[Secret]) -> bool {
        let same = |(one, other): (&Secret, &Secret)| one.name == other.name && one.value == other.value;
        self.given.as_ref().is_some_and(|(given, held)| given == body && held.len() == secrets.len() && held.iter().zip(secrets).all(same))
    }

    /// Those that were set and are none of `secrets`.
    pub(super) fn gone(&self, secrets: &[Secret]) -> Vec<String> {
        self.names.iter().filter(|name| secrets.iter().all(|secret| secret.name != **name)).cloned().collect()
    }
}

//! The context of `dev` for one folder.

use std::{collections::BTreeSet, path::PathBuf, sync::Arc};

use serde_json::{Map, Value};
use tokio::sync::Mutex;
use tollhouse_tool::MicroUsd;

use super::reporter::Reporter;
use crate::{local::LocalHost, trial::Secret};

/// The context of `dev` for one folder.
pub(super) struct Workspace {
    pub(super) folder: PathBuf,
    pub(super) price: Option<MicroUsd>,
    pub(super) env: Option<PathBuf>,
    pub(super) types: bool,
    pub(super) host: Arc<LocalHost>,
    pub(super) reporter: Reporter,
    /// Locked while something is published.
    pub(super) known: Mutex<LastUpload>,
}

/// A request body and the secrets that go with it.
type UploadBody = (Map<String, Value>, Arc<Vec<Secret>>);

/// The version that was last published to the private host.
#[derive(Default)]
pub(super) struct LastUpload {
    /// The body and secrets. `None` during a publish, and after one that was aborted.
    pub(super) given: Option<UploadBody>,
    /// Names of all secrets ever set.
    pub(super) names: BTreeSet<String>,
}

impl LastUpload {
    /// Returns whether body and secrets are the same, wherever the secrets are defined.
    pub(super) fn is(&self, body: &Map<String, Value>, secrets: &[Secret]) -> bool {
        let same = |(one, other): (&Secret, &Secret)| one.name == other.name && one.value == other.value && one.hosts == other.hosts;
        self.given.as_ref().is_some_and(|(given, held)| given == body && held.len() == secrets.len() && held.iter().zip(secrets).all(same))
    }

    /// Returns the names of secrets that were set but are not in `secrets`.
    pub(super) fn forget(&self, secrets: &[Secret]) -> Vec<String> {
        self.names.iter().filter(|name| secrets.iter().all(|secret| secret.name != **name)).cloned().collect()
    }
}

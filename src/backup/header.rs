//! What a dump says of the host that it is of.

use serde::{Deserialize, Serialize};
use tollhouse_base::clock::Timestamp;
use tollhouse_store::Store;

use super::BackupError;

/// What a dump says of itself.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Header {
    /// Of the program that wrote it.
    pub version: String,
    /// When it was begun.
    pub at: Timestamp,
    /// What held the rows, in one word.
    pub backend: String,
    /// The keys without which the rows are not of use.
    pub keys: Ids,
}

impl Header {
    /// Of this version, which copies this store.
    #[must_use]
    pub fn of(store: &dyn Store, at: Timestamp, keys: Ids) -> Self {
        Self { version: env!("CARGO_PKG_VERSION").to_owned(), at, backend: store.sizes().backend.to_owned(), keys }
    }
}

/// A host's keys, by their ids.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Ids {
    /// What receipts are signed by. None where there was no such key yet.
    pub receipt: Option<String>,
    /// What secrets are sealed by.
    pub master: Option<String>,
}

impl Ids {
    /// Refuses a host that has not the keys that these name. It is asked of its own by `has`: whether it has one, and else what it has.
    ///
    /// # Errors
    ///
    /// [`BackupError::Key`] names the first that is missing.
    pub fn are_had(
        &self,
        receipt: impl Fn(&str) -> Result<(), String>,
        master: impl Fn(&str) -> Result<(), String>,
    ) -> Result<(), BackupError> {
        if let Some(theirs) = &self.receipt {
            let other = |ours| BackupError::Key { what: "receipt", file: "receipt-key.pem", theirs: theirs.clone(), ours };
            receipt(theirs).map_err(other)?;
        }
        if let Some(theirs) = &self.master {
            let other = |ours| BackupError::Key { what: "master", file: "master-key", theirs: theirs.clone(), ours };
            master(theirs).map_err(other)?;
        }
        Ok(())
    }
}

//! The header of a dump, which describes the host that it was made from.

use serde::{Deserialize, Serialize};
use tollhouse_base::clock::Timestamp;
use tollhouse_store::Store;

use super::BackupError;

/// The header of a dump.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Header {
    /// Version of the program that wrote it.
    pub version: String,
    /// When it was begun.
    pub at: Timestamp,
    /// The store's backend, in one word.
    pub backend: String,
    /// The keys without which the rows are useless.
    pub keys: Ids,
}

impl Header {
    /// Creates the header for a copy of this store by this version.
    pub fn of(store: &dyn Store, at: Timestamp, keys: Ids) -> Self {
        Self { version: env!("CARGO_PKG_VERSION").to_owned(), at, backend: store.sizes().backend.to_owned(), keys }
    }
}

/// The ids of a host's keys.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Ids {
    /// The key that signs receipts. `None` if there was none yet.
    pub receipt: Option<String>,
    /// The key that encrypts secrets.
    pub master: Option<String>,
}

impl Ids {
    /// Checks that the host has these keys. Each function returns the host's own key id, as an error, if the given one
    /// differs.
    pub fn check_owned(
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

//! The header of a dump, which describes the host that it was made from.

use serde::{Deserialize, Serialize};
use tollhouse_base::clock::Timestamp;
use tollhouse_store::Store;

/// The header of a dump.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
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
pub struct Ids {
    /// The key that signs receipts. `None` if there was none yet.
    pub receipt: Option<String>,
    /// The key that encrypts secrets.
    pub master: Option<String>,
}

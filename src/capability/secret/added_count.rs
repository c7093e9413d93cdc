//! The number of names ever added to a tool's secrets, by which concurrent hosts keep its limit.

use tollhouse_base::id::EndpointId;
use tollhouse_store::{Batch, Durability, Formatted, Store, StoreError, Table, schema};

pub(super) const ADDED: Table<EndpointId, AddedCount> = schema::SECRETS_ADDED.holding();

/// The number of names ever added to a tool's secrets.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct AddedCount(u64);

impl AddedCount {
    const CLOSED: Self = Self(u64::MAX);

    /// Returns whether the tool was deleted, so that no more names can be added.
    pub(super) fn is_closed(self) -> bool {
        self == Self::CLOSED
    }

    /// Returns the count after another name.
    pub(super) fn one_more(self) -> Self {
        Self(self.0 + 1)
    }
}

impl Formatted for AddedCount {
    fn write(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.0.to_be_bytes());
    }

    fn read(bytes: &[u8]) -> Option<Self> {
        Some(Self(u64::from_be_bytes(bytes.try_into().ok()?)))
    }
}

/// Prevents secrets of `endpoint` from being added from this commit on.
pub(crate) fn close(batch: &mut Batch, endpoint: &EndpointId) {
    batch.put(&ADDED, endpoint, &AddedCount::CLOSED);
}

/// Removes the mark that `endpoint` is closed.
pub(crate) fn release(batch: &mut Batch, endpoint: &EndpointId) {
    batch.delete(&ADDED, endpoint);
}

/// Deletes the count of a tool without secrets, unless it was closed.
pub(super) async fn forget(store: &dyn Store, endpoint: &EndpointId) -> Result<(), StoreError> {
    let Some(row) = ADDED.row(store, endpoint).await?.filter(|row| !row.value.is_closed()) else { return Ok(()) };
    let mut batch = Batch::new();
    batch.remove(&ADDED, &row);
    batch.commit(store, Durability::Buffered).await.map(drop)
}

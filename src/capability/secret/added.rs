//! How many names were added to the secrets of an endpoint: what hosts that add some at once keep to its limit by.

use tollhouse_base::id::EndpointId;
use tollhouse_store::{Batch, Durability, Formatted, Store, StoreError, Table, schema};

pub(super) const ADDED: Table<EndpointId, Added> = schema::SECRETS_ADDED.holding();

/// How many names were ever added to the secrets of an endpoint.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Added(u64);

impl Added {
    const CLOSED: Self = Self(u64::MAX);

    /// Whether no more are added, since the endpoint was deleted.
    pub(super) fn is_closed(self) -> bool {
        self == Self::CLOSED
    }

    /// Once another is added.
    pub(super) fn one_more(self) -> Self {
        Self(self.0 + 1)
    }
}

impl Formatted for Added {
    fn write(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.0.to_be_bytes());
    }

    fn read(format: u8, bytes: &[u8]) -> Option<Self> {
        let bytes = bytes.try_into().ok().filter(|_| format <= Self::FORMAT)?;
        Some(Self(u64::from_be_bytes(bytes)))
    }
}

/// Has nobody add a secret of `endpoint` from this commit on.
pub(crate) fn close(batch: &mut Batch, endpoint: &EndpointId) {
    batch.put(&ADDED, endpoint, &Added::CLOSED);
}

/// Forgets that `endpoint` was closed.
pub(crate) fn release(batch: &mut Batch, endpoint: &EndpointId) {
    batch.delete(&ADDED, endpoint);
}

/// Forgets how many were added to an endpoint that has none any more, unless it was closed.
pub(super) async fn forget(store: &dyn Store, endpoint: &EndpointId) -> Result<(), StoreError> {
    let Some(row) = ADDED.row(store, endpoint).await?.filter(|row| !row.value.is_closed()) else { return Ok(()) };
    let mut batch = Batch::new();
    batch.remove(&ADDED, &row);
    batch.commit(store, Durability::Buffered).await.map(drop)
}

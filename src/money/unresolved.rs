//! Settlements whose outcome stayed unknown until the host stopped looking them up.

use tollhouse_base::{boxed, id::PaymentId};
use tollhouse_store::{IndexEntry, Store, StoreError, Table, schema};

use crate::{PaymentState, payments::record::PaymentRecord};

pub(crate) const UNRESOLVED: Table<PaymentId, ()> = schema::UNRESOLVED_SETTLEMENTS.holding();

/// Returns the entry of a payment among the unresolved settlements, if it is one.
pub(crate) fn index(id: &PaymentId, record: &PaymentRecord) -> Option<IndexEntry> {
    (record.state == PaymentState::Unresolved).then(|| schema::UNRESOLVED_SETTLEMENTS.entry(id, &()))
}

/// Counts unresolved settlements, up to `most`.
#[boxed]
pub async fn count_unresolved(store: &dyn Store, max: usize) -> Result<usize, StoreError> {
    UNRESOLVED.count(store, &UNRESOLVED.all(), max).await
}

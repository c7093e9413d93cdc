//! Settlements whose outcome stayed unknown until the host stopped looking them up.

use tollhouse_base::id::PaymentId;
use tollhouse_store::{Store, StoreError, Table, schema};

pub(crate) const UNRESOLVED: Table<PaymentId, ()> = schema::UNRESOLVED_SETTLEMENTS.holding();

/// Counts unresolved settlements, up to `most`.
///
/// # Errors
///
/// Errors of the store.
pub async fn count_unresolved(store: &dyn Store, most: usize) -> Result<usize, StoreError> {
    UNRESOLVED.count(store, &UNRESOLVED.all(), most).await
}

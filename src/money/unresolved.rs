//! Settlements of which nobody said how they ended until the host stopped asking.

use tollhouse_base::id::PaymentId;
use tollhouse_store::{Store, StoreError, Table, schema};

/// The payments that are unresolved.
pub(crate) const UNRESOLVED: Table<PaymentId, ()> = schema::UNRESOLVED_SETTLEMENTS.holding();

/// How many settlements are unresolved; of more than `most` only that there are as many.
///
/// # Errors
///
/// The store's.
pub async fn count_unresolved(store: &dyn Store, most: usize) -> Result<usize, StoreError> {
    UNRESOLVED.count(store, &UNRESOLVED.all(), most).await
}

//! Reservations held by calls of this process. A reservation without a call is useless and is released.

use std::{
    collections::HashSet,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use super::record::PaymentRecord;

/// The holders of reservations whose calls run here.
#[derive(Debug, Clone, Default)]
pub(super) struct Claims(Arc<Mutex<HashSet<String>>>);

impl Claims {
    /// Claims the reservation of a record until the returned value is dropped. Call it before the record is written.
    pub(super) fn claim(&self, record: &PaymentRecord) -> Claim {
        let holder = record.holder().to_owned();
        self.holders().insert(holder.clone());
        Claim { claims: self.clone(), holder }
    }

    /// Returns whether a call holds the reservation of this record.
    pub(super) fn has(&self, record: &PaymentRecord) -> bool {
        self.holders().contains(record.holder())
    }

    fn holders(&self) -> MutexGuard<'_, HashSet<String>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A reservation that a call holds.
#[derive(Debug)]
pub(super) struct Claim {
    claims: Claims,
    holder: String,
}

impl Drop for Claim {
    fn drop(&mut self) {
        self.claims.holders().remove(&self.holder);
    }
}

//! Reservations held by calls of this process. A reservation without a call is useless and is released.

use std::{collections::HashSet, sync::Arc};

use tollhouse_base::lock::Lock;

use super::record::PaymentRecord;

/// The holders of reservations whose calls run here.
#[derive(Debug, Clone, Default)]
pub(super) struct Claims(Arc<Lock<HashSet<String>>>);

impl Claims {
    /// Claims the reservation of a record until the returned value is dropped. Call it before the record is written.
    pub(super) fn claim(&self, record: &PaymentRecord) -> Claim {
        let holder = record.holder().to_owned();
        self.0.lock().insert(holder.clone());
        Claim { claims: self.clone(), holder }
    }

    /// Returns whether a call holds the reservation of this record.
    pub(super) fn has(&self, record: &PaymentRecord) -> bool {
        self.0.lock().contains(record.holder())
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
        self.claims.0.lock().remove(&self.holder);
    }
}

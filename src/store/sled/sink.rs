//! Where writes to a tree go: into a batch, so that all of them happen or none, or elsewhere.

use sled::{Batch, IVec};

use crate::StoreError;

/// What takes writes to a tree.
pub(super) trait Sink {
    /// Puts a value at a place.
    fn put(&mut self, place: IVec, value: IVec) -> Result<(), StoreError>;

    /// Takes away what is at a place.
    fn take(&mut self, place: IVec) -> Result<(), StoreError>;
}

impl Sink for Batch {
    fn put(&mut self, place: IVec, value: IVec) -> Result<(), StoreError> {
        self.insert(place, value);
        Ok(())
    }

    fn take(&mut self, place: IVec) -> Result<(), StoreError> {
        self.remove(place);
        Ok(())
    }
}

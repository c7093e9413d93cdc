//! The destinations of writes to sled.

use sled::{Batch, IVec};

use crate::StoreError;

/// A destination of tree writes: a batch, which is atomic, or the tree itself.
pub(super) trait Sink {
    /// Puts a value at a tree key.
    fn put(&mut self, place: IVec, value: IVec) -> Result<(), StoreError>;

    /// Removes the value at a tree key.
    fn take(&mut self, place: IVec) -> Result<(), StoreError>;
}

impl Sink for Batch {
    fn put(&mut self, position: IVec, value: IVec) -> Result<(), StoreError> {
        self.insert(position, value);
        Ok(())
    }

    fn take(&mut self, position: IVec) -> Result<(), StoreError> {
        self.remove(position);
        Ok(())
    }
}

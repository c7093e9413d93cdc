//! A mutex that cannot be poisoned.

use std::sync::{Mutex, MutexGuard, PoisonError};

/// A mutex. A panic while it is locked has no effect on later users.
#[derive(Debug, Default)]
pub struct Lock<T>(Mutex<T>);

impl<T> Lock<T> {
    /// Wraps a value.
    pub const fn new(value: T) -> Self {
        Self(Mutex::new(value))
    }

    /// Waits for the lock and takes it.
    pub fn lock(&self) -> MutexGuard<'_, T> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

//! An answer of the API, read into its type.

use std::ops::Deref;

/// Size of an answer, in bytes, above which it is dropped off the runtime, because dropping many parts takes long.
const LARGE_BYTES: usize = 8 << 10;

pub(super) struct Answer<T: Send + 'static> {
    /// Absent only while it is taken out or dropped.
    value: Option<T>,
    bytes: usize,
}

impl<T: Send + 'static> Answer<T> {
    /// Wraps the value of a text with this size.
    pub(super) fn new(value: T, bytes: usize) -> Self {
        Self { value: Some(value), bytes }
    }

    /// Returns a part of the answer, if `part` finds it.
    pub(super) fn part<P: Send + 'static>(mut self, part: impl FnOnce(T) -> Option<P>) -> Option<Answer<P>> {
        part(self.value.take()?).map(|part| Answer::new(part, self.bytes))
    }
}

impl<T: Send + 'static> Deref for Answer<T> {
    type Target = T;

    fn deref(&self) -> &T {
        self.value.as_ref().expect("an answer is taken out by value")
    }
}

impl<T: Send + 'static> Drop for Answer<T> {
    fn drop(&mut self) {
        if self.bytes > LARGE_BYTES
            && let Some(value) = self.value.take()
        {
            drop_off_thread(Box::new(value));
        }
    }
}

/// Drops the value on another thread. One task serves the answers of all types.
fn drop_off_thread(value: Box<dyn Send>) {
    tokio::task::spawn_blocking(move || drop(value));
}

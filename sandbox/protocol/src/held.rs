//! Memory size of requests, computed the same way by host and worker.

use bytes::Bytes;

/// A value that holds bytes beyond the size of its type.
pub(crate) trait Held {
    fn held(&self) -> usize;
}

impl Held for String {
    fn held(&self) -> usize {
        self.len()
    }
}

impl Held for Bytes {
    fn held(&self) -> usize {
        self.len()
    }
}

impl Held for u32 {
    fn held(&self) -> usize {
        0
    }
}

impl Held for u64 {
    fn held(&self) -> usize {
        0
    }
}

impl<T: Held> Held for Option<T> {
    fn held(&self) -> usize {
        self.as_ref().map_or(0, Held::held)
    }
}

impl<T: Held> Held for Vec<T> {
    fn held(&self) -> usize {
        self.iter().map(|item| size_of::<T>() + item.held()).sum()
    }
}

impl Held for (String, String) {
    fn held(&self) -> usize {
        self.0.len() + self.1.len()
    }
}

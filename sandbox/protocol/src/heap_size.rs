//! Memory size of requests, computed the same way by host and worker.

use bytes::Bytes;

/// A value that holds bytes beyond the size of its type.
pub(crate) trait HeapSize {
    fn held(&self) -> usize;
}

impl HeapSize for String {
    fn held(&self) -> usize {
        self.len()
    }
}

impl HeapSize for Bytes {
    fn held(&self) -> usize {
        self.len()
    }
}

impl HeapSize for u32 {
    fn held(&self) -> usize {
        0
    }
}

impl HeapSize for u64 {
    fn held(&self) -> usize {
        0
    }
}

impl<T: HeapSize> HeapSize for Option<T> {
    fn held(&self) -> usize {
        self.as_ref().map_or(0, HeapSize::held)
    }
}

impl<T: HeapSize> HeapSize for Vec<T> {
    fn held(&self) -> usize {
        self.iter().map(|item| size_of::<T>() + item.held()).sum()
    }
}

impl HeapSize for (String, String) {
    fn held(&self) -> usize {
        self.0.len() + self.1.len()
    }
}

//! Memory size of requests, computed the same way by host and worker.

use bytes::Bytes;

/// A value with bytes beyond the size of its type.
pub(crate) trait HeapSize {
    /// Returns the number of these bytes.
    fn heap_size(&self) -> usize;
}

impl HeapSize for String {
    fn heap_size(&self) -> usize {
        self.len()
    }
}

impl HeapSize for Bytes {
    fn heap_size(&self) -> usize {
        self.len()
    }
}

impl HeapSize for u32 {
    fn heap_size(&self) -> usize {
        0
    }
}

impl HeapSize for u64 {
    fn heap_size(&self) -> usize {
        0
    }
}

impl<T: HeapSize> HeapSize for Option<T> {
    fn heap_size(&self) -> usize {
        self.as_ref().map_or(0, HeapSize::heap_size)
    }
}

impl<T: HeapSize> HeapSize for Vec<T> {
    fn heap_size(&self) -> usize {
        self.iter().map(|item| size_of::<T>() + item.heap_size()).sum()
    }
}

impl HeapSize for (String, String) {
    fn heap_size(&self) -> usize {
        self.0.len() + self.1.len()
    }
}

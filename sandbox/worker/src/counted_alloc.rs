//! Memory of a brotli decoder that counts as buffers of the call.
//!
//! A stream decides the size of its window, of up to 16 MiB. The decoder cannot go on without it, and
//! garbage can only be collected between its steps. So memory is always granted, and
//! [`settle`](crate::memory::settle) checks the sum after each step.

use brotli_decompressor::{Allocator, SliceWrapper, SliceWrapperMut};

use crate::memory;

/// An allocator of counted memory.
#[derive(Debug, Default, Clone, Copy)]
pub(crate) struct CountedAlloc;

/// Memory that is counted until it is dropped.
#[derive(Debug)]
pub(crate) struct CountedMemory<T> {
    items: Box<[T]>,
    /// The bytes that were counted.
    counted: usize,
}

impl<T> Default for CountedMemory<T> {
    fn default() -> Self {
        Self { items: Box::default(), counted: 0 }
    }
}

impl<T> SliceWrapper<T> for CountedMemory<T> {
    fn slice(&self) -> &[T] {
        &self.items
    }
}

impl<T> SliceWrapperMut<T> for CountedMemory<T> {
    fn slice_mut(&mut self) -> &mut [T] {
        &mut self.items
    }
}

impl<T: Clone + Default> Allocator<T> for CountedAlloc {
    type AllocatedMemory = CountedMemory<T>;

    fn alloc_cell(&mut self, len: usize) -> CountedMemory<T> {
        let items = vec![T::default(); len].into_boxed_slice();
        CountedMemory { counted: memory::count(size_of_val(&*items)), items }
    }

    fn free_cell(&mut self, data: CountedMemory<T>) {
        drop(data);
    }
}

impl<T> Drop for CountedMemory<T> {
    fn drop(&mut self) {
        memory::uncount(self.counted);
    }
}

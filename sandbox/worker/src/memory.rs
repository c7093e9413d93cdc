//! Memory of the isolate: its heap limit, and its array buffers, which V8 does not count as heap.

use std::{
    alloc::{Layout, alloc, alloc_zeroed, dealloc},
    ffi::{c_char, c_void},
    ptr,
    sync::{
        Arc, OnceLock,
        atomic::{AtomicUsize, Ordering},
    },
};

use deno_core::v8::{Allocator, ArrayBuffer, Local, OomDetails, PinScope, RustAllocatorVtable, Uint8Array, UniqueRef, new_rust_allocator};
use tollhouse_protocol::StopReason;

use crate::{budget::Budget, footprint};

/// How far the heap can grow beyond its limit once, so that the stop can take effect. 16 MiB.
const GRACE_BYTES: usize = 16 << 20;
/// Buffers up to this size are always granted: V8 allocates them for small typed arrays that were
/// on its heap, and ends the process if that fails.
const ALWAYS_GRANTED_BYTES: usize = 64;
/// Number of times that the engine requests a buffer before it gives up. V8 collects garbage in
/// between.
const ATTEMPTS: usize = if cfg!(feature = "quickjs") { 1 } else { 4 };
/// Alignment of every buffer, as the widest element and V8 require.
const ALIGN: usize = 16;

/// The memory limits for [`out_of_memory`], because V8 passes it no data of ours.
static MEMORY: OnceLock<Arc<Memory>> = OnceLock::new();

/// The memory limits of a worker, and the bytes in its buffers.
#[derive(Debug)]
pub(crate) struct Memory {
    heap_limit: AtomicUsize,
    buffer_limit: AtomicUsize,
    buffers: AtomicUsize,
    /// Requests refused since the last granted one.
    refused: AtomicUsize,
    budget: OnceLock<Arc<Budget>>,
}

impl Memory {
    /// Creates limits in bytes. They apply until [`Memory::limit`] sets those of a bundle.
    pub(crate) fn new(heap_bytes: u64, buffer_bytes: u64) -> Arc<Self> {
        let memory = Self {
            heap_limit: AtomicUsize::new(0),
            buffer_limit: AtomicUsize::new(0),
            buffers: AtomicUsize::new(0),
            refused: AtomicUsize::new(0),
            budget: OnceLock::new(),
        };
        memory.limit(heap_bytes, buffer_bytes);
        Arc::new(memory)
    }

    /// Sets the budget that reports an exceeded limit.
    pub(crate) fn report_to(self: &Arc<Self>, budget: Arc<Budget>) {
        let _ = self.budget.set(budget);
        let _ = MEMORY.set(Arc::clone(self));
    }

    /// Sets both limits, in bytes.
    pub(crate) fn limit(&self, heap_bytes: u64, buffer_bytes: u64) {
        self.heap_limit.store(usize::try_from(heap_bytes).unwrap_or(usize::MAX), Ordering::Relaxed);
        self.buffer_limit.store(usize::try_from(buffer_bytes).unwrap_or(usize::MAX), Ordering::Relaxed);
    }

    /// Returns the bytes in array buffers.
    pub(crate) fn buffer_bytes(&self) -> u64 {
        self.buffers.load(Ordering::Relaxed) as u64
    }

    /// Returns the heap limit in bytes.
    pub(crate) fn heap_bytes(&self) -> usize {
        self.heap_limit.load(Ordering::Relaxed)
    }

    fn stop(&self, limit: usize) {
        if let Some(budget) = self.budget.get() {
            budget.stop(StopReason::Memory { limit_bytes: limit as u64 });
        }
    }

    /// Ends the process if it has used all its memory, because the engine then lacks memory
    /// although its heap is below the limit.
    fn end_if_exhausted(&self) {
        if let Some(budget) = self.budget.get()
            && budget.reason().is_none()
            && footprint::is_exhausted()
        {
            budget.end_exhausted();
        }
    }

    /// Counts `bytes` more. Returns false if they exceed the limit. Stops the call if they still
    /// exceed it after the engine has collected garbage.
    fn reserve(&self, bytes: usize) -> bool {
        let limit = self.buffer_limit.load(Ordering::Relaxed);
        let before = self.buffers.fetch_add(bytes, Ordering::Relaxed);
        if before.saturating_add(bytes) <= limit || bytes <= ALWAYS_GRANTED_BYTES {
            self.refused.store(0, Ordering::Relaxed);
            return true;
        }
        self.buffers.fetch_sub(bytes, Ordering::Relaxed);
        if self.refused.fetch_add(1, Ordering::Relaxed) + 1 >= ATTEMPTS {
            self.stop(limit);
        }
        false
    }

    fn release(&self, bytes: usize) {
        self.buffers.fetch_sub(bytes, Ordering::Relaxed);
    }
}

/// Called by the engine when the heap is nearly full. Returns the new limit in bytes.
///
/// # Safety
///
/// `data` must be the [`Memory`] of this isolate, which lives as long as the process.
#[expect(unsafe_code, reason = "the engine calls back with a bare pointer")]
pub(crate) unsafe extern "C" fn near_heap_limit(data: *mut c_void, current: usize, _initial: usize) -> usize {
    // SAFETY: the caller passes the registered pointer, which is never freed.
    let memory = unsafe { &*data.cast::<Memory>() };
    let limit = memory.heap_bytes();
    if current < limit {
        return limit;
    }
    memory.end_if_exhausted();
    memory.stop(limit);
    // QuickJS can crash in a failed allocation, before it sees that the call was stopped.
    if cfg!(feature = "quickjs")
        && let Some(budget) = memory.budget.get()
    {
        budget.end_process();
    }
    current.max(limit + GRACE_BYTES)
}

/// Called by V8 when even the grace is used up. Reports the reason to the host and ends the process.
#[expect(unsafe_code, reason = "the engine's callback type is unsafe")]
pub(crate) unsafe extern "C" fn out_of_memory(_location: *const c_char, _details: &OomDetails) {
    if let Some(memory) = MEMORY.get()
        && let Some(budget) = memory.budget.get()
    {
        memory.end_if_exhausted();
        budget.stop(StopReason::Memory { limit_bytes: memory.heap_bytes() as u64 });
        budget.end_process();
    }
}

/// Wraps `bytes` in an `ArrayBuffer` that counts toward the limit like the engine's own. Returns
/// `None` if the limit does not permit it.
#[expect(unsafe_code, reason = "the engine takes a pointer and the function that frees it")]
fn array_buffer<'s>(scope: &mut PinScope<'s, '_>, bytes: Vec<u8>) -> Option<Local<'s, ArrayBuffer>> {
    if bytes.is_empty() {
        return Some(ArrayBuffer::new(scope, 0));
    }
    let memory = MEMORY.get()?;
    let mut attempts = 1..ATTEMPTS;
    while !memory.reserve(bytes.len()) {
        attempts.next()?;
        scope.low_memory_notification();
    }
    let (length, pointer) = (bytes.len(), Box::into_raw(bytes.into_boxed_slice()));
    // Data for the deleter makes QuickJS copy the bytes. Otherwise its `transfer` would give our pointer to its own allocator.
    // SAFETY: nobody else has the pointer, and `release_bytes` frees it once, whatever the engine does
    // with it.
    let store = unsafe { ArrayBuffer::new_backing_store_from_ptr(pointer.cast(), length, release_bytes, pointer.cast()) };
    Some(ArrayBuffer::with_backing_store(scope, &store.make_shared()))
}

/// Returns whether native code can go on, with an output of `bytes` so far. Stops the call if the
/// buffer limit does not permit that output. Buffers that exist do not count here, because garbage is
/// among them: [`array_buffer`] adds the output to them, and collects it.
pub(crate) fn permits(bytes: usize) -> bool {
    let Some(memory) = MEMORY.get() else { return true };
    if memory.budget.get().is_some_and(|budget| budget.stopped()) {
        return false;
    }
    let limit = memory.buffer_limit.load(Ordering::Relaxed);
    let is_permitted = bytes <= limit;
    if !is_permitted {
        memory.stop(limit);
    }
    is_permitted
}

/// Counts native memory as buffers. Returns the bytes to pass to [`uncount`].
pub(crate) fn count(bytes: usize) -> usize {
    let Some(memory) = MEMORY.get() else { return 0 };
    memory.buffers.fetch_add(bytes, Ordering::Relaxed);
    bytes
}

/// Ends to count native memory.
pub(crate) fn uncount(bytes: usize) {
    if let Some(memory) = MEMORY.get() {
        memory.release(bytes);
    }
}

/// Returns whether all buffers, with the [counted](count) memory, are within their limit. Stops the call if they exceed
/// it even after the engine has collected garbage.
pub(crate) fn settle(scope: &mut PinScope<'_, '_>) -> bool {
    let Some(memory) = MEMORY.get() else { return true };
    let limit = memory.buffer_limit.load(Ordering::Relaxed);
    for attempt in 1..=ATTEMPTS {
        if memory.buffers.load(Ordering::Relaxed) <= limit {
            return true;
        }
        if attempt < ATTEMPTS {
            scope.low_memory_notification();
        }
    }
    memory.stop(limit);
    false
}

/// Wraps `bytes` in a `Uint8Array`, like [`array_buffer`].
pub(crate) fn bytes<'s>(scope: &mut PinScope<'s, '_>, bytes: Vec<u8>) -> Option<Local<'s, Uint8Array>> {
    let length = bytes.len();
    let buffer = array_buffer(scope, bytes)?;
    Uint8Array::new(scope, buffer, 0, length)
}

/// Frees the bytes that [`array_buffer`] gave to the engine.
///
/// # Safety
///
/// `pointer` must be a boxed slice of `length` bytes, and must be freed only once.
#[expect(unsafe_code, reason = "the engine calls back with a bare pointer")]
unsafe extern "C" fn release_bytes(pointer: *mut c_void, length: usize, _unused: *mut c_void) {
    // SAFETY: guaranteed by the caller.
    drop(unsafe { Box::from_raw(ptr::slice_from_raw_parts_mut(pointer.cast::<u8>(), length)) });
    if let Some(memory) = MEMORY.get() {
        memory.release(length);
    }
}

/// Returns an allocator for array buffers that counts toward `memory`.
#[expect(unsafe_code, reason = "the engine takes its allocator as a table of bare functions")]
pub(crate) fn allocator(memory: &Arc<Memory>) -> UniqueRef<Allocator> {
    static TABLE: RustAllocatorVtable<Memory> =
        RustAllocatorVtable { allocate: allocate_zeroed, allocate_uninitialized: allocate_uninit, free, drop: drop_memory };
    // SAFETY: the functions of the table fulfill their contracts, and `drop_memory` releases this
    // reference.
    unsafe { new_rust_allocator(Arc::into_raw(Arc::clone(memory)), &TABLE) }
}

fn layout(bytes: usize) -> Option<Layout> {
    Layout::from_size_align(bytes.max(1), ALIGN).ok()
}

fn allocate(memory: &Memory, bytes: usize, allocate_with: impl FnOnce(Layout) -> *mut u8) -> *mut c_void {
    let Some(layout) = layout(bytes) else { return ptr::null_mut() };
    if !memory.reserve(bytes) {
        return ptr::null_mut();
    }
    let pointer = allocate_with(layout);
    if pointer.is_null() {
        memory.release(bytes);
    }
    pointer.cast()
}

#[expect(unsafe_code, reason = "part of the engine's table; see `allocator`")]
unsafe extern "C" fn allocate_zeroed(memory: &Memory, bytes: usize) -> *mut c_void {
    // SAFETY: `layout` never has size 0.
    allocate(memory, bytes, |layout| unsafe { alloc_zeroed(layout) })
}

#[expect(unsafe_code, reason = "part of the engine's table; see `allocator`")]
unsafe extern "C" fn allocate_uninit(memory: &Memory, bytes: usize) -> *mut c_void {
    // SAFETY: `layout` never has size 0.
    allocate(memory, bytes, |layout| unsafe { alloc(layout) })
}

#[expect(unsafe_code, reason = "part of the engine's table; see `allocator`")]
unsafe extern "C" fn free(memory: &Memory, pointer: *mut c_void, bytes: usize) {
    if let Some(layout) = layout(bytes)
        && !pointer.is_null()
    {
        // SAFETY: the engine frees what `allocate` returned, with the size it requested.
        unsafe { dealloc(pointer.cast(), layout) };
        memory.release(bytes);
    }
}

#[expect(unsafe_code, reason = "part of the engine's table; see `allocator`")]
unsafe extern "C" fn drop_memory(memory: *const Memory) {
    // SAFETY: `memory` came from `Arc::into_raw` in `allocator`, and the engine drops it once.
    drop(unsafe { Arc::from_raw(memory) });
}

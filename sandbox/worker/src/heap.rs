//! Global allocator that counts the process's own memory while a schema is at work.
//!
//! The engine has its own heap and buffers, see [`memory`](crate::memory). Besides those, only a
//! schema can make this process large: compiled it can take a thousand times the size of its text,
//! and an invalid value can have more problems than fit into memory. The first allocation beyond
//! the limit reports the reason to the host and ends the process. So does an allocation that the
//! [limit of the process](crate::footprint) refuses.

use std::{
    alloc::{GlobalAlloc, Layout, System},
    sync::{
        Arc, OnceLock,
        atomic::{AtomicBool, AtomicI64, Ordering},
    },
};

use tollhouse_protocol::exit::OUT_OF_MEMORY;

use crate::{budget::Budget, host};

#[global_allocator]
static HEAP: CountingAllocator = CountingAllocator;

/// Whether allocations count.
static COUNTING: AtomicBool = AtomicBool::new(false);
/// Bytes that may still be allocated.
static LEFT: AtomicI64 = AtomicI64::new(0);
/// The limit in bytes.
static LIMIT: AtomicI64 = AtomicI64::new(0);
/// Reports an exceeded limit.
static REPORTING: OnceLock<Arc<Budget>> = OnceLock::new();

/// Sets the budget that reports an exceeded limit. Without one there is no limit.
pub(crate) fn report_to(budget: Arc<Budget>) {
    _ = REPORTING.set(budget);
}

/// Limits allocations from now on, attributed to the schema that is at work, until the returned
/// value is dropped.
pub(crate) fn limit(bytes: u64) -> HeapLimitGuard {
    let bytes = i64::try_from(bytes).unwrap_or(i64::MAX);
    LIMIT.store(bytes, Ordering::Relaxed);
    LEFT.store(bytes, Ordering::Relaxed);
    COUNTING.store(REPORTING.get().is_some(), Ordering::Relaxed);
    HeapLimitGuard
}

/// A limit in force.
pub(crate) struct HeapLimitGuard;

impl Drop for HeapLimitGuard {
    fn drop(&mut self) {
        COUNTING.store(false, Ordering::Relaxed);
    }
}

/// The system's allocator with counting.
struct CountingAllocator;

fn take(bytes: usize) {
    if COUNTING.load(Ordering::Relaxed) && LEFT.fetch_sub(count(bytes), Ordering::Relaxed) < count(bytes) {
        overrun();
    }
}

fn subtract(bytes: usize) {
    if COUNTING.load(Ordering::Relaxed) {
        LEFT.fetch_add(count(bytes), Ordering::Relaxed);
    }
}

fn count(bytes: usize) -> i64 {
    i64::try_from(bytes).unwrap_or(i64::MAX)
}

#[cold]
fn overrun() {
    // Allocations for the report must not count.
    COUNTING.store(false, Ordering::Relaxed);
    let Some(budget) = REPORTING.get() else { return };
    budget.stop_schema(LIMIT.load(Ordering::Relaxed).unsigned_abs());
    budget.end_process();
}

/// Returns the allocated memory. If the allocation failed, the process is out of memory and ends.
fn add(position: *mut u8) -> *mut u8 {
    if position.is_null() {
        exhausted();
    }
    position
}

#[cold]
fn exhausted() {
    static ENDING: AtomicBool = AtomicBool::new(false);
    // The report itself needs some memory.
    if ENDING.swap(true, Ordering::SeqCst) {
        host::exit_now(OUT_OF_MEMORY);
    }
    COUNTING.store(false, Ordering::Relaxed);
    if let Some(budget) = REPORTING.get() {
        budget.end_exhausted();
    }
}

#[expect(unsafe_code, reason = "an allocator is unsafe by its trait")]
// SAFETY: every request is passed to the system's allocator unchanged.
unsafe impl GlobalAlloc for CountingAllocator {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        take(layout.size());
        // SAFETY: guaranteed by the caller.
        add(unsafe { System.alloc(layout) })
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        take(layout.size());
        // SAFETY: guaranteed by the caller.
        add(unsafe { System.alloc_zeroed(layout) })
    }

    unsafe fn realloc(&self, position: *mut u8, layout: Layout, bytes: usize) -> *mut u8 {
        take(bytes);
        subtract(layout.size());
        // SAFETY: guaranteed by the caller.
        add(unsafe { System.realloc(position, layout, bytes) })
    }

    unsafe fn dealloc(&self, position: *mut u8, layout: Layout) {
        subtract(layout.size());
        // SAFETY: guaranteed by the caller.
        unsafe { System.dealloc(position, layout) }
    }
}

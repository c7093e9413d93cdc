//! Global allocator that counts the process's own memory while a schema is at work.
//!
//! The engine has its own heap and buffers, see [`memory`](crate::memory). Besides those, only a
//! schema can make this process large: compiled it can take a thousand times the size of its text,
//! and an invalid value can have more problems than fit into memory. The first allocation beyond
//! the limit reports the reason to the host and ends the process. So does an allocation that fails
//! because of the [limit of the process](crate::footprint).

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
static ALLOCATOR: CountingAllocator = CountingAllocator;

/// Whether allocations count.
static COUNTING: AtomicBool = AtomicBool::new(false);
/// Bytes that can still be allocated.
static REMAINING: AtomicI64 = AtomicI64::new(0);
/// The limit in bytes.
static LIMIT: AtomicI64 = AtomicI64::new(0);
/// The budget that reports an exceeded limit.
static BUDGET: OnceLock<Arc<Budget>> = OnceLock::new();

/// Sets the budget that reports an exceeded limit. Without one there is no limit.
pub(crate) fn report_to(budget: Arc<Budget>) {
    _ = BUDGET.set(budget);
}

/// Limits allocations, in bytes, until the returned value is dropped. An overrun is attributed to
/// the schema that is at work.
pub(crate) fn limit(bytes: u64) -> HeapLimitGuard {
    let bytes = i64::try_from(bytes).unwrap_or(i64::MAX);
    LIMIT.store(bytes, Ordering::Relaxed);
    REMAINING.store(bytes, Ordering::Relaxed);
    COUNTING.store(BUDGET.get().is_some(), Ordering::Relaxed);
    HeapLimitGuard
}

/// A limit that is in force until it is dropped.
pub(crate) struct HeapLimitGuard;

impl Drop for HeapLimitGuard {
    fn drop(&mut self) {
        COUNTING.store(false, Ordering::Relaxed);
    }
}

/// The system's allocator, with a limit on the bytes.
struct CountingAllocator;

fn charge(bytes: usize) {
    if COUNTING.load(Ordering::Relaxed) && REMAINING.fetch_sub(signed(bytes), Ordering::Relaxed) < signed(bytes) {
        overrun();
    }
}

fn refund(bytes: usize) {
    if COUNTING.load(Ordering::Relaxed) {
        REMAINING.fetch_add(signed(bytes), Ordering::Relaxed);
    }
}

fn signed(bytes: usize) -> i64 {
    i64::try_from(bytes).unwrap_or(i64::MAX)
}

#[cold]
fn overrun() {
    // Allocations for the report must not count.
    COUNTING.store(false, Ordering::Relaxed);
    let Some(budget) = BUDGET.get() else { return };
    budget.stop_schema(LIMIT.load(Ordering::Relaxed).unsigned_abs());
    budget.end_process();
}

/// Returns the result of an allocation. If it is null, the process is out of memory and ends.
fn check_allocated(pointer: *mut u8) -> *mut u8 {
    if pointer.is_null() {
        exhausted();
    }
    pointer
}

#[cold]
fn exhausted() {
    static ENDING: AtomicBool = AtomicBool::new(false);
    // The report itself needs some memory.
    if ENDING.swap(true, Ordering::SeqCst) {
        host::exit_now(OUT_OF_MEMORY);
    }
    COUNTING.store(false, Ordering::Relaxed);
    if let Some(budget) = BUDGET.get() {
        budget.end_exhausted();
    }
}

#[expect(unsafe_code, reason = "an allocator is unsafe by its trait")]
// SAFETY: every request is passed to the system's allocator unchanged.
unsafe impl GlobalAlloc for CountingAllocator {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        charge(layout.size());
        // SAFETY: guaranteed by the caller.
        check_allocated(unsafe { System.alloc(layout) })
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        charge(layout.size());
        // SAFETY: guaranteed by the caller.
        check_allocated(unsafe { System.alloc_zeroed(layout) })
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, bytes: usize) -> *mut u8 {
        charge(bytes);
        refund(layout.size());
        // SAFETY: guaranteed by the caller.
        check_allocated(unsafe { System.realloc(pointer, layout, bytes) })
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        refund(layout.size());
        // SAFETY: guaranteed by the caller.
        unsafe { System.dealloc(pointer, layout) }
    }
}

//! What the process takes of the system's memory for itself, counted while a schema is at work.
//!
//! The engine has heap and buffers of its own, see [`memory`](crate::memory). Beside those only a schema can make this process
//! large: compiled it can be a thousand times its text, and a value that does not fit it can have more problems than there
//! is memory for. The first allocation beyond the limit tells the host why and ends the process, and so does one that the
//! [bound of the process](crate::footprint) refuses.

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
static HEAP: Counted = Counted;

/// Whether allocations count.
static COUNTING: AtomicBool = AtomicBool::new(false);
/// Bytes that may yet be taken.
static LEFT: AtomicI64 = AtomicI64::new(0);
/// What there was to take, in bytes.
static LIMIT: AtomicI64 = AtomicI64::new(0);
/// Whom an overrun is told.
static REPORTING: OnceLock<Arc<Budget>> = OnceLock::new();

/// Names who is told of an overrun. Without one nothing is limited.
pub(crate) fn report_to(budget: Arc<Budget>) {
    _ = REPORTING.set(budget);
}

/// Limits what may be taken from now on, on the account of the schema that is at work, until the answer is dropped.
pub(crate) fn limit(bytes: u64) -> Limited {
    let bytes = i64::try_from(bytes).unwrap_or(i64::MAX);
    LIMIT.store(bytes, Ordering::Relaxed);
    LEFT.store(bytes, Ordering::Relaxed);
    COUNTING.store(REPORTING.get().is_some(), Ordering::Relaxed);
    Limited
}

/// A limit in force.
pub(crate) struct Limited;

impl Drop for Limited {
    fn drop(&mut self) {
        COUNTING.store(false, Ordering::Relaxed);
    }
}

/// The system's allocator, with an account.
struct Counted;

fn take(bytes: usize) {
    if COUNTING.load(Ordering::Relaxed) && LEFT.fetch_sub(count(bytes), Ordering::Relaxed) < count(bytes) {
        overrun();
    }
}

fn give_back(bytes: usize) {
    if COUNTING.load(Ordering::Relaxed) {
        LEFT.fetch_add(count(bytes), Ordering::Relaxed);
    }
}

fn count(bytes: usize) -> i64 {
    i64::try_from(bytes).unwrap_or(i64::MAX)
}

#[cold]
fn overrun() {
    // What is said now is on nobody's account.
    COUNTING.store(false, Ordering::Relaxed);
    let Some(budget) = REPORTING.get() else { return };
    budget.stop_schema(LIMIT.load(Ordering::Relaxed).unsigned_abs());
    budget.end_process();
}

/// What the system gave; if that is nothing the process has all it may have, and ends.
fn given(place: *mut u8) -> *mut u8 {
    if place.is_null() {
        exhausted();
    }
    place
}

#[cold]
fn exhausted() {
    static ENDING: AtomicBool = AtomicBool::new(false);
    // What is said now needs some memory itself.
    if ENDING.swap(true, Ordering::SeqCst) {
        host::exit_now(OUT_OF_MEMORY);
    }
    COUNTING.store(false, Ordering::Relaxed);
    if let Some(budget) = REPORTING.get() {
        budget.end_exhausted();
    }
}

#[expect(unsafe_code, reason = "an allocator is unsafe by its trait")]
// SAFETY: every request goes to the system's allocator as it is.
unsafe impl GlobalAlloc for Counted {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        take(layout.size());
        // SAFETY: as the caller's.
        given(unsafe { System.alloc(layout) })
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        take(layout.size());
        // SAFETY: as the caller's.
        given(unsafe { System.alloc_zeroed(layout) })
    }

    unsafe fn realloc(&self, place: *mut u8, layout: Layout, bytes: usize) -> *mut u8 {
        take(bytes);
        give_back(layout.size());
        // SAFETY: as the caller's.
        given(unsafe { System.realloc(place, layout, bytes) })
    }

    unsafe fn dealloc(&self, place: *mut u8, layout: Layout) {
        give_back(layout.size());
        // SAFETY: as the caller's.
        unsafe { System.dealloc(place, layout) }
    }
}

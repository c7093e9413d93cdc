//! What a dry run keeps: kv and files of its own, in memory, and its log. All of it goes with the value.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tollhouse_base::clock::Clock;
use tollhouse_objects::{Kept, Objects};
use tollhouse_protocol::Limits;
use tollhouse_store::memory::MemoryStore;

use super::{Files, Kv, LogEntry};

/// Keys that one dry run keeps at most.
const KEYS: u64 = 1_000;
/// Bytes that one dry run keeps at most in kv, and again in files: it keeps them in the host's memory.
const BYTES: u64 = 4 << 20;

/// The world of one dry run, empty at first.
pub struct Scratch {
    pub(super) kv: Kv,
    pub(super) files: Files,
    lines: Mutex<Vec<LogEntry>>,
}

impl Scratch {
    /// An empty one.
    #[must_use]
    pub fn new(clock: &Clock) -> Arc<Self> {
        let store = Arc::new(MemoryStore::new());
        let objects = Objects::new(Arc::clone(&store) as _, clock.clone(), Arc::new(Kept::in_memory()));
        let files = Files::new(Arc::clone(&store) as _, clock.clone(), objects);
        Arc::new(Self { kv: Kv::new(store, clock.clone()), files, lines: Mutex::default() })
    }

    /// What of a call's limits a dry run has.
    #[must_use]
    pub fn narrowed(mut limits: Limits) -> Limits {
        limits.kv_keys = limits.kv_keys.min(KEYS);
        limits.kv_bytes = limits.kv_bytes.min(BYTES);
        limits.files_bytes = limits.files_bytes.min(BYTES);
        limits
    }

    /// Takes a line of the log. There are no more than the call's limits let through.
    pub(super) fn log(&self, entry: LogEntry) {
        self.lines().push(entry);
    }

    /// The log, oldest first.
    pub fn take_log(&self) -> Vec<LogEntry> {
        std::mem::take(&mut *self.lines())
    }

    fn lines(&self) -> MutexGuard<'_, Vec<LogEntry>> {
        self.lines.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

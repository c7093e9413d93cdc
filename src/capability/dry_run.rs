//! Temporary storage of a dry run: separate kv and files in memory, and its log. Dropping it discards everything.

use std::sync::Arc;

use tollhouse_base::{clock::Clock, lock::Lock};
use tollhouse_objects::{ObjectLayout, Objects};
use tollhouse_protocol::Limits;
use tollhouse_store::memory::MemoryStore;

use super::{Files, Kv, LogEntry};

/// Maximum number of keys of one dry run.
const KEYS: u64 = 1_000;
/// Maximum bytes of one dry run in kv, and again in files, because they are in the host's memory.
const BYTES: u64 = 4 << 20;

pub struct DryRunStore {
    pub(super) kv: Kv,
    pub(super) files: Files,
    lines: Lock<Vec<LogEntry>>,
}

impl DryRunStore {
    pub fn new(clock: &Clock) -> Arc<Self> {
        let store = Arc::new(MemoryStore::new());
        let objects = Objects::new(Arc::clone(&store) as _, clock.clone(), Arc::new(ObjectLayout::in_memory()));
        let files = Files::new(Arc::clone(&store) as _, clock.clone(), objects);
        Arc::new(Self { kv: Kv::new(store, clock.clone()), files, lines: Lock::default() })
    }

    /// Narrows a call's limits to those of a dry run.
    pub fn narrowed(mut limits: Limits) -> Limits {
        limits.kv_keys = limits.kv_keys.min(KEYS);
        limits.kv_bytes = limits.kv_bytes.min(BYTES);
        limits.files_bytes = limits.files_bytes.min(BYTES);
        limits
    }

    /// Adds a log line. The call's limits bound their number.
    pub(super) fn log(&self, entry: LogEntry) {
        self.lines.lock().push(entry);
    }

    /// Takes the log, oldest line first.
    pub fn take_log(&self) -> Vec<LogEntry> {
        std::mem::take(&mut *self.lines.lock())
    }
}

//! What a dry run keeps: kv and files of its own, in memory, its log, and what it spent. All of it goes with the value.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tollhouse_protocol::{Limits, Spent};

use super::{Files, Kv, LogEntry, objects::MemoryObjects};
use crate::{clock::Clock, store::memory::MemoryStore};

/// Keys that one dry run keeps at most.
const KEYS: u64 = 1_000;
/// Bytes that one dry run keeps at most in kv, and again in files: it keeps them in the host's memory.
const BYTES: u64 = 4 << 20;

/// The world of one dry run, empty at first.
pub struct Scratch {
    pub(super) kv: Kv,
    pub(super) files: Files,
    kept: Mutex<Kept>,
}

#[derive(Default)]
struct Kept {
    log: Vec<LogEntry>,
    spent: Spent,
}

impl Scratch {
    #[must_use]
    pub fn new(clock: &Clock) -> Arc<Self> {
        let store = Arc::new(MemoryStore::new());
        let files = Files::new(Arc::clone(&store) as _, clock.clone(), Arc::new(MemoryObjects::default()));
        Arc::new(Self { kv: Kv::new(store, clock.clone()), files, kept: Mutex::default() })
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
        self.kept().log.push(entry);
    }

    /// Says what the run has used.
    pub fn spend(&self, spent: Spent) {
        self.kept().spent = spent;
    }

    /// The log, oldest first, and what was spent.
    pub fn take(&self) -> (Vec<LogEntry>, Spent) {
        let Kept { log, spent } = std::mem::take(&mut *self.kept());
        (log, spent)
    }

    fn kept(&self) -> MutexGuard<'_, Kept> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

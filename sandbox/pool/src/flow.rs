//! Bytes under way between the host and its workers: what ops are asked with, what they may answer, and answers that no
//! socket has taken yet.
//!
//! An op is begun only when its bytes fit: those of its request are here, and as many as its answer may have are set aside.
//! They count until the socket has taken the answer. A call has [`CALL_BYTES`]; an owner has as much as is free of what all
//! have. Alone that is a half, of two who want it each has a third, and whoever comes finds as much as the one who has most.
//!
//! Invariant: a call that has nothing under way may begin an op, whatever others hold, so no call waits for another's end,
//! and there is no circle of waits. What all hold is therefore at most the whole, and for each call besides one op and
//! what it asks for.

use std::{
    collections::HashMap,
    sync::{Mutex, MutexGuard, PoisonError},
};

use tokio::sync::{Notify, futures::Notified};
use tollhouse_protocol::{
    Limits, OpRequest,
    limits::{CALL_BYTES, LIST_BYTES},
};

/// What all calls have under way.
#[derive(Debug)]
pub(crate) struct Flow {
    most: usize,
    state: Mutex<State>,
    /// Told whenever something is given back.
    freed: Notify,
}

#[derive(Debug, Default)]
struct State {
    held: usize,
    owners: HashMap<Box<str>, Share>,
}

#[derive(Debug, Default)]
struct Share {
    held: usize,
    accounts: usize,
}

impl Flow {
    /// For `most` bytes.
    pub(crate) fn new(most: usize) -> Self {
        Self { most, state: Mutex::default(), freed: Notify::new() }
    }

    /// For a call of `owner`.
    pub(crate) fn account<'a>(&'a self, owner: &'a str) -> Account<'a> {
        Account { flow: self, owner, held: None }
    }

    /// Bytes under way now.
    #[cfg(test)]
    pub(crate) fn held(&self) -> usize {
        self.lock().held
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What one call has under way. Dropping it gives all of it back.
#[derive(Debug)]
pub(crate) struct Account<'a> {
    flow: &'a Flow,
    owner: &'a str,
    /// `None` until it has anything: most calls ask for nothing.
    held: Option<usize>,
}

impl<'a> Account<'a> {
    /// Has `bytes` under way from now on, whether they fit or not.
    pub(crate) fn set(&mut self, bytes: usize) {
        if self.held.unwrap_or_default() != bytes {
            self.change(bytes, |_, _| true);
        }
    }

    /// Has `bytes` under way from now on if what is more than before fits in the share of its owner.
    pub(crate) fn try_set(&mut self, bytes: usize) -> bool {
        let most = self.flow.most;
        self.change(bytes, |owner, all| owner <= most.saturating_sub(all))
    }

    /// Waits until somebody gave something back, from the moment on at which this is enabled.
    pub(crate) fn freed(&self) -> Notified<'a> {
        self.flow.freed.notified()
    }

    /// Asks `fits` with what the owner, and what all, would have.
    fn change(&mut self, bytes: usize, fits: impl FnOnce(usize, usize) -> bool) -> bool {
        let before = self.held.unwrap_or_default();
        let mut state = self.flow.lock();
        let all = state.held - before + bytes;
        let share = match state.owners.get_mut(self.owner) {
            Some(share) => share,
            None => state.owners.entry(self.owner.into()).or_default(),
        };
        if self.held.is_none() {
            share.accounts += 1;
            self.held = Some(0);
        }
        if !fits(share.held - before + bytes, all) {
            return false;
        }
        share.held = share.held - before + bytes;
        state.held = all;
        drop(state);
        self.held = Some(bytes);
        if bytes < before {
            self.flow.freed.notify_waiters();
        }
        true
    }
}

impl Drop for Account<'_> {
    fn drop(&mut self) {
        if self.held.is_none() {
            return;
        }
        self.set(0);
        let mut state = self.flow.lock();
        if let Some(share) = state.owners.get_mut(self.owner) {
            share.accounts -= 1;
            if share.accounts == 0 {
                state.owners.remove(self.owner);
            }
        }
    }
}

/// As many bytes as the host may hold to answer `request`, at most all that a call has.
pub(crate) fn answer_bytes(request: &OpRequest, limits: &Limits) -> usize {
    let page = |limit: u32, entry: u64| u64::from(limit).saturating_mul(entry).min(LIST_BYTES as u64);
    let bytes = match request {
        OpRequest::Sleep { .. } => 0,
        OpRequest::KvSet { .. }
        | OpRequest::KvDelete { .. }
        | OpRequest::FileWrite { .. }
        | OpRequest::FileDelete { .. }
        | OpRequest::Charge { .. } => FAILURE_BYTES,
        OpRequest::KvGet { .. } => limits.kv_value_bytes,
        OpRequest::KvList { limit, .. } => page(*limit, limits.kv_key_bytes + limits.kv_value_bytes),
        // What is at each key is read.
        OpRequest::KvAtomic { checks, writes } => ((checks.len() + writes.len()) as u64).saturating_mul(limits.kv_value_bytes),
        OpRequest::FileRead { .. } => limits.file_bytes,
        OpRequest::FileList { limit, .. } => page(*limit, FILE_LINE_BYTES),
        OpRequest::HttpGetJson { .. } => limits.http_body_bytes,
    };
    usize::try_from(bytes).unwrap_or(CALL_BYTES).min(CALL_BYTES)
}

/// Bytes of an answer that says no more than that it was done, or why not.
const FAILURE_BYTES: u64 = 1 << 10;

/// Bytes of a file's line in a list.
const FILE_LINE_BYTES: u64 = 1 << 10;

#[cfg(test)]
mod tests;

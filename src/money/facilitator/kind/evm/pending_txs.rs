//! Pending transactions of the signer, by nonce.

use std::{
    collections::{BTreeMap, BTreeSet},
    ops::Range,
    time::Duration,
};

use alloy_primitives::B256;
use tokio::{sync::oneshot, time::Instant};

use super::transaction::{Fees, SignedTx, TxCall};
use crate::facilitator::chain::events::TxReceipt;

/// How long a signed transaction may wait for its intent to be stored. After that its nonce is reused.
const SIGNED_FOR: Duration = Duration::from_secs(60);

/// Maximum number of replacements of a transaction. Each costs a quarter more, so the last costs less than four times
/// as much.
const MAX_RAISES: u32 = 6;

/// Maximum number of nonces that may be missing below a transaction that the node has.
const MAX_MISSING: u64 = 256;

/// Maximum number of missing nonces that one count of the node frees. The next count frees more.
const MAX_FREED: usize = 256;

/// How long a nonce that was in a block counts as used, even if the node counts fewer: its answer may come from a server
/// that lags behind. After that a reorganization has dropped the nonce's transaction.
const USED_FOR: Duration = Duration::from_secs(3);

/// How long to wait for another host's pending transaction, as a multiple of the wait for a missing one: until that
/// host would have replaced it for the last time.
const LEFT_AFTER: u32 = MAX_RAISES + 2;

/// The outcome of sending a transaction.
#[derive(Debug)]
pub(super) enum TxEnd {
    /// It is in a block. It may have been reverted.
    Mined(TxReceipt),
    /// Nobody has it, and its nonce is reused.
    Unsent(String),
    /// Another transaction has its nonce, or its block was not seen. The token must be asked.
    Lost,
}

/// Receives the outcome of a transaction.
pub(super) type TxWaiter = oneshot::Sender<TxEnd>;

/// A signed or pending transaction.
#[derive(Debug)]
pub(super) struct InFlightTx {
    pub(super) call: TxCall,
    pub(super) fees: Fees,
    pub(super) signed: SignedTx,
    /// Hashes of its earlier versions, which were replaced.
    pub(super) replaced_hashes: Vec<B256>,
    /// When it was last signed, sent or replaced.
    pub(super) since: Instant,
    pub(super) sent: bool,
    /// Whether any version of it may be in a node's pool. Then no refusal of a node frees its nonce.
    pub(super) last_seen: bool,
    /// Number of times that its newest version was sent without a clear answer.
    pub(super) attempts: u32,
    pub(super) waiter: Option<TxWaiter>,
}

/// The nonces of a signer.
#[derive(Debug, Default)]
pub(super) struct PendingTxs {
    /// The first unused nonce. `None` if the node must be asked.
    next: Option<u64>,
    /// Returned nonces below `next`.
    free: BTreeSet<u64>,
    /// Whether other hosts use the key too. Then unknown nonces belong to them, and the store assigns the next one.
    shared: bool,
    flights: BTreeMap<u64, InFlightTx>,
    /// The first nonce after those that were recently in a block, and when the last one was.
    used: Option<(u64, Instant)>,
}

impl InFlightTx {
    pub(super) fn new(call: TxCall, fees: Fees, signed: SignedTx, now: Instant) -> Self {
        Self { call, fees, signed, replaced_hashes: Vec::new(), since: now, sent: false, last_seen: false, attempts: 0, waiter: None }
    }

    /// Returns the hashes of all its versions.
    pub(super) fn hashes(&self) -> Vec<B256> {
        self.replaced_hashes.iter().copied().chain([self.signed.hash]).collect()
    }

    /// Replaces it with a version that pays more.
    pub(super) fn replace(&mut self, fees: Fees, signed: SignedTx, now: Instant) {
        self.replaced_hashes.push(std::mem::replace(&mut self.signed, signed).hash);
        (self.fees, self.since, self.last_seen, self.attempts) = (fees, now, true, 0);
    }

    fn end(self, ended: TxEnd) {
        if let Some(waiter) = self.waiter {
            // A receiver that stopped waiting looks at the chain instead.
            _ = waiter.send(ended);
        }
    }
}

impl PendingTxs {
    /// Constructs an empty set. `shared` is whether other hosts use the key too.
    pub(super) fn new(shared: bool) -> Self {
        Self { shared, ..Self::default() }
    }

    /// Returns whether the node must be asked for the next nonce.
    pub(super) fn unsure(&self) -> bool {
        self.next.is_none()
    }

    /// Sets the next nonce to the node's `count` of transactions, including pending ones. Nonces that are missing below
    /// pending transactions become free, unless other hosts use the key.
    pub(super) fn begin_at(&mut self, count: u64, now: Instant) {
        if self.shared {
            self.free.retain(|nonce| *nonce >= count);
            self.next = Some(count);
            return;
        }
        let count = self.unused_from(count, now);
        let after = self.flights.last_key_value().map_or(0, |(nonce, _)| nonce + 1);
        let next = count.max(after);
        // Drop nonces returned meanwhile that another transaction has or that are still to come.
        self.free.retain(|nonce| (count..next).contains(nonce));
        self.next = Some(next);
        self.free_missing(count..next);
    }

    /// Frees the nonces that are missing below sent transactions, given the node's `count` of mined and pending
    /// transactions. A reorganization leaves such nonces if the node forgets the transactions that it drops. Returns
    /// whether any of them was not free before. Other hosts of the key may still send theirs, so a shared key has none.
    pub(super) fn find_missing(&mut self, count: u64, now: Instant) -> bool {
        let Some(last) = self.last_sent().filter(|_| !self.shared) else { return false };
        let count = self.unused_from(count, now);
        self.free.retain(|nonce| *nonce >= count);
        self.free_missing(count..last)
    }

    /// Frees the first nonces of a range that no transaction has. Returns whether any of them was not free before.
    fn free_missing(&mut self, nonces: Range<u64>) -> bool {
        let before = self.free.len();
        self.free.extend(nonces.filter(|nonce| !self.flights.contains_key(nonce)).take(MAX_FREED));
        self.free.len() > before
    }

    /// Returns nonces below sent transactions that the node uses and no transaction here has, given its counts of mined
    /// (`used`) and of mined and pending (`count`) transactions. A node adds the transactions of a dropped block to its
    /// pool again.
    pub(super) fn untracked(&self, (used, count): (u64, u64), now: Instant) -> Vec<u64> {
        let Some(last) = self.last_sent().filter(|_| !self.shared) else { return Vec::new() };
        let nonces = self.unused_from(used, now)..count.min(last);
        nonces.filter(|nonce| !self.flights.contains_key(nonce)).take(MAX_FREED).collect()
    }

    /// Returns the node's `count`, or more if a higher nonce was in a block a moment ago.
    fn unused_from(&self, count: u64, now: Instant) -> u64 {
        let recent = self.used.filter(|(_, at)| now.duration_since(*at) <= USED_FOR);
        recent.map_or(count, |(used, _)| used.max(count))
    }

    fn last_sent(&self) -> Option<u64> {
        self.flights.iter().rfind(|(_, flight)| flight.sent).map(|(nonce, _)| *nonce)
    }

    /// Adds a transaction that the node has, although the node counts only to `count`. The nonces missing in between
    /// become free, unless other hosts may still send them.
    pub(super) fn reach(&mut self, nonce: u64, count: u64, flight: InFlightTx) {
        let Some(next) = self.next.filter(|_| self.reaches(nonce, count)) else { return };
        if !self.shared {
            self.free.extend((count..nonce).filter(|missing| !self.flights.contains_key(missing)));
            self.next = Some(next.max(nonce + 1));
        }
        self.flights.entry(nonce).or_insert(flight);
    }

    /// Returns whether to track a transaction with this nonce, given the node's `count`. A nonce far from it is a
    /// mistake.
    pub(super) fn reaches(&self, nonce: u64, count: u64) -> bool {
        let first = if self.shared { 0 } else { count };
        (first..=count.saturating_add(MAX_MISSING)).contains(&nonce)
    }

    /// Returns the first transaction that has been pending for longer than `timeout`, even if it may no longer be
    /// replaced.
    pub(super) fn waiting(&self, now: Instant, timeout: Duration) -> Option<&InFlightTx> {
        self.flights.values().find(|flight| flight.sent && now.duration_since(flight.since) > timeout)
    }

    /// Takes the lowest returned nonce, with the number of returned nonces after it.
    pub(super) fn take_free(&mut self) -> Option<(u64, usize)> {
        let nonce = self.free.pop_first()?;
        Some((nonce, self.free.len()))
    }

    /// Takes the lowest unused nonce.
    pub(super) fn take(&mut self) -> Option<u64> {
        let free = self.free.pop_first();
        free.or_else(|| {
            let nonce = self.next?;
            self.next = Some(nonce + 1);
            Some(nonce)
        })
    }

    pub(super) fn put(&mut self, nonce: u64, flight: InFlightTx) {
        self.flights.insert(nonce, flight);
    }

    pub(super) fn get_mut(&mut self, nonce: u64) -> Option<&mut InFlightTx> {
        self.flights.get_mut(&nonce)
    }

    /// Marks the transaction with this hash as sent, and returns it with its nonce.
    pub(super) fn send(&mut self, hash: B256, waiter: TxWaiter, now: Instant) -> Result<(u64, SignedTx), TxWaiter> {
        let found = self.flights.iter_mut().find(|(_, flight)| flight.signed.hash == hash && !flight.sent);
        let Some((nonce, flight)) = found else { return Err(waiter) };
        (flight.sent, flight.since, flight.waiter) = (true, now, Some(waiter));
        Ok((*nonce, flight.signed.clone()))
    }

    /// Returns the nonce of a transaction that was not sent.
    pub(super) fn release_nonce(&mut self, hash: B256) {
        let unsent = self.flights.iter().find(|(_, flight)| flight.signed.hash == hash && !flight.sent).map(|(nonce, _)| *nonce);
        if let Some(nonce) = unsent {
            self.remove(nonce, None);
        }
    }

    /// Ends a transaction that no node has, and frees its nonce.
    pub(super) fn refuse(&mut self, nonce: u64, reason: String) {
        self.free.insert(nonce);
        if let Some(flight) = self.flights.remove(&nonce) {
            flight.end(TxEnd::Unsent(reason));
        }
    }

    /// Makes the next nonce be read from the node, because somebody else uses the key or did while the host was down.
    pub(super) fn recount(&mut self) {
        self.next = None;
    }

    /// Returns whether a transaction with this hash is pending, itself or as a replacement.
    pub(super) fn has(&self, hash: B256) -> bool {
        self.flights.values().any(|flight| flight.signed.hash == hash || flight.replaced_hashes.contains(&hash))
    }

    /// Returns the transaction with this nonce if `hash` is its newest version.
    pub(super) fn newest(&mut self, nonce: u64, hash: B256) -> Option<&mut InFlightTx> {
        self.flights.get_mut(&nonce).filter(|flight| flight.signed.hash == hash)
    }

    /// Ends a transaction whose nonce is used.
    pub(super) fn end(&mut self, nonce: u64, ended: TxEnd, now: Instant) {
        let next = nonce.saturating_add(1);
        if self.used.is_none_or(|(used, at)| next >= used || now.duration_since(at) > USED_FOR) {
            self.used = Some((next, now));
        }
        self.remove(nonce, Some(ended));
    }

    fn remove(&mut self, nonce: u64, ended: Option<TxEnd>) {
        let Some(flight) = self.flights.remove(&nonce) else { return };
        match ended {
            Some(ended) => flight.end(ended),
            None => _ = self.free.insert(nonce),
        }
    }

    /// Returns the sent transactions that have waited longer than `timeout` and that the node once had. While a nonce
    /// before them is missing, a node may drop them.
    pub(super) fn queued(&self, now: Instant, timeout: Duration) -> Vec<(u64, SignedTx)> {
        let queued = |flight: &InFlightTx| flight.sent && flight.last_seen && now.duration_since(flight.since) > timeout;
        // A transaction of a previous run is not known here.
        let known = self.flights.iter().filter(|(_, flight)| queued(flight) && !flight.signed.raw.is_empty());
        known.map(|(nonce, flight)| (*nonce, flight.signed.clone())).collect()
    }

    /// Returns the sent transactions: their nonces and the hashes of all versions.
    pub(super) fn sent(&self) -> Vec<(u64, Vec<B256>)> {
        self.flights.iter().filter(|(_, flight)| flight.sent).map(|(nonce, flight)| (*nonce, flight.hashes())).collect()
    }

    /// Frees the nonces of transactions that were signed long ago and never sent.
    pub(super) fn forget_unsent(&mut self, now: Instant) {
        let old = |flight: &InFlightTx| !flight.sent && now.duration_since(flight.since) > SIGNED_FOR;
        let remaining: Vec<_> = self.flights.iter().filter(|(_, flight)| old(flight)).map(|(nonce, _)| *nonce).collect();
        for nonce in remaining {
            self.remove(nonce, None);
        }
    }

    /// Returns the first sent transaction if it has been pending for longer than `timeout` and may be replaced, given
    /// the node's counts of mined (`used`) and of mined and pending (`count`) transactions. All others wait for it.
    /// While it waits for an earlier nonce itself, a higher price does not help it.
    pub(super) fn stuck_tx(&mut self, (used, count): (u64, u64), now: Instant, timeout: Duration) -> Option<(u64, &mut InFlightTx)> {
        // If hosts share the key, the one with the earlier nonce replaces its own transaction.
        let reached = if self.shared { used } else { count };
        let (nonce, flight) = self.flights.iter_mut().find(|(_, flight)| flight.sent)?;
        let waited = now.duration_since(flight.since) > timeout && flight.replaced_hashes.len() < MAX_RAISES as usize;
        (waited && reached >= *nonce).then_some((*nonce, flight))
    }

    /// Returns the first sent transaction if it may no longer be replaced and was sent longer than `timeout` ago. A
    /// node may have dropped it.
    pub(super) fn dropped(&mut self, now: Instant, timeout: Duration) -> Option<(u64, SignedTx)> {
        let (nonce, flight) = self.flights.iter_mut().find(|(_, flight)| flight.sent)?;
        let due = now.duration_since(flight.since) > timeout && flight.replaced_hashes.len() >= MAX_RAISES as usize;
        due.then(|| {
            flight.since = now;
            (*nonce, flight.signed.clone())
        })
    }

    /// Takes an unused nonce that later transactions have waited for longer than `timeout`.
    pub(super) fn gap(&mut self, now: Instant, timeout: Duration) -> Option<u64> {
        let first = *self.free.first()?;
        let waits = |(_, flight): (&u64, &InFlightTx)| flight.sent && now.duration_since(flight.since) > timeout;
        self.flights.range(first..).any(waits).then(|| self.free.pop_first()).flatten()
    }

    /// Returns a nonce to fill for a lost host, given the node's counts of mined (`used`) and of mined and pending
    /// (`count`) transactions. It is the first missing nonce if others have waited for it longer than `timeout`, or
    /// the nonce of a pending transaction that nobody has replaced for much longer.
    pub(super) fn abandoned(&mut self, (used, count): (u64, u64), now: Instant, timeout: Duration) -> Option<u64> {
        // Transactions below `count` have no gap before them.
        let (first, flight) = self.flights.range(count..).find(|(_, flight)| flight.sent)?;
        let waited = now.duration_since(flight.since);
        let missing = (count < *first && waited > timeout).then_some(count);
        let nonce = missing.or_else(|| (used < *first && waited > timeout * LEFT_AFTER).then_some(used))?;
        // A transaction with this nonce was signed here and is still to be sent.
        if self.flights.contains_key(&nonce) {
            return None;
        }
        self.free.remove(&nonce);
        Some(nonce)
    }
}

#[cfg(test)]
mod tests;

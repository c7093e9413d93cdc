//! Which nonces of the signer are used, and for what.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use alloy_primitives::B256;
use tokio::{sync::oneshot, time::Instant};

use super::transaction::{Call, Fees, Signed};
use crate::facilitator::chain::events::Receipt;

/// How long a transaction that is signed may wait to be sent: until its intent is on disk. Then its nonce is another one's.
const SIGNED_FOR: Duration = Duration::from_secs(60);

/// How often a transaction may be replaced, each time for a quarter more: at the end it costs less than four times as much.
const MOST_RAISES: u32 = 6;

/// Nonces that may be missing below a transaction that the node has.
const MOST_MISSING: u64 = 256;

/// How many times as long as a missing one another host's transaction is waited for: until that would have replaced it for the last time.
const LEFT_AFTER: u32 = MOST_RAISES + 2;

/// How the sending of a transaction ended.
#[derive(Debug)]
pub(super) enum Ended {
    /// In a block, whatever it did there.
    Mined(Receipt),
    /// Nobody has it, and its nonce is another one's.
    Unsent(String),
    /// Another transaction has its nonce, or its block is not seen: only the token knows.
    Lost,
}

/// Who waits for the end of a transaction.
pub(super) type Waiter = oneshot::Sender<Ended>;

/// A transaction on its way.
#[derive(Debug)]
pub(super) struct Flight {
    pub(super) call: Call,
    pub(super) fees: Fees,
    pub(super) signed: Signed,
    /// What it was before it was replaced.
    pub(super) former: Vec<B256>,
    /// When it was signed, sent or replaced last.
    pub(super) since: Instant,
    pub(super) sent: bool,
    /// Whether it may be in a node's pool, in one of its forms. Then nothing that a node says frees its nonce.
    pub(super) heard: bool,
    /// How often its newest form was sent without a clear answer.
    pub(super) attempts: u32,
    pub(super) waiter: Option<Waiter>,
}

/// The nonces of one signer.
#[derive(Debug, Default)]
pub(super) struct Flights {
    /// The first that nothing has; `None` while the node is to say.
    next: Option<u64>,
    /// Given back, below `next`.
    free: BTreeSet<u64>,
    /// Whether other hosts have nonces of it too: those that are not known here are theirs then, and the next is for the store to say.
    shared: bool,
    flights: BTreeMap<u64, Flight>,
}

impl Flight {
    pub(super) fn new(call: Call, fees: Fees, signed: Signed, now: Instant) -> Self {
        Self { call, fees, signed, former: Vec::new(), since: now, sent: false, heard: false, attempts: 0, waiter: None }
    }

    /// All that it may be found by in a block.
    pub(super) fn hashes(&self) -> Vec<B256> {
        self.former.iter().copied().chain([self.signed.hash]).collect()
    }

    /// Takes its own place, for more.
    pub(super) fn replace(&mut self, fees: Fees, signed: Signed, now: Instant) {
        self.former.push(std::mem::replace(&mut self.signed, signed).hash);
        (self.fees, self.since, self.heard, self.attempts) = (fees, now, true, 0);
    }

    fn end(self, ended: Ended) {
        if let Some(waiter) = self.waiter {
            // Whoever gave up asks the chain.
            _ = waiter.send(ended);
        }
    }
}

impl Flights {
    /// None yet, of a key that other hosts may use too.
    pub(super) fn new(shared: bool) -> Self {
        Self { shared, ..Self::default() }
    }

    /// Whether the node is to be asked for the next nonce.
    pub(super) fn unsure(&self) -> bool {
        self.next.is_none()
    }

    /// The node counts so many transactions, those in no block yet among them.
    pub(super) fn begin_at(&mut self, count: u64) {
        if self.shared {
            self.free.retain(|nonce| *nonce >= count);
            self.next = Some(count);
            return;
        }
        let after = self.flights.last_key_value().map_or(0, |(nonce, _)| nonce + 1);
        let next = count.max(after);
        // Given back while the node was not asked yet: another one has it, or it is still to come.
        self.free.retain(|nonce| (count..next).contains(nonce));
        self.next = Some(next);
    }

    /// The node has a transaction of this nonce, and counts to `count` only: what is missing between them is free, for whoever
    /// comes or to be filled, unless other hosts may still send it.
    pub(super) fn reach(&mut self, nonce: u64, count: u64, flight: Flight) {
        let Some(next) = self.next.filter(|_| self.reaches(nonce, count)) else { return };
        if !self.shared {
            self.free.extend((count..nonce).filter(|missing| !self.flights.contains_key(missing)));
            self.next = Some(next.max(nonce + 1));
        }
        self.flights.entry(nonce).or_insert(flight);
    }

    /// Whether a transaction of this nonce is looked after, of a node that counts to `count`: one that is far from it is a mistake.
    pub(super) fn reaches(&self, nonce: u64, count: u64) -> bool {
        let first = if self.shared { 0 } else { count };
        (first..=count.saturating_add(MOST_MISSING)).contains(&nonce)
    }

    /// The first that has been on its way for longer than `patience`, whether or not it may be replaced.
    pub(super) fn waiting(&self, now: Instant, patience: Duration) -> Option<&Flight> {
        self.flights.values().find(|flight| flight.sent && now.duration_since(flight.since) > patience)
    }

    /// The lowest of those that were given back, and how many there are behind it.
    pub(super) fn take_back(&mut self) -> Option<(u64, usize)> {
        let nonce = self.free.pop_first()?;
        Some((nonce, self.free.len()))
    }

    /// The lowest nonce that nothing has.
    pub(super) fn take(&mut self) -> Option<u64> {
        let free = self.free.pop_first();
        free.or_else(|| {
            let nonce = self.next?;
            self.next = Some(nonce + 1);
            Some(nonce)
        })
    }

    pub(super) fn put(&mut self, nonce: u64, flight: Flight) {
        self.flights.insert(nonce, flight);
    }

    pub(super) fn get_mut(&mut self, nonce: u64) -> Option<&mut Flight> {
        self.flights.get_mut(&nonce)
    }

    /// The transaction of this hash, as it is sent from now on, and its nonce.
    pub(super) fn send(&mut self, hash: B256, waiter: Waiter, now: Instant) -> Result<(u64, Signed), Waiter> {
        let found = self.flights.iter_mut().find(|(_, flight)| flight.signed.hash == hash && !flight.sent);
        let Some((nonce, flight)) = found else { return Err(waiter) };
        (flight.sent, flight.since, flight.waiter) = (true, now, Some(waiter));
        Ok((*nonce, flight.signed.clone()))
    }

    /// Gives back the nonce of a transaction that was not sent.
    pub(super) fn give_back(&mut self, hash: B256) {
        let unsent = self.flights.iter().find(|(_, flight)| flight.signed.hash == hash && !flight.sent).map(|(nonce, _)| *nonce);
        if let Some(nonce) = unsent {
            self.remove(nonce, None);
        }
    }

    /// Ends a transaction that no node has. Its nonce is free.
    pub(super) fn refuse(&mut self, nonce: u64, why: String) {
        self.free.insert(nonce);
        if let Some(flight) = self.flights.remove(&nonce) {
            flight.end(Ended::Unsent(why));
        }
    }

    /// Has the node asked for the next nonce: somebody else uses the key, or did while the host was down.
    pub(super) fn recount(&mut self) {
        self.next = None;
    }

    /// Whether a transaction of this hash is on its way, or was replaced by one that is.
    pub(super) fn has(&self, hash: B256) -> bool {
        self.flights.values().any(|flight| flight.signed.hash == hash || flight.former.contains(&hash))
    }

    /// The transaction of this nonce, if this is its newest form.
    pub(super) fn newest(&mut self, nonce: u64, hash: B256) -> Option<&mut Flight> {
        self.flights.get_mut(&nonce).filter(|flight| flight.signed.hash == hash)
    }

    /// Ends a transaction whose nonce is used.
    pub(super) fn end(&mut self, nonce: u64, ended: Ended) {
        self.remove(nonce, Some(ended));
    }

    fn remove(&mut self, nonce: u64, ended: Option<Ended>) {
        let Some(flight) = self.flights.remove(&nonce) else { return };
        match ended {
            Some(ended) => flight.end(ended),
            None => _ = self.free.insert(nonce),
        }
    }

    /// Those that may be in a block, with what they may be there as.
    pub(super) fn sent(&self) -> Vec<(u64, Vec<B256>)> {
        self.flights.iter().filter(|(_, flight)| flight.sent).map(|(nonce, flight)| (*nonce, flight.hashes())).collect()
    }

    /// Takes back nonces of what was signed long ago and never sent.
    pub(super) fn forget_unsent(&mut self, now: Instant) {
        let old = |flight: &Flight| !flight.sent && now.duration_since(flight.since) > SIGNED_FOR;
        let left: Vec<_> = self.flights.iter().filter(|(_, flight)| old(flight)).map(|(nonce, _)| *nonce).collect();
        for nonce in left {
            self.remove(nonce, None);
        }
    }

    /// The transaction that all others wait for, where it has waited for longer than `patience` itself and may be replaced.
    pub(super) fn stuck(&mut self, now: Instant, patience: Duration) -> Option<(u64, &mut Flight)> {
        let (nonce, flight) = self.flights.iter_mut().find(|(_, flight)| flight.sent)?;
        let due = now.duration_since(flight.since) > patience && flight.former.len() < MOST_RAISES as usize;
        due.then_some((*nonce, flight))
    }

    /// The transaction that all others wait for, where it is replaced no more and was sent longer than `patience` ago: a node may have
    /// dropped it.
    pub(super) fn dropped(&mut self, now: Instant, patience: Duration) -> Option<(u64, Signed)> {
        let (nonce, flight) = self.flights.iter_mut().find(|(_, flight)| flight.sent)?;
        let due = now.duration_since(flight.since) > patience && flight.former.len() >= MOST_RAISES as usize;
        due.then(|| {
            flight.since = now;
            (*nonce, flight.signed.clone())
        })
    }

    /// A nonce that nothing has, while later ones that wait for it have done so for longer than `patience`.
    pub(super) fn gap(&mut self, now: Instant, patience: Duration) -> Option<u64> {
        let first = *self.free.first()?;
        let waits = |(_, flight): (&u64, &Flight)| flight.sent && now.duration_since(flight.since) > patience;
        self.flights.range(first..).any(waits).then(|| self.free.pop_first()).flatten()
    }

    /// A nonce of a host that is gone, of a node that has `used` transactions in blocks and counts to `count` with the others: the first
    /// that is missing, while what waits for it has done so for longer than `patience`; or that of a transaction in no block which nobody
    /// has replaced for much longer.
    pub(super) fn left(&mut self, (used, count): (u64, u64), now: Instant, patience: Duration) -> Option<u64> {
        // What is before it fills what was missing already.
        let (first, flight) = self.flights.range(count..).find(|(_, flight)| flight.sent)?;
        let waited = now.duration_since(flight.since);
        let missing = (count < *first && waited > patience).then_some(count);
        let nonce = missing.or_else(|| (used < *first && waited > patience * LEFT_AFTER).then_some(used))?;
        // Signed here, it is still to be sent.
        if self.flights.contains_key(&nonce) {
            return None;
        }
        self.free.remove(&nonce);
        Some(nonce)
    }
}

#[cfg(test)]
mod tests;

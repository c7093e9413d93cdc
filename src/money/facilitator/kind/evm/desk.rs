//! The transaction manager of a key: one task that owns the key's nonces, sends signed transactions and tracks them. If
//! hosts of one store share the key, each host has one, and the store assigns the nonces.
//!
//! Transactions are signed one after the other and sent concurrently, so that many fit into one block. While any is
//! pending, the task polls for the newest block and searches each new one for all of them: a settlement takes about one
//! block. A transaction that is pending for long is replaced by one that pays more, and missing nonces that others
//! wait for are filled, both within limits.

mod look;
mod schedule;

use std::{sync::Arc, time::Duration};

use alloy_primitives::{Address, B256, Bytes, U64, U128};
use k256::ecdsa::SigningKey;
use serde::Deserialize;
use serde_json::json;
use tokio::{
    sync::{mpsc, oneshot},
    task::JoinSet,
    time::Instant,
};

use self::{
    look::{Counts, Looked, looked},
    schedule::Schedule,
};
use super::{
    flights::{Ended, Flight, Flights},
    nonces::Nonces,
    transaction::{Call, Fees, Quoted, Signed, Transaction},
};
use crate::facilitator::chain::{
    node::{Node, RpcError},
    sending::Sending,
};

/// Gas of a transaction that only uses up its nonce.
const EMPTY_GAS: u64 = 21_000;

/// Delay before a transaction is sent again that arrived too early at a node without a queue, or that got no clear
/// answer. In the latter case the delay doubles each time, up to [`LONGEST_WAIT`].
const SEND_AGAIN: Duration = Duration::from_millis(500);
const LONGEST_WAIT: Duration = Duration::from_secs(30);

/// How long transactions wait for a missing nonce before it is filled, if no other host uses the key.
const FILL_AFTER: Duration = Duration::from_secs(3);

/// Minimum interval between two counts of the signer's transactions, and maximum number of nonces filled after each.
const COUNT_EVERY: Duration = Duration::from_secs(1);
const MOST_FILLED: usize = 64;

/// Capacity of the task's request queue.
const QUEUE: usize = 256;

/// A request to the task.
enum Ask {
    Sign(Call, oneshot::Sender<Result<B256, String>>),
    Send(B256, oneshot::Sender<Ended>),
    GiveBack(B256),
    Mind(u64, B256),
    Has(B256, oneshot::Sender<bool>),
    /// Reads the next nonce from the node again.
    Recount,
    Fees(oneshot::Sender<Result<Fees, String>>),
}

/// An event from the node or a timer.
enum Came {
    Sent {
        nonce: u64,
        hash: B256,
        sending: Sending,
    },
    /// The transaction is due to be sent again.
    Due {
        nonce: u64,
        hash: B256,
    },
    /// The result of a look at the newest block, with the value of `sendings` when it began.
    Looked(Result<(u64, Looked), RpcError>),
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Priced {
    base_fee_per_gas: U128,
}

/// A handle to the task.
#[derive(Debug, Clone)]
pub(super) struct Desk(mpsc::Sender<Ask>);

/// The state of the task.
struct Clerk {
    node: Arc<Node>,
    key: SigningKey,
    address: Address,
    /// Time without a block after which a transaction is replaced.
    patience: Duration,
    flights: Flights,
    /// The shared nonce counter, if other hosts use the key too.
    nonces: Option<Nonces>,
    /// The last nonce of a lost host that was filled, and when.
    filled: Option<(u64, Instant)>,
    fees: Option<Quoted>,
    work: JoinSet<Came>,
    schedule: Schedule,
    /// Number of transactions sent.
    sendings: u64,
    /// The newest block that was searched for all sent transactions.
    searched: Option<u64>,
    /// Whether the next look must count the signer's transactions, because an answer of the node was unclear.
    count: bool,
    /// When a look last counted mined and pending transactions.
    counted: Option<Instant>,
}

impl Desk {
    /// Starts the task, which runs until the last handle is dropped. Without `nonces` the key belongs to this host
    /// alone.
    pub(super) fn open(node: Arc<Node>, key: SigningKey, patience: Duration, nonces: Option<Nonces>) -> Self {
        let (sender, asks) = mpsc::channel(QUEUE);
        let clerk = Clerk {
            node,
            address: Address::from_private_key(&key),
            key,
            patience,
            flights: Flights::new(nonces.is_some()),
            nonces,
            filled: None,
            fees: None,
            work: JoinSet::new(),
            schedule: Schedule::default(),
            sendings: 0,
            searched: None,
            count: false,
            counted: None,
        };
        tokio::spawn(clerk.run(asks));
        Self(sender)
    }

    /// Signs a call. It is sent only by [`Desk::send`].
    pub(super) async fn sign(&self, call: Call) -> Result<B256, String> {
        let (reply, signed) = oneshot::channel();
        let gone = || "the signer has ended".to_owned();
        self.0.send(Ask::Sign(call, reply)).await.map_err(|_| gone())?;
        signed.await.map_err(|_| gone())?
    }

    /// Sends a signed transaction, and returns its outcome. The caller may stop waiting; the task still tracks the
    /// transaction.
    pub(super) async fn send(&self, hash: B256) -> Ended {
        let (reply, ended) = oneshot::channel();
        if self.0.send(Ask::Send(hash, reply)).await.is_err() {
            return Ended::Unsent("the signer has ended".to_owned());
        }
        ended.await.unwrap_or(Ended::Lost)
    }

    /// Returns the gas fees of a transaction that is signed now.
    pub(super) async fn fees(&self) -> Result<Fees, String> {
        let (reply, fees) = oneshot::channel();
        let gone = || "the signer has ended".to_owned();
        self.0.send(Ask::Fees(reply)).await.map_err(|_| gone())?;
        fees.await.map_err(|_| gone())?
    }

    /// Returns the nonce of a signed transaction that will not be sent.
    pub(super) fn give_back(&self, hash: B256) {
        // If the queue is full, the nonce is reclaimed after `SIGNED_FOR`.
        _ = self.0.try_send(Ask::GiveBack(hash));
    }

    /// Tracks a pending transaction that a previous run of the host has sent and a node still has.
    pub(super) async fn mind(&self, nonce: u64, hash: B256) {
        // If it fails, the next lookup of the settlement tries again.
        _ = self.0.send(Ask::Mind(nonce, hash)).await;
    }

    /// Returns whether a transaction that was signed here is still pending, itself or as a replacement.
    pub(super) async fn has(&self, hash: B256) -> bool {
        let (reply, has) = oneshot::channel();
        self.0.send(Ask::Has(hash, reply)).await.is_ok() && has.await.unwrap_or(false)
    }

    /// Reads the next nonce from the node again, because a reorganization has dropped transactions.
    pub(super) async fn recount(&self) {
        // If it fails, the missing nonce is filled once others have waited for it.
        _ = self.0.send(Ask::Recount).await;
    }
}

impl Clerk {
    async fn run(mut self, mut asks: mpsc::Receiver<Ask>) {
        loop {
            let look = self.schedule.due();
            tokio::select! {
                ask = asks.recv() => match ask {
                    Some(ask) => self.answer(ask).await,
                    None => return,
                },
                Some(Ok(came)) = self.work.join_next() => self.take(came),
                () = tokio::time::sleep_until(look.unwrap_or_else(Instant::now)), if look.is_some() => self.look(),
            }
        }
    }

    async fn answer(&mut self, ask: Ask) {
        match ask {
            Ask::Sign(call, reply) => {
                let signed = self.sign(call).await;
                if let Err(Ok(hash)) = reply.send(signed) {
                    self.flights.give_back(hash);
                }
            }
            Ask::Send(hash, waiter) => match self.flights.send(hash, waiter, Instant::now()) {
                Ok((nonce, signed)) => self.send(nonce, &signed),
                Err(waiter) => _ = waiter.send(Ended::Unsent("it was signed too long ago".to_owned())),
            },
            Ask::GiveBack(hash) => self.flights.give_back(hash),
            // The receiver may have stopped waiting.
            Ask::Has(hash, reply) => _ = reply.send(self.flights.has(hash)),
            Ask::Recount => self.flights.recount(),
            Ask::Fees(reply) => _ = reply.send(self.fees().await),
            Ask::Mind(nonce, hash) => {
                if let Err(error) = self.mind(nonce, hash).await {
                    tracing::warn!(nonce, error, "a transaction of before could not be looked after");
                }
            }
        }
    }

    /// Tracks a pending transaction. Missing nonces below its own, which a crash between two sends can leave, keep it
    /// out of every block.
    async fn mind(&mut self, nonce: u64, hash: B256) -> Result<(), String> {
        if self.flights.get_mut(nonce).is_some() && !self.flights.unsure() {
            return Ok(());
        }
        let count = self.begin().await?;
        let (fees, signed) = (self.fees().await?, Signed { raw: Bytes::new(), hash });
        let flight = Flight { sent: true, ..Flight::new(self.nothing(), fees, signed, Instant::now()) };
        if let Some(nonces) = self.nonces.as_ref().filter(|_| self.flights.reaches(nonce, count)) {
            nonces.raise(nonce.saturating_add(1)).await?;
        }
        self.flights.reach(nonce, count, flight);
        self.schedule.soon(Instant::now());
        Ok(())
    }

    async fn sign(&mut self, call: Call) -> Result<B256, String> {
        let now = Instant::now();
        self.flights.forget_unsent(now);
        if self.flights.unsure() {
            self.begin().await?;
        }
        let fees = self.fees().await?;
        let nonce = self.nonce().await?;
        let Some(signed) = self.signed(nonce, fees, &call) else {
            self.flights.refuse(nonce, String::new());
            return Err("the key signs nothing".to_owned());
        };
        let hash = signed.hash;
        self.flights.put(nonce, Flight::new(call, fees, signed, now));
        Ok(hash)
    }

    /// Returns an unused nonce: one that was given back, or the next.
    async fn nonce(&mut self) -> Result<u64, String> {
        let Some(nonces) = &mut self.nonces else { return self.flights.take().ok_or_else(|| "there is no nonce".to_owned()) };
        let now = Instant::now();
        while let Some((nonce, behind)) = self.flights.take_back() {
            if nonces.keeps(nonce, behind, now).await? {
                return Ok(nonce);
            }
        }
        nonces.next(now).await
    }

    /// Reads the next nonce from the node. Also tracks pending transactions of a previous run, since all later ones
    /// wait for them. With a shared key, pending transactions belong to other hosts until [`Desk::mind`] adds them.
    async fn begin(&mut self) -> Result<u64, String> {
        if let Some(nonces) = &self.nonces {
            let count: U64 = self.ask("eth_getTransactionCount", json!([self.address, "pending"])).await?;
            nonces.raise(count.to()).await?;
            self.flights.begin_at(count.to(), Instant::now());
            return Ok(count.to());
        }
        let used: U64 = self.ask("eth_getTransactionCount", json!([self.address, "latest"])).await?;
        let count: U64 = self.ask("eth_getTransactionCount", json!([self.address, "pending"])).await?;
        let fees = self.fees().await?;
        for nonce in used.to::<u64>()..count.to() {
            if self.flights.get_mut(nonce).is_none() {
                self.track(nonce, fees, Instant::now());
            }
        }
        self.flights.begin_at(count.to(), Instant::now());
        Ok(count.to())
    }

    /// Tracks a pending transaction of which only the nonce is known.
    fn track(&mut self, nonce: u64, fees: Fees, now: Instant) {
        let nothing = Signed { raw: Bytes::new(), hash: B256::ZERO };
        self.flights.put(nonce, Flight { sent: true, ..Flight::new(self.nothing(), fees, nothing, now) });
        self.schedule.soon(now);
    }

    /// Returns a call that only uses up its nonce.
    fn nothing(&self) -> Call {
        Call { to: self.address, data: Bytes::new(), gas: EMPTY_GAS }
    }

    fn signed(&self, nonce: u64, fees: Fees, call: &Call) -> Option<Signed> {
        Transaction { chain: self.node.network().chain_id()?, nonce, fees, call }.sign(&self.key)
    }

    /// Returns the fees for new transactions: the tip, plus twice the current base fee, which may rise for some blocks.
    async fn fees(&mut self) -> Result<Fees, String> {
        if let Some(quoted) = self.fees.filter(|quoted| quoted.good(Instant::now())) {
            return Ok(quoted.fees);
        }
        let (block, tip) = tokio::try_join!(
            self.ask::<Priced>("eth_getBlockByNumber", json!(["latest", false])),
            self.ask::<U128>("eth_maxPriorityFeePerGas", json!([])),
        )?;
        let tip: u128 = tip.to();
        let fees = Fees { tip, most: block.base_fee_per_gas.to::<u128>().saturating_mul(2).saturating_add(tip) };
        self.fees = Some(Quoted { fees, at: Instant::now() });
        Ok(fees)
    }

    async fn ask<T: for<'de> Deserialize<'de>>(&self, method: &'static str, params: serde_json::Value) -> Result<T, String> {
        self.node.ask(method, params).await.map_err(|error| error.to_string())
    }

    fn send(&mut self, nonce: u64, signed: &Signed) {
        let (node, Signed { raw, hash }) = (Arc::clone(&self.node), signed.clone());
        self.work.spawn(async move { Came::Sent { nonce, hash, sending: node.send(&raw, hash).await } });
        self.sendings += 1;
        self.searched = None;
        self.schedule.soon(Instant::now());
    }

    fn send_in(&mut self, wait: Duration, nonce: u64, hash: B256) {
        self.work.spawn(async move {
            tokio::time::sleep(wait).await;
            Came::Due { nonce, hash }
        });
    }

    fn take(&mut self, came: Came) {
        match came {
            Came::Sent { nonce, hash, sending } => self.answered(nonce, hash, sending),
            Came::Due { nonce, hash } => {
                if let Some(signed) = self.flights.newest(nonce, hash).map(|flight| flight.signed.clone()) {
                    self.send(nonce, &signed);
                }
            }
            Came::Looked(looked) => {
                let counts = match looked {
                    Ok((sendings, looked)) => self.seen(sendings, looked),
                    Err(error) => {
                        tracing::warn!(%error, "blocks could not be looked at for transactions on their way");
                        None
                    }
                };
                self.hurry(counts);
                self.schedule.looked(Instant::now(), !self.flights.sent().is_empty());
            }
        }
    }

    /// Handles a node's answer to a transaction. Only a transaction that no node can have is given up, and its nonce is
    /// reused. Any other keeps its nonce until a block uses it, and is sent again unchanged.
    fn answered(&mut self, nonce: u64, hash: B256, sending: Sending) {
        if matches!(sending, Sending::Contested(_)) {
            self.flights.recount();
        }
        let Some(flight) = self.flights.newest(nonce, hash) else { return };
        match sending {
            Sending::Accepted => {
                (flight.heard, flight.attempts) = (true, 0);
                self.schedule.at_once(Instant::now());
            }
            Sending::Early(_) => self.send_in(SEND_AGAIN, nonce, hash),
            Sending::Refused(why) if flight.heard => {
                tracing::warn!(nonce, why, "a transaction that may be in a pool was refused when it was sent again, or for more");
            }
            Sending::Refused(why) => {
                tracing::warn!(nonce, why, "a transaction was not sent");
                self.fees = None;
                self.flights.refuse(nonce, why);
            }
            Sending::Contested(why) | Sending::Unclear(why) => {
                let wait = SEND_AGAIN.saturating_mul(1 << flight.attempts.min(10)).min(LONGEST_WAIT);
                (flight.heard, flight.attempts, self.count) = (true, flight.attempts + 1, true);
                tracing::warn!(nonce, why, "it is not known whether a transaction was sent; its nonce is kept and it is sent again");
                self.send_in(wait, nonce, hash);
                self.schedule.at_once(Instant::now());
            }
        }
    }

    /// Starts a look at the newest block. If it is new, it is searched for pending transactions.
    fn look(&mut self) {
        let (node, address, sent, before) = (Arc::clone(&self.node), self.address, self.flights.sent(), self.searched);
        // Only once a transaction takes long does it matter whether its nonce is used or an earlier one is missing.
        let now = Instant::now();
        let recent = self.counted.is_some_and(|at| now.duration_since(at) < COUNT_EVERY.min(self.patience));
        let waits = !recent && self.flights.waiting(now, self.fill_after()).is_some();
        self.counted = if waits { Some(now) } else { self.counted };
        let counts = Counts { used: waits || std::mem::take(&mut self.count), pending: waits };
        self.schedule.looking();
        let sendings = self.sendings;
        self.work.spawn(async move { Came::Looked(looked(&node, address, sent, before, counts).await.map(|seen| (sendings, seen))) });
    }

    /// Ends transactions that are in a block. Returns the number of mined transactions, and of mined and pending ones,
    /// if both were requested.
    fn seen(&mut self, sendings: u64, looked: Looked) -> Option<(u64, u64)> {
        if sendings == self.sendings {
            self.searched = Some(looked.head);
        }
        let now = Instant::now();
        // The counts may be older than the receipts.
        let mined = looked.receipts.iter().map(|(nonce, _)| nonce + 1).max().unwrap_or(0);
        for (nonce, receipt) in looked.receipts {
            self.flights.end(nonce, Ended::Mined(receipt), now);
        }
        if let Some(used) = looked.used {
            for (nonce, _) in self.flights.sent().into_iter().filter(|(nonce, _)| *nonce < used) {
                self.flights.end(nonce, Ended::Lost, now);
            }
        }
        looked.used.zip(looked.pending).map(|(used, pending)| (used.max(mined), pending.max(mined)))
    }

    /// Returns how long a transaction waits before the missing nonces below it are filled.
    fn fill_after(&self) -> Duration {
        if self.nonces.is_some() { self.patience } else { self.patience.min(FILL_AFTER) }
    }

    /// Returns an unused nonce that others have waited for too long.
    fn missing(&mut self, counts: (u64, u64), now: Instant) -> Option<u64> {
        if self.nonces.is_none() {
            return self.flights.gap(now, self.fill_after());
        }
        let nonce = self.flights.left(counts, now, self.patience)?;
        // Do not fill the same nonce again at once, if the node did not accept it.
        if self.filled.is_some_and(|(filled, at)| filled == nonce && now.duration_since(at) <= self.patience) {
            return None;
        }
        self.filled = Some((nonce, now));
        Some(nonce)
    }

    /// Fills nonces that others wait for, and tracks pending transactions of the node that others wait for.
    fn fill(&mut self, counts: (u64, u64), now: Instant) {
        let waiting = self.flights.waiting(now, self.fill_after()).map(|flight| flight.fees);
        let Some(fees) = self.fees.map(|quoted| quoted.fees).or(waiting) else { return };
        for nonce in self.flights.untracked(counts, now) {
            self.track(nonce, fees, now);
        }
        if self.flights.find_missing(counts.1, now) {
            for (nonce, signed) in self.flights.queued(now, self.fill_after()).into_iter().take(MOST_FILLED) {
                self.send(nonce, &signed);
            }
        }
        for _ in 0..MOST_FILLED {
            let Some(nonce) = self.missing(counts, now) else { return };
            let call = self.nothing();
            let Some(signed) = self.signed(nonce, fees, &call) else { return };
            tracing::warn!(nonce, "a nonce that others wait for is used up");
            self.send(nonce, &signed);
            self.flights.put(nonce, Flight { sent: true, ..Flight::new(call, fees, signed, now) });
        }
    }

    /// Fills nonces that others wait for, and replaces a transaction that is pending for too long.
    fn hurry(&mut self, counts: Option<(u64, u64)>) {
        let now = Instant::now();
        if let Some(counts) = counts {
            self.fill(counts, now);
        }
        let Some((nonce, flight)) = counts.and_then(|counts| self.flights.stuck(counts, now, self.patience)) else {
            if let Some((nonce, signed)) = self.flights.dropped(now, self.patience) {
                self.send(nonce, &signed);
            }
            return;
        };
        let (fees, call) = (flight.fees.raised(), flight.call.clone());
        let Some(signed) = self.signed(nonce, fees, &call) else { return };
        if let Some(flight) = self.flights.get_mut(nonce) {
            tracing::warn!(nonce, "a transaction is in no block for long, and is replaced by one that pays more");
            flight.replace(fees, signed.clone(), now);
        }
        self.send(nonce, &signed);
    }
}

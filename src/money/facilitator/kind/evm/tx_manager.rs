//! The transaction manager of a key: one task that owns the key's nonces, sends signed transactions and tracks them. If
//! hosts of one store share the key, each host has one, and the store assigns the nonces.
//!
//! Transactions are signed one after the other and sent concurrently, so that many fit into one block. While any is
//! pending, the task polls for the newest block and searches each new one for all of them: a settlement takes about one
//! block. A transaction that is pending for long is replaced by one that pays more, and missing nonces that others
//! wait for are filled, both within limits.

mod block_view;
mod schedule;

use std::{sync::Arc, time::Duration};

use alloy_primitives::{Address, B256, Bytes, U128};
use k256::ecdsa::SigningKey;
use serde::Deserialize;
use serde_json::json;
use tokio::{
    sync::{mpsc, oneshot},
    task::JoinSet,
    time::Instant,
};

use self::{
    block_view::{BlockView, TxCounts, looked},
    schedule::PollSchedule,
};
use super::{
    nonces::Nonces,
    pending_txs::{InFlightTx, PendingTxs, TxEnd},
    transaction::{Fees, QuotedFees, SignedTx, Transaction, TxCall},
};
use crate::facilitator::chain::{
    node::{Node, RpcError},
    sending::SendOutcome,
};

/// Gas of an empty call, which only uses up its nonce.
const EMPTY_GAS: u64 = 21_000;

/// Delay before a transaction is sent again that arrived too early at a node without a queue, or that got no clear
/// answer. In the latter case the delay doubles each time, up to [`LONGEST_WAIT`].
const SEND_AGAIN: Duration = Duration::from_millis(500);
const LONGEST_WAIT: Duration = Duration::from_secs(30);

/// How long transactions wait for a missing nonce before it is filled, if no other host uses the key.
const FILL_AFTER: Duration = Duration::from_secs(3);

/// Minimum interval between two counts of the signer's transactions, and maximum number of nonces filled after each.
const COUNT_EVERY: Duration = Duration::from_secs(1);
const MAX_FILLED: usize = 64;

/// Capacity of the request queue.
const QUEUE: usize = 256;

const ENDED: &str = "the signer has ended";

/// A request to the task.
enum TxRequest {
    Sign(TxCall, oneshot::Sender<Result<B256, String>>),
    Send(B256, oneshot::Sender<TxEnd>),
    Release(B256),
    Track(u64, B256),
    Has(B256, oneshot::Sender<bool>),
    /// Reads the next nonce from the node again.
    Recount,
    Fees(oneshot::Sender<Result<Fees, String>>),
}

/// An event from the node or a timer.
enum NodeReply {
    Sent {
        nonce: u64,
        hash: B256,
        sending: SendOutcome,
    },
    /// The transaction is due to be sent again.
    Due {
        nonce: u64,
        hash: B256,
    },
    /// The result of a poll of the newest block, with the value of `sendings` when the poll began.
    Looked(Result<(u64, BlockView), RpcError>),
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct PricedTx {
    base_fee_per_gas: U128,
}

#[derive(Debug, Clone)]
pub(super) struct TxManager(mpsc::Sender<TxRequest>);

struct TxManagerTask {
    node: Arc<Node>,
    key: SigningKey,
    address: Address,
    /// Time without a block after which a transaction is replaced.
    timeout: Duration,
    flights: PendingTxs,
    /// The shared nonce counter, if other hosts use the key too.
    nonces: Option<Nonces>,
    /// The last nonce of a lost host that was filled, and when.
    filled: Option<(u64, Instant)>,
    fees: Option<QuotedFees>,
    run: JoinSet<NodeReply>,
    schedule: PollSchedule,
    sendings: u64,
    /// The newest block that was searched for all sent transactions.
    searched: Option<u64>,
    /// Whether the next poll must count the signer's transactions, because an answer of the node was unclear.
    count_next: bool,
    /// When a poll last counted mined and pending transactions.
    counted: Option<Instant>,
}

impl TxManager {
    /// Starts the task, which runs until the last handle is dropped. Without `nonces` the key belongs to this host
    /// alone.
    pub(super) fn open(node: Arc<Node>, key: SigningKey, timeout: Duration, nonces: Option<Nonces>) -> Self {
        let (sender, requests) = mpsc::channel(QUEUE);
        let task = TxManagerTask {
            node,
            address: Address::from_private_key(&key),
            key,
            timeout,
            flights: PendingTxs::new(nonces.is_some()),
            nonces,
            filled: None,
            fees: None,
            run: JoinSet::new(),
            schedule: PollSchedule::default(),
            sendings: 0,
            searched: None,
            count_next: false,
            counted: None,
        };
        tokio::spawn(task.run(requests));
        Self(sender)
    }

    /// Signs a call. It is sent only by [`TxManager::send`].
    pub(super) async fn sign(&self, call: TxCall) -> Result<B256, String> {
        self.request(|reply| TxRequest::Sign(call, reply)).await.unwrap_or_else(|| Err(ENDED.to_owned()))
    }

    /// Sends a signed transaction, and returns its outcome. The caller may stop waiting; the task still tracks the
    /// transaction.
    pub(super) async fn send(&self, hash: B256) -> TxEnd {
        let (reply, ended) = oneshot::channel();
        if self.0.send(TxRequest::Send(hash, reply)).await.is_err() {
            return TxEnd::Unsent(ENDED.to_owned());
        }
        ended.await.unwrap_or(TxEnd::Lost)
    }

    pub(super) async fn fees(&self) -> Result<Fees, String> {
        self.request(TxRequest::Fees).await.unwrap_or_else(|| Err(ENDED.to_owned()))
    }

    /// Returns the nonce of a signed transaction that will not be sent.
    pub(super) fn release(&self, hash: B256) {
        // If the queue is full, the nonce is reclaimed after `SIGNED_FOR`.
        _ = self.0.try_send(TxRequest::Release(hash));
    }

    /// Tracks a pending transaction that a previous run of the host has sent and a node still has.
    pub(super) async fn track(&self, nonce: u64, hash: B256) {
        // If it fails, the next lookup of the settlement tries again.
        _ = self.0.send(TxRequest::Track(nonce, hash)).await;
    }

    /// Returns whether a transaction that was signed here is still pending, itself or as a replacement.
    pub(super) async fn has(&self, hash: B256) -> bool {
        self.request(|reply| TxRequest::Has(hash, reply)).await.unwrap_or(false)
    }

    /// Reads the next nonce from the node again, because a reorganization has dropped transactions.
    pub(super) async fn recount(&self) {
        // If it fails, the missing nonce is filled once others have waited for it.
        _ = self.0.send(TxRequest::Recount).await;
    }

    async fn request<T>(&self, request: impl FnOnce(oneshot::Sender<T>) -> TxRequest) -> Option<T> {
        let (reply, answer) = oneshot::channel();
        self.0.send(request(reply)).await.ok()?;
        answer.await.ok()
    }
}

impl TxManagerTask {
    async fn run(mut self, mut requests: mpsc::Receiver<TxRequest>) {
        loop {
            let look = self.schedule.due();
            tokio::select! {
                request = requests.recv() => match request {
                    Some(request) => self.answer(request).await,
                    None => return,
                },
                Some(Ok(received)) = self.run.join_next() => self.take(received),
                () = tokio::time::sleep_until(look.unwrap_or_else(Instant::now)), if look.is_some() => self.look(),
            }
        }
    }

    async fn answer(&mut self, request: TxRequest) {
        match request {
            TxRequest::Sign(call, reply) => {
                let signed = self.sign(call).await;
                if let Err(Ok(hash)) = reply.send(signed) {
                    self.flights.release_nonce(hash);
                }
            }
            TxRequest::Send(hash, waiter) => match self.flights.send(hash, waiter, Instant::now()) {
                Ok((nonce, signed)) => self.send(nonce, &signed),
                Err(waiter) => _ = waiter.send(TxEnd::Unsent("it was signed too long ago".to_owned())),
            },
            TxRequest::Release(hash) => self.flights.release_nonce(hash),
            // The receiver may have stopped waiting.
            TxRequest::Has(hash, reply) => _ = reply.send(self.flights.has(hash)),
            TxRequest::Recount => self.flights.recount(),
            TxRequest::Fees(reply) => _ = reply.send(self.fees().await),
            TxRequest::Track(nonce, hash) => {
                if let Err(error) = self.track(nonce, hash).await {
                    tracing::warn!(nonce, error, "a transaction of an earlier run could not be tracked");
                }
            }
        }
    }

    /// Tracks a pending transaction. Missing nonces below its own, which a crash between two sends can leave, keep it
    /// out of every block.
    async fn track(&mut self, nonce: u64, hash: B256) -> Result<(), String> {
        if self.flights.get_mut(nonce).is_some() && !self.flights.unsure() {
            return Ok(());
        }
        let count = self.begin().await?;
        let (fees, signed) = (self.fees().await?, SignedTx { raw: Bytes::new(), hash });
        let flight = InFlightTx { sent: true, ..InFlightTx::new(self.empty_call(), fees, signed, Instant::now()) };
        if let Some(nonces) = self.nonces.as_ref().filter(|_| self.flights.reaches(nonce, count)) {
            nonces.raise(nonce.saturating_add(1)).await?;
        }
        self.flights.reach(nonce, count, flight);
        self.schedule.soon(Instant::now());
        Ok(())
    }

    async fn sign(&mut self, call: TxCall) -> Result<B256, String> {
        let now = Instant::now();
        self.flights.forget_unsent(now);
        if self.flights.unsure() {
            self.begin().await?;
        }
        let fees = self.fees().await?;
        let nonce = self.nonce().await?;
        let Some(signed) = self.signed(nonce, fees, &call) else {
            self.flights.refuse(nonce, String::new());
            return Err("the key cannot sign".to_owned());
        };
        let hash = signed.hash;
        self.flights.put(nonce, InFlightTx::new(call, fees, signed, now));
        Ok(hash)
    }

    /// Returns an unused nonce: one that was given back, or the next.
    async fn nonce(&mut self) -> Result<u64, String> {
        let Some(nonces) = &mut self.nonces else { return self.flights.take().ok_or_else(|| "no nonce is available".to_owned()) };
        let now = Instant::now();
        while let Some((nonce, behind)) = self.flights.take_free() {
            if nonces.keeps(nonce, behind, now).await? {
                return Ok(nonce);
            }
        }
        nonces.next(now).await
    }

    /// Reads the next nonce from the node. Also tracks pending transactions of a previous run, since all later ones
    /// wait for them. With a shared key, pending transactions belong to other hosts until [`TxManager::track`] adds them.
    async fn begin(&mut self) -> Result<u64, String> {
        if let Some(nonces) = &self.nonces {
            let count = self.count("pending").await?;
            nonces.raise(count).await?;
            self.flights.begin_at(count, Instant::now());
            return Ok(count);
        }
        let (used, count) = (self.count("latest").await?, self.count("pending").await?);
        let fees = self.fees().await?;
        for nonce in used..count {
            if self.flights.get_mut(nonce).is_none() {
                self.track_unknown(nonce, fees, Instant::now());
            }
        }
        self.flights.begin_at(count, Instant::now());
        Ok(count)
    }

    /// Tracks a pending transaction of which only the nonce is known.
    fn track_unknown(&mut self, nonce: u64, fees: Fees, now: Instant) {
        let nothing = SignedTx { raw: Bytes::new(), hash: B256::ZERO };
        self.flights.put(nonce, InFlightTx { sent: true, ..InFlightTx::new(self.empty_call(), fees, nothing, now) });
        self.schedule.soon(now);
    }

    fn empty_call(&self) -> TxCall {
        TxCall { to: self.address, data: Bytes::new(), gas: EMPTY_GAS }
    }

    fn signed(&self, nonce: u64, fees: Fees, call: &TxCall) -> Option<SignedTx> {
        Transaction { chain: self.node.network().chain_id()?, nonce, fees, call }.sign(&self.key)
    }

    /// Returns the fees for new transactions: the tip, plus twice the current base fee, which may rise for some blocks.
    async fn fees(&mut self) -> Result<Fees, String> {
        if let Some(quoted) = self.fees.filter(|quoted| quoted.good(Instant::now())) {
            return Ok(quoted.fees);
        }
        let (block, tip) = tokio::try_join!(
            self.rpc::<PricedTx>("eth_getBlockByNumber", json!(["latest", false])),
            self.rpc::<U128>("eth_maxPriorityFeePerGas", json!([])),
        )?;
        let tip: u128 = tip.to();
        let fees = Fees { tip, max: block.base_fee_per_gas.to::<u128>().saturating_mul(2).saturating_add(tip) };
        self.fees = Some(QuotedFees { fees, at: Instant::now() });
        Ok(fees)
    }

    async fn count(&self, block: &str) -> Result<u64, String> {
        self.node.tx_count(self.address, block).await.map_err(|error| error.to_string())
    }

    async fn rpc<T: for<'de> Deserialize<'de>>(&self, method: &'static str, params: serde_json::Value) -> Result<T, String> {
        self.node.rpc(method, params).await.map_err(|error| error.to_string())
    }

    fn send(&mut self, nonce: u64, signed: &SignedTx) {
        let (node, SignedTx { raw, hash }) = (Arc::clone(&self.node), signed.clone());
        self.run.spawn(async move { NodeReply::Sent { nonce, hash, sending: node.send(&raw, hash).await } });
        self.sendings += 1;
        self.searched = None;
        self.schedule.soon(Instant::now());
    }

    fn send_in(&mut self, wait: Duration, nonce: u64, hash: B256) {
        self.run.spawn(async move {
            tokio::time::sleep(wait).await;
            NodeReply::Due { nonce, hash }
        });
    }

    fn take(&mut self, received: NodeReply) {
        match received {
            NodeReply::Sent { nonce, hash, sending } => self.answered(nonce, hash, sending),
            NodeReply::Due { nonce, hash } => {
                if let Some(signed) = self.flights.newest(nonce, hash).map(|flight| flight.signed.clone()) {
                    self.send(nonce, &signed);
                }
            }
            NodeReply::Looked(checked) => {
                let counts = match checked {
                    Ok((sendings, checked)) => self.seen(sendings, checked),
                    Err(error) => {
                        tracing::warn!(%error, "blocks could not be searched for pending transactions");
                        None
                    }
                };
                self.unblock(counts);
                self.schedule.looked(Instant::now(), !self.flights.sent().is_empty());
            }
        }
    }

    /// Handles a node's answer to a transaction. Only a transaction that no node can have is given up, and its nonce is
    /// reused. Any other keeps its nonce until a block uses it, and is sent again unchanged.
    fn answered(&mut self, nonce: u64, hash: B256, sending: SendOutcome) {
        if matches!(sending, SendOutcome::Contested(_)) {
            self.flights.recount();
        }
        let Some(flight) = self.flights.newest(nonce, hash) else { return };
        match sending {
            SendOutcome::Accepted => {
                (flight.last_seen, flight.attempts) = (true, 0);
                self.schedule.at_once(Instant::now());
            }
            SendOutcome::Early(_) => self.send_in(SEND_AGAIN, nonce, hash),
            SendOutcome::Refused(reason) if flight.last_seen => {
                tracing::warn!(nonce, reason, "a transaction that could be in a pool was rejected when it was sent again or replaced");
            }
            SendOutcome::Refused(reason) => {
                tracing::warn!(nonce, reason, "a transaction was not sent");
                self.fees = None;
                self.flights.refuse(nonce, reason);
            }
            SendOutcome::Contested(reason) | SendOutcome::Unclear(reason) => {
                let wait = SEND_AGAIN.saturating_mul(1 << flight.attempts.min(10)).min(LONGEST_WAIT);
                (flight.last_seen, flight.attempts, self.count_next) = (true, flight.attempts + 1, true);
                tracing::warn!(nonce, reason, "it is unknown whether a transaction was sent; it is sent again with the same nonce");
                self.send_in(wait, nonce, hash);
                self.schedule.at_once(Instant::now());
            }
        }
    }

    /// Starts a poll of the newest block. A new block is searched for pending transactions.
    fn look(&mut self) {
        let (node, address, sent, before) = (Arc::clone(&self.node), self.address, self.flights.sent(), self.searched);
        // Only once a transaction takes long does it matter whether its nonce is used or an earlier one is missing.
        let now = Instant::now();
        let recent = self.counted.is_some_and(|at| now.duration_since(at) < COUNT_EVERY.min(self.timeout));
        let waits = !recent && self.flights.waiting(now, self.fill_after()).is_some();
        self.counted = if waits { Some(now) } else { self.counted };
        let counts = TxCounts { used: waits || std::mem::take(&mut self.count_next), pending: waits };
        self.schedule.looking();
        let sendings = self.sendings;
        self.run.spawn(async move { NodeReply::Looked(looked(&node, address, sent, before, counts).await.map(|seen| (sendings, seen))) });
    }

    /// Ends transactions that are in a block. Returns the number of mined transactions, and of mined and pending ones,
    /// if both were requested.
    fn seen(&mut self, sendings: u64, checked: BlockView) -> Option<(u64, u64)> {
        if sendings == self.sendings {
            self.searched = Some(checked.head);
        }
        let now = Instant::now();
        // The counts may be older than the receipts.
        let mined = checked.receipts.iter().map(|(nonce, _)| nonce + 1).max().unwrap_or(0);
        for (nonce, receipt) in checked.receipts {
            self.flights.end(nonce, TxEnd::Mined(receipt), now);
        }
        if let Some(used) = checked.used {
            for (nonce, _) in self.flights.sent().into_iter().filter(|(nonce, _)| *nonce < used) {
                self.flights.end(nonce, TxEnd::Lost, now);
            }
        }
        checked.used.zip(checked.pending).map(|(used, pending)| (used.max(mined), pending.max(mined)))
    }

    /// Returns how long a transaction waits before the missing nonces below it are filled.
    fn fill_after(&self) -> Duration {
        if self.nonces.is_some() { self.timeout } else { self.timeout.min(FILL_AFTER) }
    }

    /// Returns an unused nonce that others have waited for too long.
    fn missing_nonce(&mut self, counts: (u64, u64), now: Instant) -> Option<u64> {
        if self.nonces.is_none() {
            return self.flights.gap(now, self.fill_after());
        }
        let nonce = self.flights.abandoned(counts, now, self.timeout)?;
        // Do not fill the same nonce again at once, if the node did not accept it.
        if self.filled.is_some_and(|(filled, at)| filled == nonce && now.duration_since(at) <= self.timeout) {
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
            self.track_unknown(nonce, fees, now);
        }
        if self.flights.find_missing(counts.1, now) {
            for (nonce, signed) in self.flights.queued(now, self.fill_after()).into_iter().take(MAX_FILLED) {
                self.send(nonce, &signed);
            }
        }
        for _ in 0..MAX_FILLED {
            let Some(nonce) = self.missing_nonce(counts, now) else { return };
            let call = self.empty_call();
            let Some(signed) = self.signed(nonce, fees, &call) else { return };
            tracing::warn!(nonce, "a missing nonce is filled, because later transactions wait for it");
            self.send(nonce, &signed);
            self.flights.put(nonce, InFlightTx { sent: true, ..InFlightTx::new(call, fees, signed, now) });
        }
    }

    /// Fills nonces that others wait for, and replaces a transaction that is pending for too long.
    fn unblock(&mut self, counts: Option<(u64, u64)>) {
        let now = Instant::now();
        if let Some(counts) = counts {
            self.fill(counts, now);
        }
        let Some((nonce, flight)) = counts.and_then(|counts| self.flights.stuck_tx(counts, now, self.timeout)) else {
            if let Some((nonce, signed)) = self.flights.dropped(now, self.timeout) {
                self.send(nonce, &signed);
            }
            return;
        };
        let (fees, call) = (flight.fees.raised(), flight.call.clone());
        let Some(signed) = self.signed(nonce, fees, &call) else { return };
        if let Some(flight) = self.flights.get_mut(nonce) {
            tracing::warn!(nonce, "a transaction has not been in a block for a long time, and is replaced by one that pays more");
            flight.replace(fees, signed.clone(), now);
        }
        self.send(nonce, &signed);
    }
}

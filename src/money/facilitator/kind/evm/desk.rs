//! The signer: one task that owns the key's nonces, sends what is signed, and looks where it went. Of a key that hosts of one store share
//! each has one, and the store says which nonce is whose.
//!
//! Transactions are signed one after the other and sent all at once, so that many are in one block. While any is on its way the
//! newest block is asked for, and a new one is searched for all of them: a settlement takes about one block. What is in none for long
//! is replaced for more, and a nonce that others wait for is filled, both within bounds.

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

/// After how long a transaction is sent again that came too early for a node which keeps nothing for later, or that got no clear answer;
/// in the latter case each time after twice as long, up to [`LONGEST_WAIT`].
const SEND_AGAIN: Duration = Duration::from_millis(500);
const LONGEST_WAIT: Duration = Duration::from_secs(30);

/// Questions to the signer that may wait.
const QUEUE: usize = 256;

/// What the signer is asked.
enum Ask {
    Sign(Call, oneshot::Sender<Result<B256, String>>),
    Send(B256, oneshot::Sender<Ended>),
    GiveBack(B256),
    Mind(u64, B256),
    Has(B256, oneshot::Sender<bool>),
    Fees(oneshot::Sender<Result<Fees, String>>),
}

/// What comes back from the node.
enum Came {
    Sent {
        nonce: u64,
        hash: B256,
        sending: Sending,
    },
    /// It is time to send it again.
    Due {
        nonce: u64,
        hash: B256,
    },
    /// When so much was sent.
    Looked(Result<(u64, Looked), RpcError>),
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Priced {
    base_fee_per_gas: U128,
}

/// Where the signer is asked.
#[derive(Debug, Clone)]
pub(super) struct Desk(mpsc::Sender<Ask>);

/// The task itself.
struct Clerk {
    node: Arc<Node>,
    key: SigningKey,
    address: Address,
    /// How long a transaction may be in no block before it is replaced.
    patience: Duration,
    flights: Flights,
    /// Where the next nonce comes from, if other hosts use the key too.
    nonces: Option<Nonces>,
    /// The nonce of a host that is gone that was used up last, and when.
    filled: Option<(u64, Instant)>,
    fees: Option<Quoted>,
    work: JoinSet<Came>,
    schedule: Schedule,
    /// How often something was sent.
    sendings: u64,
    /// The newest block that was searched for all that was sent.
    searched: Option<u64>,
    /// Whether the next look counts the transactions of the signer: an answer of the node was not clear.
    count: bool,
}

impl Desk {
    /// Starts the signer's task, which lives as long as somebody can ask it. Without `nonces` the key is its alone.
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
        };
        tokio::spawn(clerk.run(asks));
        Self(sender)
    }

    /// Signs a call, which is not sent before [`Desk::send`] is told its hash.
    pub(super) async fn sign(&self, call: Call) -> Result<B256, String> {
        let (reply, signed) = oneshot::channel();
        let gone = || "the signer has ended".to_owned();
        self.0.send(Ask::Sign(call, reply)).await.map_err(|_| gone())?;
        signed.await.map_err(|_| gone())?
    }

    /// Sends what was signed, and answers when it is over. Waiting for that may be given up: it is looked after all the same.
    pub(super) async fn send(&self, hash: B256) -> Ended {
        let (reply, ended) = oneshot::channel();
        if self.0.send(Ask::Send(hash, reply)).await.is_err() {
            return Ended::Unsent("the signer has ended".to_owned());
        }
        ended.await.unwrap_or(Ended::Lost)
    }

    /// What a transaction that is signed now pays for gas.
    pub(super) async fn fees(&self) -> Result<Fees, String> {
        let (reply, fees) = oneshot::channel();
        let gone = || "the signer has ended".to_owned();
        self.0.send(Ask::Fees(reply)).await.map_err(|_| gone())?;
        fees.await.map_err(|_| gone())?
    }

    /// Gives back the nonce of what was signed and is not to be sent.
    pub(super) fn give_back(&self, hash: B256) {
        // Where the queue is full its nonce is taken back in a minute.
        _ = self.0.try_send(Ask::GiveBack(hash));
    }

    /// Has a transaction of this nonce looked after, which an earlier life of the host has sent and the node has, in no block yet.
    pub(super) async fn mind(&self, nonce: u64, hash: B256) {
        // Whoever asks about its settlement asks again.
        _ = self.0.send(Ask::Mind(nonce, hash)).await;
    }

    /// Whether a transaction that was signed here is on its way still, in this form or in one that pays more.
    pub(super) async fn has(&self, hash: B256) -> bool {
        let (reply, has) = oneshot::channel();
        self.0.send(Ask::Has(hash, reply)).await.is_ok() && has.await.unwrap_or(false)
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
            // Whoever asked may have given up.
            Ask::Has(hash, reply) => _ = reply.send(self.flights.has(hash)),
            Ask::Fees(reply) => _ = reply.send(self.fees().await),
            Ask::Mind(nonce, hash) => {
                if let Err(error) = self.mind(nonce, hash).await {
                    tracing::warn!(nonce, error, "a transaction of before could not be looked after");
                }
            }
        }
    }

    /// What is missing below the nonce of a transaction keeps it out of every block: the host may have ended between two sendings.
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

    /// A nonce that nothing has: one that was given back, or the next.
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

    /// Asks the node for the first nonce. What an earlier life of the host has sent and no block has yet is looked after as well: all
    /// that comes waits for it. Of a key that other hosts use too it is theirs, until one of them has it [minded](Desk::mind).
    async fn begin(&mut self) -> Result<u64, String> {
        if let Some(nonces) = &self.nonces {
            let count: U64 = self.ask("eth_getTransactionCount", json!([self.address, "pending"])).await?;
            nonces.raise(count.to()).await?;
            self.flights.begin_at(count.to());
            return Ok(count.to());
        }
        let used: U64 = self.ask("eth_getTransactionCount", json!([self.address, "latest"])).await?;
        let count: U64 = self.ask("eth_getTransactionCount", json!([self.address, "pending"])).await?;
        let fees = self.fees().await?;
        for nonce in used.to::<u64>()..count.to() {
            if self.flights.get_mut(nonce).is_none() {
                let nothing = Signed { raw: Bytes::new(), hash: B256::ZERO };
                self.flights.put(nonce, Flight { sent: true, ..Flight::new(self.nothing(), fees, nothing, Instant::now()) });
                self.schedule.soon(Instant::now());
            }
        }
        self.flights.begin_at(count.to());
        Ok(count.to())
    }

    /// A call that only uses up its nonce.
    fn nothing(&self) -> Call {
        Call { to: self.address, data: Bytes::new(), gas: EMPTY_GAS }
    }

    fn signed(&self, nonce: u64, fees: Fees, call: &Call) -> Option<Signed> {
        Transaction { chain: self.node.network().chain_id()?, nonce, fees, call }.sign(&self.key)
    }

    /// Twice what a block asks now, so that it may rise for some blocks, and the tip.
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

    /// Acts on a node's answer to a transaction. Only one that no node can have is given up: its nonce is the next one's then. Any other
    /// keeps its nonce until a block has one of that nonce, and is sent again as it is.
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

    /// Looks at the newest block, and if it is a new one, for what is on its way.
    fn look(&mut self) {
        let (node, address, sent, before) = (Arc::clone(&self.node), self.address, self.flights.sent(), self.searched);
        // Whether others have used its nonces matters once a transaction takes long.
        let (now, shared) = (Instant::now(), self.nonces.is_some());
        let waits =
            if shared { self.flights.waiting(now, self.patience).is_some() } else { self.flights.stuck(now, self.patience).is_some() };
        let counts = Counts { used: waits || std::mem::take(&mut self.count), pending: waits };
        self.schedule.looking();
        let sendings = self.sendings;
        self.work.spawn(async move { Came::Looked(looked(&node, address, sent, before, counts).await.map(|seen| (sendings, seen))) });
    }

    /// Ends what is in a block; answers how many transactions are in blocks, and how many with those in none, if both were asked.
    fn seen(&mut self, sendings: u64, looked: Looked) -> Option<(u64, u64)> {
        if sendings == self.sendings {
            self.searched = Some(looked.head);
        }
        for (nonce, receipt) in looked.receipts {
            self.flights.end(nonce, Ended::Mined(receipt));
        }
        if let Some(used) = looked.used {
            for (nonce, _) in self.flights.sent().into_iter().filter(|(nonce, _)| *nonce < used) {
                self.flights.end(nonce, Ended::Lost);
            }
        }
        looked.used.zip(looked.pending)
    }

    /// A nonce that nothing has, and that others have waited for for too long.
    fn missing(&mut self, counts: Option<(u64, u64)>, now: Instant) -> Option<u64> {
        if self.nonces.is_none()
            && let Some(gap) = self.flights.gap(now, self.patience)
        {
            return Some(gap);
        }
        let nonce = self.flights.left(counts?, now, self.patience)?;
        // A node that did not take it is not asked again at once.
        if self.filled.is_some_and(|(filled, at)| filled == nonce && now.duration_since(at) <= self.patience) {
            return None;
        }
        self.filled = Some((nonce, now));
        Some(nonce)
    }

    /// Replaces what is in no block for too long, and fills what others wait for.
    fn hurry(&mut self, counts: Option<(u64, u64)>) {
        let now = Instant::now();
        let known = self.fees.map(|quoted| quoted.fees).or_else(|| self.flights.waiting(now, self.patience).map(|flight| flight.fees));
        if let Some(fees) = known
            && let Some(nonce) = self.missing(counts, now)
        {
            let call = self.nothing();
            if let Some(signed) = self.signed(nonce, fees, &call) {
                tracing::warn!(nonce, "a nonce that others wait for is used up");
                self.flights.put(nonce, Flight { sent: true, ..Flight::new(call, fees, signed.clone(), now) });
                self.send(nonce, &signed);
            }
        }
        let Some((nonce, flight)) = self.flights.stuck(now, self.patience) else {
            if let Some((nonce, signed)) = self.flights.dropped(now, self.patience) {
                self.send(nonce, &signed);
            }
            return;
        };
        // It may wait for one of another host, which replaces that.
        if self.nonces.is_some() && counts.is_none_or(|(used, _)| used < nonce) {
            return;
        }
        let (fees, call) = (flight.fees.raised(), flight.call.clone());
        let Some(signed) = self.signed(nonce, fees, &call) else { return };
        if let Some(flight) = self.flights.get_mut(nonce) {
            tracing::warn!(nonce, "a transaction is in no block for long, and is replaced by one that pays more");
            flight.replace(fees, signed.clone(), now);
        }
        self.send(nonce, &signed);
    }
}

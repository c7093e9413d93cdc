//! Making packets: what waits is moved into one, and the whole is sealed.

use std::ops::Bound;

use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use super::{
    Check, Direction, Durability, Events, HEAD, KeyRange, Kind, MicroUsd, Owner, Packet, PayoutError, Payouts, Period, Space, Status,
    StoreError, TRIES, Timestamp, Write, damaged, head_key, index_key, packet_key, parsed, receipt_key, unpaid,
};
use crate::base::id::{BuilderId, PayoutId};

/// Receipts moved in one commit.
const CHUNK: usize = 1_000;

/// The newest packet of a builder. Every packet begun and every one sealed changes it.
#[derive(Debug, Clone, Serialize, Deserialize)]
struct Head {
    id: PayoutId,
    collecting: bool,
}

/// What waits to be paid out.
#[derive(Debug, Default)]
struct Waiting {
    net: u64,
    last: Option<Vec<u8>>,
}

impl Payouts {
    /// Makes a packet of all that waits for `builder`, or goes on with one that was cut off. `None` when nothing waits.
    ///
    /// # Errors
    ///
    /// [`PayoutError::NoSettings`], [`PayoutError::BelowMinimum`], the store's. After any of the store's another
    /// call goes on where this one ended.
    pub async fn pay_out(&self, builder: &BuilderId) -> Result<Option<Packet>, PayoutError> {
        for _ in 0..TRIES {
            let before = self.store.get(Space::Payouts, &head_key(Some(builder))).await?;
            let head = before.as_deref().map(Head::decode).transpose()?;
            if let Some(head) = head.filter(|head| head.collecting) {
                return self.complete(builder, &head.id).await.map(Some);
            }
            let settings = self.settings(builder).await?.ok_or(PayoutError::NoSettings)?;
            let waiting = self.waiting(builder).await?;
            let Some(until) = waiting.last else { return Ok(None) };
            if waiting.net < settings.minimum_usd.0 {
                return Err(PayoutError::BelowMinimum { amount: MicroUsd(waiting.net), minimum: settings.minimum_usd });
            }
            let packet = Packet::collecting(builder, settings, until, self.clock.now());
            // What was counted still waits as long as no other packet was begun.
            let check = Check { space: Space::Payouts, key: head_key(Some(builder)), expected: before };
            let index = Write::put(Space::Payouts, index_key(Some(&packet.id)), builder.as_str());
            let writes = vec![Head { id: packet.id.clone(), collecting: true }.write(builder), packet.write(), index];
            match self.store.commit(vec![check], writes, Durability::Durable).await {
                Ok(()) => return self.complete(builder, &packet.id).await.map(Some),
                Err(StoreError::Conflict) => {}
                Err(error) => return Err(error.into()),
            }
        }
        Err(StoreError::Conflict.into())
    }

    /// Goes on with every packet that was cut off.
    ///
    /// # Errors
    ///
    /// The store's.
    pub async fn resume(&self) -> Result<(), PayoutError> {
        let mut range = KeyRange::prefix(&head_key(None));
        loop {
            let heads = self.store.scan(Space::Payouts, range.clone(), CHUNK, Direction::Forward).await?;
            let Some((last, _)) = heads.last() else { return Ok(()) };
            range = range.after(last);
            for (key, bytes) in &heads {
                let head = Head::decode(bytes)?;
                if head.collecting {
                    let builder = parsed(key.get(HEAD.len() + 1..).unwrap_or_default())?;
                    let packet = self.complete(&builder, &head.id).await?;
                    tracing::info!(payout.id = %packet.id, "a payout that was cut off is complete");
                }
            }
        }
    }

    /// All that waits, added up.
    async fn waiting(&self, builder: &BuilderId) -> Result<Waiting, StoreError> {
        let (mut waiting, mut range) = (Waiting::default(), KeyRange::prefix(&unpaid_key(builder)));
        loop {
            let page = self.store.scan(Space::Unpaid, range.clone(), CHUNK, Direction::Forward).await?;
            for (_, value) in &page {
                waiting.net = waiting.net.saturating_add(unpaid(value)?.net);
            }
            let Some((last, _)) = page.into_iter().next_back() else { return Ok(waiting) };
            range = range.after(&last);
            waiting.last = Some(last);
        }
    }

    /// Moves what is left of a packet's receipts, and seals it.
    async fn complete(&self, builder: &BuilderId, id: &PayoutId) -> Result<Packet, PayoutError> {
        loop {
            let (packet, before) = self.read(builder, id).await?;
            if packet.status != Status::Collecting {
                return Ok(packet);
            }
            let mut range = KeyRange::prefix(&unpaid_key(builder));
            range.end = Bound::Included(packet.until.clone());
            let page = self.store.scan(Space::Unpaid, range, CHUNK, Direction::Forward).await?;
            let check = Check::holds(Space::Payouts, packet_key(builder, Some(id)), before);
            let done = if page.is_empty() { self.seal(packet, check).await } else { self.take(packet, check, &page).await.map(|()| None) };
            match done {
                Ok(Some(sealed)) => return Ok(sealed),
                // Another request, or another host, works on the same packet.
                Ok(None) | Err(StoreError::Conflict) => {}
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// Moves some receipts into the packet.
    async fn take(&self, mut packet: Packet, check: Check, page: &[(Vec<u8>, Vec<u8>)]) -> Result<(), StoreError> {
        let skip = unpaid_key(&packet.builder_id).len();
        let mut writes = Vec::with_capacity(2 * page.len() + 1);
        for (key, value) in page {
            let receipt = unpaid(value)?;
            packet.amount = packet.amount.checked_add(receipt.net).ok_or_else(damaged)?;
            packet.receipt_count += 1;
            let at = Timestamp(receipt.at_ms);
            let period = packet.period.unwrap_or(Period { from: at, to: at });
            packet.period = Some(Period { from: period.from.min(at), to: period.to.max(at) });
            writes.push(Write::delete(Space::Unpaid, key.clone()));
            writes.push(Write::put(Space::PayoutReceipts, receipt_key(&packet.id, &key[skip..]), value.clone()));
        }
        writes.push(packet.write());
        self.store.commit(vec![check], writes, Durability::Buffered).await
    }

    /// Adds up once more, digests and signs.
    async fn seal(&self, mut packet: Packet, check: Check) -> Result<Option<Packet>, StoreError> {
        let (mut range, skip) = (KeyRange::prefix(&receipt_key(&packet.id, b"")), receipt_key(&packet.id, b"").len());
        let (mut hasher, mut amount, mut count) = (Sha256::new(), 0_u64, 0_u64);
        loop {
            let page = self.store.scan(Space::PayoutReceipts, range.clone(), CHUNK, Direction::Forward).await?;
            for (key, value) in &page {
                if count > 0 {
                    hasher.update(b"\n");
                }
                hasher.update(&key[skip..]);
                amount = amount.checked_add(unpaid(value)?.net).ok_or_else(damaged)?;
                count += 1;
            }
            let Some((last, _)) = page.last() else { break };
            range = range.after(last);
        }
        if (amount, count) != (packet.amount, packet.receipt_count) {
            if self.store.get(check.space, &check.key).await? != check.expected {
                // Another has moved more since the record was read.
                return Err(StoreError::Conflict);
            }
            tracing::error!(payout.id = %packet.id, amount, count, "a payout is not the sum of its receipts");
            return Err(damaged());
        }
        packet.digest = Some(format!("sha256:{}", hex::encode(hasher.finalize())));
        packet.signature = Some(self.signer.sign_payout(&packet.canonical()));
        packet.status = Status::Created;
        packet.updated_at = self.clock.now();
        let owner = Owner::Builder(packet.builder_id.clone());
        let event = self.event(Kind::PayoutCreated, &packet);
        let head = Head { id: packet.id.clone(), collecting: false };
        let writes = vec![packet.write(), head.write(&packet.builder_id), Events::write(&owner, &event)];
        self.store.commit(vec![check], writes, Durability::Durable).await?;
        self.events.announce(&owner, event);
        Ok(Some(packet))
    }
}

impl Head {
    fn write(&self, builder: &BuilderId) -> Write {
        Write::put(Space::Payouts, head_key(Some(builder)), serde_json::to_vec(self).expect("a head has text keys"))
    }

    fn decode(bytes: &[u8]) -> Result<Self, StoreError> {
        serde_json::from_slice(bytes).map_err(|_| damaged())
    }
}

/// What the keys of all that waits for a builder start with.
fn unpaid_key(builder: &BuilderId) -> Vec<u8> {
    [builder.as_str().as_bytes(), &[0]].concat()
}

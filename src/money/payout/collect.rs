//! Makes payouts: moves unpaid earnings into one and seals it. Rejects payouts: moves their receipts back to the
//! builder's unpaid earnings, so that the next payout has them.
//!
//! The first commit of a rejection makes the payout `rejecting`, and returns the refunds that it withheld to those that
//! are owed. Then a thousand receipts move per commit, each with the posting of their sum. The last commit makes it
//! `rejected`. Its record keeps the signed amount and number of receipts.

use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};
use tollhouse_base::{
    boxed,
    id::{BuilderId, PayoutId, ReceiptId},
};
use tollhouse_store::{Batch, KeyPosition, SumLimit, Tx, UpdatePlan};

use super::{
    Direction, Durability, Event, Events, Kind, MicroUsd, Owner, PAYOUT_RECEIPTS, PAYOUT_SETTINGS, PAYOUTS, Packet, PayoutError,
    PayoutPeriod, PayoutStatus, PayoutVerdict, Payouts, StoreError, Table, TerminatedText, Timestamp, damaged, key, move_to,
    packet::is_reached, schema, update,
};
use crate::{
    ledger::{Cause, Dollars, Posting, unpaid},
    refund::REFUNDS_OWED,
    sale::UNPAID,
};

const PAYOUT_HEADS: Table<BuilderId, NewestPacket> = schema::PAYOUT_HEADS.holding();
tollhouse_store::json_values!(NewestPacket);

/// Number of receipts moved per commit.
const CHUNK: usize = 1_000;

/// The newest payout of a builder. Beginning and sealing a payout change this record.
#[derive(Debug, Clone, Serialize, Deserialize)]
struct NewestPacket {
    id: PayoutId,
    collecting: bool,
}

type Planned<'a, T> = Result<UpdatePlan<'a, T>, PayoutError>;

/// A payout in its next state. The event is set if this call moved it there.
type Completed = (Packet, Option<Event>);

impl Packet {
    /// Returns the rows that subtract the refunds withheld from it from those that are owed, or that add them `again`.
    fn move_withheld(&self, again: bool, at: Timestamp) -> Batch {
        let (id, withheld) = (self.id.clone(), MicroUsd(self.withheld));
        let (packet, builder) = (Dollars::Packet(id.clone()), Dollars::Builder(self.builder_id.clone()));
        let (posting, owed) = match again {
            true => (Posting::new(Cause::OwedAgain(id), at).dollars(builder, packet, withheld), i128::from(withheld.0)),
            false => (Posting::new(Cause::Withheld(id), at).dollars(packet, builder, withheld), -i128::from(withheld.0)),
        };
        let mut batch = posting.stored();
        if !withheld.is_zero() {
            batch.add(&REFUNDS_OWED, &self.builder_id, owed, SumLimit::Floor(0));
        }
        batch
    }
}

impl Payouts {
    /// Makes a payout of all unpaid earnings of `builder`, or continues an interrupted one. `None` if there are none.
    ///
    /// # Errors
    ///
    /// [`PayoutError::NoSettings`], [`PayoutError::BelowMinimum`], or errors of the store. After an error of the store,
    /// the next call continues.
    #[boxed]
    pub async fn pay_out(&self, builder: &BuilderId) -> Result<Option<Packet>, PayoutError> {
        let started = update(&*self.store, Durability::Durable, |tx| self.begin(tx, builder)).await?;
        match started {
            Some(id) => self.complete(builder, &id).await.map(Some),
            None => Ok(None),
        }
    }

    async fn begin<'a>(&self, mut tx: Tx<'a>, builder: &BuilderId) -> Planned<'a, Option<PayoutId>> {
        // The earnings counted below stay unpaid as long as no other payout begins.
        let head = tx.get(&PAYOUT_HEADS, builder).await?;
        if let Some(head) = head.filter(|head| head.collecting) {
            return tx.answer(Some(head.id));
        }
        let settings = tx.get(&PAYOUT_SETTINGS, builder).await?.ok_or(PayoutError::NoSettings)?;
        if UNPAID.first(tx.store(), &UNPAID.under(&TerminatedText(builder.clone()))).await?.is_none() {
            return tx.answer(None);
        }
        // The account has the sum of its rows, so compare it before reading them. Otherwise, anybody who has earned
        // something could make the host sum all rows with each request for a payout below the minimum.
        let balance = u64::try_from(unpaid(tx.store(), builder).await?).unwrap_or(0);
        if !is_reached(&settings, balance)? {
            return tx.answer(None);
        }
        let (net, last) = self.waiting(builder).await?;
        let Some(until) = last else { return tx.answer(None) };
        // Refunds from now on belong to the next payout, so that this one's amount does not shrink.
        let withheld = u64::try_from(REFUNDS_OWED.get(&*self.store, builder).await?).map_err(|_| damaged())?;
        let amount = net.saturating_sub(withheld);
        if !is_reached(&settings, amount)? {
            return tx.answer(None);
        }
        let packet = Packet::collecting(builder, settings, KeyPosition::of(&until), withheld, self.clock.now());
        let id = packet.id.clone();
        move_to(&mut tx, None, packet.status);
        tx.put(&PAYOUT_HEADS, builder, &NewestPacket { id: id.clone(), collecting: true });
        tx.put_new(&PAYOUTS, &key(builder, &id), &packet);
        tx.answer(Some(id))
    }

    /// Continues every interrupted payout and rejection, newest first. Reads no others.
    #[boxed]
    pub async fn resume(&self) -> Result<(), PayoutError> {
        self.resume_all(PayoutStatus::Collecting).await?;
        self.resume_all(PayoutStatus::Rejecting).await
    }

    /// Continues every payout in one of the two states.
    async fn resume_all(&self, state: PayoutStatus) -> Result<(), PayoutError> {
        let mut last = None;
        loop {
            let some = self.in_state(state, CHUNK, last.as_ref()).await?;
            let Some((id, _)) = some.last() else { return Ok(()) };
            last = Some(id.clone());
            for (id, builder) in some {
                let packet = match state {
                    PayoutStatus::Rejecting => self.give_back(&builder, &id).await?,
                    _ => self.complete(&builder, &id).await?,
                };
                tracing::info!(payout.id = %packet.id, payout.status = packet.status.as_str(), "an interrupted payout is complete");
            }
        }
    }

    /// Returns the sum of all unpaid earnings, and the key of the last.
    async fn waiting(&self, builder: &BuilderId) -> Result<(u64, Option<(TerminatedText<BuilderId>, ReceiptId)>), StoreError> {
        let (mut net, mut last, mut range) = (0_u64, None, UNPAID.under(&TerminatedText(builder.clone())));
        loop {
            let page = UNPAID.page(&*self.store, &range, CHUNK, Direction::Forward).await?;
            net = page.iter().fold(net, |net, row| net.saturating_add(row.value.net));
            let Some(row) = page.into_iter().next_back() else { return Ok((net, last)) };
            range = range.after(&row.key);
            last = Some(row.key);
        }
    }

    /// Moves the remaining receipts of a payout, and seals it. Another request or host may work on the same payout.
    async fn complete(&self, builder: &BuilderId, id: &PayoutId) -> Result<Packet, PayoutError> {
        while update(&*self.store, Durability::Buffered, |tx| self.take(tx, builder, id)).await? {}
        loop {
            let sealed = update(&*self.store, Durability::Durable, |tx| self.seal(tx, builder, id)).await?;
            let Some((packet, event)) = sealed else { continue };
            if let Some(event) = event {
                self.events.announce(&Owner::Builder(builder.clone()), event);
            }
            return Ok(packet);
        }
    }

    /// Sums the receipts again, and adds digest and signature. Returns `None` if more was moved since the record was read.
    async fn seal<'a>(&self, mut tx: Tx<'a>, builder: &BuilderId, id: &PayoutId) -> Planned<'a, Option<Completed>> {
        let row = tx.row(&PAYOUTS, &key(builder, id)).await?.ok_or(PayoutError::Unknown)?;
        let mut packet = row.value.clone();
        if packet.status != PayoutStatus::Collecting {
            return tx.answer(Some((packet, None)));
        }
        let mut range = PAYOUT_RECEIPTS.under(&TerminatedText(id.clone()));
        let (mut hasher, mut amount, mut count) = (Sha256::new(), 0_u64, 0_u64);
        loop {
            let page = PAYOUT_RECEIPTS.page(tx.store(), &range, CHUNK, Direction::Forward).await?;
            for receipt in &page {
                if count > 0 {
                    hasher.update(b"\n");
                }
                hasher.update(&receipt.key.1);
                amount = amount.checked_add(receipt.value.net).ok_or_else(damaged)?;
                count += 1;
            }
            let Some(last) = page.last() else { break };
            range = range.after(&last.key);
        }
        if (amount, count) != (packet.amount, packet.receipt_count) {
            if PAYOUTS.get(tx.store(), &row.key).await?.as_ref() != Some(&row.value) {
                // Another host or request has moved more since the record was read.
                return tx.answer(None);
            }
            tracing::error!(payout.id = %packet.id, amount, count, "a payout is not the sum of its receipts");
            return Err(damaged().into());
        }
        packet.amount = amount.checked_sub(packet.withheld).ok_or_else(damaged)?;
        tx.append(packet.move_withheld(false, self.clock.now()));
        packet.digest = Some(format!("sha256:{}", hex::encode(hasher.finalize())));
        packet.signature = Some(self.signer.sign_payout(&packet.canonical()));
        packet.status = PayoutStatus::Created;
        packet.updated_at = self.clock.now();
        let event = self.event(Kind::PayoutCreated, &packet);
        move_to(&mut tx, Some(row.value.status), packet.status);
        tx.replace(&PAYOUTS, &row, &packet).put(&PAYOUT_HEADS, builder, &NewestPacket { id: id.clone(), collecting: false });
        tx.append(Events::stored(&Owner::Builder(builder.clone()), &event));
        tx.answer(Some((packet, Some(event))))
    }

    /// Moves some receipts into the payout. Returns false once it has all of them.
    async fn take<'a>(&self, mut tx: Tx<'a>, builder: &BuilderId, id: &PayoutId) -> Planned<'a, bool> {
        let row = tx.row(&PAYOUTS, &key(builder, id)).await?.ok_or(PayoutError::Unknown)?;
        let mut packet = row.value.clone();
        if packet.status != PayoutStatus::Collecting {
            return tx.answer(false);
        }
        let until = packet.until.parts::<(TerminatedText<BuilderId>, ReceiptId)>().ok_or_else(damaged)?;
        let mut range = UNPAID.under(&TerminatedText(builder.clone())).up_to(&until);
        // Start after the last moved receipt, because a database scans deleted rows until it has vacuumed them.
        // Receipts added before it since belong to the next payout.
        let moved = PAYOUT_RECEIPTS.page(tx.store(), &PAYOUT_RECEIPTS.under(&TerminatedText(id.clone())), 1, Direction::Backward).await?;
        if let Some(last) = moved.first() {
            range = range.after(&(TerminatedText(builder.clone()), last.key.1.parse().map_err(|_| damaged())?));
        }
        let page = UNPAID.page(tx.store(), &range, CHUNK, Direction::Forward).await?;
        let Some(first) = page.first().map(|receipt| receipt.key.1.clone()) else { return tx.answer(false) };
        let before = packet.amount;
        for receipt in page {
            packet.amount = packet.amount.checked_add(receipt.value.net).ok_or_else(damaged)?;
            packet.receipt_count += 1;
            let at = Timestamp(receipt.value.at_ms);
            let period = packet.period.unwrap_or(PayoutPeriod { from: at, to: at });
            packet.period = Some(PayoutPeriod { from: period.from.min(at), to: period.to.max(at) });
            tx.sweep(&UNPAID, &receipt);
            tx.put(&PAYOUT_RECEIPTS, &(TerminatedText(id.clone()), receipt.key.1.to_string()), &receipt.value);
        }
        let moved = MicroUsd(packet.amount - before);
        let posting = Posting::new(Cause::Packed(id.clone(), first), self.clock.now());
        let posting = posting.dollars(Dollars::Builder(builder.clone()), Dollars::Packet(id.clone()), moved);
        tx.replace(&PAYOUTS, &row, &packet).append(posting.stored());
        tx.answer(true)
    }

    /// Rejects a payout, or continues a rejection that was interrupted.
    pub(super) async fn reject(&self, id: &PayoutId, verdict: &PayoutVerdict) -> Result<Packet, PayoutError> {
        let builder = &self.builder_of(id).await?;
        update(&*self.store, Durability::Durable, |tx| self.begin_rejection(tx, builder, id, verdict)).await?;
        self.give_back(builder, id).await
    }

    async fn begin_rejection<'a>(&self, mut tx: Tx<'a>, builder: &BuilderId, id: &PayoutId, verdict: &PayoutVerdict) -> Planned<'a, ()> {
        let row = tx.row(&PAYOUTS, &key(builder, id)).await?.ok_or(PayoutError::Unknown)?;
        if row.value.status == PayoutStatus::Rejecting {
            return tx.answer(());
        }
        let mut packet = row.value.clone();
        packet.decide(verdict, self.clock.now())?;
        move_to(&mut tx, Some(row.value.status), packet.status);
        tx.replace(&PAYOUTS, &row, &packet).append(packet.move_withheld(true, self.clock.now()));
        tx.answer(())
    }

    /// Moves the remaining receipts of a payout that is being rejected to the unpaid earnings, and ends the rejection.
    /// Another request or host may work on the same payout.
    async fn give_back(&self, builder: &BuilderId, id: &PayoutId) -> Result<Packet, PayoutError> {
        while update(&*self.store, Durability::Buffered, |tx| self.return_some(tx, builder, id)).await? {}
        let (packet, event) = update(&*self.store, Durability::Durable, |tx| self.end_rejection(tx, builder, id)).await?;
        if let Some(event) = event {
            self.events.announce(&Owner::Builder(builder.clone()), event);
        }
        Ok(packet)
    }

    /// Moves some receipts to the unpaid earnings. Returns false once none is left.
    async fn return_some<'a>(&self, mut tx: Tx<'a>, builder: &BuilderId, id: &PayoutId) -> Planned<'a, bool> {
        let row = tx.row(&PAYOUTS, &key(builder, id)).await?.ok_or(PayoutError::Unknown)?;
        let mut packet = row.value.clone();
        if packet.status != PayoutStatus::Rejecting {
            return tx.answer(false);
        }
        let mut range = PAYOUT_RECEIPTS.under(&TerminatedText(id.clone()));
        // Start after the last moved receipt, because a database scans deleted rows until it has vacuumed them.
        if let Some(last) = &packet.returned {
            range = range.after(&(TerminatedText(id.clone()), last.to_string()));
        }
        let page = PAYOUT_RECEIPTS.page(tx.store(), &range, CHUNK, Direction::Forward).await?;
        let (mut first, mut moved) = (None, 0_u64);
        for receipt in page {
            let receipt_id: ReceiptId = receipt.key.1.parse().map_err(|_| damaged())?;
            moved = moved.checked_add(receipt.value.net).ok_or_else(damaged)?;
            tx.sweep(&PAYOUT_RECEIPTS, &receipt);
            tx.put(&UNPAID, &(TerminatedText(builder.clone()), receipt_id.clone()), &receipt.value);
            first = first.or_else(|| Some(receipt_id.clone()));
            packet.returned = Some(receipt_id);
        }
        let Some(first) = first else { return tx.answer(false) };
        let posting = Posting::new(Cause::Returned(id.clone(), first), self.clock.now());
        let posting = posting.dollars(Dollars::Packet(id.clone()), Dollars::Builder(builder.clone()), MicroUsd(moved));
        tx.replace(&PAYOUTS, &row, &packet).append(posting.stored());
        tx.answer(true)
    }

    /// Makes a payout without receipts `rejected`. The event is set if this call did.
    async fn end_rejection<'a>(&self, mut tx: Tx<'a>, builder: &BuilderId, id: &PayoutId) -> Planned<'a, Completed> {
        let row = tx.row(&PAYOUTS, &key(builder, id)).await?.ok_or(PayoutError::Unknown)?;
        let mut packet = row.value.clone();
        if packet.status != PayoutStatus::Rejecting {
            return tx.answer((packet, None));
        }
        packet.status = PayoutStatus::Rejected;
        packet.updated_at = self.clock.now();
        let event = self.event(Kind::PayoutRejected, &packet);
        move_to(&mut tx, Some(row.value.status), packet.status);
        tx.replace(&PAYOUTS, &row, &packet).append(Events::stored(&Owner::Builder(builder.clone()), &event));
        tx.answer((packet, Some(event)))
    }
}

//! Rejects payouts: moves their receipts back to the builder's unpaid earnings, so that the next payout has them.
//!
//! The first commit makes the payout `rejecting`, and returns the refunds that it withheld to those that are owed. Then
//! a thousand receipts move per commit, each with the posting of their sum. The last commit makes it `rejected`. Its
//! record keeps the signed amount and number of receipts.

use tollhouse_base::id::{BuilderId, PayoutId, ReceiptId};
use tollhouse_store::{Batch, SumLimit, Tx, UpdatePlan};

use super::{
    Direction, Durability, Event, Events, Kind, MicroUsd, Owner, PAYOUT_RECEIPTS, PAYOUTS, Packet, PayoutError, PayoutStatus,
    PayoutVerdict, Payouts, TerminatedText, Timestamp, damaged, key, move_to, update,
};
use crate::{
    ledger::{Cause, Dollars, Posting},
    refund::REFUNDS_OWED,
    sale::UNPAID,
};

/// Number of receipts moved per commit.
const CHUNK: usize = 1_000;

impl Packet {
    /// Returns the rows that add the refunds withheld from it to those that are owed again.
    fn owe_again(&self, at: Timestamp) -> Batch {
        let (builder, withheld) = (&self.builder_id, MicroUsd(self.withheld));
        let posting = Posting::new(Cause::OwedAgain(self.id.clone()), at);
        let mut batch = posting.dollars(Dollars::Builder(builder.clone()), Dollars::Packet(self.id.clone()), withheld).stored();
        if !withheld.is_zero() {
            batch.add(&REFUNDS_OWED, builder, withheld.0.into(), SumLimit::Floor(0));
        }
        batch
    }
}

impl Payouts {
    /// Rejects a payout, or continues a rejection that was interrupted.
    pub(super) async fn reject(&self, id: &PayoutId, verdict: &PayoutVerdict) -> Result<Packet, PayoutError> {
        let builder = &self.builder_of(id).await?;
        update(&*self.store, Durability::Durable, |tx| self.begin_rejection(tx, builder, id, verdict)).await?;
        self.give_back(builder, id).await
    }

    async fn begin_rejection<'a>(
        &self,
        mut tx: Tx<'a>,
        builder: &BuilderId,
        id: &PayoutId,
        verdict: &PayoutVerdict,
    ) -> Result<UpdatePlan<'a, ()>, PayoutError> {
        let row = tx.row(&PAYOUTS, &key(builder, id)).await?.ok_or(PayoutError::Unknown)?;
        if row.value.status == PayoutStatus::Rejecting {
            return tx.answer(());
        }
        let mut packet = row.value.clone();
        packet.decide(verdict, self.clock.now())?;
        move_to(&mut tx, Some(row.value.status), packet.status);
        tx.replace(&PAYOUTS, &row, &packet).append(packet.owe_again(self.clock.now()));
        tx.answer(())
    }

    /// Moves the remaining receipts of a payout that is being rejected to the unpaid earnings, and ends the rejection.
    /// Another request or host may work on the same payout.
    pub(super) async fn give_back(&self, builder: &BuilderId, id: &PayoutId) -> Result<Packet, PayoutError> {
        while update(&*self.store, Durability::Buffered, |tx| self.return_some(tx, builder, id)).await? {}
        let (packet, event) = update(&*self.store, Durability::Durable, |tx| self.end_rejection(tx, builder, id)).await?;
        if let Some(event) = event {
            self.events.announce(&Owner::Builder(builder.clone()), event);
        }
        Ok(packet)
    }

    /// Moves some receipts to the unpaid earnings. Returns false once none is left.
    async fn return_some<'a>(&self, mut tx: Tx<'a>, builder: &BuilderId, id: &PayoutId) -> Result<UpdatePlan<'a, bool>, PayoutError> {
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
    async fn end_rejection<'a>(
        &self,
        mut tx: Tx<'a>,
        builder: &BuilderId,
        id: &PayoutId,
    ) -> Result<UpdatePlan<'a, (Packet, Option<Event>)>, PayoutError> {
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

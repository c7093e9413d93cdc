//! Turns a settled payment into its receipt, at the end of a call or after a crash.

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use tollhouse_account::registration::Registrant;
use tollhouse_base::{
    clock::Timestamp,
    id::{CallId, PaymentId},
};
use tollhouse_event::{Event, Events, Kind};
use tollhouse_store::Batch;
use tollhouse_tool::{MicroUsd, Owner, Slug};

use crate::{
    ReorganizedSettlement, Settlement, SettlementKind, StoredAnswer,
    ledger::Posting,
    receipt::{OfferReceipt, ReceiptDraft, ReceiptSigner, UnsignedReceipt},
    sale::{Sale, SaleTotals, Sales, UnpaidSale},
};

/// The data that the last commit of a call is made from. It is stored with the intent to settle.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ReceiptContext {
    /// Draft of the receipt.
    pub receipt: ReceiptDraft,
    /// The call that ends.
    pub call: CallId,
    /// The owner who earns the payment.
    pub owner: Owner,
    /// The host's fee, as configured when the call ended.
    pub fee: MicroUsd,
    /// The builder who registers with this payment.
    pub registered: Option<Registrant>,
}

/// The outcome of a run, for the receipt and the builder.
#[derive(Debug, Clone)]
pub struct Delivery {
    /// The call that has the answer.
    pub call: CallId,
    /// The owner of the tool.
    pub owner: Owner,
    /// Hash of the handler that ran.
    pub version: String,
    /// Hash of the result.
    pub result_hash: String,
    /// Whether the payment was settled for an earlier run.
    pub repeated: bool,
    /// When the run began.
    pub started_at: Timestamp,
}

/// A receipt and its answer, ready for the commit that ends a payment.
#[derive(Debug)]
pub struct SignedReceipt {
    /// Additional rows of the commit.
    pub rows: Batch,
    /// The answer to the caller, now and when the payment is sent again.
    pub answer: StoredAnswer,
    /// Fields for `extensions` of the settle response.
    pub extensions: Option<Value>,
    /// Events to announce after the commit.
    pub news: CommitEffects,
}

/// Events that a commit made true, to announce after it succeeded.
#[derive(Debug)]
pub struct CommitEffects {
    /// The owner of the events.
    pub owner: Owner,
    /// The events to announce, in order.
    pub events: Vec<Event>,
}

/// Creates receipts with the sale, the payout and the events that go with them.
pub struct ReceiptFinisher {
    signer: Arc<ReceiptSigner>,
    /// Whether the money is play money.
    simulated: bool,
    events: Arc<Events>,
    sales: Arc<Sales>,
}

impl ReceiptFinisher {
    /// Signs receipts with `signer`. `simulated` marks them as play money.
    pub fn new(signer: Arc<ReceiptSigner>, simulated: bool, events: Arc<Events>, sales: Arc<Sales>) -> Self {
        Self { signer, simulated, events, sales }
    }

    /// Encodes a closing for the intent.
    pub fn encode(closing: &ReceiptContext) -> Vec<u8> {
        serde_json::to_vec(closing).expect("a closing has text keys")
    }

    /// Returns the row of an event, and the event to announce.
    fn news(&self, kind: Kind, slug: Option<&Slug>, data: Value, owner: Owner) -> (Batch, CommitEffects) {
        let event = self.events.event(kind, slug, data);
        (Events::stored(&owner, &event), CommitEffects { owner, events: vec![event] })
    }

    fn reorganization(&self, settlement: &ReorganizedSettlement, mut data: Value) -> (Batch, CommitEffects) {
        data["receiptId"] = json!(settlement.settlement.receipt_id);
        data["network"] = json!(settlement.settlement.network);
        self.news(Kind::PaymentReorganized, settlement.settlement.slug.as_ref(), data, settlement.settlement.owner.clone())
    }
}

impl ReceiptContext {
    fn sale(&self, totals: SaleTotals) -> Sale {
        Sale { endpoint: self.receipt.endpoint_id.clone(), slug: self.receipt.slug.clone(), totals }
    }

    fn decode(draft: &[u8]) -> Self {
        serde_json::from_slice(draft).expect("an intent holds the closing that `encode` made")
    }
}

impl ReceiptFinisher {
    pub(crate) fn offers(&self, resource: &str, accepts: &[Value], valid_until: Timestamp) -> Vec<Value> {
        self.signer.offers(resource, accepts, valid_until)
    }

    /// Makes the receipt of a call from the draft that was passed to [`Payments::settle`](crate::Payments::settle).
    pub fn finish(&self, draft: &[u8], settlement: &Settlement, mut answer: StoredAnswer) -> SignedReceipt {
        let closing = ReceiptContext::decode(draft);
        answer.receipt_id = closing.receipt.receipt_id.to_string();
        let totals = SaleTotals::paid(closing.receipt.price_usd, closing.fee);
        let unpaid = UnpaidSale { net: totals.net, at_ms: closing.receipt.issued_at.0 };
        let mut rows = self.sales.row(&closing.sale(totals), &closing.owner, closing.receipt.issued_at, &answer.receipt_id);
        rows.append(unpaid.stored(&closing.owner, &closing.receipt.receipt_id));
        let (id, at) = (&closing.receipt.receipt_id, self.events.now());
        rows.append(Posting::sale(id, at, &closing.owner, totals, settlement, self.simulated).stored());
        if let Some(registrant) = &closing.registered {
            rows.append(registrant.stored());
        }
        let mut events = vec![settled(&self.events, &closing, settlement)];
        // A stream that was broken off did not succeed.
        let is_broken = closing.receipt.streamed && closing.receipt.result_hash.is_empty();
        if closing.receipt.settle.is_after() && !is_broken {
            events.insert(0, call_succeeded(&self.events, &closing));
        }
        events.iter().for_each(|event| _ = rows.append(Events::stored(&closing.owner, event)));
        let typed = self.signer.settle_extensions(&closing.receipt, settlement);
        let receipt = self.signer.receipt(closing.receipt, settlement, self.simulated);
        let extensions = typed.or_else(|| receipt.record.offer_receipt.as_ref().map(OfferReceipt::extensions));
        rows.append(receipt.stored());
        SignedReceipt { rows, answer, extensions, news: CommitEffects { owner: closing.owner, events } }
    }

    /// Returns the rows and events for the answer to a payment that was settled before its run. `receipt` is the
    /// settlement's receipt.
    pub(crate) fn deliver(&self, mut receipt: UnsignedReceipt, delivery: &Delivery) -> (Batch, CommitEffects) {
        let Delivery { call, owner, version, result_hash, repeated, started_at } = delivery.clone();
        (receipt.draft.result_hash, receipt.draft.version) = (result_hash, version);
        let now = self.events.now();
        let mut data = json!({
            "callId": call,
            "receiptId": receipt.draft.receipt_id,
            "priceUsd": receipt.draft.price_usd,
            "durationMs": now.0.saturating_sub(started_at.0),
        });
        if repeated {
            data["repeated"] = json!(true);
        }
        let event = self.events.event(Kind::CallSucceeded, Some(&receipt.draft.slug), data);
        let mut rows = Events::stored(&owner, &event);
        if repeated {
            // The sale is already counted.
            let sale = Sale { endpoint: receipt.draft.endpoint_id.clone(), slug: receipt.draft.slug.clone(), totals: SaleTotals::FREE };
            rows.append(self.sales.row(&sale, &owner, now, call.as_str()));
        }
        rows.append(self.signer.sign(receipt).stored());
        (rows, CommitEffects { owner, events: vec![event] })
    }

    /// Returns the rows and events for a payment whose settlement is finally refused.
    pub(crate) fn refuse(&self, draft: &[u8], reason: &str) -> (Batch, CommitEffects) {
        let closing = ReceiptContext::decode(draft);
        let slug = Some(&closing.receipt.slug);
        let failed = json!({ "callId": closing.call, "code": "payment_required", "charged": false });
        let refused = json!({ "callId": closing.call, "reason": reason, "priceUsd": closing.receipt.price_usd });
        let events = vec![self.events.event(Kind::CallFailed, slug, failed), self.events.event(Kind::PaymentRefused, slug, refused)];
        let row = self.sales.row(&closing.sale(SaleTotals::FAILED), &closing.owner, closing.receipt.issued_at, closing.call.as_str());
        let stored = events.iter().map(|event| Events::stored(&closing.owner, event));
        (stored.fold(row, Batch::and), CommitEffects { owner: closing.owner, events })
    }

    /// Returns the tool of a draft, and the price of its call.
    pub(crate) fn subject(&self, draft: &[u8]) -> (Slug, MicroUsd) {
        let receipt = ReceiptContext::decode(draft).receipt;
        (receipt.slug, receipt.price_usd)
    }

    /// Returns the rows and events for a settlement that stayed open for so long that it is no longer looked up.
    pub(crate) fn unresolved(&self, draft: &[u8], payment: &PaymentId) -> (Batch, CommitEffects) {
        let ReceiptContext { call, receipt, owner, .. } = ReceiptContext::decode(draft);
        let data = json!({ "callId": call, "paymentId": payment, "priceUsd": receipt.price_usd });
        self.news(Kind::PaymentUnresolved, Some(&receipt.slug), data, owner)
    }

    /// Returns the rows and events for a settlement that a reorganization has undone, also once its money is lost.
    pub(crate) fn reorganized(&self, settlement: &ReorganizedSettlement) -> (Batch, CommitEffects) {
        let mut data = json!({ "transaction": settlement.settlement.transaction, "state": "reorganized" });
        if let Some(lost) = settlement.lost {
            (data["state"], data["lost"]) = (json!("lost"), json!(lost));
        }
        self.reorganization(settlement, data)
    }

    /// Returns the rows and events for a reorganized settlement that is in a block again. `other` is its new settlement
    /// if another transaction made it.
    pub(crate) fn settled_again(&self, settlement: &ReorganizedSettlement, other: Option<&Settlement>) -> (Batch, CommitEffects) {
        let mut data = json!({ "transaction": settlement.settlement.transaction, "state": "settled" });
        if let Some(other) = other {
            (data["transaction"], data["formerTransaction"]) = (json!(other.transaction), json!(settlement.settlement.transaction));
        }
        self.reorganization(settlement, data)
    }

    pub(crate) fn extensions(&self, receipt: UnsignedReceipt, settlement: &Settlement) -> Option<Value> {
        let typed = self.signer.settle_extensions(&receipt.draft, settlement);
        typed.or_else(|| {
            let receipt = self.signer.receipt(receipt.draft, settlement, self.simulated);
            receipt.record.offer_receipt.as_ref().map(OfferReceipt::extensions)
        })
    }

    /// Announces events to live subscribers.
    pub fn announce(&self, news: CommitEffects) {
        self.sales.sold(&news.owner);
        for event in news.events {
            self.events.announce(&news.owner, event);
        }
    }
}

/// Builds the `call.succeeded` event of a paid or free call.
pub fn call_succeeded(events: &Events, closing: &ReceiptContext) -> Event {
    let receipt = &closing.receipt;
    let mut data = json!({
        "callId": closing.call,
        "receiptId": receipt.receipt_id,
        "priceUsd": receipt.price_usd,
        "durationMs": receipt.issued_at.0.saturating_sub(receipt.started_at.0),
    });
    if receipt.owner {
        data["owner"] = json!(true);
    }
    events.event(Kind::CallSucceeded, Some(&receipt.slug), data)
}

fn settled(events: &Events, closing: &ReceiptContext, settlement: &Settlement) -> Event {
    let mut data = json!({
        "callId": closing.call,
        "receiptId": closing.receipt.receipt_id,
        "kind": settlement.kind,
        "amount": settlement.amount,
        "priceUsd": closing.receipt.price_usd,
        "feeUsd": closing.fee,
    });
    if settlement.kind == SettlementKind::X402 {
        data["network"] = json!(settlement.network);
        data["asset"] = json!(settlement.asset);
        data["transaction"] = json!(settlement.transaction);
    }
    events.event(Kind::PaymentSettled, Some(&closing.receipt.slug), data)
}

//! Refunds: an admin returns what a receipt paid, or a part of it.
//!
//! A refund to a credit is made here, with a posting and a movement of the credit. An x402 payment is sent back by the
//! admin, who enters the transaction. In both cases the host's and the builder's shares are returned in the proportions
//! of the sale. The signed receipt is unchanged, and its refunds are shown next to it.
//!
//! **Invariant: the refunds of a receipt never exceed what it paid.** They are in one record. The commit of each refund
//! contains its posting, and requires that this record is unchanged.
//!
//! A builder's part is owed: payouts subtract it from unpaid earnings. If more is owed than is unpaid, the rest is a
//! debt that later sales pay.

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use tollhouse_api::{Reorganization, ReorganizationState};
use tollhouse_base::{
    boxed,
    clock::{Clock, Timestamp},
    id::{BuilderId, ReceiptId},
};
use tollhouse_event::{Event, Events, Kind};
use tollhouse_store::{Counter, Durability, Store, StoreError, SumLimit, Table, Tx, UpdatePlan, schema, update};
use tollhouse_tool::{MicroUsd, Owner, public_texts};

use super::sale::Sales;
use crate::{
    CreditError, IdempotencyKey, Movement, MovementKind, Network,
    credit::{Credits, row::next_number},
    ledger::{Cause, POSTINGS, RefundAmounts, SaleAmounts},
    receipt::{self, UnsignedReceipt},
    reorganized::{describe_loss, reorganization_of},
    sale::{Sale, SaleTotals},
    transactions,
};

pub(crate) const REFUNDS: Table<ReceiptId, RefundedTotal> = schema::REFUNDS.holding();
/// Micro-dollars of refunds that a builder owes and that no payout has withheld yet.
pub(crate) const REFUNDS_OWED: Counter<BuilderId> = schema::REFUNDS_OWED.counting();
tollhouse_store::json_values!(RefundedTotal);

/// The refunds of a receipt.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RefundedTotal {
    /// The refunds, oldest first.
    pub refunds: Vec<Refund>,
}

/// A refund, as it is stored.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Refund {
    /// Its number within the receipt. For a credit also the number of its movement.
    pub number: u64,
    /// The refunded amount.
    #[serde(rename = "amountUsd")]
    pub amount: MicroUsd,
    /// When it was entered.
    pub at: Timestamp,
    /// The transaction that sent it back, for x402.
    pub transaction: Option<String>,
    /// The reason, shown to the owner and admins.
    pub reason: Option<String>,
}

impl RefundedTotal {
    /// Returns the sum of all refunds.
    pub fn sum(&self) -> MicroUsd {
        MicroUsd(self.refunds.iter().fold(0, |sum, refund| sum.saturating_add(refund.amount.0)))
    }
}

impl Refund {
    /// Encodes the public part as JSON.
    pub fn public(&self) -> Value {
        let mut refund = json!({ "amountUsd": self.amount, "at": self.at });
        if let Some(transaction) = &self.transaction {
            refund["transaction"] = json!(transaction);
        }
        refund
    }
}

/// The refunds of all receipts.
pub struct Refunds {
    store: Arc<dyn Store>,
    clock: Clock,
    events: Arc<Events>,
    sales: Arc<Sales>,
}

impl Refunds {
    /// Constructs refunds in this store. Owners get theirs as `events`, and see them in `sales`.
    pub fn new(store: Arc<dyn Store>, clock: Clock, events: Arc<Events>, sales: Arc<Sales>) -> Self {
        Self { store, clock, events, sales }
    }

    /// Returns the refunds of a receipt.
    #[boxed]
    pub async fn of(&self, receipt: &ReceiptId) -> Result<RefundedTotal, StoreError> {
        Ok(REFUNDS.get(&*self.store, receipt).await?.unwrap_or_default())
    }
}

const MAX_REASON: usize = public_texts::MAX_MONEY_REASON;

/// Maximum number of refunds per receipt, so that its record stays small.
const MAX_REFUNDS: usize = 50;

/// Why a refund was not made.
#[derive(Debug, Clone, thiserror::Error)]
#[expect(missing_docs, reason = "the messages explain them")]
pub enum RefundError {
    /// An invalid field. `pointer` is its JSON Pointer.
    #[error("{message}")]
    Field { pointer: &'static str, message: String },
    #[error("a reason must have at most {MAX_REASON} characters and no control characters")]
    Reason,
    #[error("no receipt has this id")]
    Unknown,
    #[error("nothing was paid for this receipt")]
    NothingPaid,
    #[error("the amount exceeds what is left: {paid} USD was paid, of which {refunded} USD was refunded")]
    TooMuch { paid: MicroUsd, refunded: MicroUsd },
    #[error("a receipt can have at most {MAX_REFUNDS} refunds")]
    TooMany,
    #[error("this transaction is already recorded for the receipt with {0} USD")]
    OtherAmount(MicroUsd),
    #[error("this `Idempotency-Key` was used for another refund")]
    Reused,
    #[error(transparent)]
    Credit(CreditError),
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl From<CreditError> for RefundError {
    fn from(error: CreditError) -> Self {
        match error {
            CreditError::Store(store) => Self::Store(store),
            error => Self::Credit(error),
        }
    }
}

const REFUND_KEYS: Table<String, RefundRow> = schema::REFUND_KEYS.holding();
tollhouse_store::json_values!(RefundRow);

/// An admin's request for a refund.
#[derive(Debug, Clone)]
pub struct RefundRequest {
    /// Id of the receipt of the payment.
    pub receipt: ReceiptId,
    /// The amount. Default: all that was not refunded yet.
    pub amount: Option<MicroUsd>,
    /// The transaction that sent the money back. Required for x402, and otherwise not allowed.
    pub transaction: Option<String>,
    /// The reason, shown to the owner.
    pub reason: Option<String>,
}

/// The result of a refund, stored by its idempotency key. Kept as long as the refund.
#[derive(Debug, Serialize, Deserialize)]
struct RefundRow {
    request: String,
    receipt: ReceiptId,
    number: u64,
}

/// A refund that was made, and the total of its receipt.
#[derive(Debug, Clone)]
pub struct IssuedRefund {
    /// Id of the receipt of the payment.
    pub receipt: ReceiptId,
    /// The refund, as recorded.
    pub refund: Refund,
    /// The total refunded so far, including this refund.
    pub refunded: MicroUsd,
    /// Another receipt or payout that names the same transaction.
    pub with_transaction: Option<String>,
    /// The state of the payment's settlement if a reorganization of the chain has undone it.
    pub settlement: Option<Reorganization>,
}

type RefundEffects = Option<(Owner, Event)>;

impl IssuedRefund {
    /// Encodes it as JSON for admins.
    pub fn public(&self) -> Value {
        let mut refund = self.refund.public();
        refund["receiptId"] = json!(self.receipt);
        if let Some(reason) = &self.refund.reason {
            refund["reason"] = json!(reason);
        }
        let warnings: Vec<_> = self.doubled().into_iter().chain(self.undone()).collect();
        if !warnings.is_empty() {
            refund["warning"] = json!(warnings.join("; "));
        }
        refund
    }

    fn doubled(&self) -> Option<String> {
        let other = self.with_transaction.as_ref()?;
        Some(format!("the transaction is also recorded for `{other}`; check that it sent back both amounts"))
    }

    fn undone(&self) -> Option<String> {
        let undone = self.settlement.as_ref().filter(|settlement| settlement.state == ReorganizationState::Reorganized)?;
        Some(match undone.lost.map(describe_loss) {
            Some(lost) => {
                format!("a reorganization undid the payment, and its money is lost ({lost}), so the host pays this refund itself")
            }
            None => "a reorganization undid the payment, and its money has not moved again yet; check it later".to_owned(),
        })
    }
}

impl Refunds {
    /// Refunds a receipt in full or in part. A request with a known idempotency key or transaction returns the earlier
    /// refund.
    ///
    /// # Errors
    ///
    /// Each [`RefundError`] explains why nothing was refunded. After an error of the store, the request can be
    /// repeated.
    #[boxed]
    pub async fn issue(&self, request: &RefundRequest, once: Option<&IdempotencyKey>) -> Result<IssuedRefund, RefundError> {
        // Read first, so that an error of the store never hides a refund that was made.
        let settlement = reorganization_of(&*self.store, &request.receipt).await?;
        let (issued, news) =
            update(&*self.store, Durability::Durable, |tx| self.decide(tx, request, once)).await.map_err(|error| match error {
                // The credit's balance would exceed the maximum.
                RefundError::Store(StoreError::Beyond { .. }) => RefundError::Credit(CreditError::TooMuch),
                error => error,
            })?;
        if let Some((owner, event)) = news {
            tracing::info!(receipt.id = %issued.receipt, amount = %issued.refund.amount, "a payment was refunded");
            self.sales.sold(&owner);
            self.events.announce(&owner, event);
        }
        let issued = IssuedRefund { settlement, ..issued };
        if let Some(warning) = issued.undone() {
            tracing::warn!(receipt.id = %issued.receipt, warning, "a refund was recorded for a payment that the chain does not have");
        }
        Ok(issued)
    }

    /// Returns the row of a refund among the sales, on the day of the call.
    fn sale(&self, record: &UnsignedReceipt, refund: &Refund, returned: &RefundAmounts, owner: &Owner) -> tollhouse_store::Batch {
        let draft = &record.draft;
        let totals = SaleTotals::refunded(refund.amount, returned.fees);
        let sale = Sale { endpoint: draft.endpoint_id.clone(), slug: draft.slug.clone(), totals };
        self.sales.row(&sale, owner, draft.issued_at, &format!("{}/{}", draft.receipt_id, refund.number))
    }

    async fn decide<'a>(
        &self,
        mut tx: Tx<'a>,
        query: &RefundRequest,
        once: Option<&IdempotencyKey>,
    ) -> Result<UpdatePlan<'a, (IssuedRefund, RefundEffects)>, RefundError> {
        let receipt = &query.receipt;
        if let Some(issued) = self.done(&mut tx, once).await? {
            return tx.answer((issued, None));
        }
        let (record, paid) = read_sale(tx.store(), receipt).await?;
        let transaction = query.transaction_of(&record, &paid)?;
        let before = tx.get(&REFUNDS, receipt).await?.unwrap_or_default();
        if let Some(entered) = before.refunds.iter().find(|refund| transaction.is_some() && refund.transaction == transaction) {
            if query.amount.is_some_and(|amount| amount != entered.amount) {
                return Err(RefundError::OtherAmount(entered.amount));
            }
            let issued = issued_earlier(tx.store(), receipt.clone(), entered.clone(), before.sum()).await?;
            return tx.answer((issued, None));
        }
        let network = record.network.as_deref().and_then(Network::named);
        if let (Some(network), Some(transaction)) = (network, &transaction)
            && let Some(other) = transactions::receipt_paid_by(&mut tx, network.caip2, transaction).await?
        {
            let message = format!("this transaction paid for the receipt `{other}`; enter the one that sent the money back");
            return Err(RefundError::Field { pointer: "/transaction", message });
        }
        let amount = query.amount_of(&paid, &before)?;
        let also_for = match &transaction {
            Some(transaction) => transactions::sent_for(&mut tx, transaction, receipt.as_str()).await?,
            None => None,
        };
        let at = self.clock.now();
        let refund = Refund { number: next_number(at), amount, at, transaction, reason: query.reason.clone() };
        let returned = paid.returned(receipt, refund.number, at, before.sum(), amount);
        if let Some(credit) = paid.credit() {
            let (receipt_id, slug) = (Some(receipt.to_string()), Some(record.draft.slug.clone()));
            let movement = Movement { receipt_id, slug, ..Movement::plain(at, MovementKind::Refund, amount) };
            Credits::refund(&mut tx, credit, refund.number, movement).await?;
        }
        if let Some(builder) = paid.builder().filter(|_| !returned.net.is_zero()) {
            tx.add(&REFUNDS_OWED, builder, returned.net.0.into(), SumLimit::Floor(0));
        }
        let owner = paid.owner();
        let event = self.event(&record, &refund, &returned);
        tx.append(returned.posting.stored()).append(self.sale(&record, &refund, &returned, &owner)).append(Events::stored(&owner, &event));
        let mut after = before;
        after.refunds.push(refund.clone());
        let issued = IssuedRefund { receipt: receipt.clone(), refunded: after.sum(), refund, with_transaction: also_for, settlement: None };
        tx.put(&REFUNDS, receipt, &after);
        if let Some(IdempotencyKey { key, request }) = once {
            tx.put(&REFUND_KEYS, key, &RefundRow { request: request.clone(), receipt: receipt.clone(), number: issued.refund.number });
        }
        tx.answer((issued, Some((owner, event))))
    }

    /// Returns the refund that was already made with the idempotency key.
    async fn done(&self, tx: &mut Tx<'_>, once: Option<&IdempotencyKey>) -> Result<Option<IssuedRefund>, RefundError> {
        let Some(IdempotencyKey { key, request }) = once else { return Ok(None) };
        let Some(done) = tx.get(&REFUND_KEYS, key).await? else { return Ok(None) };
        if done.request != *request {
            return Err(RefundError::Reused);
        }
        let refunded = self.of(&done.receipt).await?;
        let refund = refunded.refunds.iter().find(|refund| refund.number == done.number).cloned().ok_or_else(|| damaged(&done.receipt))?;
        Ok(Some(issued_earlier(tx.store(), done.receipt, refund, refunded.sum()).await?))
    }

    fn event(&self, record: &UnsignedReceipt, refund: &Refund, returned: &RefundAmounts) -> Event {
        let mut data = refund.public();
        data["receiptId"] = json!(record.draft.receipt_id);
        data["feeUsd"] = json!(returned.fees);
        if let Some(reason) = &refund.reason {
            data["reason"] = json!(reason);
        }
        self.events.event(Kind::PaymentRefunded, Some(&record.draft.slug), data)
    }
}

impl RefundRequest {
    /// Returns the transaction in the canonical form of the payment's network.
    fn transaction_of(&self, record: &UnsignedReceipt, paid: &SaleAmounts) -> Result<Option<String>, RefundError> {
        let wrong = |message: &str| RefundError::Field { pointer: "/transaction", message: message.to_owned() };
        match (paid.credit(), &self.transaction) {
            (Some(_), None) => Ok(None),
            (Some(_), Some(_)) => Err(wrong("a call paid with credit is refunded to the credit; omit the transaction")),
            (None, None) => Err(wrong("a refund of an x402 payment needs the transaction that sent the money back")),
            (None, Some(transaction)) => {
                let network = record.network.as_deref().and_then(Network::named);
                let checked = network.and_then(|network| network.checked_transaction(transaction));
                let checked =
                    checked.ok_or_else(|| wrong("a transaction must be `0x` and 64 hex digits, or on Solana 64 bytes in base58"))?;
                if record.transaction.as_ref().is_some_and(|paid| paid.eq_ignore_ascii_case(&checked)) {
                    return Err(wrong("this is the transaction that paid, not one that refunds"));
                }
                Ok(Some(checked))
            }
        }
    }

    fn amount_of(&self, paid: &SaleAmounts, before: &RefundedTotal) -> Result<MicroUsd, RefundError> {
        if self.reason.as_ref().is_some_and(|reason| reason.chars().count() > MAX_REASON || reason.chars().any(char::is_control)) {
            return Err(RefundError::Reason);
        }
        if self.amount == Some(MicroUsd::ZERO) {
            return Err(RefundError::Field { pointer: "/amountUsd", message: "the amount of a refund must be above 0 USD".to_owned() });
        }
        let (price, refunded) = (paid.price(), before.sum());
        let remaining = MicroUsd(price.0.saturating_sub(refunded.0));
        let amount = self.amount.unwrap_or(remaining);
        if amount.is_zero() || amount > remaining {
            return Err(RefundError::TooMuch { paid: price, refunded });
        }
        if before.refunds.len() >= MAX_REFUNDS {
            return Err(RefundError::TooMany);
        }
        Ok(amount)
    }
}

/// Returns a refund that was made before, with another receipt or payout that names its transaction now.
async fn issued_earlier(store: &dyn Store, receipt: ReceiptId, refund: Refund, refunded: MicroUsd) -> Result<IssuedRefund, StoreError> {
    let with_transaction = match &refund.transaction {
        Some(transaction) => transactions::also_sent_for(store, transaction, receipt.as_str()).await?,
        None => None,
    };
    Ok(IssuedRefund { receipt, refund, refunded, with_transaction, settlement: None })
}

/// Reads a receipt and its posting, which are both immutable.
async fn read_sale(store: &dyn Store, id: &ReceiptId) -> Result<(UnsignedReceipt, SaleAmounts), RefundError> {
    let stored = receipt::paid(store, id).await?.ok_or(RefundError::Unknown)?;
    let record: UnsignedReceipt = serde_json::from_slice(&stored).map_err(|_| damaged(id))?;
    if record.draft.price_usd.is_zero() {
        return Err(RefundError::NothingPaid);
    }
    let posting = POSTINGS.get(store, &Cause::Sold(id.clone()).key()).await?;
    let paid = posting.as_ref().and_then(SaleAmounts::of).ok_or_else(|| damaged(id))?;
    Ok((record, paid))
}

fn damaged(receipt: &ReceiptId) -> StoreError {
    StoreError::Away(format!("the receipt {receipt} or its refunds cannot be read"))
}

//! The gate: what a call costs, whether a payment admits it, and taking the money.
//!
//! **Invariant: one payment authorisation buys at most one run, and one answer.** A payment's
//! identity is (network, asset, payer, nonce); every change of its record is one conditional commit,
//! so of many that arrive together one reserves it, and the others join that one or are refused.
//!
//! ```text
//!            reserve            intent, durable        outcome + receipt + answer, durable
//! (absent) ──────────▶ reserved ───────────────▶ settling ───────────────▶ settled
//!     ▲                    │ drop, fault, crash      │ the facilitator says no
//!     └──── released ◀─────┘                         └──────────▶ refused
//! ```
//!
//! A `settling` record without an answer from the facilitator stays until it is resolved by asking
//! again with the identical payload. Released and refused authorisations are unspent and may be used again.

mod credit;
mod facilitator;
mod gate;
mod network;
pub mod payout;
pub mod receipt;
pub mod sale;
#[cfg(test)]
mod tests;
mod x402;

use std::{fmt, sync::Arc};

use serde::{Deserialize, Serialize};
use serde_json::Value;

pub(crate) use self::{credit::PREFIX as CREDIT_PREFIX, facilitator::NOT_SERVED};
pub use self::{
    credit::{Credit, CreditDecision, CreditError, CreditVerdict, Credits, Minted, Movement, MovementKind, Movements, Once, Revoked},
    facilitator::{
        Facilitator, FacilitatorKind, Means, SettleOutcome, Verdict,
        ledger::{Ledger, LedgerError},
    },
    gate::{
        Admission, Admit, Ended, Gate,
        record::{PaymentState, SettlementNotice, State, StoredAnswer},
    },
    network::{ConfigError, Network, PaymentConfig, checked_address},
    x402::{
        offer::{Authorization, Payment},
        wire::Challenge,
    },
};
pub use crate::base::id::{PaymentId, PaymentIdError};
use crate::{
    base::id::EndpointId,
    event::Event,
    store::{Batch, StoreError},
    tool::{MicroUsd, Owner, Slug},
};

/// What a call of one endpoint version costs, and the words of its challenge.
#[derive(Debug, Clone)]
pub struct Terms {
    /// The tool that is paid for.
    pub slug: Slug,
    /// The endpoint behind the slug.
    pub endpoint_id: EndpointId,
    /// Version that runs.
    pub version: String,
    /// Absolute URL of the tool: what a payment is bound to.
    pub resource_url: String,
    /// For wallets that show what is paid for.
    pub description: String,
    /// What is asked.
    pub price: MicroUsd,
    /// For who wants to know before paying.
    pub input_schema: Arc<Value>,
    /// For who wants to know before paying.
    pub output_schema: Arc<Value>,
    /// For directories of what can be paid for.
    pub tags: Vec<String>,
    /// How long an authorisation must stay valid, in seconds: the tool's wall limit, and time to settle.
    pub timeout_secs: u64,
}

/// Version of the x402 wire that a payment speaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum WireVersion {
    /// `X-PAYMENT`.
    V1,
    /// `PAYMENT-SIGNATURE`.
    V2,
}

/// What a caller offers.
#[derive(Debug, Clone)]
pub enum Offered {
    /// No payment at all.
    Nothing,
    /// An x402 payment, as base64 of JSON or as the JSON itself.
    X402 {
        /// By which header it came.
        version: WireVersion,
        /// Its value, as it came.
        header: String,
    },
    /// Prepaid credit.
    Credit(CreditOffer),
}

/// Developer credit, offered.
#[derive(Debug, Clone)]
pub struct CreditOffer {
    /// What the admin who minted it was shown.
    pub token: String,
    /// Makes a repeated call the same call. 1 to 255 visible ASCII characters.
    pub idempotency_key: Option<String>,
    /// Told if no credit has the token.
    pub witness: Option<Arc<dyn Witness>>,
}

/// Who wants to know of wrong credentials, from where they are looked up.
pub trait Witness: fmt::Debug + Send + Sync {
    /// A credential was shown that is none.
    fn saw_wrong(&self);
}

/// Why a payment does not admit a call. Nothing was taken.
#[derive(Debug, Clone, thiserror::Error)]
#[expect(missing_docs, reason = "each says itself what it is")]
pub enum Refusal {
    #[error("payment required")]
    NoPayment,
    /// `reason` is a code of x402; `message` is for people.
    #[error("{message}")]
    Invalid { reason: String, message: String },
    #[error("this payment was made for another request")]
    Reused,
    /// Others change its record faster than this request can.
    #[error("payment `{0}` is being used by other requests")]
    InProgress(PaymentId),
    #[error("the facilitator could not verify the payment: {0}")]
    FacilitatorUnavailable(String),
    #[error("no developer credit has this token")]
    CreditUnknown,
    #[error("this developer credit was revoked")]
    CreditRevoked,
    #[error("developer credit is {balance} USD, the call costs {price} USD")]
    InsufficientCredit { balance: MicroUsd, price: MicroUsd },
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl Refusal {
    fn invalid(reason: &str, message: impl Into<String>) -> Self {
        Self::Invalid { reason: reason.to_owned(), message: message.into() }
    }
}

/// Why a result is withheld after its handler ran.
#[derive(Debug, Clone, thiserror::Error)]
#[expect(missing_docs, reason = "each says itself what it is")]
pub enum SettleError {
    /// Nothing was taken.
    #[error("settlement was refused: {message}")]
    Refused {
        reason: String,
        message: String,
        /// What the payer is told of it; `None` for credit, and where another replica found it out.
        notice: Option<SettlementNotice>,
    },
    /// It is not known whether money moved; the intent is kept until it is.
    #[error("settlement was not confirmed")]
    Unknown { payment: PaymentId },
    /// Nothing was taken.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// Money that moved.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Settlement {
    /// What moved.
    pub kind: SettlementKind,
    /// Transaction hash; empty for credit.
    pub transaction: String,
    /// CAIP-2; empty for credit.
    pub network: String,
    /// Token address; empty for credit.
    pub asset: String,
    /// In the asset's smallest units; for credit in micro-USD.
    pub amount: String,
    /// Address of the payer; id of the credit for credit.
    pub payer: String,
    /// Scheme of x402; `credit` for credit.
    pub scheme: String,
    /// Wire version that it was paid in; `None` for credit.
    pub version: Option<WireVersion>,
}

/// What a settlement moved.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum SettlementKind {
    /// Tokens, on a network.
    X402,
    /// A credit's balance.
    Credit,
}

/// A receipt and the answer it belongs to, ready to be stored in the commit that ends a payment.
#[derive(Debug)]
pub struct Finished {
    /// What its commit writes besides.
    pub rows: Batch,
    /// What the caller is given, now and when the payment is shown again.
    pub answer: StoredAnswer,
    /// Members for `extensions` of the settle response.
    pub extensions: Option<Value>,
    /// Told once the commit is done.
    pub news: News,
}

/// What a commit has made true, to be told once it has answered.
#[derive(Debug)]
pub struct News {
    /// Whose they are.
    pub owner: Owner,
    /// What happened.
    pub events: Vec<Event>,
}

/// Makes receipts for the gate: at the end of a call, or for one that a crash cut off.
pub trait Finisher: Send + Sync + 'static {
    /// `draft` is what the call gave to [`Gate::settle`].
    fn finish(&self, draft: &[u8], settlement: &Settlement, answer: StoredAnswer) -> Finished;

    /// What is written when the payment is refused after all.
    fn refuse(&self, draft: &[u8], reason: &str) -> (Batch, News);

    /// Tells those who follow live.
    fn announce(&self, news: News);
}

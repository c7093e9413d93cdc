//! The gate: what a call costs, whether a payment admits it, and taking the money.
//!
//! **Invariant: one payment authorization buys at most one run, and one answer.** A payment's identity is (network,
//! asset, payer, nonce). Every change of its record is one conditional commit. So of concurrent requests with the same
//! payment one reserves it, and the others join that one or are refused.
//!
//! ```text
//!            reserve            intent, durable        outcome + receipt + answer, durable
//! (absent) ──────────▶ reserved ───────────────▶ settling ───────────────▶ settled
//!     ▲                    │ drop, fault, crash      │ the facilitator refuses
//!     └──── released ◀─────┘                         ├──────────▶ refused
//!                                                    └──────────▶ unresolved: the outcome stays unknown
//! ```
//!
//! [`Payments::admit`] reads an offered payment, matches it with the call's [`CallTerms`], looks it up, and has the
//! [`Facilitator`] verify it.
//!
//! A `settling` record without an answer from the facilitator is looked up by sending the identical payload again.
//! After a day (`--unresolved-after-ms`) it becomes `unresolved`, and the chain or an admin decides. Released and refused
//! authorizations are unspent and may be used again.
//!
//! If a reorganization of the chain drops the transaction of a settled payment, its nonce is looked up: another
//! transaction may have moved the money, or the payment is settled again.

#![warn(missing_docs)]

mod asset;
mod binding;
mod config_error;
mod credit;
mod facilitator;
pub mod ledger;
mod money_kind;
mod network;
pub mod payer;
mod payment_config;
mod payment_offer;
mod payments;
pub mod payout;
mod quote;
pub mod receipt;
mod receipt_finisher;
pub mod refund;
mod refusal;
mod reorganized;
mod route;
pub mod sale;
mod settlement;
mod terms;
#[cfg(test)]
mod tests;
mod transactions;
mod x402;

pub use tollhouse_api::{Budget, CreditDecision, CreditVerdict};
pub use tollhouse_base::id::{PaymentId, PaymentIdError};

pub use self::{
    asset::Asset,
    binding::binding,
    config_error::ConfigError,
    credit::{
        BudgetKind, Credit, CreditError, Credits, IdempotencyKey, MintedCredit, Movement, MovementKind, MovementPage, MovementPosition,
        OverBudget, PREFIX as CREDIT_PREFIX, SetBy, StoredCredit,
    },
    facilitator::{
        BurnedGas, Facilitator, GasFunds, NOT_SERVED, PrepareError, SettleOutcome, SettlementGas, VerifyResult,
        by_network::Facilitators,
        kind::{
            FacilitatorAccess, FacilitatorKind, FacilitatorParts, FacilitatorSite, GasAccount, ReachReport, gas_address,
            ledger::{Ledger, LedgerError},
        },
    },
    money_kind::{MoneyKind, MoneyKindError, check_kind, kind_in_use, settle_kind},
    network::{Family, Network, checked_address},
    payment_config::{AcceptedToken, FailedRuns, GasLimits, LEAST_SETTLEMENT, OwedLimits, PaymentConfig, UNRESOLVED_AFTER},
    payment_offer::{CredentialLookup, CredentialObserver, CreditOffer, IDEMPOTENCY_KEY_TTL, OfferedPayment, WireVersion},
    payments::{
        Admission, Admit, BlockRange, PaymentRequest, Payments, ReconcileError, Resolution, ResolutionError, SeenPayment,
        answer::object_of,
        check_payments,
        owed::{OwedRun, Unanswered},
        prior::HeldPaymentEnd,
        record::{OwedPayment, PaymentState, SettlementNotice, StoredAnswer, count_unresolved},
        run_limits::{RunLimit, RunLimitReached},
        summarize_unresolved,
    },
    quote::{Quote, QuoteDocument, QuoteKey, QuoteKeys, QuoteRefusal, QuotedTerms, Quotes},
    receipt_finisher::{CommitEffects, Delivery, ReceiptContext, ReceiptFinisher, SignedReceipt, call_succeeded},
    refusal::{Refusal, SettleError},
    reorganized::{ReorganizedSettlement, ResettledSettlement, count_reorganized},
    route::{AmountDue, RemoteRoutes, Route, RouteError, RouteProvider, RouteStart, TableRoutes, nearest},
    settlement::{Evidence, Settlement, SettlementKind, StartedSettlement},
    terms::{CallTerms, EntryMethod, SignedOffers},
    x402::{
        eip3009::{Authorization, TransferWithAuthorization},
        offer::OfferedX402,
        permit2::{PERMIT2, PermitWitnessTransferFrom, TokenPermissions, UPTO_PROXY, Witness},
        signed::SignedPayload,
        svm::Transaction,
        wire::X402Challenge,
    },
};

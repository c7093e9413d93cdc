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
//! [`Gate::admit`] reads an offered payment, matches it with the call's [`Terms`], looks it up, and has the
//! [`Facilitator`] verify it.
//!
//! A `settling` record without an answer from the facilitator is looked up by sending the identical payload again.
//! After a day (`--unresolved-after-ms`) it becomes `unresolved`, and the chain or an admin decides. Released and refused
//! authorizations are unspent and may be used again.
//!
//! If a reorganization of the chain drops the transaction of a settled payment, its nonce is looked up: another
//! transaction may have moved the money, or the payment is settled again.

#![warn(missing_docs)]

mod accept;
mod asset;
mod begun;
mod binding;
mod closing;
mod credit;
mod facilitator;
mod finisher;
mod gate;
pub mod ledger;
mod limits;
mod network;
mod offered;
pub mod payer;
pub mod payout;
mod quote;
pub mod receipt;
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
mod unresolved;
mod x402;

pub use self::{
    accept::{Accepted, ConfigError, LEAST_SETTLEMENT, PaymentConfig, UNRESOLVED_AFTER},
    asset::Asset,
    begun::Begun,
    binding::binding,
    closing::{Closing, ReceiptFinisher, call_succeeded},
    credit::{
        Budget, BudgetKind, Budgets, Credit, CreditDecision, CreditError, CreditVerdict, Credits, Holder, Minted, Moved, Movement,
        MovementKind, MovementPlace, Movements, Once, OverBudget, Revoked, SetBy,
    },
    facilitator::{
        BurnedGas, Facilitator, SettleOutcome, SettlementGas, Unprepared, Verdict,
        by_network::Facilitators,
        kind::{
            FacilitatorAccess, FacilitatorKind, Means, Reached, Site,
            ledger::{Ledger, LedgerError},
        },
        view::{ChainError, ChainView, Placed, TokenTransfer},
    },
    finisher::{Delivery, Finished, Finisher, News},
    gate::{
        Admission, Admit, BlockRange, Gate, ReconcileError, Reconciliation, Request, Resolution, ResolutionError, Seen,
        UnresolvedSettlement,
        answer::{Ended, object_of},
        check_payments,
        owed::{OwedRun, Unanswered},
        record::{OwedPayment, PaymentState, SettlementNotice, State, StoredAnswer},
        slowed::{Bound, Slowed},
    },
    limits::{FailedRuns, GasLimits, OwedLimits},
    network::{Family, Network, checked_address},
    offered::{CredentialLookup, CredentialObserver, CreditOffer, Offered, WireVersion},
    quote::{Quote, QuoteDocument, QuoteKey, QuoteKeys, QuoteRefusal, Quoted, Quotes},
    refusal::{Refusal, SettleError},
    reorganized::{Loss, Reorganization, ReorganizedSettlement, ResettledSettlement, count_reorganized},
    route::{Due, RemoteRoutes, Route, RouteError, RouteProvider, Start, TableRoutes, nearest},
    settlement::{Evidence, Settlement, SettlementKind},
    terms::{SignedOffers, Terms, Way},
    unresolved::count_unresolved,
    x402::{eip3009::Authorization, offer::Payment, signed::Signed, svm::Transaction, wire::Challenge},
};
pub use self::{
    credit::PREFIX as CREDIT_PREFIX,
    facilitator::NOT_SERVED,
    x402::{
        eip3009::TransferWithAuthorization,
        permit2::{PERMIT2, PermitWitnessTransferFrom, TokenPermissions, UPTO_PROXY, Witness},
    },
};
pub use tollhouse_base::id::{PaymentId, PaymentIdError};

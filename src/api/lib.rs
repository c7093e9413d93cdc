//! The requests and responses of the HTTP API, one Rust type for each schema of its OpenAPI document.
//!
//! The types are what is on the wire: they contain no rules of the host. The host checks a request after it was read. A request type
//! rejects unknown fields, a response type ignores them, so that a client works with a newer host. [`schemas`] returns the schemas of
//! all types.
//!
//! Times and amounts have types of their own here: those of the host come with its store, and with a maximum price that sums exceed.
//! Results are a [`Value`](serde_json::Value), which rounds numbers to 64 bits. The text of a response has all digits.
//!
//! This crate does no IO.

#![warn(missing_docs)]

mod account;
mod audit;
mod call;
mod check;
mod constant;
mod conversion;
mod credit;
mod discovery;
mod dry_run;
mod endpoint;
mod error;
mod event;
mod faucet;
mod health;
mod invoke;
mod ledger;
mod log;
mod metrics;
mod money;
mod payment;
mod payout;
mod payout_settings;
mod policy;
mod present;
mod publish;
mod quote;
mod receipt;
mod reconciliation;
mod refund;
mod revenue;
mod review;
mod safety;
mod schema;
mod secret;
mod seller;
mod summary;
#[cfg(test)]
mod tests;
mod time;
mod tool;
mod unresolved;

pub use account::{
    Builder, BuilderDecision, BuilderKeyResponse, BuilderListEntry, BuilderPage, BuilderRef, BuilderResponse, BuilderVerdict,
    RegistrationRequest, RegistrationResponse, SignInLink, Suspension,
};
pub use audit::{Actor, ActorKind, AuditEntry, AuditOutcome, AuditPage};
pub use call::{Call, CallOutcome, CallPage, CallPayment, Method};
pub use check::{EndpointCheck, EndpointCheckRequest, EndpointCheckResponse, Grants};
pub use constant::{False, Number, True};
pub use conversion::{
    ConversionCost, ConversionHandoff, ConversionQuote, ConversionRequest, ConversionRoute, ConversionService, SettlementAmount,
    TokenAmount,
};
pub use credit::{
    Budget, Budgets, Credit, CreditDay, CreditDecision, CreditHistory, CreditMovement, CreditPage, CreditResponse, CreditRevocation,
    CreditToolDay, CreditVerdict, CreditsResponse, MintCreditRequest, MintCreditResponse, MintedCredit, MovementKind,
};
pub use discovery::{
    BuilderRules, Catalog, ContentSafetyRules, JsonRpcMessage, JsonWebKeySet, Manifest, OkResponse, OpenApiDocument, Resources, ToolInput,
};
pub use dry_run::{DryRun, DryRunRequest, DryRunResponse, DryRunUsage};
pub use endpoint::{Endpoint, EndpointCommon, EndpointResponse, EndpointView, OwnEndpoint, OwnEndpointResponse, Version};
pub use error::{Charged, Error, ErrorDetails, FaultParty, PaymentRequired};
pub use event::{Event, EventPage};
pub use faucet::{FaucetRequest, SimulatedBalance};
pub use health::{GasHealth, Health, HealthWarning, Replica, UnpaidHealth};
pub use invoke::{InvokeRequest, InvokeResponse};
pub use ledger::{Ledger, LedgerAccount, LedgerUnit, ReorganizedSettlement};
pub use log::{LogLine, LogPage};
pub use metrics::{DailyUsage, Metrics, MetricsBucket, MetricsStep, RecentUsage, RuntimeEndpoint, RuntimeStats, UsageDay};
pub use money::{MicroUsd, UsdChange};
pub use payment::{Payment, PaymentResponse, PaymentState};
pub use payout::{
    AllPayoutsPage, CreatePayoutResponse, CreatedPayout, EmptyPayout, EmptyStatus, Payout, PayoutCounts, PayoutDecision, PayoutPage,
    PayoutReceipt, PayoutReceiptPage, PayoutResponse, PayoutStatus, PayoutVerdict,
};
pub use payout_settings::{PayoutSettings, PayoutSettingsDraft, PayoutSettingsResponse, WaitingPayout};
pub use policy::{Narrowing, Policy, PolicyCheckResponse, PolicyDraft, PolicyResponse, SafetyPolicyResponse};
pub use publish::{
    DeleteEndpointResponse, EndpointChangeResponse, EndpointDraft, EndpointPatch, EndpointSourceResponse, Handler, SafetyAttestation,
    UploadedHandler,
};
pub use quote::{Quote, QuoteLine, QuoteRequest};
pub use receipt::{Receipt, ReceiptKind, ReceiptResponse, Reorganization, ReorganizationState, SettlementLoss};
pub use reconciliation::{DoubledTransaction, MissingTransfer, Reconciliation, UnknownTransfer};
pub use refund::{GivenRefund, Refund, RefundRequest, RefundResponse};
pub use revenue::{DayRevenue, EndpointRevenue, HostDayRevenue, HostRevenue, Revenue, RevenueTotals};
pub use review::{
    ContentHold, DecisionRecord, PendingReview, RescanCounts, RescanResponse, Review, ReviewDecision, ReviewPage, ReviewState,
    ReviewVerdict,
};
pub use safety::{ContentSafety, Finding, ScanOutcome, Severity};
pub use schema::schemas;
pub use secret::{
    KeyRotation, KeyRotationResponse, RemoveSecretResponse, Secret, SecretList, SecretResponse, SecretVisibility, SetSecretRequest,
};
pub use seller::{SellerQuote, SellerQuoteRequest};
pub use summary::{EndpointSummary, EndpointSummaryPage};
pub use time::{ParseTimestampError, Timestamp};
pub use tollhouse_protocol::{Isolation, Language, LogLevel, Tier};
pub use tool::{
    Capabilities, EndpointState, HandlerType, Interface, Limits, PostMethod, PricingMode, Runtime, SchemaDocument, SettleBefore,
    SettleTime, Status, VersionAuthor,
};
pub use unresolved::{SettlementDecision, SettlementVerdict, UnresolvedPage, UnresolvedSettlement};

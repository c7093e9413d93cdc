//! Why a call ended without a result, and whose fault that is.

use std::time::Duration;

use tollhouse_pool::PoolError;
use tollhouse_protocol::{StopReason, Thrown};

use crate::{
    base::share::OverShare,
    money::{PaymentId, Refusal, SettleError},
    store::StoreError,
    tool::{Mismatch, Slug},
};

/// Why a call ended without a result. Fronts hold the one table that maps it.
#[derive(Debug, thiserror::Error)]
pub enum CallError {
    #[error("no endpoint is called `{0}`")]
    UnknownEndpoint(String),
    #[error("endpoint `{0}` is paused")]
    Paused(Slug),
    #[error("endpoint `{0}` is paused: its builder is suspended")]
    OwnerSuspended(Slug),
    #[error("endpoint `{0}` is paused: it is under review")]
    UnderReview(Slug),
    #[error("endpoint `{0}` is paused: it was taken down")]
    TakenDown(Slug),
    #[error("body is not JSON: {0}")]
    InvalidJson(String),
    #[error("body is larger than {limit} bytes")]
    BodyTooLarge { limit: u64 },
    #[error("body is `{0}`; send `application/json`")]
    UnsupportedMediaType(String),
    #[error("input does not fit the tool's inputSchema: {0}")]
    Input(#[source] Mismatch),
    /// The payment does not admit the call.
    #[error(transparent)]
    Refused(Refusal),
    #[error(transparent)]
    OverShare(#[from] OverShare),
    #[error("no worker came free in time")]
    Busy { retry_after: Duration },
    #[error("endpoint is held for a moment after repeated faults")]
    Held { retry_after: Duration },
    #[error("no sandbox could be started")]
    NoSandbox,
    #[error("handler failed: {}", .0.message)]
    Threw(Thrown),
    #[error("handler failed: {0}")]
    Misbehaved(String),
    #[error("result does not fit the tool's outputSchema: {0}")]
    Output(#[source] Mismatch),
    #[error(transparent)]
    Stopped(StopReason),
    #[error(transparent)]
    Settle(SettleError),
    /// The call that this one joined ended in a way that is told to its own caller only.
    #[error("the call that holds payment `{0}` ended without an answer")]
    Joined(PaymentId),
    /// Nothing was taken.
    #[error("the caller took the call back")]
    Cancelled,
    #[error("the store is away")]
    Store(#[from] StoreError),
    #[error("a secret of the tool cannot be opened; its host has to see to that")]
    SecretsUnavailable,
    /// A fault of the host's own; the log has it.
    #[error("the host failed")]
    Internal,
}

/// Who can mend it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    Caller,
    Tool,
    Host,
}

/// Whether money moved.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Charged {
    No,
    /// Until the open settlement is resolved.
    Unknown,
}

impl CallError {
    /// Whether the handler ran and did something wrong.
    #[must_use]
    pub fn is_the_tools(&self) -> bool {
        matches!(self, Self::Threw(_) | Self::Misbehaved(_) | Self::Output(_) | Self::Stopped(_))
    }

    /// Whether this end took money.
    #[must_use]
    pub fn charged(&self) -> Charged {
        match self {
            Self::Settle(SettleError::Unknown { .. }) | Self::Internal => Charged::Unknown,
            _ => Charged::No,
        }
    }
}

impl CallError {
    /// The stable name of this end, for programs: the `code` of every front's envelope.
    #[must_use]
    pub fn code(&self) -> &'static str {
        match self {
            Self::UnknownEndpoint(_) => "unknown_endpoint",
            Self::Paused(_) | Self::OwnerSuspended(_) | Self::UnderReview(_) | Self::TakenDown(_) => "endpoint_paused",
            Self::InvalidJson(_) => "invalid_json",
            Self::BodyTooLarge { .. } => "body_too_large",
            Self::UnsupportedMediaType(_) => "unsupported_media_type",
            Self::Input(_) => "invalid_input",
            Self::Refused(refusal) => match refusal {
                Refusal::Reused => "payment_reused",
                Refusal::InProgress(_) => "payment_in_progress",
                Refusal::FacilitatorUnavailable(_) => "facilitator_unavailable",
                Refusal::Store(_) => "store_unavailable",
                Refusal::NoPayment
                | Refusal::Invalid { .. }
                | Refusal::CreditUnknown
                | Refusal::CreditRevoked
                | Refusal::InsufficientCredit { .. } => "payment_required",
            },
            Self::OverShare(_) => "rate_limited",
            Self::Busy { .. } | Self::Held { .. } | Self::NoSandbox => "busy",
            Self::Threw(_) | Self::Misbehaved(_) => "handler_failed",
            Self::Output(_) => "invalid_output",
            Self::Stopped(reason) => match reason {
                StopReason::CpuTime { .. } => "cpu_time_exceeded",
                StopReason::WallTime { .. } => "wall_time_exceeded",
                StopReason::Memory { .. } => "memory_exceeded",
                StopReason::SchemaTime { .. } | StopReason::SchemaMemory { .. } => "schema_too_costly",
                StopReason::OutputSize { .. } | StopReason::OutputDepth { .. } => "output_too_large",
                StopReason::Ops { .. } => "op_limit_exceeded",
                StopReason::Deadlock => "handler_failed",
                StopReason::Crashed => "sandbox_crashed",
            },
            Self::Settle(SettleError::Refused { .. }) => "payment_required",
            Self::Settle(SettleError::Unknown { .. }) => "settlement_unknown",
            Self::Settle(SettleError::Store(_)) | Self::Store(_) => "store_unavailable",
            Self::Joined(_) => "payment_in_progress",
            Self::Cancelled => "cancelled",
            Self::SecretsUnavailable => "secrets_unavailable",
            Self::Internal => "internal",
        }
    }
}

impl From<Refusal> for CallError {
    fn from(refusal: Refusal) -> Self {
        match refusal {
            Refusal::Store(error) => Self::Store(error),
            other => Self::Refused(other),
        }
    }
}

impl From<SettleError> for CallError {
    fn from(error: SettleError) -> Self {
        match error {
            SettleError::Store(error) => Self::Store(error),
            other => Self::Settle(other),
        }
    }
}

impl From<PoolError> for CallError {
    fn from(error: PoolError) -> Self {
        match error {
            PoolError::Busy { retry_after } => Self::Busy { retry_after },
            PoolError::Held { retry_after } => Self::Held { retry_after },
            PoolError::Load(error) => Self::Misbehaved(format!("handler does not load: {error}")),
            PoolError::Schema(fault) => Self::Misbehaved(format!("`{}` cannot be used: {fault}", fault.side)),
            PoolError::Stopped(reason) => Self::Stopped(reason),
            PoolError::Spawn(error) => {
                tracing::error!(error, "no worker could be started");
                Self::NoSandbox
            }
        }
    }
}

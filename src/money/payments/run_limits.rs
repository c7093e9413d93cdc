//! Limits that delay a run.

use std::{num::NonZeroU32, time::Duration};

use tollhouse_tool::Slug;

/// A limit that a run has reached.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{bound}")]
pub struct RunLimitReached {
    /// The limit.
    pub bound: RunLimit,
    /// Its value.
    pub max: NonZeroU32,
    /// The period to which it applies.
    pub window: Duration,
    /// Time until a run can begin.
    pub wait: Duration,
}

/// A limit on unpaid runs, or on runs with a refused payment or a wrong credential.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RunLimit {
    /// Unpaid runs of one payer.
    #[error("too many of your runs in the last minute are unpaid or still running; each paid run makes room for one more")]
    Payer,
    /// Unpaid runs from one address.
    #[error("too many runs from your address in the last minute are unpaid or still running; each paid run makes room for one more")]
    Address,
    /// Unpaid runs of one tool.
    #[error("too many runs of `{0}` in the last minute were not paid for; for now, it serves only payers who have paid for it before")]
    Tool(Slug),
    /// Concurrent runs of a payer who has not paid yet and whose balance is unknown.
    #[error("payers who have not paid here yet can have only a few runs at once; wait until one ends")]
    Unproven,
    /// The payer's balance.
    #[error("your balance does not cover this call together with your running calls; wait until those end")]
    Balance,
    /// Gas burned by settlements of one payer.
    #[error("your failed settlements have used too much gas in the last hour")]
    PayerGas,
    /// Gas burned by settlements of payers who call from one address.
    #[error("failed settlements of payers at your address have used too much gas in the last hour")]
    AddressGas,
    /// Gas that new payers may burn. The rest is reserved for payers who have paid for the tool before.
    #[error(
        "failed settlements have used a lot of gas in the last hour; for now, the host serves only payers who have paid for this tool before"
    )]
    NewPayers,
    /// Gas burned by settlements for one builder's tools.
    #[error("failed settlements of this builder's tools have used too much gas in the last hour")]
    OwnerGas,
    /// Gas of settlements that bring less than it costs.
    #[error(
        "payments this small cost more gas than they bring in, and they have used up their gas for this hour; pay with developer credit"
    )]
    Underpaid,
    /// Reverted settlements of one payer.
    #[error("too many of your settlements were reverted in the last hour")]
    Reverts,
    /// Payments from one address that were refused, or began no run.
    #[error("too many payments from your address were refused or began no run in the last minute")]
    RefusedPayments,
    /// Payments from one address that are being verified.
    #[error("too many payments from your address are being verified at once")]
    Verifications,
    /// Wrong credentials from one address, among them tokens of credits.
    #[error("too many wrong credentials came from your address in the last minute")]
    Credentials,
    /// Credentials from one address that are being checked.
    #[error("too many credentials from your address are being checked at once")]
    CredentialChecks,
}

impl RunLimit {
    /// Returns the policy's name in `RateLimit` headers.
    pub fn policy(&self) -> &'static str {
        match self {
            Self::Payer | Self::Address | Self::Tool(_) => "failed-runs",
            Self::Unproven | Self::Balance => "runs-under-way",
            Self::PayerGas | Self::AddressGas | Self::NewPayers | Self::OwnerGas => "burned-gas",
            Self::Underpaid => "underpaid-gas",
            Self::Reverts => "reverted-settlements",
            Self::RefusedPayments | Self::Verifications => "refused-payments",
            Self::Credentials | Self::CredentialChecks => "credentials",
        }
    }

    pub(crate) fn metric(&self) -> &'static str {
        match self {
            Self::Payer => "payer",
            Self::Address | Self::RefusedPayments | Self::Verifications | Self::Credentials | Self::CredentialChecks => "address",
            Self::Tool(_) => "tool",
            Self::Unproven => "unproven",
            Self::Balance => "balance",
            Self::PayerGas | Self::AddressGas | Self::NewPayers | Self::OwnerGas | Self::Underpaid | Self::Reverts => "gas",
        }
    }
}

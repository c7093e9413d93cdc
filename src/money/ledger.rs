//! The ledger: the balance of each party, and every movement of money between them.
//!
//! A [`Posting`] moves amounts from one account to another and does nothing else, so the accounts of each unit always
//! sum to zero: an unbalanced posting cannot be written. It is written once, in the commit that makes it true (the
//! receipt of a call, a minting, a payout), and never changed. The same commit adds to the balances of its accounts. So
//! each can be verified against the others, which is what [`check()`] does.
//!
//! Dollars and tokens are different units. A call that was paid with tokens moves them from its payer to the treasury,
//! and their worth in dollars from the token's exchange account to the owner. A refund takes the same paths back.
//!
//! ```text
//! issued ──▶ credit/… ─┬─▶ builder/… ──▶ packet/… ──▶ paid-out          payers/… ──▶ treasury/…
//!                      ├─▶ fees                                        (tokens, by network and asset)
//!          exchange/… ─┴─▶ own
//! ```

mod account;
mod check;
mod opening;
mod posting;
mod read;
mod refund_split;
mod sale_posting;

pub use self::{
    account::{Account, Dollars, Token, Tokens},
    check::{ArchiveGapReport, Check, LedgerMismatch, LedgerReport, check},
    opening::{LedgerStart, open, opened},
    posting::{Cause, Move, Posting},
    read::read,
    refund_split::{RefundAmounts, SaleAmounts},
};
pub(crate) use self::{
    account::{revoked, unpaid},
    posting::POSTINGS,
};

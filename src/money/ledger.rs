//! The ledger: what each party has, and every movement of money between them.
//!
//! A [`Posting`] moves amounts from one account to another. It is made of nothing else, so the accounts of each unit always
//! come to zero together: there is no way to write one that does not balance. It is written once, in the commit that makes
//! what it tells of true (the receipt of a call, a minting, a payout packet), and never changed; the balances of its accounts
//! are additions of the same commit. So each can be proved by the others, which is what [`check()`] does.
//!
//! Dollars and tokens are different units. A call that was paid with tokens moves those from its payer to the treasury, and
//! their worth in dollars from the exchange of that token to who earned it. A refund goes the same ways back.
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
mod returned;
mod sold;

pub(crate) use self::{account::unpaid, posting::POSTINGS};
pub use self::{
    account::{Account, Dollars, Token, Tokens, Unit},
    check::{Check, Found, Wrong, check},
    opening::{Opened, open, opened},
    posting::{Cause, Move, Posting},
    read::{AccountLine, Reading, UnitLine, read},
    returned::{Paid, Returned},
    sold::Sold,
};

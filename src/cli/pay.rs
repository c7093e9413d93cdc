//! Payments from the command line.
//!
//! The terms are checked before anything is signed, and a signed payment is written to disk before it is sent. A retry
//! sends the same bytes.

mod answer;
mod attempt;
pub(crate) mod body_file;
pub(crate) mod chain;
mod challenge;
mod choose;
pub(crate) mod credit;
mod draft;
#[cfg(test)]
mod fuzz;
pub(crate) mod key_file;
pub(crate) mod limits;
pub(crate) mod money;
mod perform;
mod proof;
mod record;
pub(crate) mod reply;
pub(crate) mod seller;
pub(crate) mod show;
mod spend_log;
pub(crate) mod state;
mod stream;
pub(crate) mod target;

pub(crate) use self::{
    answer::{Settlement, reason},
    challenge::Challenge,
    choose::{ChosenTerms, choose, over_limit},
    draft::Draft,
    limits::PaymentLimits,
    money::usd,
    perform::{PaymentEnd, perform},
    proof::prove,
    record::{LockedRecord, RecordStore, SentPayment, Token},
    reply::{Arrival, LostReply, Progress, Reply, Report},
    seller::{Request, Seller},
    spend_log::{OpenPayment, SpendLog, open_payments},
    state::PaymentState,
    target::PaymentTarget,
};

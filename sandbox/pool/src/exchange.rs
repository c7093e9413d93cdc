//! The conversation with one worker: loads a bundle, runs calls, answers ops, and checks every
//! claim.
//!
//! The task that runs the call reads and writes the worker's socket itself. The
//! [`CallLedger`](crate::call_account::CallLedger) detects each message that an honest worker would
//! not send, and the call then ends.

mod drive;
mod end;
mod load;
mod ops;

#[cfg(test)]
mod tests;

pub(crate) use self::{
    drive::{ExchangeParams, StartMessage, drive},
    end::{CleanEnd, ExchangeEnd},
    load::load,
};

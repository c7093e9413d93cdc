//! What is said with one worker: a bundle is loaded, a call is run. Frames out, frames in, ops answered, every claim checked.
//!
//! The task that runs the call reads and writes the worker's socket itself. Whatever the worker
//! does that an honest one would not, the [`Ledger`](crate::ledger::Ledger) notices first, and the call ends there.

mod drive;
mod end;
mod load;
mod ops;

#[cfg(test)]
mod tests;

pub(crate) use self::{
    drive::{Asked, Begin, drive},
    end::{Clean, Ended},
    load::load,
};

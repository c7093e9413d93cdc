//! Common basics: time, ids, error formatting, long work, durable files, rate limits, deserializing JSON from clients,
//! and JSON whose numbers keep their text.

#![warn(missing_docs)]

pub mod amounts;
pub mod aside;
pub mod attempts;
pub mod behalf;
pub mod causes;
pub mod clock;
#[cfg(test)]
pub(crate) mod counted;
pub mod exact;
pub mod flaws;
pub mod folder;
pub mod id;
pub mod lexer;
pub mod misfit;
pub mod penalty;
pub mod piles;
pub mod queues;
pub mod rate;
pub mod ready;
pub mod share;
pub mod steady;
pub mod unseen;
pub mod uses;
pub mod when;

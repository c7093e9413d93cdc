//! Payments from the command line.
//!
//! The terms are checked before anything is signed, and a signed payment is written to disk before it is sent. A retry
//! sends the same bytes.

pub(crate) mod aim;
mod answer;
mod attempt;
mod book;
pub(crate) mod chain;
mod challenge;
mod choose;
pub(crate) mod credit;
#[cfg(test)]
mod fuzz;
pub(crate) mod keyfile;
pub(crate) mod means;
pub(crate) mod money;
mod perform;
mod proof;
mod record;
pub(crate) mod reply;
pub(crate) mod seller;
pub(crate) mod show;
mod sign;
pub(crate) mod state;
mod stream;

pub(crate) use self::{
    answer::why,
    book::{Book, Open, under_way},
    challenge::Challenge,
    choose::{Chosen, choose, over},
    perform::{Ended, perform},
    proof::prove,
    record::{Record, Records, Sent},
    sign::Draft,
    state::Became,
};

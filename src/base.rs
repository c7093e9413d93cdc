//! What every room stands on: the time, ids, errors for people, work that is long, files that last, and how JSON is read from others.

pub(crate) mod aside;
pub(crate) mod behalf;
pub mod causes;
pub mod clock;
pub mod flaws;
pub(crate) mod folder;
pub mod id;
pub mod lexer;
pub(crate) mod misfit;
pub mod penalty;
pub(crate) mod queues;
pub mod rate;
pub(crate) mod ready;
pub mod share;
pub mod steady;
pub mod unseen;
pub mod uses;
pub mod when;

//! The commands of an operator, which need no running host.

pub(crate) mod check;
pub(crate) mod doctor;
pub(crate) mod ledger;
pub(crate) mod mend;
pub(crate) mod rotate;
pub(crate) mod save;
pub(crate) mod verify;

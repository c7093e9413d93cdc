//! The commands of an operator, which need no running host.

pub(crate) mod backup_cmd;
pub(crate) mod check;
pub(crate) mod doctor;
pub(crate) mod ledger;
pub(crate) mod rotate;
pub(crate) mod store_admin;
pub(crate) mod verify;

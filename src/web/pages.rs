//! The pages, one file each: the requests it makes, and how it shows the answers.

pub(super) mod account;
pub(super) mod admin;
pub(super) mod calls;
pub(super) mod credit;
pub(super) mod docs;
pub(super) mod edit;
pub(super) mod events;
pub(super) mod guide;
pub(super) mod home;
pub(super) mod log;
mod owner_pages;
pub(super) mod payment;
pub(super) mod payout;
pub(super) mod payouts;
pub(super) mod receipt;
pub(super) mod receipt_lookup;
pub(super) mod register;
pub(super) mod revenue;
pub(super) mod secrets;
pub(super) mod settings;
pub(super) mod sign_in;
pub(super) mod tool;
pub(super) mod tools;
pub(super) mod try_it;
mod usage;
pub(super) mod versions;

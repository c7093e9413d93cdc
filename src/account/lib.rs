//! Accounts: builders, the admin, their credentials, and the audit trail.

#![warn(missing_docs)]

pub mod admin;
pub mod audit;
pub mod builder;
pub mod credential;
pub mod first_key;
pub mod registration;
mod seen;
pub mod session;
pub mod token;

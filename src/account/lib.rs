//! Accounts: builders, the admin, their credentials, and the audit trail.

pub mod admin_token;
pub mod audit;
pub mod builder;
pub mod credential;
pub mod first_key;
pub mod registration;
pub mod session;
pub mod token;

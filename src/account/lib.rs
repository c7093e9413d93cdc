//! Who someone is: builders, the admin, what proves it, and what they did.

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

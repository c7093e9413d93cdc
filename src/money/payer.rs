//! The payer's side: reads a way to pay from a seller's challenge, and signs the payment.
//!
//! The judged values and the signed values are the same, because both come from one [`Ask`] that is parsed once. The
//! host verifies payments with separate code, and shares only the EIP-712 typed data with this module.

mod ask;
mod key;
mod signed;

pub use self::{
    ask::{Ask, Bounds, Scheme, Unsignable},
    key::{PayKey, PayKeyError},
};

#[cfg(test)]
mod tests;

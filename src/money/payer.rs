//! The payer's side: reads a way to pay from a seller's challenge, and signs the payment.
//!
//! The judged values and the signed values are the same, because both come from one [`PayableTerms`] that is parsed once. The
//! host verifies payments with separate code, and shares only the EIP-712 typed data with this module.

mod payable_terms;
mod signed;

#[cfg(test)]
mod tests;

pub use self::{
    payable_terms::{PayableTerms, PaymentBounds, Scheme, Unsignable},
    signed::{PayKey, PayKeyError},
};

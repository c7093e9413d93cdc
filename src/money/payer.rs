//! The payer's side: one way to pay, read from what a seller asks for, and what is signed for it.
//!
//! What was judged is what is signed: both are the numbers of one [`Ask`], which is read once. The host judges payments by code of
//! its own, and shares with this nothing but the typed data of EIP-712.

mod ask;
mod key;
mod signed;

pub use self::{
    ask::{Ask, Bounds, Scheme, Unsignable},
    key::{PayKey, PayKeyError},
};

#[cfg(test)]
mod tests;

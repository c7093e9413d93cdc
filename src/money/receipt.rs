//! Receipts: signed records of payment, run and answer that anyone can verify offline.
//!
//! A [`UnsignedReceipt`] is the complete, unsigned receipt. A [`Receipt`] is a record with a compact JWS over its RFC 8785
//! canonical JSON. Receipts of paid calls are signed once the money has moved, and stored signed. Those of free calls
//! are stored as records and signed whenever an answer contains them ([`ReceiptSigner::present`]): Ed25519 signs
//! deterministically, and few are ever sent. They expire ([`FreeReceipts`]); receipts of paid calls are kept.
//!
//! A receipt of an x402 payment also contains the receipt of x402's offer-receipt extension, signed by the same key and
//! covered by the record's own signature. That one contains the payer's full address, as the extension requires. The
//! record shortens it.

mod eip712;
mod free;
mod hash;
mod jws;
mod key;
mod offer;
mod published;
mod record;
mod stored;
#[cfg(test)]
mod tests;
mod verify;

pub use free::{FreeReceiptSettings, FreeReceipts};
pub(crate) use hash::written;
pub use hash::{PiecewiseHash, bytes_hash, canonical, json_hash, request_hash};
pub use jws::JwsError;
pub use key::{KeyError, ReceiptSigner};
pub use offer::{OfferFormat, OfferReceipt};
pub use published::PublishedKeys;
pub(crate) use record::RECEIPTS;
pub use record::{Receipt, UnsignedReceipt, newest_at, paid, shortened};
pub use stored::StoredReceipt;
pub use verify::{SignaturePart, VerifiedReceipt, VerifyError, verify};

pub use self::offer::{PaymentKind, ReceiptDraft};

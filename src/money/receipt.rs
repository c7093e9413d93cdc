//! Receipts: what was paid, run and answered, signed so that anyone can check it offline.
//!
//! A [`Record`] says everything and is not signed; a [`Signed`] is a record with a compact JWS over the
//! RFC 8785 canonical JSON of the record. Receipts of paid calls are signed when the money has moved and
//! stored so. Those of free calls are stored as records and signed when someone fetches them
//! ([`Signer::present`]): Ed25519 signs the same bytes the same way every time, and few are ever fetched. They go
//! after a time ([`FreeReceipts`]); those of paid calls stay.
//!
//! A receipt of an x402 payment carries the receipt of x402's offer-receipt extension too, signed by the
//! same key; the record's own signature covers it. That one names the payer in full, as the extension
//! wants it; the record shortens it.

mod draft;
mod eip712;
mod free;
mod hash;
mod jws;
mod key;
mod offer;
mod published;
mod record;
#[cfg(test)]
mod samples;
mod short;
mod verify;

pub use draft::{Draft, Kind, Payment, Transfer};
pub use free::{FreeReceiptSettings, FreeReceipts};
pub(crate) use hash::written;
pub use hash::{bytes_hash, canonical, json_hash, request_hash};
pub use jws::JwsError;
pub use key::{KeyError, Signer};
pub use offer::{OfferFormat, OfferReceipt};
pub use published::PublishedKeys;
pub(crate) use record::{RECEIPTS, is_free};
pub use record::{Record, Signed, newest_at, paid, shortened};
pub use short::Stored;
pub use verify::{Part, Verified, VerifyError, verify};

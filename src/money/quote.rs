//! Quotes: prices that stay valid for a while, even if the tool's price changes.
//!
//! Nothing is stored. A quote's id contains all of its data and a MAC, whose key is derived from the host's master key.
//! So a quote costs no commit, nobody can fill the store with quotes, and replicas with the same master key accept each
//! other's. An id is neither secret nor personal: anybody can use it any number of times while it is valid.
//!
//! A quote belongs to one tool and fixes only the price. All other terms are the tool's current ones: a call runs the
//! current version, and the payment goes to the configured address.

mod document;
mod id;

use std::{sync::Arc, time::Duration};

use tollhouse_base::clock::{Clock, Timestamp};
use tollhouse_tool::MicroUsd;

use self::id::{QuoteClaims, QuoteKeyring};
pub use self::{document::QuoteDocument, id::QuoteKey};
use super::CallTerms;

/// Returns the keys that quote ids may be made with, the current one first.
pub type QuoteKeys = Box<dyn Fn() -> Vec<QuoteKey> + Send + Sync>;

/// Makes and verifies quotes.
pub struct Quotes {
    keys: QuoteKeys,
    remembered: QuoteKeyring,
    lifetime: Duration,
    clock: Clock,
}

/// A price that stays valid for a while.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Quote {
    /// Its id, for `X-Quote-Id`.
    pub id: String,
    /// The price of a call that names it.
    pub price: MicroUsd,
    /// When it was made.
    pub created_at: Timestamp,
    /// When it expires.
    pub expires_at: Timestamp,
}

/// Why a quote is not accepted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[expect(missing_docs, reason = "the messages explain them")]
pub enum QuoteRefusal {
    #[error("this host did not make this quote")]
    Unknown,
    #[error("the quote is for another tool")]
    OtherTool,
    #[error("the quote expired at {at}")]
    Expired { at: Timestamp },
}

/// The terms of a call, and the quote that they are based on.
#[derive(Debug, Clone)]
pub struct QuotedTerms {
    /// The terms with the price to pay.
    pub terms: Arc<CallTerms>,
    /// The quote's id, or `None` if none was named.
    pub id: Option<String>,
}

impl Quotes {
    /// Constructs quotes that are valid for `lifetime`. Quotes of a removed key stay valid until they expire.
    pub fn new(keys: QuoteKeys, lifetime: Duration, clock: Clock) -> Self {
        Self { keys, remembered: QuoteKeyring::default(), lifetime, clock }
    }

    /// Makes a quote for the current `terms`.
    pub fn make(&self, terms: &CallTerms) -> Quote {
        let created_at = self.clock.now();
        let expires_at = created_at.plus(self.lifetime);
        let message = QuoteClaims { endpoint: terms.endpoint_id.clone(), price: terms.price, metered: terms.metered, expires_at };
        Quote { id: message.written(&self.keys(created_at)[0]), price: terms.price, created_at, expires_at }
    }

    /// Applies a named quote to a tool's current `terms`. Free tools ignore quotes. If a maximum was quoted and the
    /// price is now fixed, the lower of both applies, because nobody reduces the charge of such a call.
    pub fn under(&self, terms: &Arc<CallTerms>, named: Option<&str>) -> Result<QuotedTerms, QuoteRefusal> {
        let Some(id) = named.filter(|_| !terms.price.is_zero()) else { return Ok(QuotedTerms { terms: Arc::clone(terms), id: None }) };
        let now = self.clock.now();
        let keys = self.keys(now);
        let QuoteClaims { endpoint, price, metered, expires_at } = id::read(id, &keys).ok_or(QuoteRefusal::Unknown)?;
        if endpoint != terms.endpoint_id {
            return Err(QuoteRefusal::OtherTool);
        }
        if expires_at <= now {
            return Err(QuoteRefusal::Expired { at: expires_at });
        }
        let price = if metered && !terms.metered { price.min(terms.price) } else { price };
        let quoted = CallTerms { price, ..CallTerms::clone(terms) };
        Ok(QuotedTerms { terms: Arc::new(quoted), id: Some(id.to_owned()) })
    }

    fn keys(&self, now: Timestamp) -> Vec<QuoteKey> {
        self.remembered.with((self.keys)(), now, self.lifetime)
    }
}

#[cfg(test)]
mod tests;

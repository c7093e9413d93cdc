//! Quotes: a price that holds for a while, whatever becomes of the tool's own.
//!
//! Nothing is stored: a quote's id says all there is to it, and carries a MAC by a key that is derived from the host's master key.
//! So quoting costs no commit, nobody can fill the store with quotes, and replicas with one master key honour each other's. An id
//! is no secret and is nobody's: whoever names it pays its price, as often as they like while it holds.
//!
//! A quote is of one endpoint, and what it says is the price. All else of the terms is what the tool's are when it is named: what
//! runs is the version of the moment, where the payment goes what the host is set to, at the quoted price.

mod id;
mod keys;
mod told;

use std::{fmt, sync::Arc, time::Duration};

use tollhouse_base::clock::{Clock, Timestamp};
use tollhouse_tool::MicroUsd;

use self::{id::Said, keys::Remembered};
pub use self::{keys::QuoteKey, told::QuoteDocument};
use super::Terms;

/// The keys that may have made a quote's id, the one that makes them first.
pub type QuoteKeys = Box<dyn Fn() -> Vec<QuoteKey> + Send + Sync>;

/// Makes quotes, and knows its own.
pub struct Quotes {
    keys: QuoteKeys,
    remembered: Remembered,
    lifetime: Duration,
    clock: Clock,
}

/// A price that holds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Quote {
    /// What it is named by, in `X-Quote-Id`.
    pub id: String,
    /// What a call costs whoever names it.
    pub price: MicroUsd,
    /// When it was made.
    pub created_at: Timestamp,
    /// From then on it is none.
    pub expires_at: Timestamp,
}

/// Why a quote is not honoured.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[expect(missing_docs, reason = "each says itself what it is")]
pub enum QuoteRefusal {
    #[error("this is no quote that this host made")]
    Unknown,
    #[error("the quote is for another tool")]
    OtherTool,
    #[error("the quote expired at {at}")]
    Expired { at: Timestamp },
}

/// Terms of a call, and the quote that they are by.
#[derive(Debug, Clone)]
pub struct Quoted {
    /// With the price that is to be paid.
    pub terms: Arc<Terms>,
    /// The quote's id; `None` where none was named.
    pub id: Option<String>,
}

impl fmt::Debug for Quotes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Quotes").field("lifetime", &self.lifetime).finish_non_exhaustive()
    }
}

impl Quotes {
    /// Quotes that hold for `lifetime`, under these keys. A key that is taken away goes on honouring what it made.
    #[must_use]
    pub fn new(keys: QuoteKeys, lifetime: Duration, clock: Clock) -> Self {
        Self { keys, remembered: Remembered::default(), lifetime, clock }
    }

    /// A quote of what `terms` ask now.
    #[must_use]
    pub fn make(&self, terms: &Terms) -> Quote {
        let created_at = self.clock.now();
        let expires_at = created_at.plus_millis(u64::try_from(self.lifetime.as_millis()).unwrap_or(u64::MAX));
        let said = Said { endpoint: terms.endpoint_id.clone(), price: terms.price, metered: terms.metered, expires_at };
        Quote { id: said.written(&self.keys(created_at)[0]), price: terms.price, created_at, expires_at }
    }

    /// The terms under the quote that is named, of a tool that asks `terms` today. What costs nothing today costs nothing: there a
    /// quote is not looked at. Where the most was quoted, and the price is fixed by now, it is the lower of both: nobody says of such a
    /// call that it costs less.
    ///
    /// # Errors
    ///
    /// Why the quote does not hold.
    pub fn under(&self, terms: &Arc<Terms>, named: Option<&str>) -> Result<Quoted, QuoteRefusal> {
        let Some(id) = named.filter(|_| !terms.price.is_zero()) else { return Ok(Quoted { terms: Arc::clone(terms), id: None }) };
        let now = self.clock.now();
        let keys = self.keys(now);
        let Said { endpoint, price, metered, expires_at } = id::read(id, &keys).ok_or(QuoteRefusal::Unknown)?;
        if endpoint != terms.endpoint_id {
            return Err(QuoteRefusal::OtherTool);
        }
        if expires_at <= now {
            return Err(QuoteRefusal::Expired { at: expires_at });
        }
        let price = if metered && !terms.metered { price.min(terms.price) } else { price };
        let quoted = Terms { price, ..Terms::clone(terms) };
        Ok(Quoted { terms: Arc::new(quoted), id: Some(id.to_owned()) })
    }

    fn keys(&self, now: Timestamp) -> Vec<QuoteKey> {
        self.remembered.with((self.keys)(), now, self.lifetime)
    }
}

#[cfg(test)]
mod tests;

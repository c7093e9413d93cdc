//! Quotes of tools, and the price of a call that names one.

use std::sync::Arc;

use tollhouse_catalog::Live;
use tollhouse_money::{Offered, QuoteDocument, Quoted, Refusal, Terms, Way};

use super::{CallError, CalledBy, Calls};

impl Calls {
    /// Makes a quote for the current `terms`.
    #[must_use]
    pub fn quote(&self, terms: &Terms) -> QuoteDocument {
        let quote = self.quotes.make(terms);
        QuoteDocument::new(&quote, terms, &self.gate.challenge(terms, Way::Post, &Refusal::NoPayment.to_string()))
    }

    /// Rejects an unpaid call of a paid tool before anything is done for it.
    ///
    /// # Errors
    ///
    /// A challenge, under the named quote; or why the quote is not valid.
    pub fn check_offered(&self, live: &Live, (by, way): (CalledBy, Way), offered: &Offered, quote: Option<&str>) -> Result<(), CallError> {
        if by == CalledBy::Owner || !matches!(offered, Offered::Nothing) {
            return Ok(());
        }
        self.check_unpaid(&live.terms, way, quote)
    }

    /// Rejects an unpaid request of something that has a price.
    ///
    /// # Errors
    ///
    /// See [`Calls::check_offered`].
    pub fn check_unpaid(&self, terms: &Arc<Terms>, way: Way, quote: Option<&str>) -> Result<(), CallError> {
        let Quoted { terms, .. } = self.under(terms, quote)?;
        if terms.price.is_zero() { Ok(()) } else { Err(self.unpaid(&terms, way)) }
    }

    /// Returns the terms under the named quote, if one is named.
    pub(super) fn under(&self, terms: &Arc<Terms>, quote: Option<&str>) -> Result<Quoted, CallError> {
        self.quotes.under(terms, quote).map_err(|why| CallError::Quote { why, current: Box::new(self.quote(terms)) })
    }
}

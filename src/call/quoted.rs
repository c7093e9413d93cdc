//! Quotes of tools, and the price of a call that names one.

use std::sync::Arc;

use tollhouse_catalog::LiveEndpoint;
use tollhouse_money::{CallTerms, EntryMethod, OfferedPayment, QuoteDocument, QuotedTerms, Refusal};

use super::{CallError, CalledBy, Calls};

impl Calls {
    /// Makes a quote for the current `terms`.
    #[must_use]
    pub fn quote(&self, terms: &CallTerms) -> QuoteDocument {
        let quote = self.quotes.make(terms);
        QuoteDocument::new(&quote, terms, &self.payments.challenge(terms, EntryMethod::Post, &Refusal::NoPayment.to_string()))
    }

    /// Rejects an unpaid call of a paid tool before anything is done for it.
    ///
    /// # Errors
    ///
    /// A challenge, under the named quote; or why the quote is not valid.
    pub fn check_offered(
        &self,
        live: &LiveEndpoint,
        (by, method): (CalledBy, EntryMethod),
        offered: &OfferedPayment,
        quote: Option<&str>,
    ) -> Result<(), CallError> {
        if by == CalledBy::Owner || !matches!(offered, OfferedPayment::Nothing) {
            return Ok(());
        }
        self.check_unpaid(&live.terms, method, quote)
    }

    /// Rejects an unpaid request of something that has a price.
    ///
    /// # Errors
    ///
    /// See [`Calls::check_offered`].
    pub fn check_unpaid(&self, terms: &Arc<CallTerms>, method: EntryMethod, quote: Option<&str>) -> Result<(), CallError> {
        let QuotedTerms { terms, .. } = self.under(terms, quote)?;
        if terms.price.is_zero() { Ok(()) } else { Err(self.unpaid(&terms, method)) }
    }

    /// Returns the terms under the named quote, if one is named.
    pub(super) fn under(&self, terms: &Arc<CallTerms>, quote: Option<&str>) -> Result<QuotedTerms, CallError> {
        self.quotes.under(terms, quote).map_err(|reason| CallError::Quote { reason, current: Box::new(self.quote(terms)) })
    }
}

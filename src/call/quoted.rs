//! Prices that hold: quotes of tools, and what a call costs that names one.

use std::sync::Arc;

use tollhouse_catalog::Live;
use tollhouse_money::{Offered, QuoteDocument, Quoted, Refusal, Terms, Way};

use super::{CallError, CalledBy, Calls};

impl Calls {
    /// A quote of what `terms` ask now.
    #[must_use]
    pub fn quote(&self, terms: &Terms) -> QuoteDocument {
        let quote = self.quotes.make(terms);
        QuoteDocument::new(&quote, terms, &self.gate.challenge(terms, Way::Post, &Refusal::NoPayment.to_string()))
    }

    /// Refuses a call of a tool that is to be paid for and with which nothing is offered, before anything is done for it.
    ///
    /// # Errors
    ///
    /// What is asked for, under the quote that is named; or why that does not hold.
    pub fn check_offered(&self, live: &Live, (by, way): (CalledBy, Way), offered: &Offered, quote: Option<&str>) -> Result<(), CallError> {
        if by == CalledBy::Owner || !matches!(offered, Offered::Nothing) {
            return Ok(());
        }
        self.check_unpaid(&live.terms, way, quote)
    }

    /// Refuses what is to be paid for and with which nothing is offered.
    ///
    /// # Errors
    ///
    /// As [`Calls::check_offered`].
    pub fn check_unpaid(&self, terms: &Arc<Terms>, way: Way, quote: Option<&str>) -> Result<(), CallError> {
        let Quoted { terms, .. } = self.under(terms, quote)?;
        if terms.price.is_zero() { Ok(()) } else { Err(self.unpaid(&terms, way)) }
    }

    /// The terms under the quote that is named, if one is.
    pub(super) fn under(&self, terms: &Arc<Terms>, quote: Option<&str>) -> Result<Quoted, CallError> {
        self.quotes.under(terms, quote).map_err(|why| CallError::Quote { why, current: Box::new(self.quote(terms)) })
    }
}

//! Quotes for tools of this host and calls that name one, for routes to the token of a payment, and for external sellers.

use std::{net::IpAddr, sync::Arc};

use tollhouse_api::Method;
use tollhouse_base::{
    boxed,
    clock::Clock,
    cpu_share::CpuTurn,
    rate_limit::{ConcurrencyLimit, Permit},
};
use tollhouse_catalog::LiveEndpoint;
use tollhouse_money::{
    AmountDue, CallTerms, EntryMethod, OfferedPayment, QuoteDocument, QuotedTerms, Refusal, Route, RouteError, RouteProvider, RouteStart,
    nearest,
};

use super::{
    CallError, CalledBy, Calls,
    run::{
        ReadinessClient,
        builtin::readiness::seller::{self, SellerError, SellerQuote},
    },
};

impl Calls {
    /// Makes a quote for the current `terms`.
    pub fn quote(&self, terms: &CallTerms) -> QuoteDocument {
        let quote = self.parts.quotes.make(terms);
        QuoteDocument::new(&quote, terms, &self.parts.payments.challenge(terms, EntryMethod::Post, &Refusal::NoPayment.to_string()))
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
    pub fn check_unpaid(&self, terms: &Arc<CallTerms>, method: EntryMethod, quote: Option<&str>) -> Result<(), CallError> {
        let QuotedTerms { terms, .. } = self.under(terms, quote)?;
        if terms.price.is_zero() { Ok(()) } else { Err(self.unpaid(&terms, method)) }
    }

    /// Returns the terms under the named quote, if one is named.
    pub(super) fn under(&self, terms: &Arc<CallTerms>, quote: Option<&str>) -> Result<QuotedTerms, CallError> {
        self.parts.quotes.under(terms, quote).map_err(|reason| CallError::Quote { reason, current: Box::new(self.quote(terms)) })
    }
}

/// Why there is no quote.
#[derive(Debug, thiserror::Error)]
pub enum QuoteError {
    #[error(transparent)]
    Call(#[from] CallError),
    #[error(transparent)]
    Route(#[from] RouteError),
    #[error(transparent)]
    Seller(#[from] SellerError),
    #[error("your address has reached its limit on concurrent requests to other hosts, {0}; wait until one ends")]
    Crowded(usize),
}

pub struct DeskParts {
    pub calls: Arc<Calls>,
    /// The terms of registering as a builder.
    pub registration: Arc<CallTerms>,
    pub routes: Arc<dyn RouteProvider>,
    pub client: ReadinessClient,
    /// Maximum number of concurrent external requests per address.
    pub asking: usize,
    pub clock: Clock,
}

/// Answers requests for quotes, for all fronts.
pub struct QuoteDesk {
    parts: DeskParts,
    requests: ConcurrencyLimit<IpAddr>,
}

impl QuoteDesk {
    pub fn new(parts: DeskParts) -> Self {
        Self { requests: ConcurrencyLimit::new(parts.asking), parts }
    }

    /// Quotes a tool, with a route from `start` if given.
    #[boxed]
    pub async fn tool(&self, slug: &str, start: Option<RouteStart>, turn: &CpuTurn) -> Result<QuoteDocument, QuoteError> {
        let terms = self.terms(slug).await?;
        let quote = turn.work(|| self.parts.calls.quote(&terms));
        let Some(start) = start else { return Ok(quote) };
        let route = self.route(&start, quote.dues(), turn).await?;
        Ok(quote.with_conversion(&route))
    }

    /// Returns the terms of a tool, and a route from `start`.
    #[boxed]
    pub async fn conversion(&self, slug: &str, start: &RouteStart, turn: &CpuTurn) -> Result<(Arc<CallTerms>, Route), QuoteError> {
        let terms = self.terms(slug).await?;
        let quote = turn.work(|| self.parts.calls.quote(&terms));
        let route = self.route(start, quote.dues(), turn).await?;
        Ok((terms, route))
    }

    /// Quotes the seller at `url`, with a route from `start` if given.
    #[boxed]
    pub async fn seller(
        &self,
        (url, method): (&str, Option<Method>),
        start: Option<RouteStart>,
        turn: &CpuTurn,
    ) -> Result<(SellerQuote, Option<Route>), QuoteError> {
        let permit = self.permit(turn)?;
        let quote = seller::ask(&self.parts.client.requested_by(turn.address()), (url, method), self.parts.clock.now(), turn).await?;
        drop(permit);
        let route = match start {
            Some(start) => Some(self.route(&start, &quote.dues, turn).await?),
            None => None,
        };
        Ok((quote, route))
    }

    async fn terms(&self, slug: &str) -> Result<Arc<CallTerms>, CallError> {
        if slug == self.parts.registration.slug.as_str() {
            return Ok(Arc::clone(&self.parts.registration));
        }
        Ok(Arc::clone(&self.parts.calls.find(slug, |_| CalledBy::Anyone).await?.0.terms))
    }

    async fn route(&self, start: &RouteStart, dues: &[AmountDue], turn: &CpuTurn) -> Result<Route, QuoteError> {
        let due = nearest(dues, start).ok_or_else(|| RouteError::NoRoute("this host does not know the token of the payment".to_owned()))?;
        if !self.parts.routes.is_remote() {
            return Ok(turn.during(self.parts.routes.route(start, due)).await?);
        }
        let _permit = self.permit(turn)?;
        Ok(self.parts.routes.route(start, due).await?)
    }

    fn permit(&self, turn: &CpuTurn) -> Result<Permit<IpAddr>, QuoteError> {
        self.requests.take(turn.address()).ok_or_else(|| QuoteError::Crowded(self.requests.max()))
    }
}

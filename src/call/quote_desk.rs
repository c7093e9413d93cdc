//! Quotes for tools of this host, for routes to the token of a payment, and for external sellers.

use std::{net::IpAddr, sync::Arc};

use tollhouse_base::{
    clock::Clock,
    cpu_share::CpuTurn,
    rate_limit::{ConcurrencyLimit, Permit},
};
use tollhouse_money::{AmountDue, CallTerms, QuoteDocument, Route, RouteError, RouteProvider, RouteStart, nearest};

use super::{
    CallError, CalledBy, Calls,
    run::{
        ReadinessClient,
        builtin::readiness::seller::{self, Method, SellerError, SellerQuote},
    },
};

/// Why there is no quote.
#[derive(Debug, thiserror::Error)]
#[expect(missing_docs, reason = "each says itself what it is")]
pub enum QuoteError {
    #[error(transparent)]
    Call(#[from] CallError),
    #[error(transparent)]
    Route(#[from] RouteError),
    #[error(transparent)]
    Seller(#[from] SellerError),
    #[error("{0} questions of your address are asked elsewhere already; wait for one of them")]
    Crowded(usize),
}

/// The dependencies of a quote desk.
#[derive(Debug)]
pub struct DeskParts {
    /// Calls of the quoted tools.
    pub calls: Arc<Calls>,
    /// The terms of registering as a builder.
    pub registration: Arc<CallTerms>,
    /// Source of routes.
    pub routes: Arc<dyn RouteProvider>,
    /// Client for external sellers.
    pub client: ReadinessClient,
    /// Maximum number of concurrent external requests per address.
    pub asking: usize,
    /// Clock.
    pub clock: Clock,
}

/// Answers requests for quotes, for all fronts.
#[derive(Debug)]
pub struct QuoteDesk {
    calls: Arc<Calls>,
    registration: Arc<CallTerms>,
    routes: Arc<dyn RouteProvider>,
    client: ReadinessClient,
    asking: ConcurrencyLimit<IpAddr>,
    clock: Clock,
}

impl QuoteDesk {
    /// Constructs a desk.
    #[must_use]
    pub fn new(parts: DeskParts) -> Self {
        let DeskParts { calls, registration, routes, client, asking, clock } = parts;
        Self { calls, registration, routes, client, asking: ConcurrencyLimit::new(asking), clock }
    }

    /// Quotes a tool, with a route from `start` if given.
    ///
    /// # Errors
    ///
    /// Why the tool takes no calls, or why there is no route.
    pub async fn tool(&self, slug: &str, start: Option<RouteStart>, turn: &CpuTurn) -> Result<QuoteDocument, QuoteError> {
        let terms = self.terms(slug).await?;
        let quote = turn.work(|| self.calls.quote(&terms));
        let Some(start) = start else { return Ok(quote) };
        let route = self.route(&start, quote.dues(), turn).await?;
        Ok(quote.with_conversion(&route))
    }

    /// Returns the terms of a tool, and a route from `start`.
    ///
    /// # Errors
    ///
    /// See [`QuoteDesk::tool`].
    pub async fn conversion(&self, slug: &str, start: &RouteStart, turn: &CpuTurn) -> Result<(Arc<CallTerms>, Route), QuoteError> {
        let terms = self.terms(slug).await?;
        let quote = turn.work(|| self.calls.quote(&terms));
        let route = self.route(start, quote.dues(), turn).await?;
        Ok((terms, route))
    }

    /// Quotes the seller at `url`, with a route from `start` if given.
    ///
    /// # Errors
    ///
    /// Why the price is unknown, or why there is no route.
    pub async fn seller(
        &self,
        (url, method): (&str, Option<Method>),
        start: Option<RouteStart>,
        turn: &CpuTurn,
    ) -> Result<(SellerQuote, Option<Route>), QuoteError> {
        let asking = self.permit(turn)?;
        let quote = seller::ask(&self.client.asked_by(turn.address()), (url, method), self.clock.now(), turn).await?;
        drop(asking);
        let route = match start {
            Some(start) => Some(self.route(&start, &quote.dues, turn).await?),
            None => None,
        };
        Ok((quote, route))
    }

    async fn terms(&self, slug: &str) -> Result<Arc<CallTerms>, CallError> {
        if slug == self.registration.slug.as_str() {
            return Ok(Arc::clone(&self.registration));
        }
        Ok(Arc::clone(&self.calls.find(slug, |_| CalledBy::Anyone).await?.0.terms))
    }

    async fn route(&self, start: &RouteStart, dues: &[AmountDue], turn: &CpuTurn) -> Result<Route, QuoteError> {
        let due =
            nearest(dues, start).ok_or_else(|| RouteError::NoRoute("what is to be paid in is no token that is known here".to_owned()))?;
        if !self.routes.asks() {
            return Ok(turn.during(self.routes.route(start, due)).await?);
        }
        let _asking = self.permit(turn)?;
        Ok(self.routes.route(start, due).await?)
    }

    fn permit(&self, turn: &CpuTurn) -> Result<Permit<IpAddr>, QuoteError> {
        self.asking.take(turn.address()).ok_or_else(|| QuoteError::Crowded(self.asking.max()))
    }
}

//! Where quotes are asked for: of tools here, of the way to what they are paid in, and of sellers elsewhere.

use std::{net::IpAddr, sync::Arc};

use tollhouse_base::{
    clock::Clock,
    rate::{ConcurrencyLimit, Permit},
    share::Turn,
};
use tollhouse_money::{Due, QuoteDocument, Route, RouteError, RouteProvider, Start, Terms, nearest};

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

/// What a desk is made of.
#[derive(Debug)]
pub struct DeskParts {
    /// Whose tools are quoted.
    pub calls: Arc<Calls>,
    /// What it costs to become a builder.
    pub registration: Arc<Terms>,
    /// Who knows routes.
    pub routes: Arc<dyn RouteProvider>,
    /// The way to sellers elsewhere.
    pub client: ReadinessClient,
    /// Questions that are asked elsewhere for one address, at once.
    pub asking: usize,
    /// The time.
    pub clock: Clock,
}

/// Answers what things cost. One for all fronts.
#[derive(Debug)]
pub struct QuoteDesk {
    calls: Arc<Calls>,
    registration: Arc<Terms>,
    routes: Arc<dyn RouteProvider>,
    client: ReadinessClient,
    asking: ConcurrencyLimit<IpAddr>,
    clock: Clock,
}

impl QuoteDesk {
    /// A desk of these parts.
    #[must_use]
    pub fn new(parts: DeskParts) -> Self {
        let DeskParts { calls, registration, routes, client, asking, clock } = parts;
        Self { calls, registration, routes, client, asking: ConcurrencyLimit::new(asking), clock }
    }

    /// A quote of a tool, with the way there from `start` if that is said.
    ///
    /// # Errors
    ///
    /// Why the tool takes no calls, or why there is no such way.
    pub async fn tool(&self, slug: &str, start: Option<Start>, turn: &Turn) -> Result<QuoteDocument, QuoteError> {
        let terms = self.terms(slug).await?;
        let quote = turn.work(|| self.calls.quote(&terms));
        let Some(start) = start else { return Ok(quote) };
        let route = self.route(&start, quote.dues(), turn).await?;
        Ok(quote.with_conversion(&route))
    }

    /// What a tool costs now, and the way there from `start`.
    ///
    /// # Errors
    ///
    /// As [`QuoteDesk::tool`].
    pub async fn conversion(&self, slug: &str, start: &Start, turn: &Turn) -> Result<(Arc<Terms>, Route), QuoteError> {
        let terms = self.terms(slug).await?;
        let quote = turn.work(|| self.calls.quote(&terms));
        let route = self.route(start, quote.dues(), turn).await?;
        Ok((terms, route))
    }

    /// What the seller at `url` asks, with the way there from `start` if that is said.
    ///
    /// # Errors
    ///
    /// Why that is not known, or why there is no such way.
    pub async fn seller(
        &self,
        (url, method): (&str, Option<Method>),
        start: Option<Start>,
        turn: &Turn,
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

    async fn terms(&self, slug: &str) -> Result<Arc<Terms>, CallError> {
        if slug == self.registration.slug.as_str() {
            return Ok(Arc::clone(&self.registration));
        }
        Ok(Arc::clone(&self.calls.find(slug, |_| CalledBy::Anyone).await?.0.terms))
    }

    async fn route(&self, start: &Start, dues: &[Due], turn: &Turn) -> Result<Route, QuoteError> {
        let due =
            nearest(dues, start).ok_or_else(|| RouteError::NoRoute("what is to be paid in is no token that is known here".to_owned()))?;
        if !self.routes.asks() {
            return Ok(turn.during(self.routes.route(start, due)).await?);
        }
        let _asking = self.permit(turn)?;
        Ok(self.routes.route(start, due).await?)
    }

    fn permit(&self, turn: &Turn) -> Result<Permit<IpAddr>, QuoteError> {
        self.asking.take(turn.address()).ok_or_else(|| QuoteError::Crowded(self.asking.most()))
    }
}

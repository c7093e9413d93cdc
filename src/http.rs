//! The HTTP front: its routes, by who comes. Those of management stand as rows in the file of their subject.

mod account;
mod admin;
mod audit;
mod auth;
mod builders;
mod calls;
mod credits;
mod documents;
mod drafts;
mod endpoints;
mod events;
mod follow;
mod invoke;
mod invoked;
mod ledger;
mod listing;
mod logs;
mod manifest;
mod operations;
mod page;
mod payouts;
mod quotes;
mod receipts;
mod refunds;
mod reply;
mod revenue;
mod route;
mod safety;
mod secrets;
mod services;
mod stream;
mod tools;
mod turn;

use std::sync::Arc;

use axum::{
    Router, middleware,
    routing::{MethodFilter, get, on, post},
};

pub use self::{
    documents::{Documents, OPERATIONS, Operation, Takes},
    route::{Row, Whose},
    services::{Accounts, Auditing, Calling, Earning, Offering, Operating, Proving, Publishing, Sealing, Services, Watching},
};
use self::{route::Route, services::Http};

/// The routes of management, subject by subject.
fn management() -> Vec<Route> {
    let subjects = [
        endpoints::routes(),
        drafts::routes(),
        logs::routes(),
        calls::routes(),
        secrets::routes(),
        builders::routes(),
        events::routes(),
        revenue::routes(),
        ledger::routes(),
        refunds::routes(),
        payouts::routes(),
        credits::routes(),
        admin::routes(),
        audit::routes(),
    ];
    subjects.into_iter().flatten().collect()
}

/// What the routes of management are, who may ask them, and what for.
#[must_use]
pub fn rows() -> Vec<Row> {
    management().into_iter().map(|route| route.row).collect()
}

/// Every route of the front, by who comes.
pub fn routes(services: Services) -> Router {
    let http = Http::new(services);
    let head_get_post = MethodFilter::GET.or(MethodFilter::POST);
    let agents = Router::new()
        .route("/tools/{slug}", on(head_get_post, tools::call).head(tools::head))
        .route("/ai/invoke", post(invoke::invoke))
        .route("/ai/quote", post(quotes::tool))
        .route("/ai/conversion/quote", post(quotes::conversion))
        .route("/x402/quote", post(quotes::seller))
        .route("/ai/endpoints", get(manifest::catalog))
        .route("/ai/manifest", get(manifest::manifest))
        .route("/ai/receipts/{id}", get(receipts::receipt))
        .route("/ai/payments/{id}", get(receipts::payment))
        .route("/ai/content-safety/policy", get(safety::policy))
        .route("/.well-known/jwks.json", get(receipts::jwks))
        .route("/.well-known/x402", get(documents::well_known))
        .route("/openapi.json", get(documents::openapi))
        .route("/favicon.svg", get(documents::sign))
        .route("/dev/faucet", post(account::faucet).get(account::balance));
    let management = management()
        .into_iter()
        .fold(Router::new(), |router, route| route.join(router))
        .route_layer(middleware::from_fn_with_state(Arc::clone(&http.auditing), audit::enter));
    let operators = Router::new()
        .route("/health", get(operations::health))
        .route("/health/live", get(operations::live))
        .route("/health/ready", get(operations::ready));
    agents.merge(management).merge(operators).with_state(http)
}

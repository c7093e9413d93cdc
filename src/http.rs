//! The HTTP front: its routes, by who comes.

mod account;
mod admin;
mod audit;
mod auth;
mod builders;
mod calls;
mod credits;
mod drafts;
mod endpoints;
mod events;
mod follow;
mod invoke;
mod invoked;
mod listing;
mod logs;
mod manifest;
mod operations;
mod paced;
mod page;
mod payouts;
mod receipts;
mod reply;
mod revenue;
mod safety;
mod secrets;
mod services;
mod stream;
mod tools;

use std::sync::Arc;

use axum::{
    Router, middleware,
    routing::{MethodFilter, get, on, post},
};

use self::services::Http;
pub use self::services::{Accounts, Auditing, Calling, Earning, Offering, Operating, Proving, Publishing, Sealing, Services, Watching};

/// Every route of the front, by who comes.
pub fn routes(services: Services) -> Router {
    let http = Http::new(services);
    let head_get_post = MethodFilter::GET.or(MethodFilter::POST);
    let agents = Router::new()
        .route("/tools/{slug}", on(head_get_post, tools::call).head(tools::head))
        .route("/ai/invoke", post(invoke::invoke))
        .route("/ai/endpoints", get(manifest::catalog))
        .route("/ai/manifest", get(manifest::manifest))
        .route("/ai/receipts/{id}", get(receipts::receipt))
        .route("/ai/payments/{id}", get(receipts::payment))
        .route("/ai/content-safety/policy", get(safety::policy))
        .route("/.well-known/jwks.json", get(receipts::jwks))
        .route("/dev/faucet", post(account::faucet).get(account::balance));
    let management = Router::new()
        .route("/ai/endpoints/create", post(endpoints::create))
        .route("/ai/endpoints/check", post(drafts::check))
        .route("/ai/endpoints/{slug}/run", post(drafts::run))
        .route("/ai/endpoints/{slug}", get(endpoints::inspect).patch(endpoints::update).delete(endpoints::delete))
        .route("/ai/endpoints/{slug}/source", get(endpoints::source))
        .route("/ai/admin/policy", get(admin::policy).put(admin::set_policy))
        .route("/ai/admin/endpoints", get(admin::list))
        .route("/ai/admin/reviews", get(admin::reviews))
        .route("/ai/admin/reviews/{slug}", post(admin::decide))
        .route("/ai/admin/rescan", post(admin::rescan))
        .route("/ai/endpoints/{slug}/logs", get(logs::logs))
        .route("/ai/endpoints/{slug}/calls", get(calls::calls))
        .route("/ai/endpoints/{slug}/metrics", get(calls::metrics))
        .route("/ai/builders/register", post(builders::register))
        .route("/ai/builders/me", get(builders::me))
        .route("/ai/builders/keys", post(builders::rotate))
        .route("/ai/builders/endpoints", get(builders::endpoints))
        .route("/ai/admin/builders", get(builders::list))
        .route("/ai/admin/builders/{id}", post(builders::judge))
        .route("/ai/admin/audit", get(audit::list))
        .route("/ai/builders/revenue", get(revenue::revenue))
        .route("/ai/admin/revenue", get(revenue::platform))
        .route("/ai/builders/events", get(events::events))
        .route("/ai/builders/payout-settings", get(payouts::settings).post(payouts::set))
        .route("/ai/builders/payouts", get(payouts::list).post(payouts::pay_out))
        .route("/ai/builders/payouts/{id}", get(payouts::one))
        .route("/ai/admin/payouts", get(payouts::list_all))
        .route("/ai/admin/payouts/{id}", post(payouts::decide))
        .route("/ai/endpoints/{slug}/secrets", get(secrets::list).post(secrets::set).delete(secrets::remove))
        .route("/ai/credits", post(credits::mint).get(credits::read))
        .route("/ai/admin/credits/{id}", post(credits::decide))
        .route("/ai/admin/secrets/rotate", post(secrets::rotate))
        .route_layer(middleware::from_fn_with_state(Arc::clone(&http.auditing), audit::enter));
    let operators = Router::new()
        .route("/health", get(operations::health))
        .route("/health/live", get(operations::live))
        .route("/health/ready", get(operations::ready));
    agents.merge(management).merge(operators).with_state(http)
}

//! The HTTP API. Each subject has a file with its routes and their rows in the operation table.

#![warn(missing_docs)]

mod account;
mod admin;
mod audit;
mod audit_subject;
mod auth;
mod builders;
mod calls;
mod convert;
mod cpu_budget;
mod credits;
mod documents;
mod drafts;
mod endpoints;
mod event_stream;
mod events;
mod html_402;
mod invoke;
mod invoke_response;
mod ledger;
mod listing;
mod logs;
mod manifest;
mod metrics;
mod operation;
mod operations;
mod page;
mod payouts;
mod quotes;
mod receipts;
mod reconciliation;
mod record_extras;
mod refunds;
mod replication_barrier;
mod reply;
mod revenue;
mod route;
mod runtime;
mod safety;
mod secrets;
mod services;
mod sign_in;
mod stream;
mod tools;
mod unresolved;
mod usage;

use std::sync::Arc;

use axum::{Router, middleware};
use serde_json::Value;
use tollhouse_front::Code;

pub use self::{
    documents::Documents,
    operation::{Access, Operation, ResponseKind},
    operations::{STORE_TIMEOUT, check_commits},
    record_extras::RecordExtras,
    services::{
        AccountServices, AuditServices, CallServices, CatalogServices, DiscoveryServices, FeedServices, HealthServices, MoneyServices,
        ReceiptServices, SecretServices, Services,
    },
};
use self::{route::Route, services::Http};

/// All routes of the HTTP API.
#[derive(Debug, Clone)]
pub struct Routes {
    /// The routes for programs.
    pub api: Router,
    /// The documentation as Markdown. A front end for people replaces it with pages.
    pub written: Router,
}

/// A subject and its routes.
type Subject = (&'static str, Vec<Route>);

/// Returns the routes for agents and operators.
fn public() -> Vec<Subject> {
    vec![
        ("tools", tools::routes()),
        ("tools", usage::routes()),
        ("tools", invoke::routes()),
        ("quotes", quotes::routes()),
        ("receipts", receipts::routes()),
        ("discovery", manifest::routes()),
        ("discovery", safety::routes()),
        ("discovery", documents::routes()),
        ("credits", account::routes()),
        ("health", operations::routes()),
        ("health", metrics::routes()),
    ]
}

/// Returns the routes of the documentation.
fn written() -> Vec<Subject> {
    vec![("discovery", documents::written())]
}

/// Returns the management routes.
fn management() -> Vec<Subject> {
    vec![
        ("endpoints", endpoints::routes()),
        ("endpoints", drafts::routes()),
        ("endpoints", logs::routes()),
        ("endpoints", calls::routes()),
        ("endpoints", secrets::routes()),
        ("accounts", builders::routes()),
        ("accounts", sign_in::routes()),
        ("accounts", events::routes()),
        ("accounts", revenue::routes()),
        ("accounts", payouts::routes()),
        ("credits", credits::routes()),
        ("administration", admin::routes()),
        ("administration", ledger::routes()),
        ("administration", reconciliation::routes()),
        ("administration", unresolved::routes()),
        ("administration", refunds::routes()),
        ("administration", audit::routes()),
        ("administration", runtime::routes()),
    ]
}

/// Returns the routes with their subjects set. Routes of admins belong to "administration", except those of credits.
fn documented_routes(subjects: Vec<Subject>) -> impl Iterator<Item = Route> {
    subjects.into_iter().flat_map(|(subject, routes)| {
        routes.into_iter().map(move |mut route| {
            route.row.subject = if route.row.access == Access::Admins && subject != "credits" { "administration" } else { subject };
            route
        })
    })
}

/// Returns the rows of the management routes.
#[must_use]
pub fn managed_rows() -> Vec<Operation> {
    documented_routes(management()).map(|route| route.row).collect()
}

/// Returns the rows of all operations of the host. MCP has another front end, but is documented with the others.
#[must_use]
pub fn rows() -> Vec<Operation> {
    let mcp = Operation {
        subject: "tools",
        takes: Some("JsonRpcMessage"),
        answers: ResponseKind::Json("JsonRpcMessage"),
        streams: true,
        for_agents: true,
        fails: vec![Code::Forbidden, Code::NotFound, Code::NotAcceptable],
        ..Operation::new("POST", "/ai/mcp", "speakMcp", "the same tools over MCP's Streamable HTTP")
    };
    let card = Operation {
        subject: "discovery",
        answers: ResponseKind::Text("application/mcp-server-card+json"),
        ..Operation::new("GET", "/ai/mcp/server-card", "getServerCard", "the description of the server for MCP clients")
    };
    documented_routes(public())
        .chain(documented_routes(written()))
        .map(|route| route.row)
        .chain([mcp, card])
        .chain(managed_rows())
        .collect()
}

/// Returns every operation of the host in OpenAPI, without host-specific data.
#[must_use]
pub fn described() -> Value {
    documents::described(&rows())
}

/// Returns all routes of the HTTP API.
pub fn routes(services: Services) -> Routes {
    let http = Http::new(services);
    let join = |routes: Vec<Subject>| route::router(documented_routes(routes));
    let audited = middleware::from_fn_with_state(Arc::clone(&http.auditing), audit::enter);
    let barrier = middleware::from_fn_with_state(Arc::clone(&http.auditing), replication_barrier::wait);
    let managed = join(management()).route_layer(barrier).route_layer(audited);
    let api = join(public()).merge(managed).with_state(http.clone());
    Routes { api, written: join(written()).with_state(http) }
}

#[cfg(test)]
mod tests;

//! The HTTP API. Each subject has a file with its routes and their rows in the operation table.

#![warn(missing_docs)]

mod account;
mod admin;
mod answer_stream;
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
mod json_body;
mod ledger;
mod listing;
mod logs;
mod manifest;
mod metrics;
mod operation;
mod operations;
mod page;
mod payouts;
mod query;
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
    services::Services,
};

// Most routes use these.
pub(crate) use axum::{
    Json,
    extract::{FromRequestParts, Request, State},
    http::{HeaderMap, HeaderValue, StatusCode, header, request::Parts},
    response::{IntoResponse, Response},
};

pub(crate) use self::{
    auth::{Admin, AdminOrBuilder, Everyone, ForBuilder, ForBuilderReadOnly, ManagedEndpoint},
    cpu_budget::CpuBudget,
    endpoints::{if_match, with_etag},
    json_body::{Answer, Body, JsonResult, Subject, Uploaded},
    page::{PageLimit, PageQuery, bad_cursor, last_if_full, parse_cursor},
    query::query,
    route::{CallerExtractor, Route, codes, delete, get, open, patch, post, put},
    services::Http,
};

/// All routes of the HTTP API.
#[derive(Debug, Clone)]
pub struct Routes {
    /// The routes for programs.
    pub api: Router,
    /// The documentation as Markdown. A front end for people replaces it with pages.
    pub written: Router,
}

/// A subject and its routes, by file.
type SubjectRoutes = (&'static str, Vec<Vec<Route>>);

/// Returns the routes for agents and operators.
fn public() -> Vec<SubjectRoutes> {
    vec![
        ("tools", vec![tools::routes(), usage::routes(), invoke::routes()]),
        ("quotes", vec![quotes::routes()]),
        ("receipts", vec![receipts::routes()]),
        ("discovery", vec![manifest::routes(), safety::routes(), documents::routes()]),
        ("credits", vec![account::routes()]),
        ("health", vec![operations::routes(), metrics::routes()]),
    ]
}

/// Returns the routes of the documentation.
fn written() -> Vec<SubjectRoutes> {
    vec![("discovery", vec![documents::written()])]
}

fn management() -> Vec<SubjectRoutes> {
    let of_admins = vec![admin::routes(), ledger::routes(), reconciliation::routes(), unresolved::routes(), refunds::routes()];
    vec![
        ("endpoints", vec![endpoints::routes(), drafts::routes(), logs::routes(), calls::routes(), secrets::routes()]),
        ("accounts", vec![builders::routes(), sign_in::routes(), events::routes(), revenue::routes(), payouts::routes()]),
        ("credits", vec![credits::routes()]),
        ("administration", of_admins),
        ("administration", vec![audit::routes(), runtime::routes()]),
    ]
}

/// Returns the routes with their subjects set. Routes of admins belong to "administration", except those of credits.
fn documented_routes(subjects: Vec<SubjectRoutes>) -> impl Iterator<Item = Route> {
    subjects.into_iter().flat_map(|(subject, routes)| {
        routes.into_iter().flatten().map(move |mut route| {
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
pub fn routes(http: Arc<Services>) -> Routes {
    let join = |routes: Vec<SubjectRoutes>| route::router(documented_routes(routes));
    let audited = middleware::from_fn_with_state(Arc::clone(&http), audit::enter);
    let barrier = middleware::from_fn_with_state(Arc::clone(&http), replication_barrier::wait);
    let managed = join(management()).route_layer(barrier).route_layer(audited);
    let api = join(public()).merge(managed).with_state(Arc::clone(&http));
    Routes { api, written: join(written()).with_state(http) }
}

#[cfg(test)]
mod tests;

//! The HTTP API. Each subject has a file with its routes and their rows in the operation table.

#![warn(missing_docs)]

mod account;
mod admin;
mod audit;
mod auth;
mod builders;
mod calls;
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
        ..Operation::new("GET", "/ai/mcp/server-card", "getServerCard", "what an MCP client may know of the server before it connects")
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
    let heeded = middleware::from_fn_with_state(Arc::clone(&http.auditing), replication_barrier::wait);
    let managed = join(management()).route_layer(heeded).route_layer(audited);
    let api = join(public()).merge(managed).with_state(http.clone());
    Routes { api, written: join(written()).with_state(http) }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use serde_json::json;
    use tollhouse_api::SettlementLoss;
    use tollhouse_base::clock::Timestamp;
    use tollhouse_money::Loss;
    use tollhouse_tool::{HandlerType, MicroUsd, UsdChange};

    use super::{documents::PARTS, *};

    #[test]
    fn every_row_is_reported_in_full_and_nothing_learns_that_no_row_names() {
        let rows = rows();
        let mut ids = BTreeSet::new();
        for row in &rows {
            assert!(ids.insert(row.id), "two operations are called {}", row.id);
            assert!(!row.subject.is_empty() && !row.what.is_empty() && !row.what.ends_with('.'), "{row:?}");
            for name in row.takes.into_iter().chain(row.schema()) {
                assert!(PARTS.schemas.contains_key(name), "{}: no schema `{name}`", row.id);
            }
            for name in row.query.iter().chain(row.headers) {
                assert!(
                    PARTS.parameters.get(*name).is_some_and(|reported| reported["description"].is_string()),
                    "{}: no word of `{name}`",
                    row.id
                );
            }
        }
        let reported = described();
        let named: BTreeSet<_> = reported["components"]["schemas"].as_object().unwrap().keys().map(String::as_str).collect();
        let idle: Vec<_> = PARTS.schemas.keys().filter(|name| !named.contains(name.as_str())).collect();
        assert!(idle.is_empty(), "no operation takes or answers {idle:?}");
        let request: BTreeSet<_> = rows.iter().flat_map(|row| row.query.iter().chain(row.headers)).copied().collect();
        let idle: Vec<_> = PARTS.parameters.keys().filter(|name| !request.contains(name.as_str())).collect();
        assert!(idle.is_empty(), "no operation reads {idle:?}");
    }

    #[test]
    fn every_reference_in_the_document_resolves() {
        fn check(value: &Value, document: &Value) {
            match value {
                Value::Object(members) => members.iter().for_each(|(name, value)| match value.as_str() {
                    Some(to) if name == "$ref" => assert!(document.pointer(to.trim_start_matches('#')).is_some(), "{to}"),
                    _ => check(value, document),
                }),
                Value::Array(items) => items.iter().for_each(|item| check(item, document)),
                _ => {}
            }
        }
        let document = described();
        check(&document, &document);
    }

    #[test]
    fn scalars_of_the_api_are_written_as_the_host_writes_them() {
        for at in [0, 951_782_400_001, 1_795_341_483_120, 253_402_207_200_000] {
            assert_eq!(tollhouse_api::Timestamp(at).to_string(), Timestamp(at).to_string());
        }
        for amount in [0, 1, 10_000, 1_500_000, 2_000_000, MicroUsd::MAX.0] {
            assert_eq!(json!(tollhouse_api::MicroUsd(amount)), json!(MicroUsd(amount)));
        }
        for change in [-2_000_000, -1_500_000, -1, 0, 10] {
            assert_eq!(json!(tollhouse_api::UsdChange(change)), json!(UsdChange(change)));
        }
        for handler_type in HandlerType::all() {
            let read: tollhouse_api::HandlerType = serde_json::from_value(json!(handler_type)).unwrap();
            assert_eq!(json!(read), json!(handler_type));
        }
        for (loss, reported) in [
            (Loss::Canceled, SettlementLoss::Canceled),
            (Loss::UsedElsewhere, SettlementLoss::UsedElsewhere),
            (Loss::Expired, SettlementLoss::Expired),
        ] {
            assert_eq!(json!(reported), json!(loss));
        }
    }
}

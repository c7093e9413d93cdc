//! The HTTP API. Each subject has a file with its routes and their rows in the operation table.

#![warn(missing_docs)]

mod about;
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
mod heeded;
mod invoke;
mod invoked;
mod ledger;
mod listing;
mod logs;
mod manifest;
mod metrics;
mod navigated;
mod operations;
mod page;
mod payouts;
mod quotes;
mod receipts;
mod reconciliation;
mod refunds;
mod reply;
mod revenue;
mod route;
mod row;
mod runtime;
mod safety;
mod secrets;
mod services;
mod sign_in;
mod stream;
mod tools;
mod turn;
mod unresolved;
mod usage;

use std::sync::Arc;

use axum::{Router, middleware};
use serde_json::Value;
use tollhouse_front::Code;

pub use self::{
    about::About,
    documents::Documents,
    row::{Answers, Row, Whose},
    services::{Accounts, Auditing, Calling, Earning, Offering, Operating, Proving, Publishing, Sealing, Services, Watching},
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
fn told(subjects: Vec<Subject>) -> impl Iterator<Item = Route> {
    subjects.into_iter().flat_map(|(subject, routes)| {
        routes.into_iter().map(move |mut route| {
            route.row.subject = if route.row.whose == Whose::Admins && subject != "credits" { "administration" } else { subject };
            route
        })
    })
}

/// Returns the rows of the management routes.
#[must_use]
pub fn managed_rows() -> Vec<Row> {
    told(management()).map(|route| route.row).collect()
}

/// Returns the rows of all operations of the host. MCP has another front end, but is documented with the others.
#[must_use]
pub fn rows() -> Vec<Row> {
    let mcp = Row {
        subject: "tools",
        takes: Some("JsonRpcMessage"),
        answers: Answers::Json("JsonRpcMessage"),
        streams: true,
        for_agents: true,
        fails: vec![Code::Forbidden, Code::NotFound, Code::NotAcceptable],
        ..Row::new("POST", "/ai/mcp", "speakMcp", "the same tools over MCP's Streamable HTTP")
    };
    let card = Row {
        subject: "discovery",
        answers: Answers::Text("application/mcp-server-card+json"),
        ..Row::new("GET", "/ai/mcp/server-card", "getServerCard", "what an MCP client may know of the server before it connects")
    };
    told(public()).chain(told(written())).map(|route| route.row).chain([mcp, card]).chain(managed_rows()).collect()
}

/// Returns every operation of the host in OpenAPI, without host-specific data.
#[must_use]
pub fn described() -> Value {
    documents::described(&rows())
}

/// Returns all routes of the HTTP API.
pub fn routes(services: Services) -> Routes {
    let http = Http::new(services);
    let join = |routes: Vec<Subject>| route::router(told(routes));
    let audited = middleware::from_fn_with_state(Arc::clone(&http.auditing), audit::enter);
    let heeded = middleware::from_fn_with_state(Arc::clone(&http.auditing), heeded::wait);
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
    fn every_row_is_told_in_full_and_nothing_is_told_that_no_row_names() {
        let rows = rows();
        let mut ids = BTreeSet::new();
        for row in &rows {
            assert!(ids.insert(row.id), "two operations are called {}", row.id);
            assert!(!row.subject.is_empty() && !row.what.is_empty() && !row.what.ends_with('.'), "{row:?}");
            for name in row.takes.into_iter().chain(row.schema()) {
                assert!(PARTS.schemas.contains_key(name), "{}: no schema `{name}`", row.id);
            }
            for name in row.query.iter().chain(row.headers) {
                assert!(PARTS.parameters.get(*name).is_some_and(|told| told["description"].is_string()), "{}: no word of `{name}`", row.id);
            }
        }
        let told = described();
        let named: BTreeSet<_> = told["components"]["schemas"].as_object().unwrap().keys().map(String::as_str).collect();
        let idle: Vec<_> = PARTS.schemas.keys().filter(|name| !named.contains(name.as_str())).collect();
        assert!(idle.is_empty(), "no operation takes or answers {idle:?}");
        let asked: BTreeSet<_> = rows.iter().flat_map(|row| row.query.iter().chain(row.headers)).copied().collect();
        let idle: Vec<_> = PARTS.parameters.keys().filter(|name| !asked.contains(name.as_str())).collect();
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
        for (loss, told) in [
            (Loss::Canceled, SettlementLoss::Canceled),
            (Loss::UsedElsewhere, SettlementLoss::UsedElsewhere),
            (Loss::Expired, SettlementLoss::Expired),
        ] {
            assert_eq!(json!(told), json!(loss));
        }
    }
}

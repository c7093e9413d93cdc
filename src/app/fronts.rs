//! Wiring of each front end to the host's services.

use std::sync::Arc;

use tollhouse_front as front;
use tollhouse_front::Fronts;
use tollhouse_http as http;
use tollhouse_mcp as mcp;
use tollhouse_web as web;

use super::services::Services;

/// Returns all front ends. Pages call the public API through the same routes as all other clients.
pub(super) fn all(services: &Services) -> Fronts {
    let http::Routes { api, written } = http::routes(Arc::clone(&services.http));
    let pages = web::Services {
        shared: Arc::clone(&services.shared),
        api: front::worded(api.clone().merge(written)),
        origins: services.mcp.origins(),
        sessions: Arc::clone(&services.sessions),
        operations: http::rows().iter().map(operation).collect(),
        cookie: web::Cookie::of(&services.base_url),
        root: web::BasePath::of(&services.base_url),
        rendered: Arc::default(),
        clock: services.clock.clone(),
        base_url: services.base_url.clone(),
    };
    let routes = api.merge(mcp::routes(mcp(services))).merge(web::routes(pages.clone()));
    let doors = Arc::new([mcp::door(&services.mcp), web::host_check(&pages)]);
    let [to_scripts, to_people] = web::wordings(pages);
    Fronts { routes, doors, wordings: Arc::new([mcp::wording(), to_scripts, to_people]) }
}

/// Converts a row of the operations table for forms.
fn operation(row: &http::Operation) -> web::ApiOperation {
    let method = row.method.parse().expect("the table has methods of HTTP");
    web::ApiOperation { id: row.id, method, path: row.path, takes: row.takes.is_some() }
}

fn mcp(services: &Services) -> mcp::Services {
    mcp::Services {
        shared: Arc::clone(&services.shared),
        settings: Arc::clone(&services.mcp),
        catalog: Arc::clone(&services.catalog),
        calls: Arc::clone(&services.calls),
        receipts: Arc::clone(&services.receipts),
        desk: Arc::clone(&services.desk),
        payments: Arc::clone(&services.payments),
        replica: Arc::clone(&services.replica),
        store: Arc::clone(&services.store),
        clock: services.clock.clone(),
        base_url: services.base_url.clone(),
        long_running_ms: services.long_running_ms,
    }
}

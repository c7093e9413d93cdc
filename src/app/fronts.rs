//! Wiring of each front end to the host's services.

use std::sync::Arc;

use tollhouse_base::rate_limit::ConcurrencyLimit;
use tollhouse_front as front;
use tollhouse_front::{FrontServices, Fronts};
use tollhouse_http as http;
use tollhouse_mcp as mcp;
use tollhouse_web as web;

use super::{gauges, services::Services};

/// Returns all front ends. Pages call the public API through the same routes as all other clients.
pub(super) fn all(services: &Arc<Services>, shared: &Arc<FrontServices>) -> Fronts {
    let http::Routes { api, written } = http::routes(http(services, shared));
    let pages = web::Services {
        shared: Arc::clone(shared),
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
    let routes = api.merge(mcp::routes(mcp(services, shared))).merge(web::routes(pages.clone()));
    let doors = Arc::new([mcp::door(&services.mcp), web::host_check(&pages)]);
    let [to_scripts, to_people] = web::wordings(pages);
    Fronts { routes, doors, wordings: Arc::new([mcp::wording(), to_scripts, to_people]) }
}

/// Converts a row of the operations table for forms.
fn operation(row: &http::Operation) -> web::ApiOperation {
    let method = row.method.parse().expect("the table has methods of HTTP");
    web::ApiOperation { id: row.id, method, path: row.path, takes: row.takes.is_some() }
}

fn http(services: &Arc<Services>, shared: &Arc<FrontServices>) -> http::Services {
    let object_check = Arc::clone(&services.object_check);
    http::Services {
        shared: Arc::clone(shared),
        clock: services.clock.clone(),
        store: Arc::clone(&services.store),
        replica: Arc::clone(&services.replica),
        base_url: services.base_url.clone(),
        contact: services.contact.clone(),
        abuse_contact: services.abuse_contact.clone(),
        documents: http::Documents::new(http::rows(), &services.base_url),
        catalog: Arc::clone(&services.catalog),
        scanner: Arc::clone(&services.scanner),
        calls: Arc::clone(&services.calls),
        history: Arc::clone(&services.history),
        metrics: Arc::clone(&services.metrics),
        long_running_ms: services.long_running_ms,
        progress: services.progress,
        dry_runs: ConcurrencyLimit::new(services.dry_runs),
        pool: services.pool.clone(),
        capabilities: Arc::clone(&services.capabilities),
        secrets: Arc::clone(&services.secrets),
        builders: Arc::clone(&services.builders),
        registration: Arc::clone(&services.registration),
        sessions: Arc::clone(&services.sessions),
        events: Arc::clone(&services.events),
        audit: Arc::clone(&services.audit),
        desk: Arc::clone(&services.desk),
        payments: Arc::clone(&services.payments),
        ledger: services.ledger.clone(),
        fee: services.fee,
        sales: Arc::clone(&services.sales),
        payouts: Arc::clone(&services.payouts),
        refunds: Arc::clone(&services.refunds),
        receipts: Arc::clone(&services.receipts),
        free_receipts: Arc::clone(&services.free_receipts),
        signer: Arc::clone(&services.signer),
        receipt_keys: Arc::clone(&services.receipt_keys),
        disk: Arc::clone(&services.disk),
        objects_warning: Box::new(move || object_check.warning()),
        gather: gauges::gather(services, shared),
        metrics_here: services.metrics_here,
        metrics_token: services.metrics_token.clone(),
    }
}

fn mcp(services: &Services, shared: &Arc<FrontServices>) -> mcp::Services {
    mcp::Services {
        shared: Arc::clone(shared),
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

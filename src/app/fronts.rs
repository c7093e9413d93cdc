//! Wiring of each front end to the host's services.

use std::sync::Arc;

use tollhouse_base::rate_limit::ConcurrencyLimit;
use tollhouse_front as front;
use tollhouse_front::{FrontServices, Fronts};
use tollhouse_http as http;
use tollhouse_http::{
    AccountServices, AuditServices, CallServices, CatalogServices, DiscoveryServices, Documents, FeedServices, HealthServices,
    MoneyServices, ReceiptServices, RecordExtras, SecretServices,
};
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
    let gather = gauges::gather(services, shared);
    let shared = || Arc::clone(shared);
    let (catalog, calls, payments) = (|| Arc::clone(&services.catalog), || Arc::clone(&services.calls), || Arc::clone(&services.payments));
    let (builders, receipts) = (|| Arc::clone(&services.builders), || Arc::clone(&services.receipts));
    let (clock, pool, base_url) = (|| services.clock.clone(), || services.pool.clone(), || services.base_url.clone());
    let about = Arc::new(RecordExtras { metrics: Arc::clone(&services.metrics), builders: builders() });
    http::Services {
        shared: shared(),
        calling: Arc::new(CallServices {
            shared: shared(),
            catalog: catalog(),
            calls: calls(),
            receipts: receipts(),
            about: Arc::clone(&about),
            base_url: base_url(),
            long_running_ms: services.long_running_ms,
            progress: services.progress,
        }),
        offering: Arc::new(DiscoveryServices {
            catalog: catalog(),
            payments: payments(),
            pool: pool(),
            scanner: Arc::clone(&services.scanner),
            abuse_contact: services.abuse_contact.clone(),
            signer: Arc::clone(&services.signer),
            contact: services.contact.clone(),
            documents: Documents::new(http::rows(), &services.base_url),
            about: Arc::clone(&about),
            fee: services.fee,
            base_url: base_url(),
        }),
        desk: Arc::clone(&services.desk),
        proving: Arc::new(ReceiptServices {
            receipts: receipts(),
            payments: payments(),
            keys: Arc::clone(&services.receipt_keys),
            refunds: Arc::clone(&services.refunds),
        }),
        ledger: services.ledger.clone(),
        accounts: Arc::new(AccountServices {
            shared: shared(),
            builders: builders(),
            sessions: Arc::clone(&services.sessions),
            base_url: base_url(),
            calls: calls(),
            catalog: catalog(),
            events: Arc::clone(&services.events),
            registration: Arc::clone(&services.registration),
        }),
        publishing: Arc::new(CatalogServices {
            catalog: catalog(),
            builders: builders(),
            calls: calls(),
            pool: pool(),
            secrets: Arc::clone(&services.secrets),
            about,
            dry_runs: ConcurrencyLimit::new(services.dry_runs),
            base_url: base_url(),
        }),
        watching: Arc::new(FeedServices {
            shared: shared(),
            clock: clock(),
            events: Arc::clone(&services.events),
            capabilities: Arc::clone(&services.capabilities),
            history: Arc::clone(&services.history),
            metrics: Arc::clone(&services.metrics),
        }),
        earning: Arc::new(MoneyServices {
            clock: clock(),
            sales: Arc::clone(&services.sales),
            payouts: Arc::clone(&services.payouts),
            refunds: Arc::clone(&services.refunds),
            builders: builders(),
            payments: payments(),
            store: Arc::clone(&services.store),
        }),
        auditing: Arc::new(AuditServices {
            shared: shared(),
            audit: Arc::clone(&services.audit),
            replica: Arc::clone(&services.replica),
            clock: clock(),
        }),
        sealing: Arc::new(SecretServices {
            secrets: Arc::clone(&services.secrets),
            builders: builders(),
            pool: pool(),
            replica: Arc::clone(&services.replica),
        }),
        operating: Arc::new(HealthServices {
            shared: shared(),
            store: Arc::clone(&services.store),
            payments: payments(),
            pool: pool(),
            replica: Arc::clone(&services.replica),
            disk: Arc::clone(&services.disk),
            receipts: Arc::clone(&services.free_receipts),
            gather,
            metrics_here: services.metrics_here,
            metrics_token: services.metrics_token.clone(),
        }),
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

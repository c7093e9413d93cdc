//! Wiring of each front end to the host's services.

use std::sync::Arc;

use tollhouse_base::rate::ConcurrencyLimit;
use tollhouse_front as front;
use tollhouse_front::{Fronts, Shared};
use tollhouse_http as http;
use tollhouse_http::{About, Accounts, Auditing, Calling, Documents, Earning, Offering, Operating, Proving, Publishing, Sealing, Watching};
use tollhouse_mcp as mcp;
use tollhouse_web as web;

use super::{measure, rooms::Rooms};

/// Returns all front ends. Pages call the public API through the same routes as all other clients.
pub(super) fn all(rooms: &Arc<Rooms>, shared: &Arc<Shared>) -> Fronts {
    let http::Routes { api, written } = http::routes(http(rooms, shared));
    let pages = web::Services {
        shared: Arc::clone(shared),
        api: front::worded(api.clone().merge(written)),
        origins: rooms.mcp.origins(),
        sessions: Arc::clone(&rooms.sessions),
        operations: http::rows().iter().map(operation).collect(),
        cookie: web::Cookie::of(&rooms.base_url),
        root: web::Root::of(&rooms.base_url),
        kept: Arc::default(),
        clock: rooms.clock.clone(),
        base_url: rooms.base_url.clone(),
    };
    let routes = api.merge(mcp::routes(mcp(rooms, shared))).merge(web::routes(pages.clone()));
    let doors = Arc::new([mcp::door(&rooms.mcp), web::door(&pages)]);
    let [to_scripts, to_people] = web::wordings(pages);
    Fronts { routes, doors, wordings: Arc::new([mcp::wording(), to_scripts, to_people]) }
}

/// Converts a row of the operations table for forms.
fn operation(row: &http::Row) -> web::Operation {
    let method = row.method.parse().expect("the table has methods of HTTP");
    web::Operation { id: row.id, method, path: row.path, takes: row.takes.is_some() }
}

fn http(rooms: &Arc<Rooms>, shared: &Arc<Shared>) -> http::Services {
    let gather = measure::gather(rooms, shared);
    let shared = || Arc::clone(shared);
    let (catalog, calls, gate) = (|| Arc::clone(&rooms.catalog), || Arc::clone(&rooms.calls), || Arc::clone(&rooms.gate));
    let (builders, receipts) = (|| Arc::clone(&rooms.builders), || Arc::clone(&rooms.receipts));
    let (clock, pool, base_url) = (|| rooms.clock.clone(), || rooms.pool.clone(), || rooms.base_url.clone());
    let about = Arc::new(About { metrics: Arc::clone(&rooms.metrics), builders: builders() });
    http::Services {
        shared: shared(),
        calling: Arc::new(Calling {
            shared: shared(),
            catalog: catalog(),
            calls: calls(),
            receipts: receipts(),
            about: Arc::clone(&about),
            base_url: base_url(),
            long_running_ms: rooms.long_running_ms,
            progress: rooms.progress,
        }),
        offering: Arc::new(Offering {
            catalog: catalog(),
            gate: gate(),
            pool: pool(),
            scanner: Arc::clone(&rooms.scanner),
            abuse_contact: rooms.abuse_contact.clone(),
            signer: Arc::clone(&rooms.signer),
            contact: rooms.contact.clone(),
            documents: Documents::new(http::rows(), &rooms.base_url),
            about: Arc::clone(&about),
            fee: rooms.fee,
            base_url: base_url(),
        }),
        desk: Arc::clone(&rooms.desk),
        proving: Arc::new(Proving {
            receipts: receipts(),
            gate: gate(),
            keys: Arc::clone(&rooms.receipt_keys),
            refunds: Arc::clone(&rooms.refunds),
        }),
        ledger: rooms.ledger.clone(),
        accounts: Arc::new(Accounts {
            shared: shared(),
            builders: builders(),
            sessions: Arc::clone(&rooms.sessions),
            base_url: base_url(),
            calls: calls(),
            catalog: catalog(),
            events: Arc::clone(&rooms.events),
            registration: Arc::clone(&rooms.registration),
        }),
        publishing: Arc::new(Publishing {
            catalog: catalog(),
            builders: builders(),
            calls: calls(),
            pool: pool(),
            secrets: Arc::clone(&rooms.secrets),
            about,
            dry_runs: ConcurrencyLimit::new(rooms.dry_runs),
            base_url: base_url(),
        }),
        watching: Arc::new(Watching {
            shared: shared(),
            clock: clock(),
            events: Arc::clone(&rooms.events),
            capabilities: Arc::clone(&rooms.capabilities),
            history: Arc::clone(&rooms.history),
            metrics: Arc::clone(&rooms.metrics),
        }),
        earning: Arc::new(Earning {
            clock: clock(),
            sales: Arc::clone(&rooms.sales),
            payouts: Arc::clone(&rooms.payouts),
            refunds: Arc::clone(&rooms.refunds),
            builders: builders(),
            gate: gate(),
            store: Arc::clone(&rooms.store),
        }),
        auditing: Arc::new(Auditing {
            shared: shared(),
            audit: Arc::clone(&rooms.audit),
            replica: Arc::clone(&rooms.replica),
            clock: clock(),
        }),
        sealing: Arc::new(Sealing {
            secrets: Arc::clone(&rooms.secrets),
            builders: builders(),
            pool: pool(),
            replica: Arc::clone(&rooms.replica),
        }),
        operating: Arc::new(Operating {
            shared: shared(),
            store: Arc::clone(&rooms.store),
            gate: gate(),
            pool: pool(),
            replica: Arc::clone(&rooms.replica),
            disk: Arc::clone(&rooms.disk),
            receipts: Arc::clone(&rooms.free_receipts),
            gather,
            metrics_here: rooms.metrics_here,
            metrics_token: rooms.metrics_token.clone(),
        }),
    }
}

fn mcp(rooms: &Rooms, shared: &Arc<Shared>) -> mcp::Services {
    mcp::Services {
        shared: Arc::clone(shared),
        settings: Arc::clone(&rooms.mcp),
        catalog: Arc::clone(&rooms.catalog),
        calls: Arc::clone(&rooms.calls),
        receipts: Arc::clone(&rooms.receipts),
        desk: Arc::clone(&rooms.desk),
        gate: Arc::clone(&rooms.gate),
        replica: Arc::clone(&rooms.replica),
        store: Arc::clone(&rooms.store),
        clock: rooms.clock.clone(),
        base_url: rooms.base_url.clone(),
        long_running_ms: rooms.long_running_ms,
    }
}

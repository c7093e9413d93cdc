//! The pipeline over a store that may fail, with tools that need no sandbox, and a scripted facilitator.

mod asked;
mod interleaved;
mod joined;
mod left;
mod quoted;

use std::{
    collections::BTreeMap,
    net::IpAddr,
    sync::{
        Mutex,
        atomic::{AtomicUsize, Ordering},
    },
};

use async_trait::async_trait;
use bytes::Bytes;
use serde_json::{Value, json};
use tokio::sync::{Notify, mpsc};
use tollhouse_account::{builder::Builders, first_key::FirstKeys};
use tollhouse_base::{
    clock::Timestamp,
    id::{BuilderId, PaymentId},
};
use tollhouse_capability::{CapabilityServices, Guard, GuardSettings, LogSettings, secret::Secrets};
use tollhouse_catalog::{CatalogCapacity, CatalogParts, ChangedBy, safety::Scanner};
use tollhouse_event::{Event, EventQuery, EventSettings, Events, Kind};
use tollhouse_money::{
    EntryMethod, Facilitator, OfferedX402, PaymentConfig, QuoteKey, SettleOutcome, Settlement, SettlementKind, StartedSettlement,
    VerifyResult, WireVersion,
    receipt::{FreeReceipts, ReceiptSigner},
    sale::Sales,
};
use tollhouse_objects::Objects;
use tollhouse_pool::{Pool, PoolConfig};
use tollhouse_store::{Store, faulty::FaultyStore, memory::MemoryStore};
use tollhouse_tool::{EndpointCode, MicroUsd};

use super::*;

const NOW: Timestamp = Timestamp(1_800_000_000_000);
const QUOTE: Duration = Duration::from_secs(60);
const FROM: IpAddr = IpAddr::V4(std::net::Ipv4Addr::LOCALHOST);
const LIMITS: JoinLimits = JoinLimits { of_payment: 16, of_address: Some(64) };
const STREAMS: StreamSettings =
    StreamSettings { places: 4, of_address: None, kept: 1 << 10, stall: Duration::from_millis(50), heartbeat: Duration::from_secs(15) };
const PAY_TO: &str = "0x209693Bc6afc0C5328bA36FaF03C514EF312287C";

/// The outcome of settlements.
#[derive(Debug, Clone, Copy)]
enum Settles {
    Well,
    Refused(&'static str),
    /// The outcome is not reported.
    Unsure,
    /// Somebody else has moved the money.
    Moved,
    /// Waits for [`go`](ScriptedFacilitator::proceed), and then has the outcome set by then, or succeeds.
    Later,
}

/// A facilitator that accepts every payment that has not moved.
struct ScriptedFacilitator {
    settles: Mutex<Settles>,
    proceed: Notify,
    /// Number of payments that it was asked to verify.
    verified: AtomicUsize,
}

#[async_trait]
impl Facilitator for ScriptedFacilitator {
    async fn verify(&self, _payment: &OfferedX402) -> VerifyResult {
        self.verified.fetch_add(1, Ordering::SeqCst);
        match *self.settles.lock().unwrap() {
            Settles::Moved => VerifyResult::Invalid { reason: "nonce_already_used".to_owned(), message: "a test".to_owned() },
            Settles::Well | Settles::Refused(_) | Settles::Unsure | Settles::Later => VerifyResult::Valid,
        }
    }

    async fn is_spent(&self, _payment: &OfferedX402) -> bool {
        matches!(*self.settles.lock().unwrap(), Settles::Moved)
    }

    async fn look_up(&self, payment: &OfferedX402, started: &StartedSettlement) -> SettleOutcome {
        self.settle(payment, started).await
    }

    async fn settle(&self, payment: &OfferedX402, _begun: &StartedSettlement) -> SettleOutcome {
        let settles = || *self.settles.lock().unwrap();
        if matches!(settles(), Settles::Later) {
            self.proceed.notified().await;
        }
        match settles() {
            Settles::Refused(reason) => return SettleOutcome::Refused { reason: reason.to_owned(), message: "a test".to_owned() },
            Settles::Unsure => return SettleOutcome::Unknown("a test".to_owned()),
            Settles::Well | Settles::Moved | Settles::Later => {}
        }
        SettleOutcome::Settled(Settlement {
            kind: SettlementKind::X402,
            transaction: format!("0x402 of {}", payment.id()),
            network: "eip155:84532".to_owned(),
            asset: "the asset".to_owned(),
            amount: payment.amount(),
            payer: payment.signed.sender().to_owned(),
            scheme: "exact".to_owned(),
            version: Some(payment.version),
            evidence: None,
        })
    }

    async fn resolve(&self, payment: &OfferedX402, started: &StartedSettlement) -> SettleOutcome {
        self.settle(payment, started).await
    }

    fn name(&self) -> &'static str {
        "told"
    }
}

/// Returns a payment with this nonce that the facilitator accepts.
fn pays(nonce: u64) -> OfferedPayment {
    let payment = json!({
        "x402Version": 1,
        "scheme": "exact",
        "network": "base-sepolia",
        "payload": {
            "signature": format!("0x{}", "11".repeat(65)),
            "authorization": {
                "from": PAY_TO,
                "to": PAY_TO,
                "value": "10000",
                "validAfter": "0",
                "validBefore": (NOW.as_secs() + 300).to_string(),
                "nonce": format!("0x{nonce:064x}"),
            },
        },
    });
    OfferedPayment::X402 { version: WireVersion::V1, header: payment.to_string() }
}

pub(super) fn head() -> RequestHead {
    RequestHead { method: "POST", url: String::new(), path: "/tools/x".to_owned(), query: BTreeMap::new(), headers: BTreeMap::new() }
}

/// Calls with all dependencies.
pub(super) struct Fixture {
    store: Arc<FaultyStore<MemoryStore>>,
    catalog: Arc<Catalog>,
    events: Arc<Events>,
    history: Arc<History>,
    metrics: Arc<Metrics>,
    sales: Arc<Sales>,
    write_behind: Arc<WriteBehind>,
    receipts: Receipts,
    payments: Arc<Payments>,
    facilitator: Arc<ScriptedFacilitator>,
    pub(super) services: Arc<CapabilityServices>,
    calls: Arc<Calls>,
    clock: Clock,
    owner: Owner,
    _folder: tempfile::TempDir,
}

impl Fixture {
    pub(super) async fn new() -> Self {
        Self::over(MemoryStore::new()).await
    }

    async fn over(store: MemoryStore) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let (store, clock) = (Arc::new(FaultyStore::new(store)), Clock::fixed(NOW));
        let any: Arc<dyn Store> = Arc::clone(&store) as _;
        let events = Arc::new(Events::new(Arc::clone(&any), clock.clone(), EventSettings::default()));
        let sales = Sales::new(Arc::clone(&any));
        let signer = Arc::new(ReceiptSigner::open(folder.path()).unwrap());
        let (settles, proceed, verified) = (Mutex::new(Settles::Well), Notify::new(), AtomicUsize::default());
        let facilitator = Arc::new(ScriptedFacilitator { settles, proceed, verified });
        let finisher = Arc::new(ReceiptFinisher::new(Arc::clone(&signer), false, Arc::clone(&events), Arc::clone(&sales)));
        let config = PaymentConfig::for_network("eip155:84532", PAY_TO).unwrap();
        let replica = Replica::new(Arc::clone(&any));
        let objects = Objects::in_folder(Arc::clone(&any), folder.path());
        let (apart, others) = (Arc::clone(&objects), Arc::clone(&replica));
        let payments = Payments::new(Arc::clone(&any), Arc::clone(&facilitator), clock.clone(), config.clone(), finisher, others, apart);
        // No test uses a worker.
        let pool = Pool::start(PoolConfig { spares: 0, ..PoolConfig::new("/bin/false") }).unwrap();
        let guard = Guard::new(GuardSettings::default()).unwrap();
        let secrets = Arc::new(Secrets::empty(Arc::clone(&any)));
        let (logs, others) = (LogSettings::default(), Arc::clone(&replica));
        let stored = Arc::clone(&objects);
        let services = CapabilityServices::new(Arc::clone(&any), clock.clone(), guard.clone(), stored, logs, secrets, others);
        let builders = Arc::new(Builders::new(Arc::clone(&any), clock.clone(), FirstKeys::of_tests()));
        let parts = CatalogParts {
            clock: clock.clone(),
            pool: pool.clone(),
            services: Arc::clone(&services),
            events: Arc::clone(&events),
            scanner: Arc::new(Scanner::new(&Default::default())),
            builders: Arc::clone(&builders),
            base_url: "https://tools.example".to_owned(),
            payment: config.clone(),
            make_form: Box::new(|_| None),
            room: CatalogCapacity::default(),
            objects,
        };
        let catalog = Arc::new(Catalog::open(Arc::clone(&any), parts).await.unwrap());
        let free = FreeReceipts::new(Arc::clone(&any), clock.clone(), Default::default());
        let history = History::new(Arc::clone(&any), clock.clone(), HistorySettings::default());
        let metrics = Metrics::new(Arc::clone(&any), clock.clone(), MetricsSettings::default());
        let parts = WriteBehindParts {
            events: Arc::clone(&events),
            sales: Arc::clone(&sales),
            history: Arc::clone(&history),
            metrics: Arc::clone(&metrics),
        };
        let write_behind = WriteBehind::start(Arc::clone(&any), parts);
        let calls = Calls::new(CallParts {
            catalog: Arc::clone(&catalog),
            payments: Arc::clone(&payments),
            builders,
            quotes: Arc::new(Quotes::new(Box::new(|| vec![QuoteKey::new([7; 32].into())]), QUOTE, clock.clone())),
            runner: Runner::new(pool, Arc::clone(&services), ReadinessClient::new(guard, "https://tools.example").unwrap()),
            write_behind: Arc::clone(&write_behind),
            fee: FeeBps(500),
            shares: CpuShares::new(None),
            clock: clock.clone(),
            code: |error| match error {
                CallError::Internal => "internal",
                CallError::Store(_) => "store",
                CallError::SettlementUnknown(_) => "settlement_unknown",
                CallError::SettlementRefused(_) => "refused",
                _ => "other",
            },
            replica,
            joins: LIMITS,
            refunds: Arc::new(Refunds::new(Arc::clone(&any), clock.clone(), Arc::clone(&events), Arc::clone(&sales))),
            streams: STREAMS,
        });
        let receipts = Receipts::new(Arc::clone(&write_behind), free, any, signer);
        let owner = Owner::Builder(BuilderId::generate());
        Self {
            store,
            catalog,
            events,
            history,
            metrics,
            sales,
            write_behind,
            receipts,
            payments,
            facilitator,
            services,
            calls,
            clock,
            owner,
            _folder: folder,
        }
    }

    /// Publishes a tool that always answers `{"answer": 42}`.
    pub(super) async fn tool(&self, price_usd: f64) -> Arc<LiveEndpoint> {
        self.publish(json!({ "priceUsd": price_usd, "handlerType": "static_json", "handler": { "response": { "answer": 42 } } })).await
    }

    /// Changes the price of the tool.
    async fn repriced(&self, price_usd: f64) -> Arc<LiveEndpoint> {
        let patch = serde_json::from_value(json!({ "priceUsd": price_usd })).unwrap();
        self.catalog.update("some-tool", patch, None, ChangedBy::Admin).await.unwrap()
    }

    async fn publish(&self, mut draft: Value) -> Arc<LiveEndpoint> {
        draft["slug"] = json!("some-tool");
        draft["title"] = json!("Some tool");
        self.catalog.create(serde_json::from_value(draft).unwrap(), self.owner.clone(), ChangedBy::Admin).await.unwrap()
    }

    fn call(&self, live: &Arc<LiveEndpoint>, offered: OfferedPayment) -> Call {
        let (live, input) = (Arc::clone(live), Input::Body(Bytes::new()));
        Call {
            live,
            by: CalledBy::Anyone,
            entry_method: EntryMethod::Post,
            input,
            offered,
            quote: None,
            head: head(),
            from: FROM,
            progress: None,
            stream: None,
        }
    }

    async fn perform(&self, live: &Arc<LiveEndpoint>, offered: OfferedPayment) -> SharedResult {
        self.calls.perform(self.call(live, offered)).await
    }

    fn begin(&self, live: &Arc<LiveEndpoint>, offered: OfferedPayment) -> RunningCall<CompletedCall> {
        self.calls.begin(self.call(live, offered), CancellationToken::new(), ())
    }

    fn settle(&self, settles: Settles) {
        *self.facilitator.settles.lock().unwrap() = settles;
    }

    /// Returns the records of the tool's calls, newest first, as their owner reads them.
    async fn records(&self, live: &LiveEndpoint) -> Vec<Value> {
        self.write_behind.write_all().await.unwrap();
        let query = CallQuery { limit: 100, ..CallQuery::default() };
        let page = self.history.list(&live.endpoint.id, &query).await.unwrap();
        page.calls.iter().map(|call| serde_json::to_value(call).unwrap()).collect()
    }

    /// Returns the events of one kind, newest first.
    async fn events(&self, kind: Kind) -> Vec<Event> {
        self.write_behind.write_all().await.unwrap();
        let query = EventQuery { kind: Some(kind), limit: 100, ..EventQuery::default() };
        self.events.list(&self.owner, &query).await.unwrap().events
    }
}

/// Returns the tool with a handler that cannot run, which is the host's fault.
fn broken(live: &LiveEndpoint) -> Arc<LiveEndpoint> {
    Arc::new(LiveEndpoint { runs: EndpointCode::Js, ..live.clone() })
}

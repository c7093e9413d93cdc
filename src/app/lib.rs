//! The composition root of the host: the only place that names concrete types.

mod backups;
mod capabilities;
mod check;
mod control;
mod error;
mod fronts;
mod gauges;
mod jobs;
mod keys;
mod migration;
mod object_check;
mod payment_settings;
mod services;
mod stores;

use std::{fmt, path::Path, sync::Arc, time::Duration};

use futures_util::future::join_all;
use serde_json::Value;
use tokio::net::TcpListener;
use tokio_util::task::TaskTracker;
use tollhouse_account::{admin_token, audit::Audit, builder::Builders, session::Sessions};
use tollhouse_api::KeyRotation;
use tollhouse_base::{boxed, clock::Clock, cpu_share::CpuShares, rate_limit::ConcurrencyLimit};
use tollhouse_call::{
    CallError, CallParts, Calls, DeskParts, History, Metrics, QuoteDesk, ReadinessClient, Receipts, Runner, WriteBehind, WriteBehindParts,
    registration_terms,
};
use tollhouse_capability::{
    guard::{DevelopmentUpstreams, RecordedAnswers},
    secret::Secrets,
};
use tollhouse_catalog::{Catalog, CatalogParts, ValidationError, safety::Scanner};
use tollhouse_config::{HiddenValue, MetricsReaders, MoneySettings, SecretSettings, Settings};
use tollhouse_event::{EventSettings, Events};
use tollhouse_front::{Authenticator, Code, FrontServices, Limits, MemoryBudget, Proxies, Shutdown, Spool};
use tollhouse_http as http;
use tollhouse_mcp::McpOptions;
use tollhouse_money::{
    ConfigError, FacilitatorAccess, FacilitatorParts, Facilitators, Ledger, PaymentConfig, Payments, QuoteKey, Quotes, ReachReport,
    ReceiptFinisher, RemoteRoutes, RouteProvider, TableRoutes, check_kind, ledger,
    payout::Payouts,
    receipt::{FreeReceipts, PublishedKeys},
    refund::Refunds,
    sale::Sales,
    settle_kind,
};
use tollhouse_objects::{ObjectLayout, Objects};
use tollhouse_operate::disk::Disk;
use tollhouse_pool::Pool;
use tollhouse_replica::Replica;
use tollhouse_store::{
    Store, StoreError, log_unavailable,
    sled::{SledConfig, SledStore},
};
use tollhouse_telemetry::{Exporter, OtlpSettings};

pub use self::{
    backups::{BackupReport as CopyReport, back_up, restore_to},
    check::{StoreCheck as CheckedRows, check_ledger, check_rows, compact},
    control::{SampledObjects, Unresolved, ask_unresolved},
    error::StartError,
    keys::KeysError,
    migration::{migrate, stay},
    object_check::sample_objects,
    payment_settings::PaymentSettingsError,
    stores::{DatabaseMoney, money_in},
};
use self::{
    object_check::ObjectCheck,
    payment_settings::SharedSettings,
    services::Services,
    stores::{is_free, is_here, make_folder, note_last_sale, open_database, open_movable, store_of},
};

/// Interval for checking open settlements and removing old answers.
const SWEEP_INTERVAL: Duration = Duration::from_secs(5);

/// A host that is ready to serve.
pub struct App {
    services: Arc<Services>,
    /// Exporter of telemetry, if configured.
    exporter: Option<Exporter>,
}

impl fmt::Debug for App {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("App").field("base_url", &self.services.base_url).finish_non_exhaustive()
    }
}

impl App {
    /// Opens the store, starts the sandbox, continues what a crash left open, and publishes the built-in tools.
    #[boxed]
    pub async fn start(settings: &Settings, base_url: String) -> Result<Arc<Self>, StartError> {
        Self::start_private(settings, base_url, DevelopmentUpstreams::default()).await
    }

    /// Starts the private host of a folder, whose tools may also ask servers under development. No setting allows this.
    #[boxed]
    pub async fn start_private(settings: &Settings, base_url: String, upstreams: DevelopmentUpstreams) -> Result<Arc<Self>, StartError> {
        let home = &settings.home;
        make_folder(&home.data)?;
        let Some(database) = &home.database else {
            let store = Arc::new(open_movable(&home.data, &home.store)?);
            is_here(&*store, &home.data).await?;
            let app = Self::start_with(Arc::clone(&store) as _, settings, base_url, upstreams).await?;
            control::start(&app.services, store, home);
            return Ok(app);
        };
        let store = open_database(database).await?;
        is_free(&*store, home).await?;
        Self::start_with(store, settings, base_url, upstreams).await
    }

    /// Starts the host with this store, which other hosts may use too if it [is shared](Store::is_shared).
    #[boxed]
    pub async fn start_on(store: Arc<dyn Store>, settings: &Settings, base_url: String) -> Result<Arc<Self>, StartError> {
        Self::start_with(store, settings, base_url, DevelopmentUpstreams::default()).await
    }

    #[boxed]
    async fn start_with(
        store: Arc<dyn Store>,
        settings: &Settings,
        base_url: String,
        upstreams: DevelopmentUpstreams,
    ) -> Result<Arc<Self>, StartError> {
        let data = &settings.home.data;
        make_folder(data)?;
        tollhouse_telemetry::counters::know_codes(Code::ALL.iter().map(|code| (code.row().name, code.row().fault.as_str())));
        let clock = if store.is_shared() { Clock::following() } else { Clock::default() };
        let replica = Replica::with_db_clock(Arc::clone(&store), clock.clone());
        replica.begin().await.map_err(StartError::Replica)?;
        let admin = admin_token::open(settings.account.admin_token.as_ref().map(HiddenValue::expose), &data.join("admin-token"))
            .map_err(StartError::AdminToken)?;
        if settings.telemetry.metrics_token.as_ref().is_some_and(|token| admin.is(token)) {
            return Err(StartError::MetricsToken);
        }
        let money = settings.money.kind();
        check_kind(&*store, &replica, money).await?;
        note_last_sale(&*store, &replica).await?;
        let signer = keys::signer(&settings.home.secrets, data, &*store).await?;
        let ring = keys::ring(&settings.home.secrets, data)?;
        keys::agree_with_replicas(&replica, &admin, &signer, &ring).await?;
        let shared_settings = SharedSettings::of(&settings.money)?;
        shared_settings.agree(&replica).await?;
        let token = admin.id();
        let signer = Arc::new(signer.with_format(settings.money.offer_format));
        let receipt_keys = PublishedKeys::open(Arc::clone(&store), Arc::clone(&signer)).await.map_err(StartError::Receipts)?;
        let config = settings.money.payments(settings.http.failed_runs);
        let (facilitators, ledger) = facilitators(settings, &config, &store, &clock).map_err(StartError::Payment)?;
        let events = Arc::new(Events::new(Arc::clone(&store), clock.clone(), settings.retention.events));
        events.start();
        let audit = Arc::new(Audit::new(Arc::clone(&store), clock.clone(), settings.retention.audit));
        ledger::open(&*store, &clock).await.map_err(StartError::Ledger)?;
        let sales = Sales::new(Arc::clone(&store));
        sales.start();
        let finisher = ReceiptFinisher::new(Arc::clone(&signer), facilitators.simulated(), Arc::clone(&events), Arc::clone(&sales));
        let finisher = Arc::new(finisher);
        let payouts = Payouts::new(Arc::clone(&store), clock.clone(), Arc::clone(&events), Arc::clone(&signer), config.assets().collect());
        let payouts = Arc::new(payouts);
        let refunds = Arc::new(Refunds::new(Arc::clone(&store), clock.clone(), Arc::clone(&events), Arc::clone(&sales)));
        if let Err(error) = payouts.resume().await {
            tracing::error!(%error, "an interrupted payout could not be continued; the builder's next request retries it");
        }
        let objects = objects(settings, &store, &clock).await?;
        let payments = Payments::new(
            Arc::clone(&store),
            facilitators,
            clock.clone(),
            config.clone(),
            finisher,
            Arc::clone(&replica),
            Arc::clone(&objects),
        );
        payments.recover().await.map_err(StartError::Recovery)?;
        let pool = Pool::start(settings.sandbox.pool.clone()).map_err(StartError::Sandbox)?;
        if !settings.sandbox.pool.strict.is_empty() {
            pool.ready().await.map_err(StartError::Sandbox)?;
        }
        let room = settings.catalog.room.secrets_bytes();
        let secrets = Secrets::open(Arc::clone(&store), clock.clone(), Arc::clone(&events), ring, room).await;
        let secrets = Arc::new(secrets.map_err(StartError::Secrets)?);
        let capabilities = capabilities::start(settings, &store, &clock, &replica, Arc::clone(&objects), Arc::clone(&secrets), upstreams)?;
        let scanner = Arc::new(Scanner::new(&settings.catalog.safety_lists));
        let builders = Arc::new(Builders::new(Arc::clone(&store), clock.clone(), keys::first_keys(&secrets)));
        let sessions = Arc::new(Sessions::new(Arc::clone(&store), clock.clone(), settings.account.sessions));
        let mcp = Arc::new(McpOptions::new(&settings.mcp, settings.listen, &base_url));
        let parts = CatalogParts {
            clock: clock.clone(),
            pool: pool.clone(),
            services: Arc::clone(&capabilities),
            events: Arc::clone(&events),
            scanner: Arc::clone(&scanner),
            builders: Arc::clone(&builders),
            base_url: base_url.clone(),
            payment: config.clone(),
            room: settings.catalog.room,
            objects: Arc::clone(&objects),
            make_form: mcp.make_form(settings.catalog.long_running_ms, Arc::clone(&payments)),
        };
        let catalog = Catalog::open(Arc::clone(&store), parts).await;
        let catalog = Arc::new(catalog.map_err(StartError::Catalog)?);
        catalog.maintain_index();
        let readiness = ReadinessClient::new(capabilities.guard.clone(), &base_url).map_err(StartError::Guard)?;
        let runner = Runner::new(pool.clone(), Arc::clone(&capabilities), readiness.clone());
        let receipts = FreeReceipts::new(Arc::clone(&store), clock.clone(), settings.retention.free_receipts);
        let history = History::new(Arc::clone(&store), clock.clone(), settings.retention.history);
        history.start();
        let metrics = Metrics::new(Arc::clone(&store), clock.clone(), settings.retention.metrics);
        metrics.start();
        let parts = WriteBehindParts {
            events: Arc::clone(&events),
            sales: Arc::clone(&sales),
            history: Arc::clone(&history),
            metrics: Arc::clone(&metrics),
        };
        let write_behind = WriteBehind::start(Arc::clone(&store), parts);
        let keys_of = Arc::clone(&secrets);
        let keys = Box::new(move || keys_of.derived("quotes").into_iter().map(QuoteKey::new).collect());
        let shares = CpuShares::new(settings.http.address_cpu_percent);
        let calls = Calls::new(CallParts {
            catalog: Arc::clone(&catalog),
            payments: Arc::clone(&payments),
            builders: Arc::clone(&builders),
            quotes: Arc::new(Quotes::new(keys, settings.money.quote, clock.clone())),
            runner,
            write_behind: Arc::clone(&write_behind),
            fee: settings.money.fee,
            shares: Arc::clone(&shares),
            clock: clock.clone(),
            code: |error| Code::of_call(error).row().name,
            replica: Arc::clone(&replica),
            joins: settings.http.joins,
            refunds: Arc::clone(&refunds),
            streams: settings.http.streams,
        });
        let registration = Arc::new(registration_terms(settings.account.registration_price, &base_url));
        let desk = QuoteDesk::new(DeskParts {
            calls: Arc::clone(&calls),
            registration: Arc::clone(&registration),
            routes: routes(settings)?,
            client: readiness,
            asking: settings.http.asking,
            clock: clock.clone(),
        });
        let folder = data.join("spool");
        let spool = Spool::open(&folder, settings.http.intake.bodies.spooled);
        let spool = spool.map_err(|error| StartError::Data(folder.display().to_string(), error))?;
        let shared = FrontServices {
            callers: Arc::new(Authenticator::new(admin, Arc::clone(&builders))),
            limits: Limits::new(&settings.http, shares, &base_url),
            intake: MemoryBudget::new(&settings.http.intake),
            spool,
            proxies: Proxies::new(&settings.http.proxies, settings.listen.ip(), &base_url),
            shutdown: Shutdown::default(),
            background: TaskTracker::new(),
        };
        let receipts_of_all = Receipts::new(Arc::clone(&write_behind), Arc::clone(&receipts), Arc::clone(&store), Arc::clone(&signer));
        let object_check = ObjectCheck::new(&catalog, &store, &objects);
        let sampled = Arc::clone(&object_check);
        let services = Arc::new_cyclic(|host| Services {
            http: Arc::new(http::Services {
                shared: Arc::new(shared),
                gather: gauges::gather(host.clone()),
                documents: http::Documents::new(http::rows(), &base_url),
                base_url,
                clock,
                audit,
                builders,
                sessions,
                registration,
                events,
                secrets,
                catalog,
                scanner,
                abuse_contact: settings.catalog.abuse_contact.clone(),
                contact: settings.catalog.contact.clone(),
                calls,
                desk: Arc::new(desk),
                fee: settings.money.fee,
                free_receipts: receipts,
                receipts: Arc::new(receipts_of_all),
                history,
                metrics,
                sales,
                payouts,
                refunds,
                payments,
                ledger,
                pool,
                capabilities,
                signer,
                receipt_keys: Arc::new(receipt_keys),
                disk: Disk::start(data),
                objects_warning: Box::new(move || sampled.warning()),
                metrics_here: settings.telemetry.metrics == MetricsReaders::Loopback,
                metrics_token: settings.telemetry.metrics_token.clone(),
                store,
                replica,
                long_running_ms: settings.catalog.long_running_ms,
                dry_runs: ConcurrencyLimit::new(settings.http.dry_runs),
                progress: settings.http.progress,
            }),
            write_behind,
            objects,
            object_check,
            mcp,
        });
        let exporter = exporter(settings, &services)?;
        let app = Arc::new(Self { services, exporter });
        app.services.replica.follow(Arc::clone(&app.services.catalog) as _).await.map_err(StartError::Replica)?;
        keys::agree_on_token(&app.services.replica, token).await?;
        if let Err(error) = settle_kind(&*app.services.store, &app.services.replica, money).await {
            app.services.replica.leave().await;
            return Err(error.into());
        }
        if let Err(error) = shared_settings.announce(&app.services.replica).await {
            app.services.replica.leave().await;
            return Err(error.into());
        }
        app.services.exchange();
        app.services.replica.wait_until_counted().await;
        let tools = settings.mcp.conformance_tools.as_deref().or(settings.catalog.tools.as_deref());
        jobs::publish_seed_tools(&app.services, tools).await.map_err(StartError::Catalog)?;
        jobs::start(&app.services);
        app.services.object_check.start();
        app.settle_open();
        app.sweep();
        jobs::rescan(&app.services);
        Ok(app)
    }

    /// Replaces the HTTP answers for an endpoint's handler with recorded ones, from its next request on. `None` restores real requests.
    #[boxed]
    pub async fn answer_recorded(&self, slug: &str, recorded: Option<Arc<RecordedAnswers>>) -> Result<(), StoreError> {
        if let Some(shown) = self.services.catalog.shown(slug).await? {
            self.services.capabilities.answer_recorded(&shown.endpoint.id, recorded);
        }
        Ok(())
    }

    /// Runs the first schedule of an endpoint now. Returns false if it has none.
    ///
    /// # Errors
    ///
    /// Why it did not run.
    #[boxed]
    pub async fn run_schedule(&self, slug: &str) -> Result<bool, CallError> {
        self.services.calls.run_schedule_now(slug).await
    }

    /// Validates a value against a JSON Schema, in a worker.
    ///
    /// # Errors
    ///
    /// [`ValidationError`]. An invalid schema is a [`PoolError::Schema`](tollhouse_pool::PoolError::Schema).
    pub async fn validate(&self, schema: &Value, value: &Value) -> Result<(), ValidationError> {
        tollhouse_catalog::validate(&self.services.pool, schema, value).await
    }

    /// Serves all front ends on `listener` until shutdown, and until every connection has ended.
    #[boxed]
    pub async fn serve(&self, listener: TcpListener) {
        self.services.shared.proxies.warn_at_start();
        tollhouse_front::serve(listener, Arc::clone(&self.services.shared), fronts::all(&self.services)).await;
    }

    /// Announces a shutdown: the host is no longer ready, so that load balancers send calls elsewhere, but works as before.
    pub fn announce_shutdown(&self) {
        self.services.shared.shutdown.announce();
    }

    /// Begins a shutdown: the host is no longer ready, and live streams are closed.
    pub fn begin_shutdown(&self) {
        self.services.shared.shutdown.begin();
    }

    /// Lets running calls and changes finish for at most `timeout`, then ends the sandbox and writes pending records.
    #[boxed]
    pub async fn shutdown(&self, timeout: Duration) {
        self.begin_shutdown();
        self.services.shared.background.close();
        let (calls, background) =
            tokio::join!(self.services.calls.drain(timeout), tokio::time::timeout(timeout, self.services.shared.background.wait()));
        if !calls {
            tracing::warn!("calls were still running at shutdown; their payments are resolved at the next start");
        }
        if background.is_err() {
            tracing::warn!(
                tasks = self.services.shared.background.len(),
                "changes were interrupted by the shutdown; the audit trail lists them"
            );
        }
        if let Err(error) = self.services.write_behind.write_all().await {
            tracing::error!(%error, "records of the last free and failed calls could not be written");
        }
        if let Err(error) = self.services.metrics.write().await {
            tracing::error!(%error, "the metrics of the last calls could not be written");
        }
        self.services.pool.shutdown().await;
        // No handler runs any more that could add data.
        self.services.capabilities.finish().await;
        if let Some(exporter) = &self.exporter {
            exporter.flush().await;
        }
        self.services.replica.leave().await;
    }

    /// Removes idle state periodically, as long as the host lives.
    fn sweep(self: &Arc<Self>) {
        let app = Arc::downgrade(self);
        tokio::spawn(async move {
            loop {
                tokio::time::sleep(SWEEP_INTERVAL).await;
                let Some(app) = app.upgrade() else { return };
                app.services.shared.limits.prune_idle();
                app.services.mcp.prune_idle();
                app.services.payments.prune_idle();
            }
        });
    }

    /// Resolves open settlements and removes old answers, as long as the host lives. Nothing waits for it, because a facilitator may be
    /// slow.
    fn settle_open(self: &Arc<Self>) {
        let app = Arc::downgrade(self);
        tokio::spawn(async move {
            while let Some(app) = app.upgrade() {
                if let Err(error) = app.services.payments.tick().await {
                    log_unavailable(&error, "checking open settlements");
                }
                drop(app);
                tokio::time::sleep(SWEEP_INTERVAL).await;
            }
        });
    }
}

fn facilitators(
    settings: &Settings,
    config: &PaymentConfig,
    store: &Arc<dyn Store>,
    clock: &Clock,
) -> Result<(Facilitators, Option<Arc<Ledger>>), ConfigError> {
    let (money, strangers) = (&settings.money, FacilitatorAccess::default());
    let sites = money.sites(&strangers);
    let gas_key = money.gas_key.as_ref().map(HiddenValue::expose);
    Facilitators::start(&FacilitatorParts { sites: &sites, asset: config.first().asset, gas_key, store, clock })
}

/// Contacts the facilitators of all networks at the same time, before a host starts. Returns each
/// network with the result.
#[boxed]
pub async fn reach(money: &MoneySettings) -> Vec<(&'static str, ReachReport)> {
    let strangers = FacilitatorAccess::default();
    let gas_key = money.gas_key.as_ref().map(HiddenValue::expose);
    let requests = money.sites(&strangers).into_iter().map(|site| async move { (site.network.caip2, site.reach(gas_key).await) });
    join_all(requests).await
}

fn exporter(settings: &Settings, services: &Services) -> Result<Option<Exporter>, StartError> {
    let start = |otlp: &OtlpSettings| Exporter::start(otlp.clone(), services.replica.id().as_str(), Arc::clone(&services.gather));
    settings.telemetry.otlp.as_ref().map(start).transpose().map_err(StartError::Telemetry)
}

fn routes(settings: &Settings) -> Result<Arc<dyn RouteProvider>, StartError> {
    let Some(url) = &settings.money.routes_url else { return Ok(Arc::new(TableRoutes)) };
    let remote = RemoteRoutes::new(url, settings.money.routes_key.as_ref().map(HiddenValue::expose)).map_err(StartError::Payment)?;
    Ok(Arc::new(remote))
}

/// Rotates the master key of a host that does not run, with its data in `data`.
///
/// # Errors
///
/// The store does not open, for example because a host that runs has it; an error of the key or the store.
#[boxed]
pub async fn rotate_secrets(data: &Path, keys: &SecretSettings) -> Result<KeyRotation, StartError> {
    let store: Arc<dyn Store> = Arc::new(SledStore::open(store_of(data)?, SledConfig::default()).map_err(StartError::Store)?);
    is_here(&*store, data).await?;
    let clock = Clock::default();
    let events = Arc::new(Events::new(Arc::clone(&store), clock.clone(), EventSettings::default()));
    let secrets = Secrets::open(store, clock, events, keys::ring(keys, data)?, 0).await.map_err(StartError::Secrets)?;
    secrets.rotate().await.map_err(StartError::Rotation)
}

async fn objects(settings: &Settings, store: &Arc<dyn Store>, clock: &Clock) -> Result<Arc<Objects>, StartError> {
    let bucket = ObjectLayout::at(&settings.home.objects).map_err(StartError::Objects)?;
    bucket.check().await.map_err(StartError::Objects)?;
    let objects = Objects::new(Arc::clone(store), clock.clone(), Arc::new(bucket));
    objects.collect_garbage();
    Ok(objects)
}

#[cfg(test)]
mod tests;

//! Measures concurrent paid calls: on each kind of store, and with several hosts that share one.

use std::{net::SocketAddr, sync::Arc, thread, time::Duration};

use serde_json::json;
use tollhouse::{
    app::App,
    config::Flags,
    store::{
        Store,
        postgres::{PostgresConfig, PostgresStore},
        sled::{SledConfig, SledStore},
    },
};

use crate::{
    Failure,
    client::{Client, Request},
    host::{self, Host},
    load::{self, Figures, latencies},
    options::Options,
    paid::{
        STATIC, lists,
        payer::{Challenge, Payer},
        publish,
    },
    postgres::Postgres,
    store,
};

/// Numbers of paying connections.
const TASKS: [usize; 2] = [64, 256];
/// Payments of a turn for each requested second, over all connections.
const PAID: usize = 2_000;
/// Maximum number of hosts of one store.
const HOSTS: usize = 3;

pub(crate) fn measure(options: &Options) -> Result<(), Failure> {
    store::measure(options)?;
    stores(options)?;
    hosts(options)
}

/// Measures paid calls within this process, which both serves and pays, for each kind of store.
/// Only the store differs.
fn stores(options: &Options) -> Result<(), Failure> {
    println!("\npaid calls a second, host and payers in one process, and as a ratio to those on sled");
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let server = Postgres::start();
    for tasks in TASKS {
        let mut first = None;
        for kind in ["sled", "PostgreSQL, one by one", "PostgreSQL, together"] {
            let data = tempfile::tempdir()?;
            let (address, app) = runtime.block_on(serve(options, data.path(), kind, &server))?;
            publish(address, STATIC, 0.001, &json!({ "response": { "done": true } }))?;
            let figures = paid(options, &[address], tasks)?;
            let rate = figures.per_second();
            println!("  {tasks:>3} tasks   {kind:<24}{rate:>9.0}{:>9.2}{}", rate / *first.get_or_insert(rate), latencies(&figures));
            app.begin_shutdown();
            runtime.block_on(app.shutdown(Duration::from_secs(10)));
        }
    }
    Ok(())
}

/// Starts a host in this process with this kind of store.
async fn serve(options: &Options, data: &std::path::Path, kind: &str, server: &Postgres) -> Result<(SocketAddr, Arc<App>), Failure> {
    let store: Arc<dyn Store> = if kind == "sled" {
        Arc::new(SledStore::open(data.join("store"), SledConfig::default())?)
    } else {
        let mut config = PostgresConfig::new(&server.schema().await, None)?;
        if kind == "PostgreSQL, one by one" {
            (config.lanes, config.together) = (store::POOLED, 1);
        }
        Arc::new(PostgresStore::open(config).await?)
    };
    let mut flags = Flags::default();
    flags.host.data = Some(data.join("data"));
    flags.sandbox.worker = Some(options.worker.clone());
    flags.account.admin_token = Some(host::ADMIN_TOKEN.to_owned().into());
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await?;
    let address = listener.local_addr()?;
    let app = App::start_on(store, &flags.resolve()?, format!("http://{address}")).await?;
    let serving = Arc::clone(&app);
    tokio::spawn(async move { serving.serve(listener).await });
    Ok((address, app))
}

/// Measures paid calls of one, two and three hosts with one database, and the processor time of
/// each host.
fn hosts(options: &Options) -> Result<(), Failure> {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    println!(
        "\n{:<40}{:>10}{:>11}{:>11}{:>14}{:>14}{:>8}",
        "hosts of one database", "calls/s", "p50", "p99", "CPU µs/call", "calls/s a core", "ratio"
    );
    let mut first = None;
    for count in 1..=HOSTS {
        let server = Postgres::start();
        let data = tempfile::tempdir()?;
        let schema = runtime.block_on(server.schema());
        let settings = [("TOLLHOUSE_STORE", schema.as_str()), ("TOLLHOUSE_BASE_URL", "https://tollhouse.example")];
        let hosts = (0..count).map(|_| Host::start(options, data.path(), &settings)).collect::<Result<Vec<_>, _>>()?;
        publish(hosts[0].address(), STATIC, 0.001, &json!({ "response": { "done": true } }))?;
        let addresses: Vec<_> = hosts.iter().map(Host::address).collect();
        let spent = || hosts.iter().map(Host::seconds).sum::<Result<f64, _>>();
        let before = spent()?;
        // The number of callers per host stays the same, because calls that share a commit cost
        // less.
        let figures = paid(options, &addresses, TASKS[0] * count)?;
        let cpu = (spent()? - before) / figures.calls() as f64;
        let ratio = 1.0 / cpu / *first.get_or_insert(1.0 / cpu);
        println!("{count:<40}{:>10.0}{}{:>14.0}{:>14.0}{ratio:>8.2}", figures.per_second(), latencies(&figures), cpu * 1e6, 1.0 / cpu);
        hosts.into_iter().try_for_each(Host::stop)?;
    }
    Ok(())
}

/// Makes payments over a number of connections, distributed among hosts.
fn paid(options: &Options, hosts: &[SocketAddr], connections: usize) -> Result<Figures, Failure> {
    let call = Request::post(STATIC, "{}");
    let payer = Payer::new()?;
    let funds = json!({ "address": payer.address.to_checksum(None), "amountUsd": 1_000 }).to_string();
    Client::connect(hosts[0])?.expect_ok(&Request::post("/dev/faucet", &funds))?;
    let challenge = Challenge::of(hosts[0], &call)?;
    let each = PAID * options.seconds as usize / connections;
    let shares: Vec<_> = hosts
        .iter()
        .enumerate()
        .map(|(at, host)| {
            Ok((*host, lists(&payer, &call, &challenge, connections / hosts.len() + usize::from(at < connections % hosts.len()), each)?))
        })
        .collect::<Result<_, Failure>>()?;
    let runs = thread::scope(|scope| {
        let run =
            |(host, lists): (SocketAddr, Vec<_>)| scope.spawn(move || load::run_lists(host, &lists).map_err(|reason| reason.to_string()));
        let runs: Vec<_> = shares.into_iter().map(run).collect();
        runs.into_iter().map(|run| run.join().map_err(|_| "a host's load broke".to_owned())?).collect::<Result<Vec<_>, _>>()
    })?;
    let (mut taken, mut span, mut refused) = (Vec::new(), Duration::ZERO, 0);
    for (figures, not_taken) in runs {
        let (some, long) = figures.into_parts();
        taken.extend(some);
        (span, refused) = (span.max(long), refused + not_taken);
    }
    if refused > 0 { Err(format!("{refused} payments were refused").into()) } else { Ok(Figures::of(taken, span)) }
}

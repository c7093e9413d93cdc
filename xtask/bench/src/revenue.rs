//! Measures the cost of a long sales history: reports, and calls that add to it.

use std::{
    path::Path,
    sync::Arc,
    time::{Duration, Instant},
};

use serde_json::{Value, json};
use tollhouse::{
    account::{builder::Builder, first_key::FirstKeys},
    base::{
        clock::{Clock, Timestamp},
        id::{CallId, EndpointId, ReceiptId},
    },
    call::{ReceiptContext, ReceiptFinisher},
    event::{EventSettings, Events},
    money::{
        Settlement, SettlementKind, StoredAnswer, WireVersion,
        receipt::{ReceiptDraft, ReceiptSigner},
        sale::{FeeBps, Sales},
    },
    store::{
        Batch, Durability, Store,
        sled::{SledConfig, SledStore},
    },
    tool::{MicroUsd, Owner},
};

use crate::{
    Failure, Options,
    client::{Client, Request},
    host::{ADMIN_TOKEN, Host},
    load::{self, Figures, latencies},
};

const RECEIPTS: u64 = 100_000;
const DAYS: u64 = 90;
const ENDPOINTS: u64 = 50;
pub(crate) const DAY_MS: u64 = 24 * 3_600 * 1_000;
/// Number of receipts per commit.
const TOGETHER: u64 = 250;
const REPORTS: usize = 300;
const CONNECTIONS: usize = 16;
/// Runs of paid calls with and without a history, in turns, so that other load on the machine
/// affects both.
const TURNS: usize = 3;
/// Price in micro-dollars.
const PRICE: MicroUsd = MicroUsd(10_001);

/// A builder in the store, with the key.
struct Earner {
    builder: Builder,
    key: String,
}

pub(crate) fn measure(options: &Options) -> Result<(), Failure> {
    let data = tempfile::tempdir()?;
    let started = Instant::now();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let (old, new) = runtime.block_on(prepare(data.path()))?;
    drop(runtime);
    let elapsed = started.elapsed().as_secs_f64();
    println!("{RECEIPTS} receipts of {ENDPOINTS} endpoints over {DAYS} days, written by the call path's own code in {elapsed:.1} s");

    let host = Host::start(options, data.path(), &[])?;
    println!("\n{:<52}{:>11}{:>11}", "GET /ai/builders/revenue", "p50", "p99");
    reports(&host, "while the host folds what it was not told of, 90 d", &old, "90d")?;
    // Aggregation runs in the background. Nothing reports its end, except that reports do not get
    // faster anymore.
    std::thread::sleep(Duration::from_secs(8));
    for since in ["30d", "90d"] {
        reports(&host, &format!("folded, {since}"), &old, since)?;
    }
    reports(&host, "of a builder without a history, 90 d", &new, "90d")?;

    let (with, without) = (publish(&host, "bench-old", &old)?, publish(&host, "bench-new", &new)?);
    let span = Duration::from_secs(options.seconds);
    println!("\n{:<44}{:>12}{:>11}{:>11}", format!("paid by credit, {CONNECTIONS} connections"), "calls/s", "p50", "p99");
    let mut rates = [0.0, 0.0];
    for turn in 0..TURNS {
        for (at, (what, requests)) in [("with a history", &with), ("without", &without)].into_iter().enumerate() {
            let figures = load::run_each(host.address(), requests, span)?;
            rates[at] += figures.per_second();
            println!("{what:<44}{:>12.0}{}", figures.per_second(), latencies(&figures));
            if at == 0 {
                reports(&host, &format!("  its reports right after, turn {turn}"), &old, "30d")?;
            }
        }
    }
    println!("calls/s with a history / without: {:.2}", rates[0] / rates[1]);
    host.stop()
}

/// Creates two builders, one with a history that is not aggregated.
async fn prepare(data: &Path) -> Result<(Earner, Earner), Failure> {
    let store: Arc<dyn Store> = Arc::new(SledStore::open(data.join("store"), SledConfig::default())?);
    let clock = Clock::default();
    let now = clock.now();
    let events = Arc::new(Events::new(Arc::clone(&store), clock, EventSettings::default()));
    let finisher = ReceiptFinisher::new(Arc::new(ReceiptSigner::open(data)?), true, events, Sales::new(Arc::clone(&store)));
    let earner = |name| Builder::new(name, None, now, &first_keys()).map(|(builder, key)| Earner { builder, key });
    let (old, new) = (earner("Old")?, earner("New")?);
    old.builder.stored().and(new.builder.stored()).commit(&*store, Durability::Buffered).await?;
    let owner = Owner::Builder(old.builder.id.clone());
    let endpoints: Vec<_> = (0..ENDPOINTS).map(|_| EndpointId::generate()).collect();
    for first in (0..RECEIPTS).step_by(TOGETHER as usize) {
        let mut history = Batch::new();
        for n in first..first + TOGETHER {
            let at = Timestamp(now.0 - DAYS * DAY_MS + n * (DAYS * DAY_MS / RECEIPTS));
            let closing = ReceiptFinisher::encode(&closing(&owner, &endpoints, n, at)?);
            history.append(finisher.finish(&closing, &settlement(), answer()).rows);
        }
        history.commit(&*store, Durability::Buffered).await?;
    }
    Batch::new().commit(&*store, Durability::Durable).await?;
    Ok((old, new))
}

pub(crate) fn closing(owner: &Owner, endpoints: &[EndpointId], n: u64, at: Timestamp) -> Result<ReceiptContext, Failure> {
    let which = (n % endpoints.len() as u64) as usize;
    let receipt = ReceiptDraft {
        receipt_id: ReceiptId::of_time(at),
        slug: format!("history-{which:02}").parse()?,
        endpoint_id: endpoints[which].clone(),
        version: "0".repeat(64),
        max_price_usd: None,
        quote_id: None,
        price_usd: PRICE,
        owner: false,
        resource_url: format!("http://localhost/tools/history-{which:02}"),
        request_hash: format!("sha256:{n:064x}"),
        result_hash: format!("sha256:{n:064x}"),
        streamed: false,
        settle: Default::default(),
        started_at: at,
        issued_at: at,
    };
    Ok(ReceiptContext { receipt, call: CallId::generate(), owner: owner.clone(), fee: FeeBps(500).of(PRICE, owner), registered: None })
}

pub(crate) fn settlement() -> Settlement {
    Settlement {
        kind: SettlementKind::X402,
        transaction: format!("0x{}", "0".repeat(64)),
        network: "eip155:84532".to_owned(),
        asset: "0x036CbD53842c5426634e7929541eC2318f3dCF7e".to_owned(),
        amount: PRICE.0.to_string(),
        payer: format!("0x{}", "1".repeat(40)),
        scheme: "exact".to_owned(),
        version: Some(WireVersion::V2),
        evidence: None,
    }
}

/// Returns the keys of builders that no host has registered.
pub(crate) fn first_keys() -> FirstKeys {
    FirstKeys::from(Box::new(|| vec![[7; 32].into()]))
}

pub(crate) fn answer() -> StoredAnswer {
    StoredAnswer { status: 200, headers: vec![], body: Default::default(), receipt_id: String::new(), settlement: None }
}

fn reports(host: &Host, what: &str, of: &Earner, since: &str) -> Result<(), Failure> {
    let request = Request::get(&format!("/ai/builders/revenue?since={since}")).with("x-builder-key", &of.key);
    let mut client = Client::connect(host.address())?;
    let started = Instant::now();
    let taken = (0..REPORTS).map(|_| client.timed(&request)).collect::<Result<_, _>>()?;
    println!("{what:<52}{}", latencies(&Figures::of(taken, started.elapsed())));
    Ok(())
}

/// Publishes a paid tool of `of` with an immediate answer. Returns the request of each connection,
/// with its own credit.
fn publish(host: &Host, slug: &str, of: &Earner) -> Result<Vec<Request>, Failure> {
    let body = json!({
        "slug": slug,
        "title": "Static",
        "priceUsd": PRICE.to_usd(),
        "handlerType": "static_json",
        "handler": { "response": { "done": true } },
        "safetyAttestation": { "accepted": true },
    });
    let mut client = Client::connect(host.address())?;
    client.expect_ok(&Request::post("/ai/endpoints/create", &body.to_string()).with("x-builder-key", &of.key))?;
    let mint =
        Request::post("/ai/credits", &json!({ "amountUsd": 100_000, "label": "bench" }).to_string()).with("x-admin-token", ADMIN_TOKEN);
    let mut requests = vec![];
    for _ in 0..CONNECTIONS {
        client.expect_ok(&mint)?;
        let minted: Value = serde_json::from_slice(client.body())?;
        let credit = minted["credit"].as_str().ok_or("no credit was minted")?;
        requests.push(Request::post(&format!("/tools/{slug}"), "{}").with("x-developer-credit", credit));
    }
    Ok(requests)
}

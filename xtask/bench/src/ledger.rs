//! Measures the cost of a long ledger: revenue of 30 days, a payout of new receipts, and the start
//! of a host, with an increasing number of old receipts, for each kind of store.

use std::{
    path::Path,
    sync::Arc,
    time::{Duration, Instant},
};

use tollhouse::{
    account::builder::Builder,
    base::{
        clock::{Clock, Timestamp},
        id::{BuilderId, EndpointId},
    },
    call::ReceiptFinisher,
    event::{EventSettings, Events},
    money::{
        PaymentConfig, SignedReceipt,
        payout::{PayoutSettingsDraft, Payouts},
        receipt::ReceiptSigner,
        sale::{ReportDetail, Sales},
    },
    operate::disk::taken,
    store::{
        Batch, Durability, Store,
        postgres::{PostgresConfig, PostgresStore},
        sled::{SledConfig, SledStore},
    },
    tool::{MicroUsd, Owner},
};

use crate::{
    Failure, Options,
    host::Host,
    postgres::Postgres,
    revenue::{DAY_MS, answer, closing, first_keys, settlement},
};

/// Receipts of the shortest history. Each further one is ten times as long.
const FEWEST: u64 = 1_000;
/// Receipts of the longest history in a folder. Ten times as many would take 100 GB, and belong in
/// a database.
const FOLDER_MOST: u64 = 1_000_000;
const DAYS: u64 = 90;
/// Number of builders. The first has half of all receipts.
const BUILDERS: u64 = 100;
/// Number of endpoints of each builder.
const ENDPOINTS: u64 = 20;
/// Number of receipts per commit.
const TOGETHER: u64 = 250;
/// Number of receipts after which sales are aggregated and excess events removed, as a host does in
/// the background.
const IN_FLIGHT: u64 = 50_000;
/// Number of concurrent writers.
const WRITERS: u64 = 4;
/// Number of receipts that wait for a payout.
const NEW: u64 = 1_000;
const REPORTS: usize = 30;
const PAYOUTS: usize = 3;
const PAY_TO: &str = "0x209693Bc6afc0C5328bA36FaF03C514EF312287C";

/// The location of the receipts.
enum ReceiptStore<'a> {
    Folder,
    Database(&'a str),
}

struct Earner {
    owner: Owner,
    id: BuilderId,
    endpoints: Vec<EndpointId>,
}

/// The components that write and read receipts in an open store.
struct Books {
    store: Arc<dyn Store>,
    clock: Clock,
    events: Arc<Events>,
    finisher: ReceiptFinisher,
    sales: Arc<Sales>,
    payouts: Payouts,
}

pub(crate) fn measure(options: &Options) -> Result<(), Failure> {
    let server = Postgres::start();
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let schema = runtime.block_on(server.schema());
    for (name, position) in [("sled", ReceiptStore::Folder), ("PostgreSQL", ReceiptStore::Database(&schema))] {
        println!(
            "\n{name}: receipts of {BUILDERS} builders with {ENDPOINTS} tools each over {DAYS} days, half of them the first builder's"
        );
        println!(
            "{:>10}{:>12}{:>16}{:>16}{:>18}{:>12}{:>10}{:>10}{:>10}{:>10}",
            "receipts", "written/s", "revenue 30 d", "of the host", "payout of 1,000", "all/s", "start", "again", "RSS MB", "disk MB"
        );
        let data = tempfile::tempdir()?;
        series(options, &runtime, data.path(), &position)?;
    }
    Ok(())
}

fn series(options: &Options, runtime: &tokio::runtime::Runtime, data: &Path, position: &ReceiptStore) -> Result<(), Failure> {
    // The first start publishes the built-in tools, which later starts do not.
    start(options, data, position)?;
    let books = runtime.block_on(Books::open(data, position))?;
    let earners = Arc::new(runtime.block_on(books.earners())?);
    drop(books);
    let (mut there, mut want) = (0, FEWEST);
    let max = if matches!(position, ReceiptStore::Folder) { options.max.min(FOLDER_MOST) } else { options.max };
    while want <= max {
        let books = Arc::new(runtime.block_on(Books::open(data, position))?);
        let started = Instant::now();
        runtime.block_on(books.write(&earners, there..want))?;
        let written = (want - there) as f64 / started.elapsed().as_secs_f64();
        let (revenue, host, payout, all) = runtime.block_on(books.read(&earners, want))?;
        // The store is closed when its last owner is dropped.
        let Ok(books) = Arc::try_unwrap(books) else { return Err("a writer has the store still".into()) };
        drop(books);
        let (elapsed, _) = start(options, data, position)?;
        // The start before this one reads everything that was written since.
        let (again, memory) = start(options, data, position)?;
        let ms = |taken: Duration| format!("{:.1} ms", taken.as_secs_f64() * 1e3);
        println!(
            "{want:>10}{written:>12.0}{:>16}{:>16}{:>18}{all:>12.0}{:>8.2} s{:>8.2} s{memory:>10}{:>10}",
            ms(revenue),
            ms(host),
            ms(payout),
            elapsed.as_secs_f64(),
            again.as_secs_f64(),
            if matches!(position, ReceiptStore::Folder) { format!("{:.0}", taken(data) as f64 / 1e6) } else { String::new() },
        );
        (there, want) = (want, want * 10);
    }
    Ok(())
}

/// Returns the time until a host listens, and its memory then, in megabytes.
fn start(options: &Options, data: &Path, position: &ReceiptStore) -> Result<(Duration, u64), Failure> {
    let database = match position {
        ReceiptStore::Folder => vec![],
        ReceiptStore::Database(url) => vec![("TOLLHOUSE_STORE", *url), ("TOLLHOUSE_BASE_URL", "https://tollhouse.example")],
    };
    let started = Instant::now();
    let host = Host::start(options, data, &database)?;
    let elapsed = started.elapsed();
    let memory = host.memory_mb()?;
    host.stop()?;
    Ok((elapsed, memory))
}

impl Books {
    async fn open(data: &Path, position: &ReceiptStore<'_>) -> Result<Self, Failure> {
        let store: Arc<dyn Store> = match position {
            ReceiptStore::Folder => Arc::new(SledStore::open(data.join("store"), SledConfig::default())?),
            ReceiptStore::Database(url) => Arc::new(PostgresStore::open(PostgresConfig::new(url, None)?).await?),
        };
        let (clock, signer) = (Clock::default(), Arc::new(ReceiptSigner::open(data)?));
        let events = Arc::new(Events::new(Arc::clone(&store), clock.clone(), EventSettings::default()));
        let sales = Sales::new(Arc::clone(&store));
        let finisher = ReceiptFinisher::new(Arc::clone(&signer), true, Arc::clone(&events), Arc::clone(&sales));
        let takes = PaymentConfig::for_network("eip155:84532", PAY_TO)?;
        let payouts = Payouts::new(Arc::clone(&store), clock.clone(), Arc::clone(&events), signer, takes.assets().collect());
        Ok(Self { store, clock, events, finisher, sales, payouts })
    }

    async fn earners(&self) -> Result<Vec<Earner>, Failure> {
        let mut earners = vec![];
        for n in 0..BUILDERS {
            let (builder, _) = Builder::new(&format!("Earner {n}"), None, self.clock.now(), &first_keys())?;
            builder.stored().commit(&*self.store, Durability::Buffered).await?;
            let endpoints = (0..ENDPOINTS).map(|_| EndpointId::generate()).collect();
            earners.push(Earner { owner: Owner::Builder(builder.id.clone()), id: builder.id, endpoints });
        }
        let to =
            PayoutSettingsDraft { address: format!("0x{}", "1".repeat(40)), network: None, asset: None, minimum_usd: Some(MicroUsd(1)) };
        self.payouts.set(&earners[0].id, &to, None).await?;
        Ok(earners)
    }

    /// Writes receipts as calls do, in chronological order, with the background work.
    async fn write(self: &Arc<Self>, earners: &Arc<Vec<Earner>>, numbers: std::ops::Range<u64>) -> Result<(), Failure> {
        let now = self.clock.now().0;
        let (first, step) = (numbers.start, (DAYS * DAY_MS) as f64 / (numbers.end - numbers.start) as f64);
        let at = move |n: u64| Timestamp(now - DAYS * DAY_MS + ((n - first) as f64 * step) as u64);
        for begin in numbers.clone().step_by(IN_FLIGHT as usize) {
            self.write_some(earners, begin..(begin + IN_FLIGHT).min(numbers.end), at).await?;
            self.sales.fold_left(self.clock.now()).await.map_err(failing("a fold beside the writing"))?;
            self.events.trim().await.map_err(failing("removing events that are too many"))?;
        }
        Batch::new().commit(&*self.store, Durability::Durable).await?;
        Ok(())
    }

    /// Writes some receipts concurrently, with several per commit.
    async fn write_some(
        self: &Arc<Self>,
        earners: &Arc<Vec<Earner>>,
        numbers: std::ops::Range<u64>,
        at: impl Fn(u64) -> Timestamp + Copy + Send + 'static,
    ) -> Result<(), Failure> {
        let writers: Vec<_> = (0..WRITERS)
            .map(|writer| {
                let (books, earners, numbers) = (Arc::clone(self), Arc::clone(earners), numbers.clone());
                tokio::spawn(async move {
                    for some in numbers.clone().step_by(TOGETHER as usize).skip(writer as usize).step_by(WRITERS as usize) {
                        let (mut rows, mut news) = (Batch::new(), vec![]);
                        for n in some..(some + TOGETHER).min(numbers.end) {
                            let owner = if n % 2 == 0 { 0 } else { (n / 2 % BUILDERS) as usize };
                            let sale = books.sale(&earners[owner], n, at(n))?;
                            rows.append(sale.rows);
                            news.push(sale.news);
                        }
                        rows.commit(&*books.store, Durability::Buffered).await.map_err(|error| error.to_string())?;
                        news.into_iter().for_each(|news| books.finisher.announce(news));
                    }
                    Ok::<_, String>(())
                })
            })
            .collect();
        for writer in writers {
            writer.await??;
        }
        Ok(())
    }

    fn sale(&self, earner: &Earner, n: u64, at: Timestamp) -> Result<SignedReceipt, String> {
        let closing = closing(&earner.owner, &earner.endpoints, n, at).map_err(|error| error.to_string())?;
        Ok(self.finisher.finish(&ReceiptFinisher::encode(&closing), &settlement(), answer()))
    }

    /// Measures the median times of a revenue report for the first builder, of one for the host and
    /// of a payout of new receipts. The number is the rate, in receipts a second, of a payout of
    /// all the receipts that the book had before.
    async fn read(&self, earners: &[Earner], there: u64) -> Result<(Duration, Duration, Duration, f64), Failure> {
        let since = Timestamp(self.clock.now().0 - 30 * DAY_MS);
        let earner = &earners[0];
        let mut taken = vec![];
        for _ in 0..REPORTS {
            let started = Instant::now();
            self.sales.report(&earner.owner, since, ReportDetail::Sums).await.map_err(failing("revenue"))?;
            taken.push(started.elapsed());
        }
        let revenue = median(&mut taken);
        for _ in 0..REPORTS {
            let started = Instant::now();
            self.sales.host_report(since).await.map_err(failing("revenue of the host"))?;
            taken.push(started.elapsed());
        }
        let host = median(&mut taken);
        let started = Instant::now();
        let packet = self.payouts.pay_out(&earner.id).await.map_err(failing("the payout of all"))?.ok_or("nothing waits")?;
        let all = packet.receipt_count as f64 / started.elapsed().as_secs_f64();
        for turn in 0..PAYOUTS as u64 {
            let mut rows = Batch::new();
            for n in 0..NEW {
                rows.append(self.sale(earner, there + turn * NEW + n, self.clock.now())?.rows);
            }
            rows.commit(&*self.store, Durability::Durable).await?;
            let started = Instant::now();
            let packet = self.payouts.pay_out(&earner.id).await.map_err(failing("a payout"))?.ok_or("nothing waits")?;
            taken.push(started.elapsed());
            if packet.receipt_count != NEW {
                return Err(format!("a payout of {} receipts", packet.receipt_count).into());
            }
        }
        self.sales.fold_left(self.clock.now()).await.map_err(failing("a fold"))?;
        Ok((revenue, host, median(&mut taken), all))
    }
}

/// Adds the failed action to an error.
fn failing<E: std::fmt::Display>(what: &'static str) -> impl Fn(E) -> String {
    move |error| format!("{what}: {error}")
}

/// Returns the median, and empties the list.
fn median(taken: &mut Vec<Duration>) -> Duration {
    taken.sort_unstable();
    let middle = taken.get(taken.len() / 2).copied().unwrap_or_default();
    taken.clear();
    middle
}

//! Backups of running hosts. They have the state of one moment, whatever is sold meanwhile. They
//! can be restored to a folder and to a database. They are refused if they are damaged or belong to
//! another host. No kill harms them.

mod changing;
mod moving;

use std::{
    fs,
    os::unix::{fs::PermissionsExt as _, net::UnixStream},
    path::{Path, PathBuf},
    process::Stdio,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};

use futures_util::future::join_all;
use reqwest::Method;
use rustix::process::Signal;
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::task::spawn_blocking;

use crate::harness::{Host, HostBuilder, Payer, Payment, eventually, js, micros, postgres::Postgres, signal, tollhouse};

const PRICE: u64 = 1_000;
/// Initial balance of each payer, in micro-dollars.
const FUNDS: u64 = 10_000_000;
const PAYERS: usize = 4;

/// Remembers each run, and writes a file if its input names one.
const TOOL: &str = "export default async (req, ctx) => {
    const { n, file, read, keep } = req.input;
    if (read) return { text: await ctx.files.readText(read) };
    if (file) await ctx.files.write(file, `the content of ${n}`);
    if (keep) await ctx.kv.set(keep, 'x'.repeat(60_000));
    await ctx.kv.set(`run ${n}`, Date.now());
    return { n, id: crypto.randomUUID(), large: n.endsWith('3') ? crypto.randomUUID().repeat(2_000) : '' };
};";

/// An answered payment.
struct Paid {
    payer: usize,
    payment: Payment,
    input: Value,
    body: Vec<u8>,
    receipt: String,
    sent: Instant,
    answered: Instant,
}

/// A host that sells.
struct Scene {
    host: Host,
    owner: String,
    payers: Vec<Payer>,
    challenge: Value,
    /// Number of answered payments.
    sold: AtomicUsize,
}

fn how() -> HostBuilder {
    Host::builder().env("TOLLHOUSE_BASE_URL", "https://tollhouse.example")
}

impl Scene {
    async fn start(how: HostBuilder) -> Self {
        let host = how.start().await;
        let (_, owner) = host.register("Owner").await;
        let mut tool = js("pay", 0.001, TOOL);
        tool["capabilities"]["files"] = json!(true);
        host.as_builder(&owner, Method::POST, "/ai/endpoints/create", &tool).await.is(200);
        let grant = json!({ "decision": "approve", "capabilities": { "files": true } });
        crate::gates::decide(&host, "pay", grant).await.is(200);
        let payers = join_all((0..PAYERS).map(|_| Payer::funded(&host, FUNDS as f64 / 1e6))).await;
        let challenge = host.challenge("pay").await;
        Self { host, owner, payers, challenge, sold: AtomicUsize::new(0) }
    }

    /// Waits for this many more answered payments.
    async fn sells_more(&self, payments: usize) {
        let enough = self.sold.load(Ordering::SeqCst) + payments;
        eventually("more is sold", Duration::from_secs(60), async || (self.sold.load(Ordering::SeqCst) >= enough).then_some(())).await;
    }

    /// Lets every payer send one payment after the other while `meanwhile` runs. None may fail.
    async fn sells<T>(&self, meanwhile: impl Future<Output = T>) -> (T, Vec<Paid>) {
        let (ended, paid) = (AtomicBool::new(false), Mutex::new(Vec::new()));
        let paying = join_all(self.payers.iter().enumerate().map(|(number, payer)| {
            let (ended, paid) = (&ended, &paid);
            async move {
                for n in 0.. {
                    if ended.load(Ordering::SeqCst) {
                        return;
                    }
                    let (payment, sent) = (payer.pay(&self.challenge), Instant::now());
                    let mut input = json!({ "n": format!("{number}-{n}") });
                    if n % 5 == 0 {
                        input["file"] = json!(format!("{number}-{n}.txt"));
                    }
                    let answer = self.host.call_paid("pay", &input, &payment).await.is(200);
                    let receipt = answer.receipt_id();
                    let body = answer.body.to_vec();
                    paid.lock().unwrap().push(Paid { payer: number, payment, input, body, receipt, sent, answered: Instant::now() });
                    self.sold.fetch_add(1, Ordering::SeqCst);
                }
            }
        }));
        let doing = async {
            let done = meanwhile.await;
            ended.store(true, Ordering::SeqCst);
            done
        };
        let (_, done) = tokio::join!(paying, doing);
        (done, paid.into_inner().unwrap())
    }

    fn data(&self) -> PathBuf {
        self.host.folder().join("data")
    }
}

/// Runs a command. Returns its output as `Ok` if it succeeded, and as `Err` otherwise.
async fn run(args: &[&str], env: &[(&str, &str)]) -> Result<String, String> {
    let mut command = tollhouse();
    command.args(args).envs(env.iter().copied());
    let output = spawn_blocking(move || command.output().unwrap()).await.unwrap();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    if output.status.success() { Ok(text(&output.stdout)) } else { Err(text(&output.stderr)) }
}

pub(crate) async fn back_up(data: &Path, to: &Path) -> Result<String, String> {
    run(&["backup", "--to", to.to_str().unwrap(), "--data", data.to_str().unwrap()], &[]).await
}

pub(crate) async fn restore(from: &Path, data: &Path, env: &[(&str, &str)]) -> Result<String, String> {
    run(&["restore", from.to_str().unwrap(), "--data", data.to_str().unwrap()], env).await
}

/// Restores to a database. `data` has the keys.
async fn restore_to_database(from: &Path, data: &Path, url: &str) -> Result<String, String> {
    run(&["restore", from.to_str().unwrap(), "--data", data.to_str().unwrap(), "--store", url], &[]).await
}

/// Creates a folder for a host with the keys of another one.
pub(crate) fn folder_with_keys(of: &Path) -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().join("data");
    fs::create_dir(&data).unwrap();
    for key in ["receipt-key.pem", "master-key", "admin-token"] {
        fs::copy(of.join(key), data.join(key)).unwrap();
    }
    folder
}

fn dumps(folder: &Path) -> Vec<PathBuf> {
    let mut found: Vec<_> = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    found.retain(|path| path.extension().is_some_and(|extension| extension == "tollhouse"));
    found.sort();
    found
}

/// Compares a restored host with the sales: its state must be that at one moment between `begun`
/// and `ended`.
async fn is_of_one_moment(host: &Host, fixture: &Scene, paid: &[Paid], started: Instant, ended: Instant) -> usize {
    eventually("open settlements are resolved", Duration::from_secs(60), async || {
        (host.get("/health").await.is(200).json()["openSettlements"] == 0).then_some(())
    })
    .await;
    let (mut settled, mut spent) = (0, [0; PAYERS]);
    for one in paid {
        // Interrupted payments are resolved in the background.
        let state = eventually("the payment has an end", Duration::from_secs(60), async || {
            let state = host.payment(&one.payment.id()).await;
            let open = state.as_ref().is_some_and(|state| matches!(state["state"].as_str(), Some("reserved" | "settling")));
            (!open).then_some(state)
        })
        .await;
        let known = state.as_ref().and_then(|state| state["state"].as_str());
        assert!(one.answered > started || known == Some("settled"), "{known:?}: it was answered before the backup began");
        assert!(one.sent < ended || known.is_none(), "{known:?}: it was sent after the backup");
        if known != Some("settled") {
            assert!(matches!(known, None | Some("released")), "{known:?}");
            continue;
        }
        settled += 1;
        spent[one.payer] += PRICE;
        let receipt = host.receipt(&one.receipt).await;
        assert_eq!(receipt, fixture.host.receipt(&one.receipt).await);
        let again = host.call_paid("pay", &one.input, &one.payment).await.is(200);
        assert_eq!((&again.body[..], again.receipt_id()), (&one.body[..], one.receipt.clone()), "the answer that was paid for");
        if let Some(file) = one.input["file"].as_str() {
            let read = host.as_builder(&fixture.owner, Method::POST, "/tools/pay", &json!({ "read": file })).await.is(200).json();
            assert_eq!(read["text"], format!("the content of {}", one.input["n"].as_str().unwrap()));
        }
    }
    for (payer, spent) in fixture.payers.iter().zip(spent) {
        assert_eq!(host.balance(&payer.address).await, FUNDS - spent);
    }
    let revenue = host.as_builder(&fixture.owner, Method::GET, "/ai/builders/revenue?since=1d", &Value::Null).await.is(200).json();
    let totals = &revenue["totals"];
    assert_eq!((totals["paidCalls"].as_u64(), micros(&totals["grossUsd"])), (Some(settled), settled * PRICE));
    let ledger = host.manage(Method::GET, "/ai/admin/ledger?limit=100", &Value::Null).await.is(200).json();
    assert_eq!(ledger["agrees"], true, "{ledger}");
    usize::try_from(settled).unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_backup_under_paid_load_is_of_one_moment_in_a_folder_and_in_a_database() {
    // Small sizes, so that checkpoints and renewals also happen during copies.
    let how_small = || {
        let how = how().env("TOLLHOUSE_STORE_SEGMENT_BYTES", 128 * 1024).env("TOLLHOUSE_STORE_JOURNAL_BYTES", 512 * 1024);
        how.env("TOLLHOUSE_STORE_TREE_BYTES", 0)
    };
    let fixture = Scene::start(how_small()).await;
    let backups = tempfile::tempdir().unwrap();
    let (data, to) = (fixture.data(), backups.path().join("backups"));
    let mode = fs::metadata(data.join("control")).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600, "for the host's user alone");
    let (times, paid) = fixture
        .sells(async {
            let mut times = vec![];
            for _ in 0..2 {
                fixture.sells_more(25).await;
                let started = Instant::now();
                let answer = back_up(&data, &to).await.unwrap();
                println!("{}", answer.trim());
                times.push((started, Instant::now()));
            }
            // Payments that are running may be in the last backup. Sell more, so that some are not.
            fixture.sells_more(2 * PAYERS).await;
            times
        })
        .await;
    let dumps = dumps(&to);
    assert_eq!(dumps.len(), 2);

    let server = Postgres::start();
    for (dump, (started, ended)) in dumps.iter().zip(times) {
        let folder = folder_with_keys(&data);
        let answer = restore(dump, &folder.path().join("data"), &[]).await.unwrap();
        println!("{}", answer.trim());
        let checked = run(&["ledger", "check", "--data", folder.path().join("data").to_str().unwrap()], &[]).await;
        println!("{}", checked.unwrap().trim());
        let host = how().start_in(folder).await;
        let settled = is_of_one_moment(&host, &fixture, &paid, started, ended).await;
        println!("{settled} of {} payments are in it", paid.len());
        assert!(settled > 0 && settled < paid.len(), "nothing was sold on one side of the backup");
        host.verify_receipt(&host.receipt(&paid[0].receipt).await).unwrap();

        let folder = folder_with_keys(&data);
        let url = server.schema().await;
        restore_to_database(dump, &folder.path().join("data"), &url).await.unwrap();
        let in_database = how().env("TOLLHOUSE_STORE", &url).start_in(folder).await;
        assert_eq!(is_of_one_moment(&in_database, &fixture, &paid, started, ended).await, settled);
        // Back from the database to a folder, but never over existing rows.
        let (stored, again) = (tempfile::tempdir().unwrap(), folder_with_keys(&data));
        let from = in_database.folder().join("data");
        let args = ["backup", "--to", stored.path().to_str().unwrap(), "--data", from.to_str().unwrap(), "--store", url.as_str()];
        run(&args, &[]).await.unwrap();
        let refused = restore_to_database(stored.path(), &again.path().join("data"), &url).await.unwrap_err();
        assert!(refused.contains("store is not empty"), "{refused}");
        // A typed `--data` names the folder, even if a variable names a database.
        restore(stored.path(), &again.path().join("data"), &[("TOLLHOUSE_STORE", &url)]).await.unwrap();
        let host = how().start_in(again).await;
        assert_eq!(is_of_one_moment(&host, &fixture, &paid, started, ended).await, settled);
    }
}

/// Starts a host with so much data that a copy does not fit into the buffers of a socket.
async fn with_much() -> Scene {
    let fixture = Scene::start(how()).await;
    for n in 0..60 {
        let keep = json!({ "n": format!("keep {n}"), "keep": format!("keep {n}") });
        fixture.host.as_builder(&fixture.owner, Method::POST, "/tools/pay", &keep).await.is(200);
    }
    fixture
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_kill_in_the_middle_of_a_backup_harms_the_host_or_a_backup() {
    use std::io::{Read as _, Write as _};

    let mut fixture = with_much().await;
    let (data, to) = (fixture.data(), tempfile::tempdir().unwrap());
    back_up(&data, to.path()).await.unwrap();

    // The client that takes the copy disappears in the middle of it. The host goes on.
    let socket = data.join("control");
    let started = move || {
        let mut taker = UnixStream::connect(&socket).unwrap();
        taker.write_all(b"\"copy\"\n").unwrap();
        let mut some = [0; 8];
        taker.read_exact(&mut some).unwrap();
        assert_eq!(&some, b"thdump01");
        taker
    };
    drop(started());
    let payment = fixture.payers[0].pay(&fixture.challenge);
    fixture.host.call_paid("pay", &json!({ "n": "after" }), &payment).await.is(200);

    // The command is killed while it waits. The next backup removes its partial file.
    fixture.host.freeze();
    let mut command = tollhouse();
    command.args(["backup", "--to"]).arg(to.path()).arg("--data").arg(&data).stdout(Stdio::null()).stderr(Stdio::null());
    let mut child = command.spawn().unwrap();
    let unfinished =
        || fs::read_dir(to.path()).unwrap().any(|entry| entry.unwrap().path().extension().is_some_and(|of| of == "unfinished"));
    eventually("a backup has started", Duration::from_secs(30), async || unfinished().then_some(())).await;
    let busy = back_up(&data, to.path()).await.unwrap_err();
    assert!(busy.contains("backup is being written"), "{busy}");
    signal(i32::try_from(child.id()).unwrap(), Signal::KILL);
    child.wait().unwrap();
    assert!(unfinished());
    fixture.host.wake();
    back_up(&data, to.path()).await.unwrap();
    assert!(!unfinished());

    // The host is killed in the middle. The copy is incomplete, the backup fails, and the host
    // starts normally.
    let mut taker = started();
    let backup = Arc::new(to.path().to_owned());
    fixture.host.freeze();
    let failing = tokio::spawn({
        let (data, to) = (data.clone(), Arc::clone(&backup));
        async move { back_up(&data, &to).await }
    });
    eventually("a backup has started", Duration::from_secs(30), async || unfinished().then_some(())).await;
    fixture.host.kill9();
    let mut rest = Vec::new();
    _ = taker.read_to_end(&mut rest);
    let failed = failing.await.unwrap().unwrap_err();
    println!("{}", failed.trim());
    assert_eq!(dumps(to.path()).len(), 2, "a failed backup is not a backup");
    fixture.host.restart().await;
    let again = fixture.host.call_paid("pay", &json!({ "n": "after" }), &payment).await.is(200);
    assert_eq!(again.json()["n"], "after");

    // A stopped host can be backed up as well, and each backup is complete.
    fixture.host.kill9();
    back_up(&data, to.path()).await.unwrap();
    let all = dumps(to.path());
    assert_eq!(all.len(), 3);
    for dump in all {
        let folder = folder_with_keys(&data);
        restore(&dump, &folder.path().join("data"), &[]).await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_backup_is_restored_whole_to_an_empty_host_with_its_keys_or_not_at_all() {
    let fixture = with_much().await;
    let (data, to) = (fixture.data(), tempfile::tempdir().unwrap());
    fixture.host.as_builder(&fixture.owner, Method::POST, "/tools/pay", &json!({ "n": "file", "file": "kept.txt" })).await.is(200);
    back_up(&data, to.path()).await.unwrap();
    let dump = dumps(to.path()).remove(0);

    // The backup must not be in the host's own data folder: a loss of that folder would destroy
    // both.
    let own = back_up(&data, &data).await.unwrap_err();
    assert!(own.contains("data folder"), "{own}");

    // Without the contents of its files a backup is incomplete.
    let alone = tempfile::tempdir().unwrap();
    fs::copy(&dump, alone.path().join(dump.file_name().unwrap())).unwrap();
    let folder = folder_with_keys(&data);
    let part = restore(alone.path(), &folder.path().join("data"), &[]).await.unwrap_err();
    assert!(part.contains("missing"), "{part}");

    // A running host with rows cannot be restored to.
    let refused = restore(&dump, &data, &[]).await.unwrap_err();
    assert!(refused.contains("in use by another process"), "{refused}");

    let none = tempfile::tempdir().unwrap();
    let refused = restore(&dump, &none.path().join("data"), &[]).await.unwrap_err();
    assert!(refused.contains("receipt key") && refused.contains("this host has none") && refused.contains("receipt-key.pem"), "{refused}");
    assert!(!none.path().join("data/store").exists());
    let other = Host::start().await;
    for key in ["receipt-key.pem", "master-key"] {
        let folder = folder_with_keys(&data);
        fs::copy(other.folder().join("data").join(key), folder.path().join("data").join(key)).unwrap();
        let refused = restore(&dump, &folder.path().join("data"), &[]).await.unwrap_err();
        assert!(refused.contains(key) && refused.contains("this host has `"), "{refused}");
        assert!(!folder.path().join("data/store").exists());
    }

    let sound = fs::read(&dump).unwrap();
    let mut chance = crate::harness::random();
    for round in 0..12 {
        let folder = folder_with_keys(&data);
        let damaged = folder.path().join("damaged.tollhouse");
        let mut bytes = sound.clone();
        let at = chance.usize(..sound.len());
        match round % 3 {
            0 => bytes.truncate(at),
            _ => bytes[at] ^= 1 << chance.u32(..8),
        }
        fs::write(&damaged, bytes).unwrap();
        let refused = restore(&damaged, &folder.path().join("data"), &[]).await.unwrap_err();
        assert!(refused.contains("is not usable"), "byte {at}: {refused}");
        assert!(!folder.path().join("data/store").exists(), "byte {at}");
    }
}

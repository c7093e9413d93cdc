//! Commands of an operator: checks before the start (settings, machine, public reachability), and
//! of the store while the host is stopped (damage, size).

mod checkpoint;
mod doctor;

use std::{
    fs,
    os::unix::fs::PermissionsExt as _,
    path::Path,
    process::{Output, Stdio},
    sync::Arc,
    time::{Duration, Instant},
};

use reqwest::Method;
use rustix::process::Signal;
use serde_json::{Value, json};
use tokio::task::spawn_blocking;
use tollhouse::store::{
    Batch, Direction, Durability, KeyRange, Space, Store, Write,
    postgres::{PostgresConfig, PostgresStore},
    sled::{SledConfig, SledStore},
};

use crate::harness::{Host, PAY_TO, Payer, js, postgres::Postgres, signal, tollhouse};

async fn run(folder: &Path, args: &[&str], env: &[(&str, &str)]) -> Output {
    let mut command = tollhouse();
    command.args(args).envs(env.iter().copied()).current_dir(folder).stdin(Stdio::null());
    spawn_blocking(move || command.output().unwrap()).await.unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn json_of(output: &Output) -> Value {
    serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{error}: {output:?}"))
}

#[tokio::test]
async fn serve_check_reports_every_setting_with_where_it_stands_and_makes_nothing() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("tollhouse.toml"), "# a comment\ndrain-ms = 1\nlog-days = 2\nfee-bps = 3\n").unwrap();
    let env = [
        ("TOLLHOUSE_ADMIN_TOKEN", "hush-hush-hush-hush"),
        ("TOLLHOUSE_LOG_DAYS", "4"),
        ("TOLLHOUSE_RPC_URL", "https://node.example/unshown"),
    ];
    let args = ["serve", "--check", "--fee-bps", "5"];
    let answer = run(folder.path(), &[&args[..], &["--json"]].concat(), &env).await;
    assert!(answer.status.success(), "{answer:?}");
    let reported = json_of(&answer);
    let setting = |name: &str| {
        let reported = reported["settings"]
            .as_array()
            .unwrap()
            .iter()
            .find(|reported| reported["name"] == name)
            .unwrap_or_else(|| panic!("no {name}"));
        (
            reported["value"].as_str().map(str::to_owned),
            reported["from"].as_str().unwrap().to_owned(),
            reported["at"].as_str().map(str::to_owned),
        )
    };
    let is = |value: &str, from: &str, at: &str| (Some(value.to_owned()), from.to_owned(), Some(at.to_owned()));
    assert_eq!(setting("drain-ms"), is("1", "file", "tollhouse.toml:2"));
    assert_eq!(setting("log-days"), is("4", "environment", "TOLLHOUSE_LOG_DAYS"));
    assert_eq!(setting("fee-bps"), is("5", "flag", "--fee-bps"));
    assert_eq!(setting("rate-limit"), (Some("none, listening on loopback".to_owned()), "default".to_owned(), None));
    assert_eq!(setting("admin-token"), (None, "environment".to_owned(), Some("TOLLHOUSE_ADMIN_TOKEN".to_owned())));
    assert!(reported["settings"].as_array().unwrap().len() > 90 && reported["wrong"] == json!([]), "{reported}");
    let plain = run(folder.path(), &args, &env).await;
    let lines = text(&plain.stdout);
    assert!(plain.status.success() && lines.contains("(set, hidden)  [environment TOLLHOUSE_ADMIN_TOKEN]"), "{lines}");
    for answer in [&answer.stdout, &plain.stdout, &plain.stderr] {
        assert!(!text(answer).contains("hush") && !text(answer).contains("unshown"), "{}", text(answer));
    }
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1, "it makes no file");
}

#[tokio::test]
async fn serve_check_shows_what_is_wrong_with_where_it_stands_and_shows_no_secret() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("tollhouse.toml");
    fs::write(&file, "drain-ms = \"soon\"\nadmin-token = 777555\nno-setting = 1\n").unwrap();
    let answer = run(folder.path(), &["serve", "--check", "--json", "--fee-bps", "20000"], &[("TOLLHOUSE_LISTEN", "here")]).await;
    assert_eq!(answer.status.code(), Some(1), "{answer:?}");
    let reported = json_of(&answer);
    let mut at: Vec<_> = reported["wrong"].as_array().unwrap().iter().map(|wrong| wrong["at"][0].as_str().unwrap()).collect();
    at.sort_unstable();
    assert_eq!(at, ["--fee-bps", "TOLLHOUSE_LISTEN", "tollhouse.toml:1", "tollhouse.toml:2", "tollhouse.toml:3"]);
    assert!(!reported.to_string().contains("777555"));

    // Each setting is valid alone, but the combination is not.
    fs::write(&file, "facilitator = \"http\"\n").unwrap();
    let answer = run(folder.path(), &["serve", "--check", "--json"], &[("TOLLHOUSE_SANDBOX_TIER", "none")]).await;
    let wrong = json_of(&answer)["wrong"].clone();
    let of = |at: &str| wrong.as_array().unwrap().iter().any(|wrong| wrong["at"].as_array().unwrap().contains(&json!(at)));
    assert!(answer.status.code() == Some(1) && of("TOLLHOUSE_SANDBOX_TIER") && of("tollhouse.toml:1"), "{wrong}");

    // A line with a syntax error may contain a secret, so it must not be shown.
    fs::write(&file, "log = \"info\"\nadmin-token = \"777555\n").unwrap();
    let answer = run(folder.path(), &["serve", "--check"], &[]).await;
    let error = text(&answer.stderr);
    assert!(
        answer.status.code() == Some(1)
            && error.contains("wrong tollhouse.toml:2: the file is not valid TOML")
            && !error.contains("777555"),
        "{error}"
    );
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1, "it makes no file");
    assert_eq!(run(folder.path(), &["serve", "--check", "--no-such-flag"], &[]).await.status.code(), Some(2));
}

/// Regression test: the check approved settings with which the host did not start.
#[tokio::test]
async fn serve_check_names_the_variable_of_each_setting_that_serve_refuses() {
    let folder = tempfile::tempdir().unwrap();
    let simulated: &[(&str, &str)] = &[];
    let http: &[(&str, &str)] =
        &[("TOLLHOUSE_FACILITATOR", "http"), ("X402_FACILITATOR_URL", "https://facilitator.example.com"), ("TOLLHOUSE_PAY_TO", PAY_TO)];
    let evm: &[(&str, &str)] =
        &[("TOLLHOUSE_FACILITATOR", "evm"), ("TOLLHOUSE_RPC_URL", "http://127.0.0.1:1"), ("TOLLHOUSE_PAY_TO", PAY_TO)];
    for (others, name, value) in [
        (http, "X402_FACILITATOR_URL", "nonsense"),
        (http, "X402_FACILITATOR_URL", "ftp://facilitator.example.com"),
        (http, "TOLLHOUSE_NETWORK_FACILITATORS", "base-sepolia=htp"),
        (http, "TOLLHOUSE_FACILITATOR_HEADERS", "no colon"),
        (http, "TOLLHOUSE_RPC_URL", "node.example.com"),
        (http, "TOLLHOUSE_PAY_TO", "0x…"),
        (http, "TOLLHOUSE_PAY_TO", "é"),
        (http, "TOLLHOUSE_PAY_TO", "0x0000000000000000000000000000000000000000"),
        (http, "TOLLHOUSE_NETWORK", "base,nowhere"),
        (evm, "TOLLHOUSE_GAS_KEY", "0x1234"),
        (simulated, "TOLLHOUSE_ROUTES_URL", "nonsense"),
        (simulated, "TOLLHOUSE_ADMIN_TOKEN", "short"),
        (simulated, "TOLLHOUSE_METRICS_TOKEN", "short"),
        (simulated, "TOLLHOUSE_MASTER_KEY", "short"),
        (simulated, "TOLLHOUSE_RECEIPT_KEY", "short"),
        (simulated, "TOLLHOUSE_STORE", "postgres://user@127.0.0.1:1/database?sslmode=bogus"),
        (simulated, "TOLLHOUSE_LISTEN", "0.0.0.0:0"),
    ] {
        let env: Vec<_> = others.iter().copied().filter(|(other, _)| *other != name).chain([(name, value)]).collect();
        let checked = run(folder.path(), &["serve", "--check", "--json"], &env).await;
        let wrong = json_of(&checked)["wrong"].clone();
        assert!(checked.status.code() == Some(1) && wrong[0]["at"].as_array().unwrap().contains(&json!(name)), "{name}={value}: {wrong}");
        let served = run(folder.path(), &["serve", "--data", "data"], &env).await;
        assert_eq!(served.status.code(), Some(1), "{name}={value}");
        assert!(text(&served.stderr).contains("TOLLHOUSE_") || text(&served.stderr).contains("X402_"), "{}", text(&served.stderr));
        assert!(!folder.path().join("data").exists(), "{name}={value}: it opened the store");
    }
    let env = [evm, &[("TOLLHOUSE_GAS_KEY_FILE", "key"), ("TOLLHOUSE_ROUTES_URL", "http://127.0.0.1:1")]].concat();
    fs::write(folder.path().join("key"), "11".repeat(32)).unwrap();
    let checked = run(folder.path(), &["serve", "--check"], &env).await;
    assert!(checked.status.success(), "{}", text(&checked.stderr));
}

/// A tool that stores values and a file.
const KEEPS: &str = "export default async (req, ctx) => {
    const { n } = req.input;
    await ctx.kv.set(`n ${n}`, 'x'.repeat(20_000));
    await ctx.kv.delete(`n ${n - 1}`);
    if (n === 0) await ctx.files.write('kept.txt', 'the content');
    return { n };
};";

/// Returns a stopped host that has sold calls and stored data.
async fn sold(how: crate::harness::HostBuilder, calls: usize) -> (Host, Vec<(String, Value)>) {
    let mut host = how.env("TOLLHOUSE_BASE_URL", "https://tollhouse.example").start().await;
    let mut tool = js("keeps", 0.001, KEEPS);
    tool["capabilities"] = json!({ "kv": true, "files": true });
    host.publish(&tool).await;
    let payer = Payer::funded(&host, 1.0).await;
    let challenge = host.challenge("keeps").await;
    let mut receipts = vec![];
    for n in 0..calls {
        let id = host.call_paid("keeps", &json!({ "n": n }), &payer.pay(&challenge)).await.is(200).receipt_id();
        let receipt = host.receipt(&id).await;
        receipts.push((id, receipt));
    }
    host.kill9();
    (host, receipts)
}

async fn remove_all(store: &dyn Store, space: Space) -> usize {
    let rows = store.scan(space, KeyRange::all(), 1_000, Direction::Forward).await.unwrap();
    let writes: Vec<_> = rows.into_iter().map(|(key, _)| Write { space, key, value: None }).collect();
    let removed = writes.len();
    store.apply(Batch::of(vec![], writes), Durability::Durable).await.unwrap();
    removed
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn store_check_shows_what_does_not_agree_in_a_folder() {
    let (host, _) = sold(Host::builder(), 3).await;
    let data = host.folder().join("data");
    let check = async || run(host.folder(), &["store", "check", "--json"], &[("TOLLHOUSE_DATA", data.to_str().unwrap())]).await;
    let well = check().await;
    assert!(well.status.success() && json_of(&well)["wrong"] == json!([]), "{well:?}");

    // Damages the content of a file, then the row with the usage, then the accounts of the ledger.
    let object = walk(&data.join("files")).into_iter().find(|path| path.is_file()).unwrap();
    let content = fs::read(&object).unwrap();
    fs::write(&object, "another content").unwrap();
    let describe = |answer: &Output, what: &str| {
        let wrong = json_of(answer)["wrong"].as_array().unwrap().iter().filter(|wrong| wrong.as_str().unwrap().contains(what)).count();
        assert!(answer.status.code() == Some(1) && wrong > 0, "`{what}` is not reported: {answer:?}");
    };
    describe(&check().await, "has changed");
    fs::remove_file(&object).unwrap();
    describe(&check().await, "is missing");
    fs::write(&object, content).unwrap();
    let store = SledStore::open(data.join("store"), SledConfig::default()).unwrap();
    assert!(remove_all(&store, Space::KvUsage).await > 0 && remove_all(&store, Space::Versions).await > 0);
    assert!(remove_all(&store, Space::Accounts).await > 0);
    drop(store);
    let answer = check().await;
    describe(&answer, "are counted");
    describe(&answer, "runs version");
    describe(&answer, "balance");
    let lines = text(&run(host.folder(), &["store", "check", "--data", data.to_str().unwrap()], &[]).await.stdout);
    assert!(lines.lines().filter(|line| line.starts_with("wrong: ")).count() >= 3, "{lines}");
}

fn walk(folder: &Path) -> Vec<std::path::PathBuf> {
    let entries = fs::read_dir(folder).into_iter().flatten().map(|entry| entry.unwrap().path());
    entries.flat_map(|path| if path.is_dir() { walk(&path) } else { vec![path] }).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn store_check_shows_what_does_not_agree_in_a_database() {
    let server = Postgres::start();
    let (host, _) = sold(Host::builder().env("TOLLHOUSE_STORE", server.url()), 2).await;
    let data = host.folder().join("data");
    let url = server.url();
    let env = [("TOLLHOUSE_DATA", data.to_str().unwrap()), ("TOLLHOUSE_STORE", url.as_str())];
    let well = run(host.folder(), &["store", "check"], &env).await;
    assert!(well.status.success(), "{well:?}");
    let store: Arc<dyn Store> = Arc::new(PostgresStore::open(PostgresConfig::new(&url, None).unwrap()).await.unwrap());
    assert!(remove_all(&*store, Space::KvUsage).await > 0 && remove_all(&*store, Space::Accounts).await > 0);
    let answer = run(host.folder(), &["store", "check"], &env).await;
    let lines = text(&answer.stdout);
    assert!(answer.status.code() == Some(1) && lines.contains("are counted") && lines.contains("balance"), "{answer:?}");
    let compact = run(host.folder(), &["store", "compact"], &env).await;
    assert!(compact.status.code() == Some(1) && text(&compact.stderr).contains("VACUUM"), "{compact:?}");
}

/// The flag comes before or after the name of the command.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn commands_that_ask_no_host_report_one_document() {
    let (mut host, receipts) = sold(Host::builder(), 3).await;
    let receipt = host.folder().join("receipt.json");
    fs::write(&receipt, receipts[0].1.to_string()).unwrap();
    let keys = host.folder().join("keys.json");
    host.restart().await;
    fs::write(&keys, host.get("/.well-known/jwks.json").await.is(200).json().to_string()).unwrap();
    host.kill9();
    let (data, to) = (host.folder().join("data"), host.folder().join("kept"));
    let (data, to) = (data.to_str().unwrap(), to.to_str().unwrap());
    let document = async |words: &[&str], fails: i32| -> Value {
        let answer = run(host.folder(), words, &[]).await;
        assert_eq!(answer.status.code(), Some(fails), "{words:?}: {answer:?}");
        let (reported, silent) = if fails == 0 { (&answer.stdout, &answer.stderr) } else { (&answer.stderr, &answer.stdout) };
        assert_eq!((text(reported).lines().count(), text(silent).as_str()), (1, ""), "{words:?}: {answer:?}");
        serde_json::from_slice(reported).unwrap()
    };
    let valid = document(&["verify-receipt", "--json", receipt.to_str().unwrap(), "--keys", keys.to_str().unwrap()], 0).await;
    assert_eq!((&valid["valid"], &valid["receiptId"]), (&json!(true), &json!(receipts[0].0)));
    let stored = document(&["backup", "--json", "--data", data, "--to", to], 0).await;
    assert!(stored["rows"].as_u64() > Some(3) && stored["files"]["missing"] == json!([]), "{stored}");
    let fresh = host.folder().join("fresh");
    for name in ["master-key", "receipt-key.pem"] {
        fs::create_dir_all(&fresh).unwrap();
        fs::copy(host.folder().join("data").join(name), fresh.join(name)).unwrap();
    }
    let restored = document(&["restore", to, "--json", "--data", fresh.to_str().unwrap()], 0).await;
    assert_eq!((&restored["rows"], &restored["dump"]), (&stored["rows"], &stored["dump"]));
    let well = document(&["--json", "store", "repair", "--data", data], 0).await;
    assert_eq!((&well["damaged"], &well["damagedFiles"]), (&json!([]), &Value::Null));
    assert_eq!(document(&["store", "--json", "stay", "--data", data], 0).await, json!({ "wentTo": null }));
    assert_eq!(document(&["store", "check", "--json", "--data", data], 0).await["wrong"], json!([]));
    assert_eq!(document(&["--json", "ledger", "check", "--data", data], 0).await["disagreements"], 0);
    let sealed = document(&["secrets", "rotate", "--json", "--data", data], 0).await;
    assert_eq!(sealed["unopened"], 0);

    // Errors are also documents, with the same exit codes as everywhere.
    for (words, status) in [
        (&["doctor", "--public", "--json"][..], 2),
        (&["--json", "verify-receipt", receipt.to_str().unwrap()], 2),
        (&["--json", "verify-receipt", "http://127.0.0.1:1/receipts/rcpt_1"], 5),
        (&["--json", "store", "stay", "--data", "nowhere"], 1),
        (&["--json", "--profile", "a", "backup", "--to", to], 2),
    ] {
        assert_eq!(document(words, status).await["error"]["exit"], status, "{words:?}");
    }
    assert_eq!(run(host.folder(), &["--json", "serve"], &[]).await.status.code(), Some(2));
}

/// Regression test: after a repair, neither `store check` nor `ledger check` ever passed again.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn checks_pass_after_a_repair_and_name_the_gap() {
    let (mut host, receipts) = sold(Host::builder(), 3).await;
    let folder = host.folder().to_owned();
    let data = folder.join("data").to_str().unwrap().to_owned();
    let passes = async |words: &[&str]| {
        let answer = run(&folder, &[words, &["--data", data.as_str()]].concat(), &[]).await;
        assert!(answer.status.success(), "{words:?}: {answer:?}");
        text(&answer.stdout)
    };
    // This brings the tree up to the end of the journal.
    passes(&["store", "check"]).await;
    let receipt = receipts[0].0.as_bytes();
    let found = fs::read_dir(folder.join("data/store/journal")).unwrap().find_map(|entry| {
        let (path, bytes) = entry.map(|entry| (entry.path(), fs::read(entry.path()).unwrap())).unwrap();
        let at = bytes.windows(receipt.len()).position(|window| window == receipt)?;
        Some((path, bytes, at))
    });
    let (segment, mut bytes, at) = found.unwrap();
    bytes[at] ^= 1;
    fs::write(segment, bytes).unwrap();
    assert!(!run(&folder, &["store", "check", "--data", &data], &[]).await.status.success());
    let repaired = passes(&["store", "repair", "--yes"]).await;
    assert!(
        repaired.contains("dropped: no written data") && repaired.contains("the archive lacks the money records of frame "),
        "{repaired}"
    );
    for command in ["store", "ledger"] {
        let checked = passes(&[command, "check"]).await;
        assert!(checked.contains("lacks the money records of frame"), "{checked}");
    }
    assert_eq!(passes(&["store", "repair"]).await, "nothing is damaged\n");
    host.restart().await;
    assert_eq!(host.get("/health").await.is(200).json()["stored"]["damage"], Value::Null);
    assert_eq!(host.receipt(&receipts[0].0).await, receipts[0].1);
}

#[tokio::test]
async fn keys_and_tokens_are_no_arguments() {
    let folder = tempfile::tempdir().unwrap();
    for (words, flag) in [
        (&["serve", "--admin-token", "sesame-and-some-more-of-it"][..], "--admin-token"),
        (&["serve", "--check", "--master-key", "sesame"], "--master-key"),
        (&["doctor", "--otlp-headers", "a=sesame"], "--otlp-headers"),
        (&["backup", "--to", "kept", "--store-password", "sesame"], "--store-password"),
        (&["store", "migrate", "--to", "postgres://a@127.0.0.1/b", "--to-password", "sesame"], "--to-password"),
        (&["secrets", "rotate", "--master-key-old", "sesame"], "--master-key-old"),
    ] {
        let answer = run(folder.path(), words, &[]).await;
        let message = text(&answer.stderr);
        assert_eq!(answer.status.code(), Some(2), "{words:?}: {answer:?}");
        assert!(
            message.contains(&format!("`{flag}` in an argument can be read by every user of this machine: set it in TOLLHOUSE_")),
            "{message}"
        );
        assert!(!message.contains("sesame") && folder.path().read_dir().unwrap().next().is_none(), "{message}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn store_is_compacted_and_whole_whenever_that_is_killed() {
    // The store is large, because nothing compacts it automatically.
    let (mut host, receipts) = sold(Host::builder(), 60).await;
    let data = host.folder().join("data");
    let args = ["store", "compact", "--json", "--data", data.to_str().unwrap()];
    let checked = async |when: &str| {
        let answer = run(host.folder(), &["store", "check", "--data", data.to_str().unwrap()], &[]).await;
        assert!(answer.status.success(), "{when}: {answer:?}");
    };
    let started = Instant::now();
    for round in 0..8_u64 {
        let mut child = tollhouse().args(args).current_dir(host.folder()).stdout(Stdio::null()).spawn().unwrap();
        tokio::time::sleep(Duration::from_millis(40 + round * 90)).await;
        signal(i32::try_from(child.id()).unwrap(), Signal::KILL);
        child.wait().unwrap();
        checked(&format!("killed in round {round}, {} ms after the beginning", started.elapsed().as_millis())).await;
    }
    let answer = json_of(&run(host.folder(), &args, &[]).await);
    let [before, after] = ["bytesBefore", "bytesAfter"].map(|name| answer[name].as_u64().unwrap());
    assert!(after <= before, "{answer}");
    checked("compacted").await;
    host.restart().await;
    for (id, receipt) in &receipts {
        assert_eq!(host.receipt(id).await, *receipt);
    }
    let refused = run(host.folder(), &args, &[]).await;
    assert!(refused.status.code() == Some(1) && text(&refused.stderr).contains("store"), "a host runs on it: {refused:?}");
    assert_eq!(host.get("/health/ready").await.status, 200);
    _ = host.manage(Method::GET, "/ai/admin/ledger", &Value::Null).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_backup_copies_a_content_once_and_again_where_it_has_been_damaged_there() {
    let (host, _) = sold(Host::builder(), 1).await;
    let (data, to) = (host.folder().join("data"), host.folder().join("backups"));
    let args = ["backup", "--data", data.to_str().unwrap(), "--to", to.to_str().unwrap()];
    let backed_up = async |what: &str| {
        let answer = run(host.folder(), &args, &[]).await;
        assert!(answer.status.success() && text(&answer.stdout).contains(what), "`{what}` is not reported: {answer:?}");
    };
    backed_up("1 copied, 0 there already").await;
    backed_up("0 copied, 1 there already").await;
    let copy = walk(&to.join("files")).into_iter().find(|path| path.is_file()).unwrap();
    fs::write(&copy, "damaged").unwrap();
    backed_up("1 copied, 0 there already").await;
    assert_eq!(fs::read_to_string(&copy).unwrap(), "the content");
}

#[tokio::test]
async fn data_folder_that_a_host_makes_is_for_its_owner_alone() {
    let host = Host::start().await;
    for folder in ["data", "data/store", "data/files"] {
        let mode = fs::metadata(host.folder().join(folder)).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o700, "{folder}");
    }
}

#[tokio::test]
async fn commands_on_a_data_folder_say_that_the_store_is_in_a_database() {
    let folder = tempfile::tempdir().unwrap();
    fs::create_dir(folder.path().join("data")).unwrap();
    let database = ("TOLLHOUSE_STORE", "postgres://tollhouse@127.0.0.1:1/tolls");
    for args in [&["ledger", "check", "--data", "data"][..], &["secrets", "rotate", "--data", "data"], &["store", "stay", "--data", "data"]]
    {
        for (env, explains) in [(vec![database], true), (vec![], false)] {
            let answer = run(folder.path(), args, &env).await;
            let error = text(&answer.stderr);
            assert!(!answer.status.success() && error.contains("`data` does not contain a store"), "{args:?}: {error}");
            assert_eq!(error.contains("`TOLLHOUSE_STORE` selects a database"), explains, "{args:?}: {error}");
        }
    }
}

/// Regression test: `backup` and `restore` used the database of `TOLLHOUSE_STORE` in place of a typed `--data`.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn typed_data_names_the_store_even_if_a_variable_names_a_database() {
    let (mut host, _) = sold(Host::builder(), 3).await;
    host.kill9();
    let folder = host.folder();
    let fresh = folder.join("fresh");
    fs::create_dir(&fresh).unwrap();
    for name in ["master-key", "receipt-key.pem"] {
        fs::copy(folder.join("data").join(name), fresh.join(name)).unwrap();
    }
    let database = [("TOLLHOUSE_STORE", "postgres://tollhouse@127.0.0.1:1/tolls")];
    for args in [
        &["backup", "--data", "data", "--to", "kept"][..],
        &["restore", "kept", "--data", "fresh"],
        &["store", "check", "--data", "fresh"],
        &["store", "compact", "--data", "fresh"],
        &["ledger", "check", "--data", "fresh"],
    ] {
        let answer = run(folder, args, &database).await;
        assert!(answer.status.success(), "{args:?}: {answer:?}");
        // `store check` says it in its first line, and `ledger check` never uses a database.
        let is_noted = text(&answer.stderr).contains("instead of the database of the settings");
        assert_eq!(is_noted, ["backup", "restore"].contains(&args[0]) || args[1] == "compact", "{args:?}: {answer:?}");
    }
}

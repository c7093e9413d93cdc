//! A host with its store in a database.

use std::time::{Duration, Instant};

use serde_json::json;

use tollhouse::store::Space;

use crate::harness::{Host, PAY_TO, Payer, eventually, js, postgres::Postgres, tollhouse};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn paid_answer_outlives_kills_of_the_host_and_the_database() {
    let mut server = Postgres::start();
    let how = Host::builder().env("TOLLHOUSE_STORE", server.url()).env("TOLLHOUSE_BASE_URL", "https://tollhouse.example");
    let mut host = how.start().await;
    host.publish(&js("pay", 0.001, "export default async (req) => ({ n: req.input.n, at: Date.now() });")).await;
    let payer = Payer::funded(&host, 1.0).await;
    let payment = payer.pay(&host.challenge("pay").await);
    let input = json!({ "n": 1 });
    let paid = host.call_paid("pay", &input, &payment).await.is(200);
    assert_eq!(host.get("/health").await.is(200).json()["stored"]["backend"], "postgres");
    assert!(!host.folder().join("data/store").exists(), "nothing of the store is in the data folder");

    host.restart().await;
    let again = host.call_paid("pay", &input, &payment).await.is(200);
    assert_eq!((again.json(), again.receipt_id()), (paid.json(), paid.receipt_id()), "one payment, one answer");
    // Neither the first start, which creates the tables, nor the second one.
    assert!(!host.log().contains("already exists"), "{}", host.log());
    let receipt = host.receipt(&paid.receipt_id()).await;

    server.kill9();
    server.run();
    assert_eq!(host.receipt(&paid.receipt_id()).await, receipt);
    eventually("the host has its database again", Duration::from_secs(60), async || {
        (host.get("/health/ready").await.status == 200).then_some(())
    })
    .await;
    let next = payer.pay(&host.challenge("pay").await);
    assert_ne!(host.call_paid("pay", &json!({ "n": 2 }), &next).await.is(200).receipt_id(), paid.receipt_id());
}

#[tokio::test]
async fn a_database_that_cannot_be_reached_is_reported_at_the_start() {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = format!("postgres://tollhouse@127.0.0.1:{}/tolls", listener.local_addr().unwrap().port());
    drop(listener);
    let folder = tempfile::tempdir().unwrap();
    let password = folder.path().join("password");
    std::fs::write(&password, "sesame\n").unwrap();
    for (store, reported) in [(address.as_str(), "cannot connect to the database"), ("mysql://there", "postgres://")] {
        let how = Host::builder().env("TOLLHOUSE_STORE", store).env("TOLLHOUSE_STORE_PASSWORD_FILE", password.display());
        let answer = how.fails().await;
        assert!(answer.contains(reported) && !answer.contains("sesame"), "{answer}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn doctor_shows_database_durability_and_its_hosts() {
    let mut server = Postgres::start();
    let doctor = |server: &Postgres| {
        let output = tollhouse().args(["doctor", "--store", &server.url()]).output().unwrap();
        (output.status.success(), String::from_utf8(output.stdout).unwrap(), String::from_utf8(output.stderr).unwrap())
    };
    for _ in 0..2 {
        let (is_well, output, error) = doctor(&server);
        assert!(is_well && output.contains("\nok    database: there is no store yet"), "it makes none: {output}{error}");
        assert!(
            output.contains("\nok    database: fsync is on\n") && output.contains("\nwarn  database: synchronous_standby_names: ``"),
            "{output}"
        );
    }
    let host = Host::builder().env("TOLLHOUSE_STORE", server.url()).start().await;
    let id = host.get("/health").await.is(200).json()["replicas"][0]["id"].as_str().unwrap().to_owned();
    let (_, output, _) = doctor(&server);
    assert!(output.contains(&format!("\nok    database: host {id} serves, version {}", env!("CARGO_PKG_VERSION"))), "{output}");
    drop(host);
    server.stop();
    server.configure("postgresql.conf", "fsync = off");
    server.run();
    let (is_well, output, error) = doctor(&server);
    assert!(!is_well && output.contains("\nfail  database: fsync is off → ") && error.ends_with("database\n"), "{output}{error}");
}

/// A hanging synchronous standby keeps the rows of a commit locked in this way.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn payment_whose_release_met_a_locked_row_buys_again_once_the_row_is_free() {
    let server = Postgres::start();
    let host = Host::builder().env("TOLLHOUSE_STORE", server.url()).start().await;
    let source = "export default async (req, ctx) => {
        const runs = (await ctx.kv.get('runs') ?? 0) + 1;
        await ctx.kv.set('runs', runs);
        if (runs > 1) return { runs };
        await new Promise((done) => setTimeout(done, 5_000));
        throw new Error('the first one fails');
    };";
    host.publish(&js("second", 0.001, source)).await;
    let payer = Payer::funded(&host, 1.0).await;
    let payment = payer.pay(&host.challenge("second").await);
    let first = async { host.call_paid("second", &json!({}), &payment).await };
    let locked = async {
        let rows = format!("FROM tollhouse_row WHERE space = {}", Space::Payments as i16);
        eventually("the payment is reserved", Duration::from_secs(30), async || {
            server.count(&format!("SELECT count(*) {rows}")).await.filter(|count| *count > 0)
        })
        .await;
        let (client, connection) = tokio_postgres::connect(&server.url(), tokio_postgres::NoTls).await.unwrap();
        tokio::spawn(connection);
        client.batch_execute(&format!("BEGIN; SELECT key {rows} FOR UPDATE")).await.unwrap();
        client
    };
    let (first, session) = tokio::join!(first, locked);
    first.fails(502, "handler_failed", "tool");
    assert_eq!(host.payment(&payment.id()).await.unwrap()["state"], "reserved", "its row is locked");
    session.batch_execute("ROLLBACK").await.unwrap();
    let released = eventually("it is released", Duration::from_secs(60), async || {
        let state = host.payment(&payment.id()).await.unwrap()["state"].clone();
        (state != "reserved").then_some(state)
    });
    assert_eq!(released.await, "released");
    assert_eq!(host.call_paid("second", &json!({}), &payment).await.is(200).json(), json!({ "runs": 2 }));
    assert_eq!(host.balance(&payer.address).await, 1_000_000 - 1_000);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn doctor_compares_the_money_of_a_database_with_the_settings() {
    let url = Postgres::shared().schema().await;
    let real = ["--facilitator", "http", "--facilitator-url", "http://127.0.0.1:1", "--pay-to", PAY_TO, "--network", "base"];
    let doctor = |settings: &[&str]| {
        let output = tollhouse().args(["doctor", "--store", &url]).args(settings).output().unwrap();
        String::from_utf8(output.stdout).unwrap()
    };
    let host = Host::builder().env("TOLLHOUSE_STORE", &url).start().await;
    assert!(!doctor(&real).contains("the store contains"), "a store without money is for any kind");
    Payer::funded(&host, 1.0).await;
    let (same, other) = (doctor(&[]), doctor(&real));
    assert!(same.contains("\nok    database: the store contains play money, as the settings say\n"), "{same}");
    assert!(same.contains("\nok    database: its hosts have the same settings for payments\n"), "{same}");
    assert!(same.contains("\nok    settlements: no unresolved settlements\n"), "{same}");
    let recipient = doctor(&["--pay-to", PAY_TO]);
    assert!(recipient.contains(&format!("\nfail  database: the `payTo` of eip155:84532 is `USDC to {PAY_TO}` here, and ")), "{recipient}");
    assert!(other.contains("\nfail  database: the store contains play money, and the settings are for real money"), "{other}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn metrics_and_health_answer_soon_while_the_database_is_down() {
    let mut server = Postgres::start();
    let mut host = Host::builder().env("TOLLHOUSE_STORE", server.url()).start().await;
    host.publish(&js("unused", 0.0, "export default () => ({});")).await;
    // After a restart, the tool is not in memory.
    host.restart().await;
    let available = async || {
        let metrics = host.get("/metrics").await.is(200);
        let text = String::from_utf8(metrics.body.to_vec()).unwrap();
        let value = text.lines().find_map(|line| line.strip_prefix("tollhouse_store_available ")).unwrap().to_owned();
        (value, text.contains("\ntollhouse_settlements_unresolved "))
    };
    assert_eq!(available().await, ("1".to_owned(), true));
    server.stop();
    // The first answers find out that the connections are lost. Later ones must be no slower.
    for _ in 0..2 {
        let started = Instant::now();
        assert_eq!(available().await, ("0".to_owned(), false));
        let metrics = started.elapsed();
        let health = host.get("/health").await.is(200).json();
        let health_after = started.elapsed() - metrics;
        for unknown in ["replicas", "unresolvedSettlements", "reorganizedSettlements"] {
            assert_eq!(health[unknown], json!(null), "{unknown}");
        }
        host.get("/health/ready").await.is(503);
        let ready = started.elapsed() - metrics - health_after;
        for (what, took) in [("/metrics", metrics), ("/health", health_after), ("/health/ready", ready)] {
            assert!(took < Duration::from_secs(4), "{what} took {took:?}");
        }
    }
    // Regression test: a call of a tool that is not in memory waited 8 s for the database.
    let is_known = async || host.log().contains("the host takes no calls: ").then_some(());
    eventually("the host knows that the store is down", Duration::from_secs(60), is_known).await;
    let started = Instant::now();
    host.call("unused", &json!({})).await.is(503);
    assert!(started.elapsed() < Duration::from_secs(2), "the call took {:?}", started.elapsed());
    server.run();
    eventually("the store is available again", Duration::from_secs(60), async || (available().await.0 == "1").then_some(())).await;
    // The outage is two plain lines in the log, whatever background work failed meanwhile.
    let ended = async || host.log().contains("the host takes calls again, after ").then_some(());
    eventually("the end of the outage is in the log", Duration::from_secs(60), ended).await;
    let log = host.log();
    let count = |text: &str| log.lines().filter(|line| line.contains(text)).count();
    assert_eq!((count("the host takes no calls: "), count("the host takes calls again, after ")), (1, 1), "{log}");
    assert!(count("the store was unavailable for ") <= 2 && count("a job could not be released") == 0, "{log}");
}

//! Stores that move to a database while their hosts sell.

use super::*;

async fn migrate(data: &Path, to: &str) -> Result<String, String> {
    run(&["store", "migrate", "--to", to, "--data", data.to_str().unwrap()], &[]).await
}

/// Delays the rows of one of the last spaces.
const SLOW: &str = "CREATE FUNCTION slow() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN PERFORM pg_sleep(4); RETURN NEW; END $$;
    CREATE TRIGGER slow BEFORE INSERT ON tollhouse_row FOR EACH ROW WHEN (NEW.space = 34) EXECUTE FUNCTION slow()";

/// Waits until rows are there that are copied early.
async fn copied(server: &Postgres) {
    eventually("the first rows are there", Duration::from_secs(60), async || {
        server.count("SELECT count(*) FROM tollhouse_row WHERE space = 10").await.filter(|rows| *rows >= 60).map(drop)
    })
    .await;
}

/// Checks that a host has all payments.
async fn has_all(fixture: &Scene, host: &Host, paid: &[Paid]) {
    let mut spent = [0; PAYERS];
    for one in paid {
        spent[one.payer] += PRICE;
        let again = host.call_paid("pay", &one.input, &one.payment).await.is(200);
        assert_eq!((&again.body[..], again.receipt_id()), (&one.body[..], one.receipt.clone()));
        assert_eq!(host.receipt(&one.receipt).await["receiptId"], one.receipt);
    }
    for (payer, spent) in fixture.payers.iter().zip(spent) {
        assert_eq!(host.balance(&payer.address).await, FUNDS - spent);
    }
    let all = paid.len() as u64;
    let revenue = host.as_builder(&fixture.owner, Method::GET, "/ai/builders/revenue?since=1d", &Value::Null).await.is(200).json();
    let totals = &revenue["totals"];
    assert_eq!((totals["paidCalls"].as_u64(), micros(&totals["grossUsd"])), (Some(all), all * PRICE));
    let ledger = host.manage(Method::GET, "/ai/admin/ledger?limit=100", &Value::Null).await.is(200).json();
    assert_eq!(ledger["agrees"], true, "{ledger}");
}

async fn backend(host: &Host) -> Value {
    host.get("/health").await.is(200).json()["stored"]["backend"].clone()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_store_moves_under_paid_load_and_no_request_fails() {
    let how = how().env("TOLLHOUSE_STORE_SEGMENT_BYTES", 128 * 1024).env("TOLLHOUSE_STORE_JOURNAL_BYTES", 512 * 1024);
    let mut fixture = Scene::start(how).await;
    for n in 0..20 {
        let keep = json!({ "n": format!("keep {n}"), "keep": format!("keep {n}") });
        fixture.host.as_builder(&fixture.owner, Method::POST, "/tools/pay", &keep).await.is(200);
    }
    let server = Postgres::start();
    let (data, url) = (fixture.data(), server.url());
    let (answer, paid) = fixture
        .sells(async {
            fixture.sells_more(10).await;
            let answer = migrate(&data, &url).await.unwrap();
            fixture.sells_more(10).await;
            answer
        })
        .await;
    println!("{}\n{} payments, none refused", answer.trim(), paid.len());
    let pause = answer.split("the pause was ").nth(1).and_then(|rest| rest.split(" ms").next()).expect("the pause is reported");
    assert!(pause.parse::<u64>().unwrap() < 1_000, "{answer}");
    assert_eq!(backend(&fixture.host).await, "postgres");
    has_all(&fixture, &fixture.host, &paid).await;
    let again = migrate(&data, &url).await.unwrap_err();
    assert!(again.contains("has moved"), "{again}");

    // No other host may use the database while this host relies on exclusive use.
    let other = folder_with_keys(&data);
    let taken = super::how().env("TOLLHOUSE_STORE", &url).fails_in(other).await;
    assert!(taken.contains("another host began to move its store to this database"), "{taken}");

    // The folder records where the rows are now.
    let removed = fixture.host.fails_to_restart().await;
    assert!(removed.contains(&format!("was moved to {url}")) && removed.contains("tollhouse store stay"), "{removed}");
    let checked = run(&["ledger", "check", "--data", data.to_str().unwrap()], &[]).await.unwrap_err();
    assert!(checked.contains(&format!("was moved to {url}")), "the local state is older: {checked}");
    let to = tempfile::tempdir().unwrap();
    let stored = super::back_up(&data, to.path()).await.unwrap_err();
    assert!(stored.contains(&format!("was moved to {url}")), "a backup would be of the moment before: {stored}");
    let args = ["backup", "--to", to.path().to_str().unwrap(), "--data", data.to_str().unwrap()];
    let stored = run(&args, &[("TOLLHOUSE_STORE", &url)]).await.unwrap_err();
    assert!(stored.contains("use `--store` beside `--data`"), "a typed `--data` names the folder: {stored}");
    run(&[&args[..], &["--store", url.as_str()]].concat(), &[]).await.unwrap();
    fixture.host.set("TOLLHOUSE_STORE", &url);
    fixture.host.restart().await;
    has_all(&fixture, &fixture.host, &paid).await;
    let alongside = fixture.host.second().await;
    let payment = fixture.payers[0].pay(&fixture.challenge);
    alongside.call_paid("pay", &json!({ "n": "beside" }), &payment).await.is(200);
    drop(alongside);
    fixture.host.kill9();
    let stays = run(&["store", "stay", "--data", data.to_str().unwrap()], &[]).await.unwrap();
    assert!(stays.contains("as it was before the move"), "{stays}");

    // A folder that the command line names is checked, even if a variable names a database.
    let check = ["store", "check", "--data", data.to_str().unwrap()];
    let checked = run(&check, &[("TOLLHOUSE_STORE", &url)]).await.unwrap();
    assert!(checked.starts_with("checking the store in `") && checked.contains("leave out `--data`"), "{checked}");
    let checked = run(&[&check[..], &["--store", url.as_str()]].concat(), &[]).await.unwrap();
    assert!(checked.starts_with("checking the database"), "{checked}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_move_that_is_cut_off_changes_nothing_and_begins_again() {
    let mut fixture = with_much().await;
    let mut server = Postgres::start();
    let (data, url) = (fixture.data(), server.url());
    // The database delays rows that are copied late, so that the test can interfere in the middle.
    let none = tempfile::tempdir().unwrap();
    let to = none.path().join("to");
    let args = ["backup", "--to", to.to_str().unwrap(), "--data", none.path().to_str().unwrap()];
    run(&args, &[("TOLLHOUSE_STORE", &url)]).await.unwrap();
    server.sql(SLOW).await;
    let payment = fixture.payers[0].pay(&fixture.challenge);
    let moving = tokio::spawn({
        let (data, url) = (data.clone(), url.clone());
        async move { migrate(&data, &url).await }
    });
    copied(&server).await;
    // The host is killed in the middle.
    fixture.host.kill9();
    println!("{:?}", moving.await.unwrap());
    fixture.host.restart().await;
    assert_eq!(backend(&fixture.host).await, "sled");
    fixture.host.call_paid("pay", &json!({ "n": "here" }), &payment).await.is(200);

    // The database is killed in the middle.
    server.sql("DELETE FROM tollhouse_row WHERE space = 10").await;
    let moving = tokio::spawn({
        let (data, url) = (data.clone(), url.clone());
        async move { migrate(&data, &url).await }
    });
    copied(&server).await;
    server.kill9();
    println!("{:?}", moving.await.unwrap());
    fixture.host.call_paid("pay", &json!({ "n": "here" }), &payment).await.is(200);
    server.run();
    server.sql("DROP TRIGGER slow ON tollhouse_row").await;
    // The database has only a part of the rows. A backup and a check of it must fail.
    let check = ["store", "check", "--data", none.path().to_str().unwrap()];
    for args in [&args[..], &check] {
        let part = run(args, &[("TOLLHOUSE_STORE", &url)]).await.unwrap_err();
        assert!(part.contains("nother host began to move its store to this database"), "{part}");
    }

    let answer = migrate(&data, &url).await.unwrap();
    println!("{}", answer.trim());
    assert_eq!(backend(&fixture.host).await, "postgres");
    fixture.host.call_paid("pay", &json!({ "n": "here" }), &payment).await.is(200);

    // The rows of another host must not be replaced.
    let other = Scene::start(how()).await;
    let refused = migrate(&other.data(), &url).await.unwrap_err();
    assert!(refused.contains("only a part of a store") || refused.contains("not empty"), "{refused}");
    assert_eq!(backend(&other.host).await, "sled");
}

/// A long source is an object in the folder of the first host, which another host does not have.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn host_without_the_objects_of_a_moved_store_reports_it() {
    let mut host = how().start().await;
    let lines: String = (0..2_000).map(|line| format!("// line {line}\n")).collect();
    host.publish(&js("long", 0.0, &format!("{lines}export default () => ({{ read: true }});"))).await;
    let server = Postgres::start();
    let (data, url) = (host.folder().join("data"), server.url());
    let moved = migrate(&data, &url).await.unwrap();
    assert!(moved.contains("1 object stays in `") && moved.contains("Before you add hosts"), "{moved}");
    host.set("TOLLHOUSE_STORE", &url);
    host.restart().await;
    host.call("long", &json!({})).await.is(200);

    let other = how().env("TOLLHOUSE_STORE", &url).start_in(folder_with_keys(&data)).await;
    let warned = async || other.get("/health/ready").await.is(200).json()["warnings"][0]["code"].as_str().map(str::to_owned);
    assert_eq!(eventually("it is reported", Duration::from_secs(60), warned).await, "objects_missing");
    other.call("long", &json!({})).await.fails(503, "source_unavailable", "host");
    let health = other.get("/health").await.is(200).json();
    assert!(health["warnings"].to_string().contains("1 of 1 sampled object"), "{health}");
    assert_eq!(other.log().matches("cannot be found on this host").count(), 1, "{}", other.log());
    let without = other.folder().join("data");
    let failed = run(&["doctor", "--store", url.as_str(), "--data", without.to_str().unwrap()], &[]).await.unwrap_err();
    assert!(failed.contains("objects"), "{failed}");
    assert_eq!(host.get("/health/ready").await.is(200).json(), json!({ "ok": true }));
}

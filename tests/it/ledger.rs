//! The ledger: reported while the host runs, and verified while it is stopped.

use reqwest::Method;
use serde_json::{Value, json};

use crate::{
    harness::{Host, Payer, tollhouse},
    revenue::tool,
};

const ADDRESS: &str = "0x036CbD53842c5426634e7929541eC2318f3dCF7e";
const SOURCE: &str = "export default async () => ({ done: true });";

async fn read(host: &Host, query: &str) -> Value {
    host.manage(Method::GET, &format!("/ai/admin/ledger{query}"), &Value::Null).await.is(200).json()
}

/// Returns every account, read in pages.
async fn accounts(host: &Host) -> Vec<(String, Value)> {
    let (mut all, mut cursor) = (vec![], String::new());
    loop {
        let page = read(host, &format!("?limit=2{cursor}")).await;
        assert_eq!(page["agrees"], true, "{page}");
        assert!(page["units"].as_array().unwrap().iter().all(|unit| unit["sum"] == "0"), "{page}");
        for account in page["accounts"].as_array().unwrap() {
            all.push((account["account"].as_str().unwrap().to_owned(), account.clone()));
        }
        match page["nextCursor"].as_str() {
            Some(next) => cursor = format!("&cursor={}", next.replace('/', "%2F")),
            None => return all,
        }
    }
}

#[tokio::test]
async fn all_that_moved_is_in_an_account_and_proved_from_the_data_folder() {
    let mut host = Host::builder().flag("--fee-bps", 1_000).start().await;
    let (builder, key) = host.register("Earner").await;
    host.as_builder(&key, Method::POST, "/ai/endpoints/create", &tool("earns", 0.25, SOURCE)).await.is(200);
    let minted = host.manage(Method::POST, "/ai/credits", &json!({ "amountUsd": 10 })).await.is(200).json();
    let (credit, id) = (minted["credit"].as_str().unwrap(), minted["creditId"].as_str().unwrap());
    for n in 0..3 {
        host.call_credit("earns", &json!({ "n": n }), credit).await.is(200);
    }
    let payer = Payer::funded(&host, 1.0).await;
    let paid = payer.pay(&host.challenge("earns").await);
    host.call_paid("earns", &json!({}), &paid).await.is(200);
    let settings = json!({ "address": ADDRESS, "minimumUsd": 0.5 });
    host.as_builder(&key, Method::POST, "/ai/builders/payout-settings", &settings).await.is(200);
    let packet = host.as_builder(&key, Method::POST, "/ai/builders/payouts", &Value::Null).await.is(200).json()["payout"].clone();
    host.call_credit("earns", &json!({ "n": 3 }), credit).await.is(200);

    let accounts = accounts(&host).await;
    let account = |name: &str| {
        let found = accounts.iter().find(|(account, _)| account == name || account.starts_with(&format!("{name}/")));
        found.unwrap_or_else(|| panic!("{name}: {accounts:#?}")).1.clone()
    };
    let micros = |name: &str| account(name)["balance"].as_str().unwrap().parse::<i64>().unwrap();
    assert_eq!((micros("fees"), micros("treasury"), micros("payers"), micros("exchange")), (125_000, 250_000, -250_000, -250_000));
    assert_eq!(micros(&format!("builder/{builder}")), 225_000);
    assert_eq!(micros(&format!("packet/{}", packet["id"].as_str().unwrap())), 900_000);
    let own = account(&format!("credit/{id}"));
    assert_eq!(
        (&own["balance"], &own["balanceUsd"], &own["rows"], &own["agrees"]),
        (&json!("9000000"), &json!(9), &json!("9000000"), &json!(true))
    );
    assert_eq!(account("treasury")["unit"], account("treasury")["account"].as_str().unwrap().strip_prefix("treasury/").unwrap());
    host.as_builder(&key, Method::GET, "/ai/admin/ledger", &Value::Null).await.fails(403, "not_owner", "caller");

    let check = |data: &std::path::Path| tollhouse().args(["ledger", "check", "--data"]).arg(data).output().unwrap();
    let running = check(&host.folder().join("data"));
    assert!(!running.status.success() && String::from_utf8_lossy(&running.stderr).contains("in use by another process"), "{running:?}");
    host.kill9();
    let checked = check(&host.folder().join("data"));
    let text = String::from_utf8_lossy(&checked.stdout);
    assert!(checked.status.success() && text.contains("6 receipts, 7 movements of 2 credits"), "{checked:?}");
}

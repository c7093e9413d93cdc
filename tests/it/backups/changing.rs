//! Backups of hosts whose catalog changes meanwhile. A client publishes, changes, sells and
//! deletes, one after the other. The backup contains everything up to one moment, and nothing after
//! it.

use std::collections::BTreeSet;

use super::*;

/// An action of the client, with its times.
#[derive(Debug)]
struct Done {
    did: Did,
    sent: Instant,
    answered: Instant,
}

#[derive(Debug)]
enum Did {
    /// An endpoint with this number was published.
    Published(u64),
    /// The description and the handler of the permanent endpoint were changed to this state.
    Changed(u64),
    /// A call with this receipt was sold.
    Sold(String),
    Deleted(u64),
}

/// The results of these actions on a host.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct Has {
    parts: BTreeSet<u64>,
    state: u64,
    sold: BTreeSet<String>,
}

impl Has {
    fn after(mut self, did: &Did) -> Self {
        match did {
            Did::Published(part) => _ = self.parts.insert(*part),
            Did::Changed(state) => self.state = *state,
            Did::Sold(receipt) => _ = self.sold.insert(receipt.clone()),
            Did::Deleted(part) => _ = self.parts.remove(part),
        }
        self
    }
}

/// Returns the source of a handler that returns its state.
fn source(state: u64) -> String {
    format!("export default () => ({{ state: {state} }});")
}

/// Makes changes, one after the other, until `is_enough`.
async fn change(host: &Host, owner: &str, payer: &Payer, is_enough: &AtomicBool) -> Vec<Done> {
    let mut done = vec![];
    for n in 1.. {
        if is_enough.load(Ordering::SeqCst) {
            break;
        }
        let ask = async |method: Method, path: &str, body: Value| _ = host.as_builder(owner, method, path, &body).await.is(200);
        let mut note = |did: Did, sent: Instant| done.push(Done { did, sent, answered: Instant::now() });
        let sent = Instant::now();
        ask(Method::POST, "/ai/endpoints/create", js(&format!("part-{n}"), 0.0, &source(n))).await;
        note(Did::Published(n), sent);
        let sent = Instant::now();
        let state = json!({ "description": format!("In state {n}."), "handler": { "language": "js", "source": source(n) } });
        ask(Method::PATCH, "/ai/endpoints/churn", state).await;
        note(Did::Changed(n), sent);
        let payment = payer.pay(&host.challenge("churn").await);
        let sent = Instant::now();
        let receipt = host.call_paid("churn", &json!({}), &payment).await.is(200).receipt_id();
        note(Did::Sold(receipt), sent);
        if n > 2 {
            let sent = Instant::now();
            ask(Method::DELETE, &format!("/ai/endpoints/part-{}", n - 2), Value::Null).await;
            note(Did::Deleted(n - 2), sent);
        }
    }
    done
}

/// Reads the state of a host from the owner's list, the public list, the running versions and the
/// receipts.
async fn has(host: &Host, owner: &str, done: &[Done]) -> Has {
    let parts = |page: Value| -> BTreeSet<u64> {
        assert!(page["nextCursor"].is_null(), "{page}");
        let slugs = page["endpoints"].as_array().unwrap().iter().map(|endpoint| endpoint["slug"].as_str().unwrap());
        slugs.filter_map(|slug| slug.strip_prefix("part-")?.parse().ok()).collect()
    };
    let own = parts(host.as_builder(owner, Method::GET, "/ai/builders/endpoints?limit=200", &Value::Null).await.is(200).json());
    assert_eq!(parts(host.get("/ai/endpoints?limit=200").await.is(200).json()), own, "what everyone is shown");
    for part in &own {
        let ran = host.as_builder(owner, Method::POST, &format!("/tools/part-{part}"), &json!({})).await.is(200).json();
        assert_eq!(ran["state"], *part);
    }
    let ran = host.as_builder(owner, Method::POST, "/tools/churn", &json!({})).await.is(200).json();
    let record = host.get("/ai/endpoints/churn").await.is(200).json();
    let state = ran["state"].as_u64().unwrap();
    assert_eq!(record["endpoint"]["description"], format!("In state {state}."), "its record, and the version that runs");
    let mut sold = BTreeSet::new();
    for receipt in done.iter().filter_map(|done| if let Did::Sold(receipt) = &done.did { Some(receipt) } else { None }) {
        if host.get(&format!("/ai/receipts/{receipt}")).await.status == 200 {
            sold.insert(receipt.clone());
        }
    }
    Has { parts: own, state, sold }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_backup_has_ledger_receipts_and_catalogue_of_one_moment_while_all_of_them_change() {
    // Small sizes, so that checkpoints and renewals also happen during copies.
    let how_small = how().env("TOLLHOUSE_STORE_SEGMENT_BYTES", 128 * 1024).env("TOLLHOUSE_STORE_JOURNAL_BYTES", 512 * 1024);
    let scene = Scene::start(how_small.env("TOLLHOUSE_STORE_TREE_BYTES", 0)).await;
    let (_, owner) = scene.host.register("Changer").await;
    let mut churn = js("churn", 0.001, &source(0));
    churn["description"] = json!("In state 0.");
    scene.host.as_builder(&owner, Method::POST, "/ai/endpoints/create", &churn).await.is(200);
    let payer = Payer::funded(&scene.host, FUNDS as f64 / 1e6).await;
    let backups = tempfile::tempdir().unwrap();
    let (data, to, is_enough) = (scene.data(), backups.path().join("backups"), AtomicBool::new(false));
    let ((done, times), paid) = scene
        .sells(async {
            let backing_up = async {
                let mut times = vec![];
                for _ in 0..3 {
                    scene.sells_more(20).await;
                    let begun = Instant::now();
                    println!("{}", back_up(&data, &to).await.unwrap().trim());
                    times.push((begun, Instant::now()));
                }
                scene.sells_more(2 * PAYERS).await;
                is_enough.store(true, Ordering::SeqCst);
                times
            };
            tokio::join!(change(&scene.host, &owner, &payer, &is_enough), backing_up)
        })
        .await;
    let dumps = dumps(&to);
    assert_eq!(dumps.len(), times.len());
    for (dump, (begun, ended)) in dumps.iter().zip(times) {
        let folder = folder_with_keys(&data);
        let restored = folder.path().join("data");
        restore(dump, &restored, &[]).await.unwrap();
        for check in ["ledger", "store"] {
            run(&[check, "check", "--data", restored.to_str().unwrap()], &[]).await.unwrap();
        }
        let host = how().start_in(folder).await;
        is_of_one_moment(&host, &scene, &paid, begun, ended).await;
        let has = has(&host, &owner, &done).await;
        // The state must include everything that was answered before the backup began, and nothing
        // that was sent after it ended.
        let least = done.iter().filter(|done| done.answered < begun).count();
        let most = done.iter().filter(|done| done.sent < ended).count();
        let after = |count: usize| done[..count].iter().fold(Has::default(), |has, done| has.after(&done.did));
        let moment = (least..=most).find(|count| after(*count) == has);
        let wanted = || (least..=most).map(after).collect::<Vec<_>>();
        let moment = moment.unwrap_or_else(|| panic!("{has:#?} is the catalogue of no moment: {:#?}", wanted()));
        println!("{moment} of {} changes are in it, {least} at least and {most} at most", done.len());
        assert!(moment > 0 && moment < done.len(), "nothing was changed on one side of the backup");
        assert_eq!(host.balance(&payer.address).await, FUNDS - PRICE * has.sold.len() as u64);
        for receipt in &has.sold {
            assert_eq!(host.receipt(receipt).await, scene.host.receipt(receipt).await);
        }
        let revenue = host.as_builder(&owner, Method::GET, "/ai/builders/revenue?since=1d", &Value::Null).await.is(200).json();
        assert_eq!(revenue["totals"]["paidCalls"], has.sold.len());
    }
}

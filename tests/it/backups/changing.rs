//! Backups of hosts whose catalog changes meanwhile. A client publishes, changes, sells and
//! deletes, one after the other. The backup contains everything up to one moment, and nothing after
//! it.

use std::collections::BTreeSet;

use super::*;

/// An action of the client, with its times.
#[derive(Debug)]
struct ChangeRecord {
    did: ChangeKind,
    sent: Instant,
    answered: Instant,
}

#[derive(Debug)]
enum ChangeKind {
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
struct HostState {
    parts: BTreeSet<u64>,
    state: u64,
    sold: BTreeSet<String>,
}

impl HostState {
    fn after(mut self, did: &ChangeKind) -> Self {
        match did {
            ChangeKind::Published(part) => _ = self.parts.insert(*part),
            ChangeKind::Changed(state) => self.state = *state,
            ChangeKind::Sold(receipt) => _ = self.sold.insert(receipt.clone()),
            ChangeKind::Deleted(part) => _ = self.parts.remove(part),
        }
        self
    }
}

/// Returns the source of a handler that returns its state.
fn source(state: u64) -> String {
    format!("export default () => ({{ state: {state} }});")
}

/// Makes changes, one after the other, until `is_enough`.
async fn change(host: &Host, owner: &str, payer: &Payer, is_enough: &AtomicBool) -> Vec<ChangeRecord> {
    let mut done = vec![];
    for n in 1.. {
        if is_enough.load(Ordering::SeqCst) {
            break;
        }
        let ask = async |method: Method, path: &str, body: Value| _ = host.as_builder(owner, method, path, &body).await.is(200);
        let mut note = |did: ChangeKind, sent: Instant| done.push(ChangeRecord { did, sent, answered: Instant::now() });
        let sent = Instant::now();
        ask(Method::POST, "/ai/endpoints/create", js(&format!("part-{n}"), 0.0, &source(n))).await;
        note(ChangeKind::Published(n), sent);
        let sent = Instant::now();
        let state = json!({ "description": format!("In state {n}."), "handler": { "language": "js", "source": source(n) } });
        ask(Method::PATCH, "/ai/endpoints/churn", state).await;
        note(ChangeKind::Changed(n), sent);
        let payment = payer.pay(&host.challenge("churn").await);
        let sent = Instant::now();
        let receipt = host.call_paid("churn", &json!({}), &payment).await.is(200).receipt_id();
        note(ChangeKind::Sold(receipt), sent);
        if n > 2 {
            let sent = Instant::now();
            ask(Method::DELETE, &format!("/ai/endpoints/part-{}", n - 2), Value::Null).await;
            note(ChangeKind::Deleted(n - 2), sent);
        }
    }
    done
}

/// Reads the state of a host from the owner's list, the public list, the running versions and the
/// receipts.
async fn has(host: &Host, owner: &str, done: &[ChangeRecord]) -> HostState {
    let parts = |page: Value| -> BTreeSet<u64> {
        assert!(page["nextCursor"].is_null(), "{page}");
        let slugs = page["endpoints"].as_array().unwrap().iter().map(|endpoint| endpoint["slug"].as_str().unwrap());
        slugs.filter_map(|slug| slug.strip_prefix("part-")?.parse().ok()).collect()
    };
    let own = parts(host.as_builder(owner, Method::GET, "/ai/builders/endpoints?limit=200", &Value::Null).await.is(200).json());
    assert_eq!(parts(host.get("/ai/endpoints?limit=200").await.is(200).json()), own, "the public state");
    for part in &own {
        let ran = host.as_builder(owner, Method::POST, &format!("/tools/part-{part}"), &json!({})).await.is(200).json();
        assert_eq!(ran["state"], *part);
    }
    let ran = host.as_builder(owner, Method::POST, "/tools/churn", &json!({})).await.is(200).json();
    let record = host.get("/ai/endpoints/churn").await.is(200).json();
    let state = ran["state"].as_u64().unwrap();
    assert_eq!(record["endpoint"]["description"], format!("In state {state}."), "its record, and the version that runs");
    let mut sold = BTreeSet::new();
    for receipt in done.iter().filter_map(|done| if let ChangeKind::Sold(receipt) = &done.did { Some(receipt) } else { None }) {
        if host.get(&format!("/ai/receipts/{receipt}")).await.status == 200 {
            sold.insert(receipt.clone());
        }
    }
    HostState { parts: own, state, sold }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_backup_is_consistent_while_ledger_receipts_and_catalog_change() {
    // Small sizes, so that checkpoints and renewals also happen during copies.
    let how_small = how().env("TOLLHOUSE_STORE_SEGMENT_BYTES", 128 * 1024).env("TOLLHOUSE_STORE_JOURNAL_BYTES", 512 * 1024);
    let fixture = Scene::start(how_small.env("TOLLHOUSE_STORE_TREE_BYTES", 0)).await;
    let (_, owner) = fixture.host.register("Changer").await;
    let mut churn = js("churn", 0.001, &source(0));
    churn["description"] = json!("In state 0.");
    fixture.host.as_builder(&owner, Method::POST, "/ai/endpoints/create", &churn).await.is(200);
    let payer = Payer::funded(&fixture.host, FUNDS as f64 / 1e6).await;
    let backups = tempfile::tempdir().unwrap();
    let (data, to, is_enough) = (fixture.data(), backups.path().join("backups"), AtomicBool::new(false));
    let ((done, times), paid) = fixture
        .sells(async {
            let backing_up = async {
                let mut times = vec![];
                for _ in 0..3 {
                    fixture.sells_more(20).await;
                    let started = Instant::now();
                    println!("{}", back_up(&data, &to).await.unwrap().trim());
                    times.push((started, Instant::now()));
                }
                fixture.sells_more(2 * PAYERS).await;
                is_enough.store(true, Ordering::SeqCst);
                times
            };
            tokio::join!(change(&fixture.host, &owner, &payer, &is_enough), backing_up)
        })
        .await;
    let dumps = dumps(&to);
    assert_eq!(dumps.len(), times.len());
    for (dump, (started, ended)) in dumps.iter().zip(times) {
        let folder = folder_with_keys(&data);
        let restored = folder.path().join("data");
        restore(dump, &restored, &[]).await.unwrap();
        for check in ["ledger", "store"] {
            run(&[check, "check", "--data", restored.to_str().unwrap()], &[]).await.unwrap();
        }
        let host = how().start_in(folder).await;
        is_of_one_moment(&host, &fixture, &paid, started, ended).await;
        let has = has(&host, &owner, &done).await;
        // The state must include everything that was answered before the backup began, and nothing
        // that was sent after it ended.
        let least = done.iter().filter(|done| done.answered < started).count();
        let max = done.iter().filter(|done| done.sent < ended).count();
        let after = |count: usize| done[..count].iter().fold(HostState::default(), |has, done| has.after(&done.did));
        let moment = (least..=max).find(|count| after(*count) == has);
        let requested = || (least..=max).map(after).collect::<Vec<_>>();
        let moment = moment.unwrap_or_else(|| panic!("{has:#?} is the catalog of no moment: {:#?}", requested()));
        println!("{moment} of {} changes are in it, {least} at least and {max} at most", done.len());
        assert!(moment > 0 && moment < done.len(), "nothing was changed on one side of the backup");
        assert_eq!(host.balance(&payer.address).await, FUNDS - PRICE * has.sold.len() as u64);
        for receipt in &has.sold {
            assert_eq!(host.receipt(receipt).await, fixture.host.receipt(receipt).await);
        }
        let revenue = host.as_builder(&owner, Method::GET, "/ai/builders/revenue?since=1d", &Value::Null).await.is(200).json();
        assert_eq!(revenue["totals"]["paidCalls"], has.sold.len());
    }
}

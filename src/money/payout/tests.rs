mod states;

use std::{collections::BTreeMap, collections::BTreeSet, sync::Arc};

use sha2::{Digest as _, Sha256};
use tollhouse_base::id::ReceiptId;
use tollhouse_event::{EventQuery, EventSettings};
use tollhouse_store::{
    faulty::{Fault, FaultyStore},
    memory::MemoryStore,
};

use super::*;
use crate::{PaymentConfig, ledger};

const NOW: Timestamp = Timestamp(1_800_000_000_000);
const ADDRESS: &str = "0x036CbD53842c5426634e7929541eC2318f3dCF7e";

struct Fixture {
    store: Arc<FaultyStore<MemoryStore>>,
    payouts: Arc<Payouts>,
    builder: BuilderId,
    clock: Clock,
    _folder: tempfile::TempDir,
}

impl Fixture {
    fn new() -> Self {
        Self::on(Arc::new(FaultyStore::new(MemoryStore::new())))
    }

    /// Constructs another host of a store.
    fn on(store: Arc<FaultyStore<MemoryStore>>) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let any: Arc<dyn Store> = Arc::clone(&store) as _;
        let clock = Clock::fixed(NOW);
        let events = Arc::new(Events::new(Arc::clone(&any), clock.clone(), EventSettings::default()));
        let signer = Arc::new(ReceiptSigner::open(folder.path()).unwrap());
        let assets = PaymentConfig::for_network("eip155:84532", ADDRESS).unwrap().assets().collect();
        let payouts = Arc::new(Payouts::new(any, clock.clone(), events, signer, assets));
        Self { store, payouts, builder: BuilderId::generate(), clock, _folder: folder }
    }

    /// Sets the minimum to zero.
    async fn settled(self) -> Self {
        self.set(&self.builder, 0).await;
        self
    }

    async fn set(&self, builder: &BuilderId, minimum: u64) {
        self.payouts.set(builder, &settings(ADDRESS, minimum), None).await.unwrap();
    }

    /// Adds unpaid receipts as the finisher writes them.
    async fn earn(&self, builder: &BuilderId, nets: impl IntoIterator<Item = u64>) -> Vec<(ReceiptId, u64)> {
        let owner = Owner::Builder(builder.clone());
        let made: Vec<_> = nets.into_iter().map(|net| (ReceiptId::generate(), net)).collect();
        let waiting = made.iter().enumerate().map(|(n, (id, net))| UnpaidSale { net: *net, at_ms: NOW.0 + n as u64 }.stored(&owner, id));
        let posting = earned(builder, &made[0].0, made.iter().map(|(_, net)| net).sum());
        let batch = waiting.fold(posting, tollhouse_store::Batch::and);
        batch.commit(self.store.inner(), Durability::Buffered).await.unwrap();
        made
    }

    async fn receipts(&self, id: &PayoutId) -> Vec<(String, u64)> {
        let (mut all, mut cursor) = (vec![], None::<String>);
        loop {
            let page = self.payouts.receipts(id, 700, cursor.as_deref()).await.unwrap();
            let Some((last, _)) = page.last() else { return all };
            cursor = Some(last.clone());
            all.extend(page.into_iter().map(|(id, net)| (id, net.0)));
        }
    }

    async fn decide(&self, id: &PayoutId, decision: PayoutDecision, transaction: Option<&str>) -> Result<PayoutStatus, PayoutError> {
        let reason = matches!(decision, PayoutDecision::Failed | PayoutDecision::Reject).then(|| "why".to_owned());
        let verdict = PayoutVerdict { decision, transaction: transaction.map(str::to_owned), reason };
        self.payouts.decide(id, &verdict).await.map(|decided| decided.packet.status)
    }
}

/// Returns the posting of earnings, with one receipt as its cause.
fn earned(builder: &BuilderId, receipt: &ReceiptId, net: u64) -> tollhouse_store::Batch {
    Posting::new(Cause::Sold(receipt.clone()), NOW).dollars(Dollars::Own, Dollars::Builder(builder.clone()), MicroUsd(net)).stored()
}

fn settings(address: &str, minimum: u64) -> PayoutSettingsDraft {
    PayoutSettingsDraft { address: address.to_owned(), network: None, asset: None, minimum_usd: Some(MicroUsd(minimum)) }
}

#[tokio::test]
async fn a_packet_is_the_sum_of_its_receipts_digested_and_signed() {
    let fixture = Fixture::new().settled().await;
    let made = fixture.earn(&fixture.builder, (1..=2_345).collect::<Vec<_>>()).await;
    let packet = fixture.payouts.pay_out(&fixture.builder).await.unwrap().unwrap();
    let sum: u64 = made.iter().map(|(_, net)| net).sum();
    assert_eq!((packet.status, packet.amount, packet.receipt_count), (PayoutStatus::Created, sum, 2_345));
    assert_eq!(packet.period, Some(PayoutPeriod { from: NOW, to: Timestamp(NOW.0 + 2_344) }));
    let mut ids: Vec<_> = made.iter().map(|(id, _)| id.to_string()).collect();
    ids.sort();
    assert_eq!(packet.digest, Some(format!("sha256:{}", hex::encode(Sha256::digest(ids.join("\n"))))));
    assert_eq!(fixture.receipts(&packet.id).await.into_iter().map(|(id, _)| id).collect::<Vec<_>>(), ids);
    let signature = packet.signature.clone().unwrap();
    let payload = signature.split('.').nth(1).unwrap();
    let signed = base64::Engine::decode(&base64::engine::general_purpose::URL_SAFE_NO_PAD, payload).unwrap();
    assert_eq!(serde_json::from_slice::<serde_json::Value>(&signed).unwrap(), packet.canonical());
    let ledger = ledger::read(fixture.store.inner(), 1_000, None).await.unwrap();
    let posted = |name: String| ledger.accounts.iter().find(|line| line.account == name).unwrap().balance.clone();
    assert_eq!(posted(format!("packet/{}", packet.id)), sum.to_string());
    assert_eq!(posted(format!("builder/{}", fixture.builder)), "0");
    assert!(fixture.payouts.pay_out(&fixture.builder).await.unwrap().is_none(), "nothing is left");
    let query = EventQuery { limit: 10, ..EventQuery::default() };
    let events = fixture.payouts.events.list(&Owner::Builder(fixture.builder.clone()), &query).await.unwrap().events;
    assert_eq!(events.iter().map(|event| event.kind).collect::<Vec<_>>(), [Kind::PayoutCreated]);
    assert_eq!(events[0].data["receiptCount"], 2_345);
}

#[tokio::test]
async fn nothing_is_paid_out_without_settings_or_below_the_minimum() {
    let fixture = Fixture::new();
    fixture.earn(&fixture.builder, [600_000, 399_999]).await;
    assert!(matches!(fixture.payouts.pay_out(&fixture.builder).await, Err(PayoutError::NoSettings)));
    fixture.set(&fixture.builder, 1_000_000).await;
    let refused = fixture.payouts.pay_out(&fixture.builder).await.unwrap_err();
    assert!(matches!(refused, PayoutError::BelowMinimum { amount: MicroUsd(999_999), minimum: MicroUsd(1_000_000) }), "{refused}");
    assert!(fixture.payouts.list(&fixture.builder, 10, None).await.unwrap().0.is_empty(), "a refusal leaves no packet");
    fixture.earn(&fixture.builder, [1]).await;
    assert_eq!(fixture.payouts.pay_out(&fixture.builder).await.unwrap().unwrap().amount, 1_000_000);
}

#[tokio::test]
async fn settings_are_changed_onto_the_revision_that_was_read() {
    let fixture = Fixture::new();
    let set = async |onto| fixture.payouts.set(&fixture.builder, &settings(ADDRESS, 1), onto).await.map(|settings| settings.revision);
    assert!(matches!(set(Some(1)).await, Err(PayoutError::Changed(0))), "none were set");
    assert_eq!([set(Some(0)).await.unwrap(), set(None).await.unwrap(), set(Some(2)).await.unwrap()], [1, 2, 3]);
    assert!(matches!(set(Some(2)).await, Err(PayoutError::Changed(3))));
}

#[tokio::test]
async fn addresses_networks_and_assets_are_checked() {
    let fixture = Fixture::new();
    let set =
        async |address: &str| fixture.payouts.set(&fixture.builder, &settings(address, 1), None).await.map(|settings| settings.address);
    for good in [ADDRESS.to_owned(), ADDRESS.to_ascii_lowercase(), format!("0x{}", ADDRESS[2..].to_ascii_uppercase())] {
        assert_eq!(set(&good).await.unwrap(), ADDRESS);
    }
    let wrong_case = ADDRESS.replace("Cb", "cb");
    let zero = format!("0x{}", "0".repeat(40));
    for bad in [wrong_case.as_str(), &ADDRESS[2..], &ADDRESS[..41], "", "0x", &zero, "vitalik.eth", &format!("{ADDRESS}0")] {
        assert!(matches!(set(bad).await, Err(PayoutError::Field { pointer: "/address", .. })), "{bad}");
    }
    let mut other = settings(ADDRESS, 1);
    other.network = Some("eip155:1".to_owned());
    assert!(matches!(fixture.payouts.set(&fixture.builder, &other, None).await, Err(PayoutError::Field { pointer: "/network", .. })));
    other.network = Some("eip155:84532".to_owned());
    other.asset = Some(ADDRESS.replace('0', "1"));
    assert!(matches!(fixture.payouts.set(&fixture.builder, &other, None).await, Err(PayoutError::Field { pointer: "/asset", .. })));
    for named in [fixture.payouts.assets[0].address.to_ascii_lowercase(), "USDC".to_owned(), "usdc".to_owned()] {
        other.asset = Some(named);
        assert_eq!(fixture.payouts.set(&fixture.builder, &other, None).await.unwrap().asset, fixture.payouts.assets[0].address);
    }
}

#[tokio::test]
async fn a_packet_goes_through_its_states_in_order_only() {
    let fixture = Fixture::new().settled().await;
    fixture.earn(&fixture.builder, [5]).await;
    let id = fixture.payouts.pay_out(&fixture.builder).await.unwrap().unwrap().id;
    let hash = format!("0x{}", "Ab".repeat(32));
    let wrong = |decided: Result<PayoutStatus, PayoutError>| assert!(matches!(decided, Err(PayoutError::WrongState { .. })), "{decided:?}");
    wrong(fixture.decide(&id, PayoutDecision::Paid, Some(&hash)).await);
    let refused = fixture.decide(&id, PayoutDecision::Failed, None).await.unwrap_err();
    assert_eq!(refused.to_string(), "a payout that is `created` cannot become `failed`: approve or reject it");
    assert_eq!(fixture.decide(&id, PayoutDecision::Approve, None).await.unwrap(), PayoutStatus::Approved);
    wrong(fixture.decide(&id, PayoutDecision::Approve, None).await);
    wrong(fixture.decide(&id, PayoutDecision::Reject, None).await);
    for bad in [None, Some("0x1234"), Some("paid"), Some(&hash[2..])] {
        let refused = fixture.decide(&id, PayoutDecision::Paid, bad).await;
        assert!(matches!(refused, Err(PayoutError::Field { pointer: "/transaction", .. })), "{refused:?}");
    }
    assert_eq!(fixture.decide(&id, PayoutDecision::Failed, None).await.unwrap(), PayoutStatus::Failed);
    assert_eq!(fixture.decide(&id, PayoutDecision::Approve, None).await.unwrap(), PayoutStatus::Approved);
    assert_eq!(fixture.payouts.counts().await.unwrap(), PayoutCounts { approved: 1, ..PayoutCounts::default() });
    assert_eq!(fixture.decide(&id, PayoutDecision::Paid, Some(&hash)).await.unwrap(), PayoutStatus::Paid);
    assert_eq!(fixture.payouts.counts().await.unwrap(), PayoutCounts { paid: 1, ..PayoutCounts::default() });
    for decision in [PayoutDecision::Approve, PayoutDecision::Failed, PayoutDecision::Reject] {
        wrong(fixture.decide(&id, decision, None).await);
    }
    let packet = fixture.payouts.get(&fixture.builder, &id).await.unwrap();
    assert_eq!(packet.transaction, Some(hash.to_ascii_lowercase()));
    let query = EventQuery { limit: 10, ..EventQuery::default() };
    let events = fixture.payouts.events.list(&Owner::Builder(fixture.builder.clone()), &query).await.unwrap().events;
    let listed: Vec<_> =
        events.iter().map(|event| (event.kind, event.data["transaction"].as_str(), event.data["reason"].as_str())).collect();
    let paid = packet.transaction.as_deref();
    assert!(listed.contains(&(Kind::PayoutPaid, paid, None)) && listed.contains(&(Kind::PayoutFailed, None, Some("why"))), "{listed:?}");
    assert_eq!(listed.iter().filter(|(_, transaction, reason)| transaction.is_some() || reason.is_some()).count(), 2, "{listed:?}");
    assert!(matches!(fixture.payouts.get(&BuilderId::generate(), &id).await, Err(PayoutError::NotOwner)));
    assert!(matches!(fixture.payouts.get(&fixture.builder, &PayoutId::generate()).await, Err(PayoutError::Unknown)));
}

/// Regression test: the warning was read after the commit, so an error of the store hid a payout that was recorded as paid.
#[tokio::test]
async fn decision_carries_the_warning_about_its_transaction() {
    let fixture = Fixture::new().settled().await;
    let (hash, mut before) = (format!("0x{}", "a".repeat(64)), None::<PayoutId>);
    for _ in 0..2 {
        fixture.earn(&fixture.builder, [5]).await;
        let id = fixture.payouts.pay_out(&fixture.builder).await.unwrap().unwrap().id;
        fixture.decide(&id, PayoutDecision::Approve, None).await.unwrap();
        let paid = PayoutVerdict { decision: PayoutDecision::Paid, transaction: Some(hash.clone()), reason: None };
        let DecidedPayout { packet, warning } = fixture.payouts.decide(&id, &paid).await.unwrap();
        assert_eq!(warning, before.as_ref().map(|before| recorded_twice(before.as_str())));
        assert_eq!(warning, fixture.payouts.warning(&packet).await.unwrap());
        let for_builder = fixture.payouts.builders_warning(&packet).await.unwrap();
        assert_eq!(for_builder.is_some(), before.is_some());
        assert!(for_builder.is_none_or(|text| text.contains("another payout") && !text.contains(PayoutId::PREFIX)));
        before = Some(id);
    }
}

#[tokio::test]
async fn receipts_of_a_rejected_payout_are_in_the_next_one() {
    let fixture = Fixture::new().settled().await;
    let made = fixture.earn(&fixture.builder, (1..=2_345).collect::<Vec<_>>()).await;
    let sum: u64 = made.iter().map(|(_, net)| net).sum();
    let first = fixture.payouts.pay_out(&fixture.builder).await.unwrap().unwrap();
    let receipts = fixture.receipts(&first.id).await;
    assert_eq!(fixture.decide(&first.id, PayoutDecision::Reject, None).await.unwrap(), PayoutStatus::Rejected);
    let rejected = fixture.payouts.get(&fixture.builder, &first.id).await.unwrap();
    assert_eq!((rejected.canonical(), rejected.signature), (first.canonical(), first.signature), "what was signed stays");
    assert_eq!((fixture.receipts(&first.id).await, rejected.reason), (vec![], Some("why".to_owned())));
    assert_eq!(fixture.payouts.waits(&fixture.builder).await.unwrap().receipt_count, 2_345);
    let ledger = ledger::read(fixture.store.inner(), 1_000, None).await.unwrap();
    let posted = ledger.accounts.iter().find(|line| line.account == format!("packet/{}", first.id));
    assert!(posted.is_none_or(|line| line.balance == "0"), "{posted:?}");
    let query = EventQuery { limit: 1, ..EventQuery::default() };
    let events = fixture.payouts.events.list(&Owner::Builder(fixture.builder.clone()), &query).await.unwrap().events;
    assert_eq!((events[0].kind, &events[0].data["reason"]), (Kind::PayoutRejected, &json!("why")));
    for decision in [PayoutDecision::Approve, PayoutDecision::Reject] {
        let refused = fixture.decide(&first.id, decision, None).await;
        assert!(matches!(refused, Err(PayoutError::WrongState { .. })), "it is final: {refused:?}");
    }

    let second = fixture.payouts.pay_out(&fixture.builder).await.unwrap().unwrap();
    assert_eq!((second.amount, fixture.receipts(&second.id).await), (sum, receipts));
    fixture.decide(&second.id, PayoutDecision::Approve, None).await.unwrap();
    fixture.decide(&second.id, PayoutDecision::Failed, None).await.unwrap();
    assert_eq!(fixture.decide(&second.id, PayoutDecision::Reject, None).await.unwrap(), PayoutStatus::Rejected);
    assert_eq!(fixture.payouts.counts().await.unwrap(), PayoutCounts { rejected: 2, ..PayoutCounts::default() });
    assert_eq!(flaws(fixture.store.inner()).await, Vec::<String>::new());
}

#[tokio::test]
async fn an_interrupted_rejection_is_completed_by_the_next_start_or_decision() {
    for commit in 1..=4 {
        for fault in [Fault::Before, Fault::After, Fault::Lost] {
            for starts in [true, false] {
                let fixture = Fixture::new().settled().await;
                let made = fixture.earn(&fixture.builder, (0..1_500).map(|_| 1)).await;
                let id = fixture.payouts.pay_out(&fixture.builder).await.unwrap().unwrap().id;
                fixture.store.fail_nth(commit, fault);
                let cut_off = fixture.decide(&id, PayoutDecision::Reject, None).await;
                fixture.store.heal();
                if starts {
                    fixture.payouts.resume().await.unwrap();
                }
                // Without a commit, nothing has begun; with all of them, nothing is left to do.
                let status = fixture.payouts.get(&fixture.builder, &id).await.unwrap().status;
                if status != PayoutStatus::Rejected {
                    fixture.decide(&id, PayoutDecision::Reject, None).await.unwrap();
                }
                let what = format!("commit {commit}, {fault:?}, {cut_off:?}");
                assert_eq!(fixture.payouts.waits(&fixture.builder).await.unwrap().receipt_count, made.len() as u64, "{what}");
                assert!(fixture.receipts(&id).await.is_empty(), "{what}");
                assert_eq!(fixture.payouts.counts().await.unwrap(), PayoutCounts { rejected: 1, ..PayoutCounts::default() }, "{what}");
            }
        }
    }
}

#[tokio::test]
async fn a_reason_has_500_characters_and_no_control_character() {
    let fixture = Fixture::new().settled().await;
    fixture.earn(&fixture.builder, [5]).await;
    let id = fixture.payouts.pay_out(&fixture.builder).await.unwrap().unwrap().id;
    let because = async |reason: String| {
        fixture.payouts.decide(&id, &PayoutVerdict { decision: PayoutDecision::Approve, transaction: None, reason: Some(reason) }).await
    };
    for bad in ["ä".repeat(501), "line\nfeed".to_owned()] {
        assert!(matches!(because(bad).await, Err(PayoutError::Field { pointer: "/reason", .. })));
    }
    assert_eq!(because("ä".repeat(500)).await.unwrap().packet.reason, Some("ä".repeat(500)));
}

#[tokio::test]
async fn packets_are_read_in_pages_to_the_last() {
    let fixture = Fixture::new().settled().await;
    let other = BuilderId::generate();
    fixture.set(&other, 0).await;
    let mut made = vec![];
    for (after, builder) in [&fixture.builder, &other, &fixture.builder, &other, &fixture.builder].into_iter().enumerate() {
        // At different times: other tests can make ids between those of one millisecond.
        fixture.clock.set(NOW.plus_millis(after as u64));
        fixture.earn(builder, [5]).await;
        made.insert(0, fixture.payouts.pay_out(builder).await.unwrap().unwrap().id);
    }
    fixture.decide(&made[4], PayoutDecision::Approve, None).await.unwrap();
    let ids = |(packets, next): Page| (packets.into_iter().map(|packet| packet.id).collect::<Vec<_>>(), next);
    let own = async |limit, cursor: Option<&PayoutId>| ids(fixture.payouts.list(&fixture.builder, limit, cursor).await.unwrap());
    let [newest, middle, oldest] = [0, 2, 4].map(|n| made[n].clone());
    assert_eq!(own(2, None).await, (vec![newest.clone(), middle.clone()], Some(middle.clone())));
    assert_eq!(own(2, Some(&middle)).await, (vec![oldest.clone()], None));
    assert_eq!(own(10, None).await, (vec![newest, middle, oldest.clone()], None));
    let all = async |status, limit, cursor: Option<&PayoutId>| ids(fixture.payouts.list_all(status, limit, cursor).await.unwrap());
    assert_eq!(all(None, 2, None).await, (made[..2].to_vec(), Some(made[1].clone())));
    assert_eq!(all(None, 2, Some(&made[1])).await, (made[2..4].to_vec(), Some(made[3].clone())));
    assert_eq!(all(None, 2, Some(&made[3])).await, (made[4..].to_vec(), None));
    assert_eq!(all(Some(PayoutStatus::Approved), 2, None).await, (vec![oldest], None), "behind pages without any");
}

#[tokio::test]
async fn concurrent_verdicts_count_once() {
    let fixture = Fixture::new().settled().await;
    fixture.earn(&fixture.builder, [5]).await;
    let id = fixture.payouts.pay_out(&fixture.builder).await.unwrap().unwrap().id;
    fixture.decide(&id, PayoutDecision::Approve, None).await.unwrap();
    let hash = format!("0x{}", "1".repeat(64));
    let (paid, failed) =
        tokio::join!(fixture.decide(&id, PayoutDecision::Paid, Some(&hash)), fixture.decide(&id, PayoutDecision::Failed, None));
    assert!(paid.is_ok() != failed.is_ok(), "{paid:?} {failed:?}");
}

#[tokio::test]
async fn a_packet_that_was_cut_off_is_complete_after_the_next_start() {
    let fixture = Fixture::new().settled().await;
    fixture.earn(&fixture.builder, [5]).await;
    // Begun and filled, not sealed.
    fixture.store.fail_nth(3, Fault::Before);
    fixture.payouts.pay_out(&fixture.builder).await.unwrap_err();
    let status = async || fixture.payouts.list(&fixture.builder, 10, None).await.unwrap().0[0].status;
    assert_eq!(status().await, PayoutStatus::Collecting);
    fixture.payouts.resume().await.unwrap();
    assert_eq!(status().await, PayoutStatus::Created);
}

#[tokio::test]
async fn a_packet_that_is_not_the_sum_of_its_receipts_is_not_sealed() {
    let fixture = Fixture::new().settled().await;
    fixture.earn(&fixture.builder, [5]).await;
    fixture.store.fail_nth(3, Fault::Before);
    fixture.payouts.pay_out(&fixture.builder).await.unwrap_err();
    let id = fixture.payouts.list(&fixture.builder, 10, None).await.unwrap().0[0].id.clone();
    let stray = PAYOUT_RECEIPTS.put(&(TerminatedText(id.clone()), ReceiptId::generate().to_string()), &UnpaidSale { net: 1, at_ms: NOW.0 });
    stray.commit(fixture.store.inner(), Durability::Buffered).await.unwrap();
    fixture.payouts.resume().await.unwrap_err();
    assert_eq!(fixture.payouts.get(&fixture.builder, &id).await.unwrap().status, PayoutStatus::Collecting);
}

/// The receipt of a payment that is settled late is older than those already moved.
#[tokio::test]
async fn a_receipt_that_comes_behind_those_that_were_moved_is_of_the_next_packet() {
    let fixture = Fixture::new().settled().await;
    let made = fixture.earn(&fixture.builder, 1..=2_000).await;
    // Begun, and half of it moved.
    fixture.store.fail_nth(3, Fault::Before);
    fixture.payouts.pay_out(&fixture.builder).await.unwrap_err();
    let late: ReceiptId = "rcpt_00000000000000000000000001".parse().unwrap();
    let waiting = UnpaidSale { net: 7, at_ms: NOW.0 }.stored(&Owner::Builder(fixture.builder.clone()), &late);
    waiting.and(earned(&fixture.builder, &late, 7)).commit(fixture.store.inner(), Durability::Buffered).await.unwrap();
    let first = fixture.payouts.pay_out(&fixture.builder).await.unwrap().unwrap();
    assert_eq!((first.receipt_count, first.amount), (made.len() as u64, made.iter().map(|(_, net)| net).sum()));
    let second = fixture.payouts.pay_out(&fixture.builder).await.unwrap().unwrap();
    assert_eq!(fixture.receipts(&second.id).await, [(late.to_string(), 7)]);
    assert!(fixture.payouts.pay_out(&fixture.builder).await.unwrap().is_none());
}

/// Runs random earnings and payouts of two builders, some concurrently, with commits that fail before, after and in
/// between. At the end each receipt must be in one payout of its builder, and every sum must be right.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn every_receipt_is_in_one_packet() {
    for seed in 1..=30_u64 {
        let mut random = fastrand::Rng::with_seed(seed);
        let fixture = Fixture::new().settled().await;
        let builders = [fixture.builder.clone(), BuilderId::generate()];
        fixture.set(&builders[1], 0).await;
        let mut earned: [BTreeMap<String, u64>; 2] = Default::default();
        for _ in 0..25 {
            let who = random.usize(..2);
            match random.u64(..5) {
                0 | 1 => {
                    let count = if random.u64(..4) == 0 { 1_500 } else { 1 + random.u64(..40) };
                    let made = fixture.earn(&builders[who], (0..count).map(|n| n % 977 + 1)).await;
                    earned[who].extend(made.into_iter().map(|(id, net)| (id.to_string(), net)));
                }
                2 => {
                    let fault = *random.choice(&[Fault::Before, Fault::After, Fault::Lost]).unwrap();
                    fixture.store.fail_nth(1 + random.u64(..5), fault);
                    _ = fixture.payouts.pay_out(&builders[who]).await;
                    fixture.store.heal();
                }
                3 => fixture.payouts.resume().await.unwrap(),
                _ => {
                    let at_once = (0..4).map(|_| {
                        let (payouts, builder) = (Arc::clone(&fixture.payouts), builders[who].clone());
                        tokio::spawn(async move { payouts.pay_out(&builder).await.map(drop) })
                    });
                    for one in at_once.collect::<Vec<_>>() {
                        one.await.unwrap().unwrap();
                    }
                }
            }
        }
        fixture.payouts.resume().await.unwrap();
        for (who, builder) in builders.iter().enumerate() {
            // The first may continue an interrupted payout.
            while fixture.payouts.pay_out(builder).await.unwrap().is_some() {}
            let (mut paid, mut packets) = (BTreeMap::new(), BTreeSet::new());
            for packet in fixture.payouts.list(builder, 1_000, None).await.unwrap().0 {
                let receipts = fixture.receipts(&packet.id).await;
                assert_eq!(packet.status, PayoutStatus::Created, "seed {seed}");
                assert!(packet.receipt_count > 0, "seed {seed}: an empty packet");
                assert_eq!(
                    (packet.receipt_count, packet.amount),
                    (receipts.len() as u64, receipts.iter().map(|(_, net)| net).sum()),
                    "seed {seed}"
                );
                assert!(packets.insert(packet.id.clone()));
                for (id, net) in receipts {
                    assert_eq!(paid.insert(id, net), None, "seed {seed}: a receipt is in two packets");
                }
            }
            assert_eq!(paid, earned[who], "seed {seed}");
        }
        let all = fixture.payouts.list_all(Some(PayoutStatus::Created), 1_000, None).await.unwrap().0;
        let own = fixture.payouts.list(&builders[0], 1_000, None).await.unwrap().0.len()
            + fixture.payouts.list(&builders[1], 1_000, None).await.unwrap().0.len();
        assert_eq!(all.len(), own, "seed {seed}");
        assert_eq!(flaws(fixture.store.inner()).await, Vec::<String>::new(), "seed {seed}");
    }
}

async fn flaws(store: &MemoryStore) -> Vec<String> {
    let mut flaws = tollhouse_base::check_report::CheckReport::default();
    check_packets(store, &mut flaws).await.unwrap();
    flaws.listed
}

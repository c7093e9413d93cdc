//! Payments whose transaction a reorganization of the chain has dropped.

use std::ops::RangeInclusive;

use tollhouse_api::{Reorganization, ReorganizationState, SettlementLoss};

use super::{
    super::{
        node::canceled,
        refund::refunding,
        upfront::{closing, delivery, pays, upfront},
    },
    *,
};
use crate::{
    refund::RefundRequest,
    reorganized::{REORGANIZED, RESETTLED, WATCHED, WatchedSettlement, describe_loss},
    transactions,
};

/// How long the authorizations are valid.
const VALID_MS: u64 = 60 * 60 * 1_000;

/// A settled payment whose block was replaced.
struct Dropped {
    fixture: Fixture,
    node: Arc<Node>,
    payments: Arc<Payments>,
    id: PaymentId,
    receipt: ReceiptId,
    transaction: String,
}

/// Returns a gate of a host that waits for a settlement as long as `settle`.
fn host(fixture: &Fixture, node: &Node, settle: Duration) -> Arc<Payments> {
    let timeout = TxTimeouts { stuck: Duration::from_secs(600), settle };
    payments(fixture, Arc::clone(&fixture.store), of_store(&fixture.store, node, fixture.clock.clone(), timeout))
}

fn long() -> OfferedPayment {
    let payer = Payer::new(1);
    offer(&payer.payload(&payer.valid_for(1, VALID_MS)))
}

/// Mines the transaction that was sent last. Returns its hash.
async fn mine(node: &Node) -> String {
    let sent = until(|| node.chain.lock().unwrap().pool.last().cloned()).await;
    let mut chain = node.chain.lock().unwrap();
    (chain.mined, chain.safe, chain.used) = (Some(keccak256(&sent)), chain.safe + 1, chain.used + 1);
    keccak256(&sent).to_string()
}

/// Drops the newest block with its transaction, and lets the host notice.
async fn drop_block(fixture: &Fixture, node: &Node, payments: &Payments) {
    {
        let mut chain = node.chain.lock().unwrap();
        (chain.mined, chain.safe) = (None, chain.safe - 1);
        chain.pool.clear();
    }
    look(fixture, payments, 0).await;
    look(fixture, payments, 15).await;
    assert_eq!(count_reorganized(&*fixture.store, 10).await.unwrap(), 1);
}

/// Moves the clock on, and lets the host look at the chain.
async fn look(fixture: &Fixture, payments: &Payments, secs: u64) {
    fixture.clock.set(fixture.clock.now().plus_millis(secs * 1_000));
    payments.watch_settlements().await.unwrap();
}

/// Settles a payment, whose block is not replaced yet.
async fn settled_on(chain: Chain) -> Dropped {
    let (node, fixture) = (Node::of(chain).await, Fixture::new().await);
    let payments = host(&fixture, &node, Duration::from_secs(60));
    let admission = run(payments.admit(&terms(), long(), REQUEST).await);
    let id = admission.id().clone();
    let settling = tokio::spawn({
        let payments = Arc::clone(&payments);
        async move { payments.settle(admission, answer(ANSWER), &draft()).await }
    });
    let transaction = mine(&node).await;
    let receipt = settling.await.unwrap().unwrap().receipt_id.parse().unwrap();
    Dropped { fixture, node, payments, id, receipt, transaction }
}

async fn dropped_on(chain: Chain) -> Dropped {
    let settled = settled_on(chain).await;
    drop_block(&settled.fixture, &settled.node, &settled.payments).await;
    assert!(REORGANIZED.get(&*settled.fixture.store, &settled.receipt).await.unwrap().is_some());
    settled
}

async fn dropped() -> Dropped {
    dropped_on(Chain::at(NOW)).await
}

/// Other blocks with a settlement. There are more than are compared in a round.
const OTHERS: RangeInclusive<u64> = 99_901..=100_000;

/// Watches settlements in [`OTHERS`] too.
async fn watch_others(fixture: &Fixture, missing_since: Option<Timestamp>) {
    let row = WATCHED.page(&*fixture.store, &WATCHED.all(), 1, Direction::Forward).await.unwrap().remove(0);
    for block in OTHERS {
        let other = WatchedSettlement { receipt_id: ReceiptId::generate(), block, missing_since, ..row.value.clone() };
        WATCHED.put(&other.key(), &other).commit(&*fixture.store, Durability::Buffered).await.unwrap();
    }
}

/// Regression test: a block above 256 KiB, which is 4,000 transactions, ended each round before anything was compared.
#[tokio::test]
async fn reorganization_is_noticed_although_blocks_have_many_transactions() {
    dropped_on(Chain { transactions: 5_000, ..Chain::at(NOW) }).await;
}

/// Regression test: only the lowest 64 blocks were compared, and an error at one of them ended the round.
#[tokio::test]
async fn newest_block_is_compared_despite_many_others_and_errors() {
    for broken_block in [None, Some(*OTHERS.start())] {
        let Dropped { fixture, node, payments, .. } = settled_on(Chain { broken_block, ..Chain::at(NOW) }).await;
        watch_others(&fixture, None).await;
        drop_block(&fixture, &node, &payments).await;
    }
}

#[tokio::test]
async fn every_block_is_compared_within_a_few_rounds() {
    let Dropped { fixture, node, payments, .. } = settled_on(Chain::at(NOW)).await;
    // They stay watched, because their transactions are missing, but not for long.
    watch_others(&fixture, Some(fixture.clock.now())).await;
    node.chain.lock().unwrap().mined = None;
    node.requested.lock().unwrap().clear();
    for _ in 0..3 {
        look(&fixture, &payments, 0).await;
    }
    let requested = node.requested.lock().unwrap();
    for block in OTHERS {
        let is_its = |question: &&Value| question["method"] == "eth_getBlockByNumber" && question["params"][0] == format!("{block:#x}");
        assert_ne!(requested.iter().filter(is_its).count(), 0, "{block}");
    }
}

/// Returns the data of the events about reorganizations, the newest last.
async fn events(fixture: &Fixture) -> Vec<Value> {
    let parse = |bytes: &[u8]| serde_json::from_slice::<Value>(&bytes[bytes.iter().position(|byte| *byte == b'{')?..]).ok();
    let events = fixture.all(Space::Events).await;
    let of_kind = events.iter().filter_map(|(_, bytes)| parse(bytes)).filter(|event| event["kind"] == "payment.reorganized");
    of_kind.map(|event| event["data"].clone()).collect()
}

/// Regression test: the host looked up only the first transaction, so the payment stayed reorganized forever.
#[tokio::test]
async fn reorganized_payment_that_somebody_else_sends_is_settled_again() {
    let Dropped { fixture, node, payments, id, receipt, transaction } = dropped().await;
    node.chain.lock().unwrap().spent = Some((99_990, paid(PAY_TO, PRICE.0)));
    look(&fixture, &payments, 10).await;
    assert!(REORGANIZED.get(&*fixture.store, &receipt).await.unwrap().is_none());
    assert_eq!(count_reorganized(&*fixture.store, 10).await.unwrap(), 0);
    let resettled = RESETTLED.get(&*fixture.store, &receipt).await.unwrap().unwrap();
    assert_eq!((resettled.transaction.as_str(), &resettled.former), (TRANSACTION, &vec![transaction.clone()]));
    let state = payments.state(&id).await.unwrap().unwrap();
    assert_eq!(state.transaction.as_deref(), Some(TRANSACTION));
    assert!(matches!(&state.settlement, Some(settlement) if settlement.former == [transaction.clone()]), "{state:?}");
    let answer = stored(payments.admit(&terms(), long(), REQUEST).await);
    assert_eq!(&answer.body[..], ANSWER);
    assert!(answer.settlement.as_ref().unwrap().body.contains(TRANSACTION), "{answer:?}");
    let answer = events(&fixture).await;
    assert_eq!(answer.iter().map(|data| data["state"].as_str().unwrap()).collect::<Vec<_>>(), ["reorganized", "settled"]);
    assert_eq!((&answer[1]["transaction"], &answer[1]["formerTransaction"]), (&json!(TRANSACTION), &json!(transaction)));
    let reading = crate::ledger::read(&*fixture.store, 10, None).await.unwrap();
    assert!(reading.agrees && reading.reorganized.is_empty(), "{reading:?}");
    // No other payment can claim the transaction, or the first one.
    for transaction in [TRANSACTION, transaction.as_str()] {
        let paid = transactions::paid_by(&*fixture.store, "eip155:84532", transaction).await.unwrap();
        assert_eq!(paid.receipts.iter().map(|paid| paid.receipt_id.as_str()).collect::<Vec<_>>(), [receipt.as_str()]);
    }
    // The receipt stays as it was signed.
    assert_eq!(fixture.receipts().await[0].transaction, Some(transaction));
    assert!(node.chain.lock().unwrap().pool.is_empty(), "it was not sent again");
}

#[tokio::test]
async fn authorization_that_is_gone_or_expired_stays_reorganized() {
    let another = paid(&Payer::new(1).address(), PRICE.0);
    let cases = [
        (Some(canceled()), 0, SettlementLoss::Canceled),
        (Some(another), 0, SettlementLoss::UsedElsewhere),
        (None, 2, SettlementLoss::Expired),
    ];
    for (spent, hours, loss) in cases {
        let Dropped { fixture, node, payments, id, receipt, transaction } = dropped().await;
        {
            let mut chain = node.chain.lock().unwrap();
            chain.spent = spent.map(|logs| (99_990, logs));
            chain.at = NOW.plus_millis(hours * VALID_MS);
        }
        look(&fixture, &payments, 10).await;
        let settlement = REORGANIZED.get(&*fixture.store, &receipt).await.unwrap().unwrap();
        assert_eq!((settlement.lost, settlement.settlement.transaction.as_str()), (Some(loss), transaction.as_str()));
        let reading = crate::ledger::read(&*fixture.store, 10, None).await.unwrap();
        assert_eq!((reading.agrees, reading.reorganized[0].lost), (false, Some(loss)));
        assert_eq!(events(&fixture).await[1]["lost"], json!(loss));
        let request = node.requested.lock().unwrap().len();
        look(&fixture, &payments, 600).await;
        assert_eq!(node.requested.lock().unwrap().len(), request, "the host asks no more about it");
        assert!(node.chain.lock().unwrap().pool.is_empty(), "{loss:?}: it is not sent again");
        let state = payments.state(&id).await.unwrap().unwrap();
        let since = settlement.at;
        let undone = Reorganization { state: ReorganizationState::Reorganized, transaction, former: vec![], since, lost: Some(loss) };
        assert_eq!(state.settlement, Some(undone));
        assert_eq!(state.without_purchase().settlement, None, "it names the transaction");
        assert_refund_warns(&fixture, &receipt, describe_loss(loss)).await;
    }
}

/// Refunds a receipt, twice with the same transaction, and checks that each answer has a warning with this text.
async fn assert_refund_warns(fixture: &Fixture, receipt: &ReceiptId, text: &str) {
    let request = RefundRequest { transaction: Some(format!("0x{:064x}", 7)), ..refunding(receipt.as_str()) };
    for _ in 0..2 {
        let given = fixture.refunds().issue(&request, None).await.unwrap().public();
        assert!(given["warning"].as_str().is_some_and(|warning| warning.contains(text)), "{given}");
    }
}

/// Regression test: the refund was recorded without a warning.
#[tokio::test]
async fn refund_of_a_reorganized_payment_is_warned_of() {
    let Dropped { fixture, receipt, .. } = dropped().await;
    assert_refund_warns(&fixture, &receipt, "its money has not moved again yet").await;
}

#[tokio::test]
async fn unused_authorization_is_sent_again_and_settled() {
    let Dropped { fixture, node, payments, id, receipt, transaction } = dropped().await;
    look(&fixture, &payments, 9).await;
    assert!(node.chain.lock().unwrap().pool.is_empty(), "the transaction may be in one of the next blocks");
    let looking = tokio::spawn({
        let payments = Arc::clone(&payments);
        fixture.clock.set(fixture.clock.now().plus_millis(1_000));
        async move { payments.watch_settlements().await }
    });
    let sent = until(|| node.chain.lock().unwrap().pool.first().cloned()).await;
    let row = REORGANIZED.get(&*fixture.store, &receipt).await.unwrap().unwrap();
    assert_eq!((row.recovery.transaction, row.recovery.sendings), (Some(keccak256(&sent).to_string()), 1), "it is recorded first");
    let again = mine(&node).await;
    looking.await.unwrap().unwrap();
    assert!(REORGANIZED.get(&*fixture.store, &receipt).await.unwrap().is_none());
    assert_eq!(payments.state(&id).await.unwrap().unwrap().transaction, Some(again.clone()));
    // The new block of the payment is watched too.
    drop_block(&fixture, &node, &payments).await;
    let settlement = REORGANIZED.get(&*fixture.store, &receipt).await.unwrap().unwrap();
    assert_eq!((settlement.settlement.transaction.as_str(), &settlement.settlement.former), (again.as_str(), &vec![transaction]));
}

#[tokio::test]
async fn only_one_of_two_hosts_sends_the_payment_and_only_once() {
    let Dropped { fixture, node, .. } = dropped().await;
    let hosts = [(); 2].map(|()| host(&fixture, &node, Duration::from_millis(50)));
    fixture.clock.set(fixture.clock.now().plus_millis(10_000));
    let (one, other) = tokio::join!(hosts[0].watch_settlements(), hosts[1].watch_settlements());
    one.and(other).unwrap();
    until(|| (!node.chain.lock().unwrap().pool.is_empty()).then_some(())).await;
    // While it is pending, nobody sends another one.
    look(&fixture, &hosts[1], 15).await;
    look(&fixture, &hosts[0], 30).await;
    assert_eq!(node.chain.lock().unwrap().pool.len(), 1);
}

#[tokio::test]
async fn payment_is_sent_again_at_most_five_times() {
    let Dropped { fixture, node, payments, receipt, .. } = dropped().await;
    let refuses = json!({ "code": -32000, "message": "insufficient funds for gas * price + value" });
    node.chain.lock().unwrap().instead = Some(("eth_sendRawTransaction", refuses));
    let before = node.times("eth_sendRawTransaction");
    for _ in 0..10 {
        look(&fixture, &payments, 240).await;
    }
    assert_eq!(node.times("eth_sendRawTransaction") - before, 5);
    let settlement = REORGANIZED.get(&*fixture.store, &receipt).await.unwrap().unwrap();
    assert_eq!((settlement.lost, settlement.recovery.replica), (None, None), "somebody else may still send it");
}

/// Returns a payment that was settled before its run.
async fn charged() -> (Fixture, Arc<Node>, Arc<Payments>, OwedRun) {
    let (node, fixture) = (Node::of(Chain::at(NOW)).await, Fixture::new().await);
    let payments = host(&fixture, &node, Duration::from_secs(60));
    let admission = run(payments.admit(&upfront(), pays(1, 1), REQUEST).await);
    let charging = tokio::spawn({
        let payments = Arc::clone(&payments);
        async move { payments.settle_before(admission, &closing()).await }
    });
    mine(&node).await;
    let owed = charging.await.unwrap().unwrap();
    (fixture, node, payments, owed)
}

/// Shows the payment again, and begins a run for it.
async fn again(payments: &Arc<Payments>) -> Result<Option<OwedRun>, Refusal> {
    match payments.admit(&upfront(), pays(1, 1), REQUEST).await {
        Ok(Admit::Seen(SeenPayment::Owed(owed))) => payments.resume(owed, &upfront(), PaymentRequest::from(REQUEST)).await,
        other => panic!("nothing is owed: {}", what(&other)),
    }
}

#[tokio::test]
async fn owed_run_waits_until_its_payment_is_settled_again() {
    let (fixture, node, payments, owed) = charged().await;
    let id = owed.payment().clone();
    _ = owed.fail(true).await;
    drop_block(&fixture, &node, &payments).await;
    let refused = again(&payments).await.err();
    assert!(matches!(&refused, Some(Refusal::Reorganized(payment)) if *payment == id), "{refused:?}");
    node.chain.lock().unwrap().spent = Some((99_990, paid(PAY_TO, PRICE.0)));
    look(&fixture, &payments, 10).await;
    let run = again(&payments).await.unwrap().expect("nobody was faster");
    let response = run.deliver(answer(ANSWER), &delivery(true)).await.unwrap();
    assert!(response.settlement.as_ref().unwrap().body.contains(TRANSACTION), "{response:?}");
    assert_eq!(stored(payments.admit(&upfront(), pays(1, 1), REQUEST).await), response);
    assert_eq!(payments.state(&id).await.unwrap().unwrap().state, PaymentState::Settled);
}

#[tokio::test]
async fn no_run_is_owed_once_its_payment_is_lost() {
    let (fixture, node, payments, owed) = charged().await;
    _ = owed.fail(true).await;
    drop_block(&fixture, &node, &payments).await;
    node.chain.lock().unwrap().spent = Some((99_990, canceled()));
    look(&fixture, &payments, 10).await;
    let refused = again(&payments).await.err();
    assert!(matches!(refused, Some(Refusal::NoMoreRuns { .. })), "{refused:?}");
}

#[tokio::test]
async fn earlier_answer_stays_available_after_a_reorganization() {
    let (fixture, node, payments, owed) = charged().await;
    let (receipt, given) = (owed.receipt().to_owned(), owed.deliver(answer(ANSWER), &delivery(false)).await.unwrap());
    drop_block(&fixture, &node, &payments).await;
    assert_eq!(stored(payments.admit(&upfront(), pays(1, 1), REQUEST).await), given);
    let reading = crate::ledger::read(&*fixture.store, 10, None).await.unwrap();
    assert_eq!((reading.agrees, reading.reorganized[0].receipt_id.as_str()), (false, receipt.as_str()));
}

#[tokio::test]
async fn unresolved_settlement_found_on_the_chain_is_owed() {
    let (node, fixture) = (Node::of(Chain::at(NOW)).await, Fixture::new().await);
    let payments = host(&fixture, &node, Duration::from_millis(50));
    let admission = run(payments.admit(&upfront(), pays(1, 1), REQUEST).await);
    let id = admission.id().clone();
    let unknown = payments.settle_before(admission, &closing()).await.err();
    assert!(matches!(unknown, Some(SettleError::Unknown { .. })), "{unknown:?}");
    fixture.clock.set(NOW.plus_millis(24 * 60 * 60 * 1_000));
    payments.recover().await.unwrap();
    payments.tick().await.unwrap();
    let state = async || payments.state(&id).await.unwrap().unwrap().state;
    assert_eq!(state().await, PaymentState::Unresolved);
    assert_eq!(payments.look_up_unresolved(None).await.unwrap().as_ref(), Some(&id));
    assert_eq!(state().await, PaymentState::Unresolved, "its nonce is unused");
    node.chain.lock().unwrap().spent = Some((99_990, paid(PAY_TO, PRICE.0)));
    payments.look_up_unresolved(None).await.unwrap();
    assert_eq!((state().await, count_unresolved(&*fixture.store, 10).await.unwrap()), (PaymentState::Owed, 0));
    let run = again(&payments).await.unwrap().expect("nobody was faster");
    run.deliver(answer(ANSWER), &delivery(true)).await.unwrap();
    assert_eq!((state().await, fixture.receipts().await.len()), (PaymentState::Settled, 1));
}

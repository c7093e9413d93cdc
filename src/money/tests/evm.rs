//! Tests the facilitator that sends transactions, with a scripted node.

mod decisions;
mod gas;
mod permits;
mod recovery;
mod reorganized;
mod sending;
mod signer;
mod unprepared;
mod wallet;

use alloy_primitives::{Address, B256, U256, keccak256};
use alloy_rlp::{Decodable as _, Header};
use tollhouse_store::faulty::{Fault, FaultyStore};

use super::{
    node::{Chain, Node, TRANSACTION, paid},
    *,
};
use crate::facilitator::{
    chain::node,
    kind::evm::{EvmFacilitator, TxTimeouts},
};

const GAS_KEY: &str = "0x0707070707070707070707070707070707070707070707070707070707070707";

fn of_store(store: &Arc<dyn Store>, node: &Node, clock: Clock, timeout: TxTimeouts) -> Arc<EvmFacilitator> {
    let node = Arc::new(node::Node::new(&node.url, ASSETS[0].network).unwrap());
    Arc::new(EvmFacilitator::new(node, GAS_KEY, store, clock, timeout).unwrap())
}

fn waiting(node: &Node, clock: Clock, timeout: TxTimeouts) -> Arc<EvmFacilitator> {
    let store: Arc<dyn Store> = Arc::new(MemoryStore::new());
    of_store(&store, node, clock, timeout)
}

/// Returns the facilitators of two hosts that share a store and the key.
fn hosts(node: &Node, stuck: Duration) -> [Arc<EvmFacilitator>; 2] {
    let store: Arc<dyn Store> = Arc::new(MemoryStore::shared(Clock::fixed(NOW)));
    let timeout = TxTimeouts { stuck, settle: Duration::from_secs(60) };
    [(); 2].map(|()| of_store(&store, node, Clock::fixed(NOW), timeout))
}

fn facilitator(node: &Node, stuck: Duration) -> Arc<EvmFacilitator> {
    waiting(node, Clock::fixed(NOW), TxTimeouts { stuck, settle: Duration::from_secs(60) })
}

fn patient(node: &Node) -> Arc<EvmFacilitator> {
    facilitator(node, Duration::from_secs(600))
}

/// A transaction that was sent.
#[derive(Debug)]
struct Sent {
    nonce: u64,
    tip: u128,
    max: u128,
    gas: u64,
    to: Address,
    data: alloy_primitives::Bytes,
}

fn read(raw: &[u8]) -> Sent {
    assert_eq!(raw[0], 2);
    let fields = &mut &raw[1..];
    Header::decode(fields).unwrap();
    assert_eq!(u64::decode(fields).unwrap(), 84_532);
    let (nonce, tip, max) = (u64::decode(fields).unwrap(), u128::decode(fields).unwrap(), u128::decode(fields).unwrap());
    let (gas, to) = (u64::decode(fields).unwrap(), Address::decode(fields).unwrap());
    assert_eq!(U256::decode(fields).unwrap(), U256::ZERO, "it pays nobody but for gas");
    Sent { nonce, tip, max, gas, to, data: alloy_primitives::Bytes::decode(fields).unwrap() }
}

/// Returns the signer's address.
fn signer() -> Address {
    Address::from_private_key(&SigningKey::from_slice(&[7; 32]).unwrap())
}

/// Settles a payment as the gate does.
async fn settle(facilitator: &EvmFacilitator, nonce: u64) -> SettleOutcome {
    let payment = Payer::new(1).payment(nonce);
    let transaction = facilitator.prepare(&payment).await.unwrap();
    facilitator.settle(&payment, &StartedSettlement { transaction, ..started_settlement() }).await
}

/// Polls `found` until it returns something, for half a minute at most.
pub(super) async fn until<T>(mut found: impl FnMut() -> Option<T>) -> T {
    let found = async {
        loop {
            if let Some(found) = found() {
                return found;
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(30), found).await.unwrap()
}

#[tokio::test]
async fn stuck_transaction_is_replaced_up_to_a_maximum_price() {
    let node = Node::of(Chain::at(NOW)).await;
    let facilitator = facilitator(&node, Duration::from_millis(1));
    let settling = tokio::spawn(async move { settle(&facilitator, 1).await });
    let sent = until(|| Some(node.chain.lock().unwrap().pool.clone()).filter(|pool| pool.len() == 7)).await;
    let read: Vec<_> = sent.iter().map(|raw| read(raw)).collect();
    assert!(read.iter().all(|sent| sent.nonce == 7), "{read:?}");
    assert!(read.is_sorted_by(|a, b| b.tip * 100 >= a.tip * 110 && b.max * 100 >= a.max * 110), "nodes want a tenth more: {read:?}");
    assert!(read[6].max < read[0].max * 4, "{read:?}");
    // One of the replacements is mined, not the transaction that the intent names.
    let mined = keccak256(&sent[3]);
    {
        let mut chain = node.chain.lock().unwrap();
        chain.mined = Some(mined);
        chain.safe += 1;
    }
    let outcome = settling.await.unwrap();
    assert!(matches!(&outcome, SettleOutcome::Settled(settlement) if settlement.transaction == mined.to_string()), "{outcome:?}");
    assert_eq!(node.chain.lock().unwrap().pool.len(), 7, "its price has an end");
}

#[tokio::test]
async fn settlements_are_sent_at_once_each_under_a_nonce_of_its_own() {
    let node = Node::of(Chain::at(NOW)).await;
    let facilitator = patient(&node);
    for nonce in 0..8 {
        let facilitator = Arc::clone(&facilitator);
        tokio::spawn(async move { settle(&facilitator, nonce).await });
    }
    let sent = until(|| Some(node.chain.lock().unwrap().pool.clone()).filter(|pool| pool.len() == 8)).await;
    let mut nonces: Vec<_> = sent.iter().map(|raw| read(raw).nonce).collect();
    nonces.sort_unstable();
    assert_eq!(nonces, (7..15).collect::<Vec<_>>(), "none waits for another one's block");
    assert_eq!(node.times("eth_getTransactionCount"), 2, "the node says once for all which is the first");
}

#[tokio::test]
async fn no_two_hosts_of_one_store_send_under_one_nonce() {
    let node = Node::of(Chain::at(NOW)).await;
    let hosts = hosts(&node, Duration::from_secs(600));
    for nonce in 0..8 {
        let facilitator = Arc::clone(&hosts[usize::from(nonce % 2 == 0)]);
        tokio::spawn(async move { settle(&facilitator, nonce).await });
    }
    let sent = until(|| Some(node.chain.lock().unwrap().pool.clone()).filter(|pool| pool.len() == 8)).await;
    let mut nonces: Vec<_> = sent.iter().map(|raw| read(raw).nonce).collect();
    nonces.sort_unstable();
    assert_eq!(nonces, (7..15).collect::<Vec<_>>());
    assert_eq!(node.times("eth_getTransactionCount"), 2, "the node says it once to each");
}

#[tokio::test]
async fn rejected_transaction_frees_its_nonce() {
    let refuses = |message: &str| Some(("eth_sendRawTransaction", json!({ "code": -32000, "message": message })));
    let node = Node::of(Chain { instead: refuses("insufficient funds for gas * price + value"), ..Chain::at(NOW) }).await;
    let facilitator = patient(&node);
    assert!(matches!(settle(&facilitator, 1).await, SettleOutcome::Unsent(_)));
    node.chain.lock().unwrap().instead = None;
    let settling = tokio::spawn(async move { settle(&facilitator, 1).await });
    let sent = until(|| node.chain.lock().unwrap().pool.first().cloned()).await;
    assert_eq!(read(&sent).nonce, 7);
    settling.abort();
}

fn payments(fixture: &Fixture, store: Arc<dyn Store>, facilitator: Arc<EvmFacilitator>) -> Arc<Payments> {
    gate_with(fixture, config(), store, facilitator)
}

fn gate_with(fixture: &Fixture, config: PaymentConfig, store: Arc<dyn Store>, facilitator: Arc<EvmFacilitator>) -> Arc<Payments> {
    let events = Arc::new(Events::new(Arc::clone(&store), fixture.clock.clone(), EventSettings::default()));
    let finisher = Arc::new(ReceiptFinisher::new(Arc::clone(&fixture.signer), false, events, Sales::new(Arc::clone(&store))));
    let replica = Replica::new(Arc::clone(&store));
    Payments::new(store, facilitator, fixture.clock.clone(), config, finisher, replica, Arc::clone(&fixture.objects))
}

#[tokio::test]
async fn a_transaction_is_in_the_intent_before_it_is_sent() {
    let node = Node::of(Chain::at(NOW)).await;
    let fixture = Fixture::new().await;
    let payments = payments(&fixture, Arc::clone(&fixture.store), patient(&node));
    let admission = run(payments.admit(&terms(), Payer::new(1).pays(1), REQUEST).await);
    let id = admission.id().clone();
    let settling = tokio::spawn(async move { payments.settle(admission, answer(ANSWER), &draft()).await });
    let sent = until(|| node.chain.lock().unwrap().pool.first().cloned()).await;
    let (_, bytes) = fixture.all(Space::Payments).await.into_iter().find(|(key, _)| *key == id.to_string().into_bytes()).unwrap();
    let started = crate::payments::record::PaymentRecord::of_bytes(&bytes).unwrap().started();
    assert_eq!((started.facilitator.as_deref(), started.transaction), (Some("evm"), Some(keccak256(&sent).to_string())));
    {
        let mut chain = node.chain.lock().unwrap();
        chain.mined = Some(keccak256(&sent));
        chain.safe += 1;
    }
    assert_eq!(settling.await.unwrap().unwrap().body, ANSWER);
    assert_eq!(fixture.receipts().await[0].transaction, Some(keccak256(&sent).to_string()));
}

#[tokio::test]
async fn transaction_without_a_stored_intent_is_never_sent() {
    let node = Node::of(Chain::at(NOW)).await;
    let fixture = Fixture::new().await;
    let store = Arc::new(FaultyStore::new(MemoryStore::new()));
    let payments = payments(&fixture, Arc::clone(&store) as _, patient(&node));
    let admission = run(payments.admit(&terms(), Payer::new(1).pays(1), REQUEST).await);
    let id = admission.id().clone();
    store.fail_nth(1, Fault::Before);
    payments.settle(admission, answer(ANSWER), &draft()).await.unwrap_err();
    store.heal();
    assert!(node.chain.lock().unwrap().pool.is_empty());
    payments.tick().await.unwrap();
    assert_eq!(payments.state(&id).await.unwrap().unwrap().state, PaymentState::Released);
    // The next payment reuses the nonce.
    let admission = run(payments.admit(&terms(), Payer::new(1).pays(1), REQUEST).await);
    let settling = tokio::spawn(async move { payments.settle(admission, answer(ANSWER), &draft()).await });
    let sent = until(|| node.chain.lock().unwrap().pool.first().cloned()).await;
    assert_eq!(read(&sent).nonce, 7);
    settling.abort();
}

#[tokio::test]
async fn payment_the_token_rejects_is_rejected_before_the_run() {
    let reverts = |_: ()| Some(("eth_estimateGas", json!({ "code": 3, "message": "execution reverted" })));
    for (code, chain) in [
        ("invalid_exact_evm_nonce_already_used", Chain::at(NOW).spending(99_990, paid(PAY_TO, PRICE.0))),
        ("invalid_exact_evm_insufficient_balance", Chain { balance: PRICE.0 - 1, ..Chain::at(NOW) }),
        ("invalid_exact_evm_transaction_simulation_failed", Chain::at(NOW)),
    ] {
        let node = Node::of(Chain { instead: reverts(()), ..chain }).await;
        let verdict = patient(&node).verify(&Payer::new(1).payment(1)).await;
        assert!(matches!(&verdict, VerifyResult::Invalid { reason, .. } if reason == code), "{code}: {verdict:?}");
    }
    let away = Chain { instead: Some(("eth_estimateGas", json!({ "code": -32005, "message": "rate limited" }))), ..Chain::at(NOW) };
    let verdict = patient(&*Node::of(away).await).verify(&Payer::new(1).payment(1)).await;
    assert!(matches!(verdict, VerifyResult::Unavailable(_)), "not the payer's fault: {verdict:?}");
    let node = Node::of(Chain::at(NOW)).await;
    let (payer, other) = (Payer::new(1), Payer::new(2));
    let mut forged = payer.payload(&payer.authorization(1));
    forged["payload"]["signature"] = json!(other.sign(&payer.authorization(1)));
    let verdict = patient(&node).verify(&decode(&forged).unwrap()).await;
    assert!(matches!(&verdict, VerifyResult::Invalid { reason, .. } if reason == "invalid_exact_evm_signature"), "{verdict:?}");
    assert_eq!(patient(&node).verify(&payer.payment(1)).await, VerifyResult::Valid);
}

/// The payer or somebody else sent the authorization to the token: the money moved, and the answer is due.
#[tokio::test]
async fn payment_with_a_spent_nonce_is_judged_by_the_chain() {
    let reverts = Some(("eth_estimateGas", json!({ "code": 3, "message": "execution reverted" })));
    let spent = Chain::at(NOW).spending(99_990, paid(PAY_TO, PRICE.0));
    let node = Node::of(Chain { instead: reverts.clone(), ..spent }).await;
    let (facilitator, payment) = (patient(&node), Payer::new(1).payment(1));
    assert_eq!(facilitator.prepare(&payment).await, Ok(None));
    assert!(matches!(facilitator.settle(&payment, &started_settlement()).await, SettleOutcome::Settled(_)));
    assert!(node.chain.lock().unwrap().pool.is_empty());
    // The payer has spent its money elsewhere while the handler ran: no gas is spent on it.
    let node = Node::of(Chain { instead: reverts, balance: 0, ..Chain::at(NOW) }).await;
    let prepared = patient(&node).prepare(&payment).await;
    let poor = "invalid_exact_evm_insufficient_balance";
    assert!(matches!(&prepared, Err(PrepareError::Refused { reason, .. }) if reason == poor), "{prepared:?}");
}

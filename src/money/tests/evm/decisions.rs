//! Decisions of admins about unresolved settlements, which the chain has to confirm.

use super::{
    super::{
        node::{TRANSFER, canceled, log, word},
        upto::{authorization, paid as signed, requirements},
    },
    *,
};
use crate::transactions;

/// Returns an unresolved settlement of nonce 1 of payer 1.
async fn unresolved() -> (Fixture, Arc<Node>, Arc<Payments>, PaymentId) {
    let (node, fixture) = (Node::of(Chain::at(NOW)).await, Fixture::new().await);
    let timeout = TxTimeouts { stuck: Duration::from_secs(600), settle: Duration::from_millis(50) };
    let payments = payments(&fixture, Arc::clone(&fixture.store), of_store(&fixture.store, &node, fixture.clock.clone(), timeout));
    let admission = run(payments.admit(&terms(), Payer::new(1).pays(1), REQUEST).await);
    let id = admission.id().clone();
    payments.settle(admission, answer(ANSWER), &draft()).await.unwrap_err();
    fixture.clock.set(NOW.plus_millis(24 * 60 * 60 * 1_000));
    payments.recover().await.unwrap();
    payments.tick().await.unwrap();
    assert_eq!(state(&payments, &id).await, PaymentState::Unresolved);
    (fixture, node, payments, id)
}

async fn state(payments: &Payments, id: &PaymentId) -> PaymentState {
    payments.state(id).await.unwrap().unwrap().state
}

fn paid_with(transaction: &str) -> Resolution {
    Resolution::Paid { transaction: transaction.to_owned() }
}

/// Returns the log of a transfer of the price from a payer to the host.
fn transfer_of(payer: u8) -> Value {
    log(4, &[TRANSFER, &word(&Payer::new(payer).address()), &word(PAY_TO)], &format!("0x{:064x}", PRICE.0))
}

/// Regression test: the payer had canceled its authorization, and a stranger's transfer of the same amount counted.
#[tokio::test]
async fn only_the_payments_own_transfer_resolves_it_as_paid() {
    let (fixture, node, payments, id) = unresolved().await;
    let elsewhere = paid(&Payer::new(3).address(), PRICE.0);
    for logs in [[canceled(), vec![transfer_of(2)]].concat(), [canceled(), vec![transfer_of(1)]].concat(), elsewhere] {
        node.chain.lock().unwrap().spent = Some((99_990, logs));
        let refused = payments.resolve_unresolved(&id, &paid_with(TRANSACTION)).await;
        assert!(matches!(refused, Err(ResolutionError::NotPaid)), "{refused:?}");
        assert_eq!((state(&payments, &id).await, fixture.receipts().await.len()), (PaymentState::Unresolved, 0));
    }
    node.chain.lock().unwrap().spent = Some((99_990, paid(PAY_TO, PRICE.0)));
    assert_eq!(payments.resolve_unresolved(&id, &paid_with(TRANSACTION)).await.unwrap().state, PaymentState::Settled);
    let receipt = fixture.receipts().await[0].transaction.clone();
    assert_eq!(receipt.as_deref(), Some(TRANSACTION));
    let claimed = transactions::paid_by(&*fixture.store, "eip155:84532", TRANSACTION).await.unwrap();
    assert_eq!(claimed.receipts.iter().map(|paid| &paid.payment).collect::<Vec<_>>(), [&id]);
}

/// Regression test: the answer was a success with the other decision's state.
#[tokio::test]
async fn decision_that_another_one_overtook_is_an_error() {
    let (fixture, node, payments, id) = unresolved().await;
    node.chain.lock().unwrap().spent = Some((99_990, paid(PAY_TO, PRICE.0)));
    let before = node.times("eth_chainId");
    node.held.send_replace(Some("eth_chainId"));
    let deciding = tokio::spawn({
        let (payments, id) = (Arc::clone(&payments), id.clone());
        async move { payments.resolve_unresolved(&id, &paid_with(TRANSACTION)).await }
    });
    until(|| (node.times("eth_chainId") > before).then_some(())).await;
    assert_eq!(payments.resolve_unresolved(&id, &Resolution::Unpaid).await.unwrap().state, PaymentState::Refused);
    node.held.send_replace(None);
    let overtaken = deciding.await.unwrap();
    assert!(matches!(overtaken, Err(ResolutionError::Overtaken(PaymentState::Refused))), "{overtaken:?}");
    assert_eq!((state(&payments, &id).await, fixture.receipts().await.len()), (PaymentState::Refused, 0));
}

/// A payer can cancel a permit's nonce, and the transfer can belong to another payment.
#[tokio::test]
async fn permit_is_paid_only_if_the_call_data_shows_its_nonce() {
    let payer = Payer::new(1);
    // The fake node is asked about the bit of nonce 0.
    let permit = signed(&payer, &authorization(&payer, 0));
    let mut payment = OfferedX402::from_parts(WireVersion::V2, permit, requirements()).unwrap();
    payment.charge(PRICE);
    let called = Some(json!({ "to": ASSETS[0].address, "input": "0x" }));
    let node = Node::of(Chain { called, ..Chain::at(NOW).spending(99_990, vec![transfer_of(1)]) }).await;
    let chain = node::Node::new(&node.url, ASSETS[0].network).unwrap();
    assert!(matches!(chain.spent_by(&payment, TRANSACTION).await, Ok(None)));
}

//! Settlements that cannot be prepared, and what payments that are worth nothing cost the node.

use super::{
    super::node::IS_VALID_SIGNATURE,
    wallet::{DELEGATION, by_contract},
    *,
};

/// Returns errors that a payer's contract can cause in a simulation: one too large to read, a timeout, and an unknown one.
fn provoked() -> [Value; 3] {
    [
        json!({ "code": 3, "message": "execution reverted", "data": format!("0x{}", "00".repeat(140_000)) }),
        json!({ "code": -32000, "message": "execution aborted (timeout = 5s)" }),
        json!({ "code": -32603, "message": "Internal error" }),
    ]
}

/// Returns a gate that settles through `node`.
async fn gate(node: &Node) -> (Fixture, Arc<Payments>) {
    let fixture = Fixture::new().await;
    let payments = payments(&fixture, Arc::clone(&fixture.store), patient(node));
    (fixture, payments)
}

/// Runs a tool, and changes the chain before the settlement. Returns the limit that refused the payment, if one did, or
/// the reason why it was not settled.
async fn run_unpaid(payments: &Arc<Payments>, node: &Node, nonce: u64, change: impl FnOnce(&mut Chain)) -> Result<String, RunLimit> {
    let admission = match payments.admit(&terms(), Payer::new(1).pays(nonce), REQUEST).await {
        Err(Refusal::Slowed(slowed)) => return Err(slowed.bound),
        admitted => run(admitted),
    };
    let before = node.chain.lock().unwrap().clone();
    change(&mut node.chain.lock().unwrap());
    let settled = payments.settle(admission, answer(ANSWER), &draft()).await;
    *node.chain.lock().unwrap() = before;
    match settled {
        Err(SettleError::Refused { reason, .. }) => Ok(reason),
        other => panic!("{other:?}"),
    }
}

/// Regression test: a key delegated to a contract during each run, and the contract made the node's answer too large to
/// read: 224 unpaid runs in 30 s, and none of them counted.
#[tokio::test]
async fn run_of_a_payer_whose_contract_makes_the_node_fail_counts_as_unpaid() {
    for error in provoked() {
        let node = Node::of(Chain::at(NOW)).await;
        let (_fixture, payments) = gate(&node).await;
        for nonce in 0..30 {
            let error = Some(error.clone());
            let unpaid = run_unpaid(&payments, &node, nonce, |chain| (chain.code, chain.provoked) = (DELEGATION, error)).await;
            assert_eq!(unpaid.as_deref(), Ok("invalid_exact_evm_transaction_simulation_failed"));
        }
        assert_eq!(run_unpaid(&payments, &node, 99, |_| {}).await, Err(RunLimit::Payer));
        assert_eq!(payments.unpaid()["runsLastMinute"], 30);
    }
}

/// The host cannot tell why, and the node works for everybody else.
#[tokio::test]
async fn run_whose_settlement_alone_cannot_be_prepared_counts_as_unpaid() {
    let node = Node::of(Chain::at(NOW)).await;
    let (_fixture, payments) = gate(&node).await;
    for nonce in 0..30 {
        let error = Some(json!({ "code": -32603, "message": "Internal error" }));
        assert_eq!(run_unpaid(&payments, &node, nonce, |chain| chain.provoked = error).await.as_deref(), Ok("facilitator_unavailable"));
    }
    assert_eq!(run_unpaid(&payments, &node, 99, |_| {}).await, Err(RunLimit::Payer));
}

#[tokio::test]
async fn run_during_an_outage_of_the_node_does_not_count_as_unpaid() {
    let node = Node::of(Chain::at(NOW)).await;
    let (_fixture, payments) = gate(&node).await;
    for nonce in 0..30 {
        let outage = Some(("eth_estimateGas", json!({ "code": -32000, "message": "header not found" })));
        assert_eq!(run_unpaid(&payments, &node, nonce, |chain| chain.instead = outage).await.as_deref(), Ok("facilitator_unavailable"));
    }
    assert_eq!(payments.unpaid()["runsLastMinute"], 0);
    drop(run(payments.admit(&terms(), Payer::new(1).pays(99), REQUEST).await));
}

#[tokio::test]
async fn contract_that_makes_the_node_fail_is_refused_unless_the_node_is_down() {
    for error in provoked() {
        let node = Node::of(Chain { provoked: Some(error.clone()), code: DELEGATION, ..Chain::at(NOW) }).await;
        for payment in [Payer::new(1).payment(1), by_contract()] {
            let verdict = patient(&node).verify(&payment).await;
            assert!(matches!(verdict, VerifyResult::Invalid { .. }), "{verdict:?}");
        }
    }
    let down = Some(("eth_estimateGas", json!({ "code": -32603, "message": "Internal error" })));
    let node = Node::of(Chain { instead: down, code: DELEGATION, ..Chain::at(NOW) }).await;
    let verdict = patient(&node).verify(&Payer::new(1).payment(1)).await;
    assert!(matches!(verdict, VerifyResult::Unavailable(_)), "{verdict:?}");
}

/// Regression test: each payment that nobody signed cost a call of a contract and a read of the balance.
#[tokio::test]
async fn payment_that_nobody_signed_costs_one_request_in_half_a_minute() {
    let node = Node::of(Chain::at(NOW)).await;
    let (_fixture, payments) = gate(&node).await;
    let methods = || -> Vec<_> {
        let requested = node.requested.lock().unwrap();
        let calls = |question: &&Value| question["params"][0]["data"].as_str().is_some_and(|data| data.starts_with(IS_VALID_SIGNATURE));
        assert_eq!(requested.iter().filter(calls).count(), 0, "no code of a contract runs");
        requested.iter().map(|question| question["method"].clone()).collect()
    };
    let other = Payer::new(2);
    for nonce in 0..3 {
        let authorization = Payer::new(1).authorization(nonce);
        let mut forged = Payer::new(1).payload(&authorization);
        forged["payload"]["signature"] = json!(other.sign(&authorization));
        assert_eq!(code(payments.admit(&terms(), offer(&forged), REQUEST).await), "invalid_exact_evm_signature");
    }
    let methods = methods();
    assert_eq!(methods.iter().filter(|method| **method == "eth_getCode").count(), 1, "{methods:?}");
    assert!(!methods.iter().any(|method| *method == "eth_estimateGas"), "{methods:?}");
}

#[tokio::test]
async fn balance_is_read_once_a_second_unless_a_settlement_changes_it() {
    let node = Node::of(Chain::at(NOW)).await;
    let (facilitator, payment) = (patient(&node), Payer::new(1).payment(1));
    let reads = |node: &Node| {
        let requested = node.requested.lock().unwrap();
        requested
            .iter()
            .filter(|question| question["params"][0]["data"].as_str().is_some_and(|data| data.starts_with("0x70a08231")))
            .count()
    };
    for _ in 0..3 {
        assert_eq!(facilitator.balance(&payment).await, Some(u128::from(PRICE.0)));
    }
    assert_eq!(reads(&node), 1);
    facilitator.node().unwrap().forget_balance(&payment);
    facilitator.balance(&payment).await;
    assert_eq!(reads(&node), 2);
}

/// Regression test: a caller waited 44 s while the node was stopped.
#[tokio::test(start_paused = true)]
async fn verification_ends_in_time_if_the_node_is_silent() {
    let silent = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let node = node::Node::new(&format!("http://{}", silent.local_addr().unwrap()), ASSETS[0].network).unwrap();
    let store: Arc<dyn Store> = Arc::new(MemoryStore::new());
    let facilitator = EvmFacilitator::new(Arc::new(node), GAS_KEY, &store, Clock::fixed(NOW), TxTimeouts::default()).unwrap();
    let started = tokio::time::Instant::now();
    let verdict = facilitator.verify(&Payer::new(1).payment(1)).await;
    assert!(matches!(verdict, VerifyResult::Unavailable(_)), "{verdict:?}");
    assert!(started.elapsed() <= Duration::from_secs(26), "{:?}", started.elapsed());
}

#[tokio::test]
async fn node_that_refuses_requests_for_their_rate_causes_a_warning() {
    let limited = Some(("eth_estimateGas", json!({ "code": -32005, "message": "limit exceeded" })));
    let node = Node::of(Chain { instead: limited, ..Chain::at(NOW) }).await;
    let (_fixture, payments) = gate(&node).await;
    assert_eq!(payments.unpaid()["warnings"], json!([]));
    let refused = payments.admit(&terms(), Payer::new(1).pays(1), REQUEST).await;
    assert!(matches!(refused, Err(Refusal::FacilitatorUnavailable(_))), "{}", what(&refused));
    let warnings = payments.unpaid()["warnings"].to_string();
    assert!(warnings.contains("rejected 1 request in the last minute"), "{warnings}");
}

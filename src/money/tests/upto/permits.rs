//! Decisions on permits from the chain. Permit2 does not report which transaction took a permit, so that transaction must prove itself.

use alloy_primitives::{Address, U256};
use alloy_sol_types::{SolCall as _, sol};

use super::{
    super::node::{Chain, Node, TRANSACTION, TRANSFER, log, word},
    *,
};
use crate::facilitator::{chain::node, kind::remote::FacilitatorTimeouts};

sol! {
    struct Permitted { address token; uint256 amount; }
    struct Signed { Permitted permitted; uint256 nonce; uint256 deadline; }
    struct Bound { address to; address facilitator; uint256 validAfter; }
    struct Approval { uint256 value; uint256 deadline; bytes32 r; bytes32 s; uint8 v; }
    function settle(Signed permit, uint256 amount, address owner, Bound witness, bytes signature);
    function settleWithPermit(Approval approval, Signed permit, uint256 amount, address owner, Bound witness, bytes signature);
}

/// A minute after the permit expires.
const EXPIRED: Timestamp = Timestamp(NOW.0 + 360_000);

/// The first nonce of the second word.
const NONCE: u64 = 256;

const CHARGED: u64 = 12_300;

/// Returns a payment with this charge.
fn payment() -> OfferedX402 {
    let payer = Payer::new(1);
    let shown = ShownPayment::decode(WireVersion::V2, &paid(&payer, &authorization(&payer, NONCE)).to_string()).unwrap();
    let mut payment = shown.matching(&metered(), vec![requirements()]).unwrap();
    payment.charge(MicroUsd(CHARGED));
    payment
}

/// Returns the call that takes `amount` from the permit with this nonce.
fn settle(nonce: u64, amount: u64) -> settleCall {
    let (payer, address) = (Payer::new(1), |text: &str| text.parse::<Address>().unwrap());
    settleCall {
        permit: Signed {
            permitted: Permitted { token: address(ASSETS[0].address), amount: U256::from(MAX.0) },
            nonce: U256::from(nonce),
            deadline: U256::from(NOW.as_secs() + 300),
        },
        amount: U256::from(amount),
        owner: address(&payer.address()),
        witness: Bound { to: address(PAY_TO), facilitator: address(METER), validAfter: U256::ZERO },
        signature: vec![1; 65].into(),
    }
}

fn called(input: &[u8]) -> Value {
    json!({ "to": UPTO_PROXY, "input": format!("0x{}", hex::encode(input)) })
}

/// Returns the log of a transfer of `amount` to `to`.
fn moved(to: &str, amount: u64) -> Vec<Value> {
    vec![log(8, &[TRANSFER, &word(&Payer::new(1).address()), &word(to)], &format!("0x{amount:064x}"))]
}

/// Returns a chain on which the charge was taken.
fn taken() -> Chain {
    let call = called(&settle(NONCE, CHARGED).abi_encode());
    Chain { called: Some(call), ..Chain::at(EXPIRED).spending(99_990, moved(PAY_TO, CHARGED)) }
}

async fn judged(chain: Chain) -> (SettleOutcome, Arc<Node>) {
    let node = Node::of(chain).await;
    let outcome = node::Node::new(&node.url, ASSETS[0].network).unwrap().nonce_state(&payment(), NOW).await;
    (outcome, node)
}

fn settled(outcome: &SettleOutcome) -> bool {
    matches!(outcome, SettleOutcome::Settled(settlement) if settlement.transaction == TRANSACTION && settlement.amount == CHARGED.to_string())
}

fn refused(outcome: &SettleOutcome, code: &str) -> bool {
    matches!(outcome, SettleOutcome::Refused { reason, .. } if reason == code)
}

fn open(outcome: &SettleOutcome) -> bool {
    matches!(outcome, SettleOutcome::Unknown(_))
}

#[tokio::test]
async fn a_permit_that_was_taken_is_found_in_the_block_that_marked_its_nonce() {
    let (outcome, node) = judged(taken()).await;
    assert!(settled(&outcome), "{outcome:?}");
    let request = node.requested.lock().unwrap();
    let params = |method: &str| {
        let questions = request.iter().filter(|question| question["method"] == method);
        questions.map(|question| question["params"].clone()).collect::<Vec<_>>()
    };
    let bitmap = &params("eth_call")[0];
    let owner = word(&Payer::new(1).address());
    assert_eq!(bitmap[0]["to"].as_str().unwrap().to_lowercase(), "0x000000000022d473030f116ddee9f6b43ac78ba3");
    assert_eq!(bitmap[0]["data"], format!("0x4fe02b44{}{:064x}", &owner[2..], 1), "the second word of nonces");
    assert_eq!(bitmap[1]["blockHash"], format!("0x{:064x}", 100_000), "by the state of the very block whose time was read");
    let ranges: Vec<_> = params("eth_getLogs").iter().map(|logs| (logs[0]["fromBlock"].clone(), logs[0]["toBlock"].clone())).collect();
    assert_eq!(ranges, [(json!("0x18696"), json!("0x18696"))]);
    assert!(params("eth_call").len() < 16, "by halves");
}

#[tokio::test]
async fn a_node_that_keeps_little_state_is_asked_for_events_in_ranges() {
    let early = |chain: Chain| Chain { state_from: 99_999, ..chain.spending(98_100, moved(PAY_TO, CHARGED)) };
    let (outcome, node) = judged(Chain { max_span: 15, ..early(taken()) }).await;
    assert!(settled(&outcome), "{outcome:?}");
    assert!(node.times("eth_getLogs") < 100);
    assert_eq!(node.times("eth_getTransactionByHash"), 1);
    // Transfers of other amounts are not examined.
    let (outcome, node) = judged(Chain { state_from: 99_999, ..taken().spending(99_990, moved(PAY_TO, CHARGED + 1)) }).await;
    assert!(open(&outcome), "{outcome:?}");
    assert_eq!(node.times("eth_getTransactionByHash"), 0);
}

#[tokio::test]
async fn a_transaction_proves_that_it_took_this_permit() {
    let by = async |call: Value| judged(Chain { called: Some(call), ..taken() }).await.0;
    let mut more = settle(NONCE, CHARGED).abi_encode();
    more.extend_from_slice(b"who settled it");
    assert!(settled(&by(called(&more)).await), "bytes after the arguments are ignored");
    let settleCall { permit, amount, owner, witness, signature } = settle(NONCE, CHARGED);
    let approval = Approval { value: U256::MAX, deadline: U256::MAX, r: U256::ONE.into(), s: U256::ONE.into(), v: 27 };
    let approved = settleWithPermitCall { approval, permit, amount, owner, witness, signature };
    assert!(settled(&by(called(&approved.abi_encode())).await));
    let elsewhere = json!({ "to": PAY_TO, "input": called(&settle(NONCE, CHARGED).abi_encode())["input"] });
    for (name, call) in [
        ("of another nonce", called(&settle(NONCE + 1, CHARGED).abi_encode())),
        ("of another payer", called(&settleCall { owner: Address::repeat_byte(7), ..settle(NONCE, CHARGED) }.abi_encode())),
        ("of another contract", elsewhere),
        ("of another function", called(&[1, 2, 3, 4])),
        ("of another amount", called(&settle(NONCE, CHARGED - 1).abi_encode())),
        ("of nothing", json!({ "to": null, "input": "0x" })),
    ] {
        let outcome = by(call).await;
        assert!(open(&outcome), "{name}: {outcome:?}");
    }
}

#[tokio::test]
async fn a_transaction_that_took_more_or_less_than_was_charged_leaves_it_open() {
    let call = called(&settle(NONCE, CHARGED + 1).abi_encode());
    let (outcome, _) = judged(Chain { called: Some(call), ..taken().spending(99_990, moved(PAY_TO, CHARGED + 1)) }).await;
    let SettleOutcome::Unknown(reason) = outcome else { panic!("{outcome:?}") };
    assert!(reason.contains("transferred 12301") && reason.contains("12300 was charged"), "{reason}");
}

/// The payer has used up the nonce, or signed another permit with it and had that one taken.
#[tokio::test]
async fn a_nonce_that_was_used_without_paying_is_refused_where_that_can_be_seen() {
    let elsewhere = |chain: Chain| Chain { called: None, ..chain.spending(99_990, moved(METER, CHARGED)) };
    let (outcome, _) = judged(elsewhere(taken())).await;
    assert!(refused(&outcome, "permit2_invalid_nonce"), "{outcome:?}");
    // Another transfer in that block is not one of the charge.
    let stray = |amount| Chain {
        called: Some(json!({ "to": ASSETS[0].address, "input": "0x" })),
        ..taken().spending(99_990, moved(PAY_TO, amount))
    };
    let (outcome, _) = judged(stray(1)).await;
    assert!(refused(&outcome, "permit2_invalid_nonce"), "{outcome:?}");
    let (outcome, _) = judged(stray(CHARGED)).await;
    assert!(open(&outcome), "somebody else may have taken it: {outcome:?}");
    let (outcome, _) = judged(Chain { state_from: 99_999, ..elsewhere(taken()) }).await;
    assert!(open(&outcome), "the block is not known: {outcome:?}");
    let (outcome, _) = judged(Chain { pruned_before: 99_995, ..elsewhere(taken()) }).await;
    assert!(open(&outcome), "its events are forgotten: {outcome:?}");
    let others: [fn(&mut settleCall); 5] = [
        |call| call.permit.deadline += U256::ONE,
        |call| call.permit.permitted.amount += U256::ONE,
        |call| call.permit.permitted.token = Address::ZERO,
        |call| call.witness.facilitator = Address::ZERO,
        |call| call.witness.validAfter += U256::ONE,
    ];
    for (n, change) in others.into_iter().enumerate() {
        let mut other = settle(NONCE, CHARGED);
        change(&mut other);
        let (outcome, _) = judged(Chain { called: Some(called(&other.abi_encode())), ..taken() }).await;
        assert!(refused(&outcome, "permit2_invalid_nonce"), "another permit was taken, the {n}th: {outcome:?}");
    }
}

#[tokio::test]
async fn permit_causes_a_limited_number_of_node_requests() {
    let elsewhere = json!({ "to": PAY_TO, "input": "0x" });
    let many = taken().spending(99_990, vec![moved(PAY_TO, CHARGED); 60].concat());
    let (outcome, node) = judged(Chain { state_from: 99_999, called: Some(elsewhere.clone()), ..many }).await;
    assert!(open(&outcome), "{outcome:?}");
    assert_eq!(node.times("eth_getTransactionByHash"), 50);
    let (outcome, node) = judged(Chain { state_from: 99_999, max_span: 10, called: Some(elsewhere), ..taken() }).await;
    assert!(open(&outcome), "{outcome:?}");
    assert_eq!(node.times("eth_getLogs"), 100);
}

#[tokio::test]
async fn a_permit_is_refused_once_it_has_expired_unused_at_a_block_that_stays() {
    let until = Timestamp(NOW.0 + 300_000);
    let (outcome, _) = judged(Chain::at(Timestamp(until.0 + 1_000))).await;
    assert!(refused(&outcome, "permit2_deadline_expired"), "{outcome:?}");
    let (outcome, _) = judged(Chain::at(until)).await;
    assert!(open(&outcome), "it can be taken in that second: {outcome:?}");
    let others = Some(("eth_call", json!(format!("0x{:f>64}", "e"))));
    let (outcome, _) = judged(Chain { instead: others, ..Chain::at(EXPIRED) }).await;
    assert!(refused(&outcome, "permit2_deadline_expired"), "the other nonces of its word are used: {outcome:?}");
}

#[tokio::test]
async fn a_node_that_lags_prunes_or_misbehaves_decides_nothing_about_a_permit() {
    let fails = || json!({ "code": -32000, "message": "header not found" });
    for (name, chain) in [
        ("it lags", Chain::at(Timestamp(NOW.0 - 3_600_000))),
        ("it is of another chain", Chain { id: 8_453, ..taken() }),
        ("it has not the block that it named", Chain { instead: Some(("eth_call", fails())), ..taken() }),
        ("there is no Permit2", Chain { instead: Some(("eth_call", json!("0x"))), ..taken() }),
        ("it has pruned the events", Chain { pruned_before: 99_995, ..taken() }),
        ("it has no events", Chain { instead: Some(("eth_getLogs", json!([]))), ..taken() }),
        ("it refuses to look", Chain { instead: Some(("eth_getLogs", fails())), ..taken() }),
        ("the transaction is missing", Chain { instead: Some(("eth_getTransactionByHash", Value::Null)), ..taken() }),
        ("its receipt is missing", Chain { instead: Some(("eth_getTransactionReceipt", Value::Null)), ..taken() }),
        ("what it says of the state is always the same", Chain { instead: Some(("eth_call", json!(format!("0x{:064x}", 1)))), ..taken() }),
        ("its block may be replaced", taken().spending(100_001, moved(PAY_TO, CHARGED))),
    ] {
        let until = Timestamp(NOW.0 + 200_000);
        let at = if chain.at > until { until } else { chain.at };
        let (outcome, _) = judged(Chain { at, ..chain }).await;
        assert!(open(&outcome), "{name}: {outcome:?}");
    }
}

/// A facilitator's simulation fails if the payer has used up the nonce, and also if the money has moved.
#[tokio::test]
async fn a_failed_permit_is_looked_up_on_the_chain_before_it_is_refused() {
    for reason in ["permit2_simulation_failed", "permit2_invalid_nonce"] {
        let body = json!({ "success": false, "errorReason": reason, "transaction": "" });
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let router = Router::new().fallback(async move || Json(body.clone()));
        tokio::spawn(async move { axum::serve(listener, router).await });
        let settled_with = async |chain: Option<Chain>| {
            let node = match chain {
                Some(chain) => Some(Arc::new(node::Node::new(&Node::of(chain).await.url, ASSETS[0].network).unwrap())),
                None => None,
            };
            HttpFacilitator::new(&url, &Default::default(), node, Clock::fixed(NOW))
                .unwrap()
                .settle(&payment(), &started_settlement())
                .await
        };
        assert!(refused(&settled_with(Some(Chain::at(NOW))).await, reason), "{reason}: it is unused");
        assert!(settled(&settled_with(Some(taken())).await), "{reason}: it is taken");
        let lately = Chain { at: NOW, ..taken().spending(100_010, moved(PAY_TO, CHARGED)) };
        assert!(open(&settled_with(Some(lately)).await), "{reason}: its block may be replaced");
        assert!(refused(&settled_with(None).await, reason), "{reason}: no node");
    }
}

/// A transaction named by a facilitator counts only if the chain has it and it took the charge from this permit.
#[tokio::test]
async fn permit_settlement_counts_once_the_chain_has_it() {
    let settled_with = async |transaction: &str, chain: Chain| {
        let body = json!({ "success": true, "transaction": transaction, "network": "eip155:84532" });
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let router = Router::new().fallback(async move || Json(body.clone()));
        tokio::spawn(async move { axum::serve(listener, router).await });
        let node = Node::of(Chain { at: NOW, ..chain }).await;
        let node = Arc::new(node::Node::new(&node.url, ASSETS[0].network).unwrap());
        let short = Duration::from_secs(1);
        let facilitator = HttpFacilitator::new(&url, &Default::default(), Some(node), Clock::fixed(NOW)).unwrap();
        facilitator
            .with_timeout(FacilitatorTimeouts { verify: short, settle: short, again: Duration::ZERO })
            .settle(&payment(), &started_settlement())
            .await
    };
    let outcome = settled_with(TRANSACTION, taken()).await;
    assert!(settled(&outcome), "{outcome:?}");
    let invented = TRANSACTION.replace('1', "2");
    let other_permit = Chain { called: Some(called(&settle(NONCE + 1, CHARGED).abi_encode())), ..taken() };
    let less =
        Chain { called: Some(called(&settle(NONCE, CHARGED - 1).abi_encode())), ..taken().spending(99_990, moved(PAY_TO, CHARGED - 1)) };
    for (case, transaction, chain) in [
        ("it is invented", invented.as_str(), Chain::at(NOW)),
        ("it took another permit", TRANSACTION, other_permit),
        ("it took less than was charged", TRANSACTION, less),
        ("it paid somebody else", TRANSACTION, taken().spending(99_990, moved(METER, CHARGED))),
        ("the node is of another chain", TRANSACTION, Chain { id: 1, ..taken() }),
    ] {
        let outcome = settled_with(transaction, chain).await;
        assert!(!matches!(outcome, SettleOutcome::Settled(_)), "{case}: {outcome:?}");
    }
}

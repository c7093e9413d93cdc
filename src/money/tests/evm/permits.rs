//! Permits from which the host itself takes the charge.

use super::{
    super::upto::{MAX, authorization, paid as signed, requirements},
    *,
};
use crate::x402::permit2::{ProxyCall, UPTO_PROXY};

/// Returns a permit of payer 1 with this nonce for the signer, modified by `change`.
fn payment(nonce: u64, change: impl FnOnce(&mut Value)) -> OfferedX402 {
    let payer = Payer::new(1);
    let mut authorization = authorization(&payer, nonce);
    authorization["witness"]["facilitator"] = json!(signer());
    change(&mut authorization);
    OfferedX402::from_parts(WireVersion::V2, signed(&payer, &authorization), requirements()).unwrap()
}

/// Returns a node where the payer has enough, and lets Permit2 move it.
fn ready() -> Chain {
    Chain { balance: MAX.0, allowance: MAX.0, ..Chain::at(NOW) }
}

async fn refused(chain: Chain, payment: &OfferedX402) -> String {
    match patient(&*Node::of(chain).await).verify(payment).await {
        VerifyResult::Invalid { reason, .. } => reason,
        verdict => panic!("{verdict:?}"),
    }
}

fn reverting(chain: Chain) -> Chain {
    Chain { instead: Some(("eth_estimateGas", json!({ "code": 3, "message": "execution reverted" }))), ..chain }
}

#[tokio::test]
async fn the_most_is_tried_before_the_work() {
    let (node, payment) = (Node::of(ready()).await, payment(1, |_| {}));
    assert_eq!(patient(&node).verify(&payment).await, VerifyResult::Valid);
    let request = node.requested.lock().unwrap();
    let tried = &request.iter().find(|question| question["method"] == "eth_estimateGas").unwrap()["params"][0];
    assert_eq!((&tried["to"], &tried["from"]), (&json!(UPTO_PROXY), &json!(signer())));
    let taking = ProxyCall::read(&tried["data"].as_str().unwrap().parse::<alloy_primitives::Bytes>().unwrap()).unwrap();
    assert!(taking.takes(&payment.permit().unwrap().0) && taking.amount == U256::from(MAX.0));
}

#[tokio::test]
async fn a_permit_that_could_not_be_taken_is_refused_before_the_work() {
    let fine = || payment(1, |_| {});
    let spent = ready().spending(99_990, paid(PAY_TO, PRICE.0));
    // The fake node is asked about the bit of nonce 0.
    assert_eq!(refused(reverting(spent), &payment(0, |_| {})).await, "permit2_invalid_nonce");
    assert_eq!(refused(reverting(Chain { balance: MAX.0 - 1, ..ready() }), &fine()).await, "permit2_insufficient_balance");
    assert_eq!(refused(reverting(Chain { allowance: MAX.0 - 1, ..ready() }), &fine()).await, "permit2_allowance_required");
    assert_eq!(refused(reverting(ready()), &fine()).await, "permit2_simulation_failed");
    let greedy = Chain { instead: Some(("eth_estimateGas", json!("0xf4241"))), ..ready() };
    assert_eq!(refused(greedy, &fine()).await, "permit2_simulation_failed", "a wallet's contract uses up the signer's gas");
    let in_secs = |secs: u64| json!((NOW.as_secs() + secs).to_string());
    let body = [
        (payment(1, |permit| permit["deadline"] = in_secs(5)), "permit2_deadline_expired"),
        (payment(1, |permit| permit["witness"]["validAfter"] = in_secs(1)), "permit2_not_yet_valid"),
        (payment(1, |permit| permit["witness"]["facilitator"] = json!(PAY_TO)), "upto_facilitator_mismatch"),
        (payment(1, |permit| permit["from"] = json!(Payer::new(2).address())), "invalid_permit2_signature"),
        (payment(1, |permit| permit["permitted"]["amount"] = json!("49999")), "invalid_upto_evm_payload_settlement_exceeds_amount"),
    ];
    for (payment, code) in body {
        assert_eq!(refused(ready(), &payment).await, code);
    }
    let last_moment = payment(1, |permit| (permit["deadline"], permit["witness"]["validAfter"]) = (in_secs(6), in_secs(0)));
    assert_eq!(patient(&*Node::of(ready()).await).verify(&last_moment).await, VerifyResult::Valid);
}

#[tokio::test]
async fn a_wallet_that_is_a_contract_is_asked_for_the_hash_that_permits() {
    let text = json!("0x1626ba7e00000000000000000000000000000000000000000000000000000000");
    let node = Node::of(Chain { instead: Some(("eth_call", text)), code: "0x60", ..ready() }).await;
    let wallet = payment(1, |permit| permit["from"] = json!(Payer::new(2).address()));
    assert_eq!(patient(&node).verify(&wallet).await, VerifyResult::Valid);
    let request = node.requested.lock().unwrap();
    let hash = wallet.permit().unwrap().0.signing_hash(ASSETS[0].network);
    let question = format!("0x1626ba7e{}", alloy_primitives::hex::encode(hash));
    assert!(request.iter().any(|call| call["params"][0]["data"].as_str().is_some_and(|data| data.starts_with(&question))), "{request:?}");
}

#[tokio::test]
async fn charge_counts_once_the_token_has_moved_it() {
    for (charged, settled) in [(PRICE, true), (MicroUsd(PRICE.0 + 1), false)] {
        let (node, mut payment) = (Node::of(ready()).await, payment(1, |_| {}));
        payment.charge(charged);
        let (permit, facilitator) = (payment.permit().unwrap().0, patient(&node));
        let transaction = facilitator.prepare(&payment).await.unwrap();
        assert!(node.chain.lock().unwrap().pool.is_empty(), "its hash is to be on disk first");
        let settling =
            tokio::spawn(async move { facilitator.settle(&payment, &StartedSettlement { transaction, ..started_settlement() }).await });
        let sent = until(|| node.chain.lock().unwrap().pool.first().cloned()).await;
        let (hash, sent) = (keccak256(&sent), read(&sent));
        let taking = ProxyCall::read(&sent.data).unwrap();
        assert!(sent.to == UPTO_PROXY && taking.takes(&permit) && taking.amount == U256::from(charged.0), "{sent:?}");
        {
            let mut chain = node.chain.lock().unwrap();
            (chain.mined, chain.safe) = (Some(hash), chain.safe + 1);
        }
        match settling.await.unwrap() {
            SettleOutcome::Settled(settlement) => {
                assert!(settled && settlement.transaction == hash.to_string() && settlement.amount == charged.0.to_string());
            }
            outcome => assert!(!settled && matches!(outcome, SettleOutcome::Unknown(_)), "{outcome:?}"),
        }
    }
}

/// The gas key was changed, so nobody can take a permit that names the old one.
#[tokio::test]
async fn a_permit_that_names_another_signer_is_not_sent() {
    let node = Node::of(reverting(ready())).await;
    let prepared = patient(&node).prepare(&payment(1, |permit| permit["witness"]["facilitator"] = json!(PAY_TO))).await;
    assert!(matches!(prepared, Err(PrepareError::Refused { .. })), "{prepared:?}");
    assert!(node.chain.lock().unwrap().pool.is_empty());
}

#[tokio::test]
async fn permits_are_offered_once_the_node_confirms_the_proxy() {
    let node = Node::of(ready()).await;
    let facilitator = patient(&node);
    let checked =
        |node: &Node| node.requested.lock().unwrap().iter().filter(|question| question["params"][0]["data"] == "0x6afdd850").count();
    until(|| (checked(&node) > 0).then_some(())).await;
    assert_eq!(facilitator.meter(ASSETS[0].network), None);
    node.chain.lock().unwrap().proxy = true;
    let meter = until(|| facilitator.meter(ASSETS[0].network)).await;
    assert_eq!(meter, signer().to_checksum(None));
}

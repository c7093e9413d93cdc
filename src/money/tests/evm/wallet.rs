//! The signer of a payment, and the call of the token.

use alloy_primitives::hex;

use super::*;

/// The answer of a contract that has signed (EIP-1271).
const SIGNED: &str = "0x1626ba7e00000000000000000000000000000000000000000000000000000000";

const BY_KEY: &str = "transferWithAuthorization(address,address,uint256,uint256,uint256,bytes32,uint8,bytes32,bytes32)";
const BY_CONTRACT: &str = "transferWithAuthorization(address,address,uint256,uint256,uint256,bytes32,bytes)";

/// The code of an address whose key delegated to a contract (EIP-7702).
pub(super) const DELEGATION: &str = "0xef01001111111111111111111111111111111111111111";

/// Returns a payment whose signature is not by the payer's key.
pub(super) fn by_contract() -> OfferedX402 {
    let (wallet, owner) = (Payer::new(1), Payer::new(2));
    let mut payload = wallet.payload(&wallet.authorization(1));
    payload["payload"]["signature"] = json!(owner.sign(&wallet.authorization(1)));
    decode(&payload).unwrap()
}

/// Returns a node that gives this answer to a call of any contract.
async fn answering(answer: Value) -> Arc<Node> {
    Node::of(Chain { instead: Some(("eth_call", answer)), code: "0x60", ..Chain::at(NOW) }).await
}

/// Returns the transaction sent for a payment.
async fn sent(node: &Node, payment: OfferedX402) -> Sent {
    let facilitator = patient(node);
    let transaction = facilitator.prepare(&payment).await.unwrap();
    let settling =
        tokio::spawn(async move { facilitator.settle(&payment, &StartedSettlement { transaction, ..started_settlement() }).await });
    let raw = until(|| node.chain.lock().unwrap().pool.first().cloned()).await;
    settling.abort();
    read(&raw)
}

/// Returns the function's selector and the six words that both variants share.
fn transfer(function: &str, payment: &OfferedX402) -> Vec<u8> {
    let Transfer { from, to, value, valid_after, valid_before, nonce } = payment.transfer().unwrap().0;
    let numbers = [value, valid_after, valid_before].map(B256::from);
    [&keccak256(function)[..4], &[from.into_word(), to.into_word()].concat(), &numbers.concat(), &nonce[..]].concat()
}

#[tokio::test]
async fn the_token_call_has_the_signed_terms_and_half_more_gas() {
    let (node, payment) = (Node::of(Chain::at(NOW)).await, Payer::new(1).payment(1));
    let sent = sent(&node, payment.clone()).await;
    assert_eq!((sent.to, sent.gas), (ASSETS[0].address.parse().unwrap(), 90_000));
    let signature = hex::decode(payment.transfer().unwrap().1).unwrap();
    let v = B256::with_last_byte(signature[64]);
    assert_eq!(sent.data, [&transfer(BY_KEY, &payment)[..], &v[..], &signature[..64]].concat());
}

#[tokio::test]
async fn a_wallet_that_is_a_contract_pays_where_it_says_that_it_signed() {
    let (node, payment) = (answering(json!(SIGNED)).await, by_contract());
    assert_eq!(patient(&node).verify(&payment).await, VerifyResult::Valid);
    let data = sent(&node, payment.clone()).await.data;
    assert!(data.starts_with(&transfer(BY_CONTRACT, &payment)), "{data}");
    let signature = hex::decode(payment.transfer().unwrap().1).unwrap();
    assert!(data.windows(65).any(|part| part == signature), "{data}");
}

#[tokio::test]
async fn an_unsigned_payment_is_refused_and_a_failing_node_decides_nothing() {
    let error = |message: &str| json!({ "code": 3, "message": message });
    for answer in [json!(format!("0x{:064x}", 1)), json!("0x"), json!(format!("{SIGNED}00")), error("execution reverted")] {
        let verdict = patient(&*answering(answer.clone()).await).verify(&by_contract()).await;
        let code = "invalid_exact_evm_signature";
        assert!(matches!(&verdict, VerifyResult::Invalid { reason, .. } if reason == code), "{answer}: {verdict:?}");
    }
    let verdict = patient(&*answering(error("rate limited")).await).verify(&by_contract()).await;
    assert!(matches!(verdict, VerifyResult::Unavailable(_)), "not the payer's fault: {verdict:?}");
}

/// A wallet that is not deployed signs with an envelope (ERC-6492). Its contract cannot be asked, and is not deployed for it.
#[tokio::test]
async fn envelope_of_an_undeployed_wallet_is_refused_with_a_reason_of_its_own() {
    let (wallet, owner) = (Payer::new(1), Payer::new(2));
    let mut payload = wallet.payload(&wallet.authorization(1));
    let envelope = format!("{}{}", owner.sign(&wallet.authorization(1)), "6492".repeat(16));
    payload["payload"]["signature"] = json!(envelope);
    let payment = decode(&payload).unwrap();
    let node = Node::of(Chain::at(NOW)).await;
    let facilitator = patient(&node);
    let verdict = facilitator.verify(&payment).await;
    let VerifyResult::Invalid { reason, message } = &verdict else { panic!("{verdict:?}") };
    assert_eq!(reason, "invalid_exact_evm_payload_undeployed_smart_wallet");
    assert!(message.contains("deploy it"), "{message}");
    let refused = facilitator.prepare(&payment).await;
    assert!(matches!(&refused, Err(PrepareError::Refused { reason: after, .. }) if after == reason), "{refused:?}");
    assert!(node.chain.lock().unwrap().pool.is_empty());
    // `isValidSignature` of ERC-1271.
    assert!(!node.requested.lock().unwrap().iter().any(|question| question.to_string().contains("1626ba7e")), "its code is not run");
    // The wallet was deployed meanwhile, and does not accept the envelope. The payer learns which form it must send.
    let verdict = patient(&*answering(json!("0x")).await).verify(&payment).await;
    assert!(matches!(&verdict, VerifyResult::Invalid { reason, .. } if reason == "invalid_exact_evm_signature"), "{verdict:?}");
    assert!(payment.signed.format_error().unwrap().contains("ERC-6492"));
}

/// The wallet signed before the run, and loops after it. That is its refusal, and not the node's.
#[tokio::test]
async fn wallet_that_uses_up_its_gas_has_not_signed() {
    for message in ["out of gas", "invalid opcode: INVALID", "stack limit reached 1024 (1023)"] {
        let (node, payment) = (answering(json!(SIGNED)).await, by_contract());
        let facilitator = patient(&node);
        assert_eq!(facilitator.verify(&payment).await, VerifyResult::Valid);
        node.chain.lock().unwrap().instead = Some(("eth_call", json!({ "code": -32000, "message": message })));
        let refused = facilitator.prepare(&payment).await;
        let code = "invalid_exact_evm_signature";
        assert!(matches!(&refused, Err(PrepareError::Refused { reason, .. }) if reason == code), "{message}: {refused:?}");
        let request = node.requested.lock().unwrap();
        let of_calls = request.iter().filter(|question| question["method"] == "eth_call").map(|question| &question["params"][0]["gas"]);
        let limits: Vec<_> = of_calls.filter_map(Value::as_str).collect();
        assert_eq!(limits, ["0xf4240", "0xf4240"], "a node's run for a wallet is bounded");
    }
}

#[tokio::test]
async fn out_of_gas_is_rejected_and_a_poor_signer_is_the_hosts_fault() {
    for (allowance, is_refused) in [(50_000_000, true), (21_000, false)] {
        let message = format!("gas required exceeds allowance ({allowance})");
        let instead = Some(("eth_estimateGas", json!({ "code": -32000, "message": message })));
        let node = Node::of(Chain { instead, ..Chain::at(NOW) }).await;
        let verdict = patient(&node).verify(&Payer::new(1).payment(1)).await;
        assert!(
            matches!((is_refused, &verdict), (true, VerifyResult::Invalid { .. }) | (false, VerifyResult::Unavailable(_))),
            "{verdict:?}"
        );
    }
}

#[tokio::test]
async fn a_wallet_that_would_use_up_the_gas_does_not_pay() {
    for (gas, pays) in [("0xf4240", true), ("0xf4241", false)] {
        let node = Node::of(Chain { instead: Some(("eth_estimateGas", json!(gas))), ..Chain::at(NOW) }).await;
        let verdict = patient(&node).verify(&Payer::new(1).payment(1)).await;
        assert!(matches!((pays, &verdict), (true, VerifyResult::Valid) | (false, VerifyResult::Invalid { .. })), "{gas}: {verdict:?}");
    }
}

/// The address had no code when it was verified and signed. Then its key delegated to a contract, which can refuse in
/// the transaction.
#[tokio::test]
async fn address_that_gets_code_after_verification_settles_as_a_contract() {
    let (node, payment) = (Node::of(Chain::at(NOW)).await, Payer::new(1).payment(1));
    let facilitator = patient(&node);
    assert_eq!(facilitator.verify(&payment).await, VerifyResult::Valid);
    assert!(payment.tried_gas().is_some_and(|tried| !tried.by_contract));
    node.chain.lock().unwrap().code = DELEGATION;
    facilitator.prepare(&payment).await.unwrap();
    assert!(payment.tried_gas().is_some_and(|tried| tried.by_contract));
}

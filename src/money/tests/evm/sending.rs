//! Nodes and gateways that accept a transaction but answer something else, and those that refuse one.

use super::{super::node::Sending, *};

/// Returns answers of gateways and nodes to a transaction that may have been broadcast.
pub(super) fn unclear_answers() -> Vec<(u16, String)> {
    let describe =
        |code: i64, message: &str| json!({ "jsonrpc": "2.0", "id": 1, "error": { "code": code, "message": message } }).to_string();
    vec![
        (504, json!({ "message": "Endpoint request timed out" }).to_string()),
        (502, "<html>Bad gateway</html>".to_owned()),
        (503, json!({ "error": "Service unavailable" }).to_string()),
        (500, describe(-32603, "Internal error")),
        (200, describe(-32603, "Internal error")),
        (200, describe(-32603, "insufficient funds for gas * price + value")),
        (503, describe(-32000, "insufficient funds for gas * price + value")),
        (429, describe(-32005, "rate limit exceeded")),
        (200, describe(-32005, "daily request count exceeded, request rate limited")),
        (200, describe(-32000, "request timed out")),
        (200, describe(-32000, "context deadline exceeded")),
        (200, describe(-32000, "nonce too low: next nonce 8, tx nonce 7")),
        (200, describe(-32000, "replacement transaction underpriced")),
        (200, describe(-32000, "already known")),
        (200, describe(-32000, "insufficient funds for gas * price + value")),
        (200, describe(-32010, "AlreadyKnown")),
        (200, describe(-32001, "Nonce too low")),
        (200, describe(-32099, "upstream request failed")),
        (200, json!({ "error": "Too many requests" }).to_string()),
        (200, json!({ "error": { "message": "insufficient funds for gas" } }).to_string()),
        (403, json!({ "error": { "code": -32000, "message": "intrinsic gas too low" } }).to_string()),
        (200, json!({ "jsonrpc": "2.0", "id": 1, "result": null }).to_string()),
        (200, json!({ "jsonrpc": "2.0", "id": 1, "result": "accepted" }).to_string()),
        (200, json!([]).to_string()),
        (200, "{\"jsonrpc\":\"2.0\",\"id\":1,\"resu".to_owned()),
        (200, String::new()),
        (204, String::new()),
    ]
}

/// Refusals of geth, erigon, reth, anvil, nethermind and besu.
const REFUSALS: &[(i64, &str)] = &[
    (-32000, "insufficient funds for gas * price + value: balance 0, tx cost 1, overshot 1"),
    (-32000, "INTERNAL_ERROR: insufficient funds"),
    (-32000, "intrinsic gas too low: gas 1, minimum needed 21000"),
    (-32000, "transaction underpriced: gas tip cap 1, minimum needed 2"),
    (-32000, "max fee per gas less than block base fee"),
    (-32000, "exceeds block gas limit"),
    (-32000, "tx fee (2.00 ether) exceeds the configured cap (1.00 ether)"),
    (-32000, "txpool is full"),
    (-32003, "Insufficient funds for gas * price + value"),
    (-32010, "InsufficientFunds, Account balance is 0"),
    (-32010, "FeeTooLow, MaxFeePerGas too low"),
    (-32004, "Upfront cost exceeds account balance"),
    (-32009, "Gas price below configured minimum gas price"),
];

/// Regression test: the answer said that nothing was charged, and the transfer was in the next block.
#[tokio::test]
async fn broadcast_transaction_is_awaited_despite_node_errors() {
    for (status, body) in unclear_answers() {
        let case = format!("{status} {body}");
        let sending = Some(Sending { keeps: true, status, body });
        let node = Node::of(Chain { sending, ..Chain::at(NOW) }).await;
        let facilitator = patient(&node);
        let settling = tokio::spawn({
            let facilitator = Arc::clone(&facilitator);
            async move { settle(&facilitator, 1).await }
        });
        let sent = until(|| node.chain.lock().unwrap().pool.first().cloned()).await;
        // The block is searched again after the answer.
        let looks = node.times("eth_getBlockByNumber");
        until(|| (node.times("eth_getBlockByNumber") > looks + 1).then_some(())).await;
        assert!(!settling.is_finished(), "{case}: {:?}", settling.await);
        let next = facilitator.prepare(&Payer::new(1).payment(2)).await.unwrap().unwrap();
        {
            let mut chain = node.chain.lock().unwrap();
            (chain.mined, chain.used, chain.sending) = (Some(keccak256(&sent)), 8, None);
            chain.safe += 1;
        }
        let outcome = settling.await.unwrap();
        let hash = keccak256(&sent).to_string();
        assert!(matches!(&outcome, SettleOutcome::Settled(settlement) if settlement.transaction == hash), "{case}: {outcome:?}");
        let started = StartedSettlement { transaction: Some(next), ..started_settlement() };
        let second = tokio::spawn(async move { facilitator.settle(&Payer::new(1).payment(2), &started).await });
        let sent = until(|| node.chain.lock().unwrap().pool.get(1).cloned()).await;
        assert_eq!(read(&sent).nonce, 8, "{case}: the nonce was used again");
        second.abort();
    }
}

#[tokio::test]
async fn a_transaction_without_a_clear_answer_is_sent_again_as_it_is() {
    let answers = unclear_answers().into_iter().filter(|(_, body)| !body.to_lowercase().contains("already"));
    futures_util::future::join_all(answers.map(async |(status, body)| {
        let case = format!("{status} {body}");
        let refused = body.contains("-32000") && body.contains("insufficient") && status == 200;
        let sending = Some(Sending { keeps: false, status, body });
        let node = Node::of(Chain { sending, ..Chain::at(NOW) }).await;
        let facilitator = patient(&node);
        let settling = tokio::spawn(async move { settle(&facilitator, 1).await });
        until(|| (node.times("eth_sendRawTransaction") > 0).then_some(())).await;
        if refused {
            assert!(matches!(settling.await.unwrap(), SettleOutcome::Unsent(_)), "{case}");
            return;
        }
        node.chain.lock().unwrap().sending = None;
        let sent = until(|| node.chain.lock().unwrap().pool.first().cloned()).await;
        let questions: Vec<_> = {
            let request = node.requested.lock().unwrap();
            request
                .iter()
                .filter(|question| question["method"] == "eth_sendRawTransaction")
                .map(|request| request["params"].clone())
                .collect()
        };
        assert!(questions.windows(2).all(|two| two[0] == two[1]), "{case}: {questions:?}");
        {
            let mut chain = node.chain.lock().unwrap();
            (chain.mined, chain.used) = (Some(keccak256(&sent)), 8);
            chain.safe += 1;
        }
        assert!(matches!(settling.await.unwrap(), SettleOutcome::Settled(_)), "{case}");
    }))
    .await;
}

#[tokio::test]
async fn a_known_refusal_of_a_transaction_that_the_node_does_not_have_frees_its_nonce() {
    for (code, message) in REFUSALS {
        for status in [200, 400] {
            let body = json!({ "jsonrpc": "2.0", "id": 1, "error": { "code": code, "message": message } }).to_string();
            let node = Node::of(Chain { sending: Some(Sending { keeps: false, status, body }), ..Chain::at(NOW) }).await;
            let facilitator = patient(&node);
            let outcome = settle(&facilitator, 1).await;
            assert!(matches!(outcome, SettleOutcome::Unsent(_)), "{message}: {outcome:?}");
            node.chain.lock().unwrap().sending = None;
            let settling = tokio::spawn(async move { settle(&facilitator, 2).await });
            let sent = until(|| node.chain.lock().unwrap().pool.first().cloned()).await;
            assert_eq!(read(&sent).nonce, 7, "{message}");
            settling.abort();
        }
    }
}

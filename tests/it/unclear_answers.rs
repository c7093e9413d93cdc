//! Nodes, gateways and facilitators whose answers are unclear or false with respect to the payment.

use std::time::Duration;

use serde_json::{Value, json};

use crate::harness::{
    Answer, Chain, Facilitator, FacilitatorAnswer, Gateway, GatewayFault, Host, HostBuilder, PAY_TO, Payer, SettleMode, chain::GAS_KEY,
    eventually, js, permit::publish_meter,
};

const ECHO: &str = "export default async (req) => ({ echo: req.input });";
const FUNDS: u64 = 1_000_000;
const PRICE: u64 = 10_000;
const LONG: Duration = Duration::from_secs(120);

fn rpc_error(code: i64, message: &str) -> String {
    json!({ "jsonrpc": "2.0", "id": 1, "error": { "code": code, "message": message } }).to_string()
}

/// Returns answers after which it is unknown whether the node has the transaction.
fn unclear() -> Vec<(u16, String)> {
    vec![
        (504, json!({ "message": "Endpoint request timed out" }).to_string()),
        (502, "<html>Bad gateway</html>".to_owned()),
        (503, json!({ "error": "Service unavailable" }).to_string()),
        (500, rpc_error(-32603, "Internal error")),
        (200, rpc_error(-32603, "Internal error")),
        (503, rpc_error(-32000, "insufficient funds for gas * price + value")),
        (429, rpc_error(-32005, "rate limit exceeded")),
        (200, rpc_error(-32005, "daily request count exceeded, request rate limited")),
        (200, rpc_error(-32000, "request timed out")),
        (200, rpc_error(-32000, "context deadline exceeded")),
        (200, rpc_error(-32000, "nonce too low")),
        (200, rpc_error(-32000, "replacement transaction underpriced")),
        (200, rpc_error(-32000, "already known")),
        (200, rpc_error(-32010, "AlreadyKnown")),
        (200, rpc_error(-32000, "insufficient funds for gas * price + value")),
        (200, rpc_error(-32099, "upstream request failed")),
        (200, json!({ "error": "Too many requests" }).to_string()),
        (403, rpc_error(-32000, "intrinsic gas too low")),
        (200, json!({ "jsonrpc": "2.0", "id": 1, "result": null }).to_string()),
        (200, json!([]).to_string()),
        (200, "{\"jsonrpc\":\"2.0\",\"id\":1,\"resu".to_owned()),
        (200, String::new()),
    ]
}

async fn priced(how: HostBuilder) -> (Host, Value) {
    let host = how.start().await;
    host.publish(&js("echo", 0.01, ECHO)).await;
    let challenge = host.challenge("echo").await;
    (host, challenge)
}

/// Checks that the payer learns that it is unknown whether the call was charged.
fn nobody_knows(answer: &Answer) {
    let error = answer.json()["error"].clone();
    assert_eq!((answer.status, &error["code"], &error["charged"]), (502, &json!("settlement_unknown"), &json!("unknown")), "{answer:?}");
}

/// Regression: the answer said that nothing was charged, but the transfer was in the next block.
/// The next payment reused the nonce.
#[tokio::test]
async fn broadcast_payment_is_settled_despite_gateway_errors() {
    let chain = Chain::start().await;
    let gateway = Gateway::before(&chain.url).await;
    let (host, challenge) = priced(Host::builder().settling_at(&gateway.url, GAS_KEY)).await;
    let payer = Payer::new();
    chain.mint(&payer.address, FUNDS).await;
    let mut paid = 0;
    for forwards in [true, false] {
        for (status, body) in unclear() {
            // If the node does not have the transaction, this answer is a true refusal.
            if !forwards && status == 200 && body.contains("insufficient funds") {
                continue;
            }
            let case = format!("{status} {body}, forwarded: {forwards}");
            gateway.answer_next(GatewayFault { forwards, status, body });
            let (sent, payment) = (gateway.sent(), payer.pay(&challenge));
            let answer = host.call_paid("echo", &json!({}), &payment).await;
            assert!(gateway.sent() > sent, "{case}");
            if answer.status != 200 {
                nobody_knows(&answer);
            }
            eventually(&case, LONG, async || {
                chain.rpc("anvil_mine", json!(["0x1"])).await;
                host.payment(&payment.id()).await.filter(|payment| payment["state"] == "settled")
            })
            .await;
            host.call_paid("echo", &json!({}), &payment).await.is(200);
            paid += 1;
            assert_eq!(chain.balance(PAY_TO).await, paid * PRICE, "{case}");
            assert_eq!(chain.balance(&payer.address).await, FUNDS - paid * PRICE, "{case}");
        }
    }
}

#[tokio::test]
async fn a_known_refusal_releases_the_payment_and_the_next_one_has_its_nonce() {
    let chain = Chain::start().await;
    let gateway = Gateway::before(&chain.url).await;
    let (host, challenge) = priced(Host::builder().settling_at(&gateway.url, GAS_KEY)).await;
    let payer = Payer::new();
    chain.mint(&payer.address, FUNDS).await;
    let refusals = [
        (-32000, "insufficient funds for gas * price + value: balance 0, tx cost 1"),
        (-32000, "intrinsic gas too low"),
        (-32000, "transaction underpriced"),
        (-32003, "Insufficient funds for gas * price + value"),
        (-32010, "InsufficientFunds, Account balance is 0"),
        (-32004, "Upfront cost exceeds account balance"),
    ];
    for (n, (code, message)) in refusals.into_iter().enumerate() {
        gateway.answer_next(GatewayFault { forwards: false, status: 200, body: rpc_error(code, message) });
        let payment = payer.pay(&challenge);
        let answer = host.call_paid("echo", &json!({}), &payment).await;
        answer.fails(502, "facilitator_unavailable", "host");
        assert_eq!(host.payment(&payment.id()).await.unwrap()["state"], "released", "{message}");
        host.call_paid("echo", &json!({}), &payment).await.is(200);
        assert_eq!(chain.balance(PAY_TO).await, (n as u64 + 1) * PRICE, "{message}");
    }
}

/// Starts a host with a facilitator that answers each payment with this body.
async fn false_word(chain: &Chain, body: &'static str) -> (Host, Value, Facilitator) {
    let message: &'static [FacilitatorAnswer] =
        Box::leak(Box::new([FacilitatorAnswer { amount: "10000", status: 200, media: "application/json", body }]));
    let facilitator = Facilitator::start(SettleMode::Says(message)).await;
    let (host, challenge) = priced(Host::builder().settled_by(&facilitator.url).env("TOLLHOUSE_RPC_URL", &chain.url)).await;
    (host, challenge, facilitator)
}

/// Regression: each of these answers produced a receipt.
#[tokio::test]
async fn a_facilitator_that_names_a_transaction_which_did_not_pay_is_not_believed() {
    let chain = Chain::start().await;
    let invented =
        r#"{"success":true,"transaction":"0x4444444444444444444444444444444444444444444444444444444444444444","network":"eip155:84532"}"#;
    let nonsense = r#"{"success":true,"transaction":"not a hash at all <script>","network":"eip155:84532"}"#;
    for body in [invented, nonsense] {
        let (host, challenge, _facilitator) = false_word(&chain, body).await;
        let payer = Payer::new();
        chain.mint(&payer.address, FUNDS).await;
        let payment = payer.pay(&challenge);
        nobody_knows(&host.call_paid("echo", &json!({}), &payment).await);
        assert_eq!(host.payment(&payment.id()).await.unwrap()["state"], "settling", "{body}");
    }
}

#[tokio::test]
async fn without_a_node_one_transaction_pays_for_one_receipt() {
    let body =
        r#"{"success":true,"transaction":"0x4444444444444444444444444444444444444444444444444444444444444444","network":"eip155:84532"}"#;
    let message: &'static [FacilitatorAnswer] =
        Box::leak(Box::new([FacilitatorAnswer { amount: "10000", status: 200, media: "application/json", body }]));
    let facilitator = Facilitator::start(SettleMode::Says(message)).await;
    let (host, challenge) = priced(Host::builder().settled_by(&facilitator.url)).await;
    let payer = Payer::new();
    let (first, second) = (payer.pay(&challenge), payer.pay(&challenge));
    host.call_paid("echo", &json!({}), &first).await.is(200);
    nobody_knows(&host.call_paid("echo", &json!({}), &second).await);
    assert_eq!(host.payment(&second.id()).await.unwrap()["state"], "settling");
    assert!(host.log().contains("a transaction already pays for another receipt"), "{}", host.log());
    host.call_paid("echo", &json!({}), &first).await.is(200);
}

/// A permit is settled by the host's own transaction.
#[tokio::test]
async fn broadcast_permit_is_settled_despite_gateway_errors() {
    let chain = Chain::start().await;
    let gateway = Gateway::before(&chain.url).await;
    let host = Host::builder().settling_at(&gateway.url, GAS_KEY).start().await;
    let challenge = publish_meter(&host).await;
    let payer = Payer::new();
    chain.mint(&payer.address, FUNDS).await;
    chain.approve(&payer.address).await;
    let mut paid = 0;
    for (n, (status, body)) in unclear().into_iter().enumerate() {
        for forwards in [true, false] {
            // An error for a transaction that the node does not have is a real rejection. Of the other cases, every
            // third is enough.
            if n % 3 != 0 || !forwards && status == 200 && body.contains("insufficient funds") {
                continue;
            }
            let case = format!("{status} {body}, forwarded: {forwards}");
            gateway.answer_next(GatewayFault { forwards, status, body: body.clone() });
            let (sent, payment) = (gateway.sent(), payer.permit(&challenge));
            let answer = host.call_paid("meter", &json!({}), &payment).await;
            assert!(gateway.sent() > sent, "{case}");
            if answer.status != 200 {
                nobody_knows(&answer);
            }
            eventually(&case, LONG, async || {
                chain.rpc("anvil_mine", json!(["0x1"])).await;
                host.payment(&payment.id()).await.filter(|payment| payment["state"] == "settled")
            })
            .await;
            host.call_paid("meter", &json!({}), &payment).await.is(200);
            paid += 1;
            assert_eq!(chain.balance(PAY_TO).await, paid * 12_300, "{case}");
        }
    }
    assert!(paid > 10);
}

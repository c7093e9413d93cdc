//! A paid answer stays available to its payer, who presents the payment again, whatever has
//! happened to the tool since.

use std::time::Duration;

use reqwest::Method;
use serde_json::{Value, json};

use crate::harness::{Host, Payer, Payment, eventually, js, stream::Stream};

const PRICE: f64 = 0.01;
const MICROS: u64 = 10_000;
const FUNDS: u64 = 1_000_000;

/// Counts its runs, and returns its input.
const COUNTER: &str = "export default async (req, ctx) => {
    const runs = ((await ctx.kv.get('runs')) ?? 0) + 1;
    await ctx.kv.set('runs', runs);
    await new Promise((done) => setTimeout(done, req.input.ms ?? 0));
    return { runs, input: req.input };
};";

/// A purchase: the payment, the price, and the answer.
struct PaidCall {
    payer: Payer,
    payment: Payment,
    input: Value,
    result: Value,
    receipt: String,
}

async fn buys(host: &Host, pay: impl AsyncFn(&Payer) -> Payment) -> PaidCall {
    let payer = Payer::funded(host, 1.0).await;
    let (payment, input) = (pay(&payer).await, json!({ "city": "Paris" }));
    let answer = host.call_paid("count", &input, &payment).await.is(200);
    PaidCall { payer, payment, input, result: answer.json(), receipt: answer.receipt_id() }
}

async fn by_v2(host: &Host) -> PaidCall {
    buys(host, async |payer| payer.pay(&host.challenge("count").await)).await
}

async fn by_v1(host: &Host) -> PaidCall {
    buys(host, async |payer| payer.pay_v1(&host.challenge_v1("count").await)).await
}

impl PaidCall {
    /// Presents the payment again through every interface. Each gives the same answer, without a
    /// run and without a charge.
    async fn is_reached(&self, host: &Host, when: &str) {
        let again = host.call_paid("count", &self.input, &self.payment).await.is(200);
        assert_eq!((again.json(), again.receipt_id()), (self.result.clone(), self.receipt.clone()), "{when}");
        let settled = if self.payment.header == "X-PAYMENT" { "x-payment-response" } else { "payment-response" };
        assert_eq!(again.decoded(settled)["success"], true, "{when}");

        let body = json!({ "slug": "count", "input": self.input });
        let invoke = || host.request(Method::POST, "/ai/invoke").header(self.payment.header, self.payment.encoded()).json(&body);
        let invoked = host.send(invoke()).await.is(200);
        assert_eq!((&invoked.json()["result"], invoked.receipt_id()), (&self.result, self.receipt.clone()), "{when}");

        for streamed in [invoke(), host.paid_request("count", &self.input, &self.payment)] {
            let mut stream = Stream::open(streamed).await;
            let answer = stream.next().await.unwrap();
            let receipt = &answer.data["receipt"]["receiptId"];
            assert_eq!((&*answer.name, &answer.data["result"], receipt), ("result", &self.result, &json!(self.receipt)), "{when}");
        }

        for mcp in [host.mcp(), host.mcp_legacy()] {
            let answer = mcp.call("count", self.input.clone(), json!({ "x402/payment": self.payment.payload })).await;
            let receipt = &answer["_meta"]["tollhouse/receipt"]["receiptId"];
            assert_eq!((&answer["structuredContent"], receipt), (&self.result, &json!(self.receipt)), "{when}");
        }
        assert_eq!(host.balance(&self.payer.address).await, FUNDS - MICROS, "{when}");
    }
}

/// Buys on both wires, and checks that the answers are available after `change`.
async fn reached_after(when: &str, change: impl AsyncFn(&mut Host)) {
    let mut host = Host::start().await;
    host.publish(&js("count", PRICE, COUNTER)).await;
    let bought = [by_v2(&host).await, by_v1(&host).await];
    change(&mut host).await;
    for bought in bought {
        bought.is_reached(&host, when).await;
    }
}

#[tokio::test]
async fn a_paid_answer_is_reached_though_the_price_has_changed() {
    reached_after("twice the price", async |host| _ = host.change("count", &json!({ "priceUsd": 2.0 * PRICE })).await).await;
}

#[tokio::test]
async fn a_paid_answer_is_reached_though_the_tool_costs_nothing_any_more() {
    reached_after("no price", async |host| _ = host.change("count", &json!({ "priceUsd": 0 })).await).await;
}

#[tokio::test]
async fn a_paid_answer_is_reached_though_its_input_fits_the_schema_no_longer() {
    let schema = json!({ "type": "object", "properties": { "country": { "type": "string" } }, "required": ["country"] });
    reached_after("another schema", async |host| _ = host.change("count", &json!({ "inputSchema": schema })).await).await;
}

#[tokio::test]
async fn a_paid_answer_is_reached_though_the_base_url_has_changed() {
    // The port differs.
    reached_after("another base URL", async |host| host.restart().await).await;
}

#[tokio::test]
async fn a_paid_answer_is_reached_though_the_tool_is_paused() {
    reached_after("paused", async |host| _ = host.change("count", &json!({ "status": "paused" })).await).await;
}

#[tokio::test]
async fn a_paid_answer_is_reached_though_the_tool_is_deleted() {
    let delete = async |host: &mut Host| _ = host.manage(Method::DELETE, "/ai/endpoints/count", &Value::Null).await.is(200);
    reached_after("deleted", delete).await;
    reached_after("deleted, and after a restart", async |host| {
        delete(host).await;
        host.restart().await;
    })
    .await;
    reached_after("deleted and published again", async |host| {
        delete(host).await;
        host.publish(&js("count", PRICE, "export default async () => ({ another: true });")).await;
    })
    .await;
}

/// The schema determines the types of the query's fields, but the payment is bound to the query as
/// it was written.
#[tokio::test]
async fn a_paid_get_is_reached_though_the_types_of_its_query_have_changed() {
    let host = Host::start().await;
    let mut tool = js("count", PRICE, COUNTER);
    tool["inputSchema"] = json!({ "type": "object", "properties": { "city": { "type": "string" }, "n": { "type": "integer" } } });
    host.publish(&tool).await;
    let payment = Payer::funded(&host, 1.0).await.pay(&host.challenge("count").await);
    let get = || host.send(host.request(Method::GET, "/tools/count?city=Paris&n=1").header(payment.header, payment.encoded()));
    let first = get().await.is(200);
    assert_eq!(first.json()["input"], json!({ "city": "Paris", "n": 1 }));
    host.change("count", &json!({ "inputSchema": { "type": "object", "properties": { "n": { "type": "string" } } } })).await;
    assert_eq!(get().await.is(200).body, first.body);
    host.change("count", &json!({ "status": "paused" })).await;
    assert_eq!(get().await.is(200).body, first.body);
}

#[tokio::test]
async fn an_answer_bought_on_credit_is_reached_by_its_idempotency_key() {
    let host = Host::start().await;
    host.publish(&js("count", PRICE, COUNTER)).await;
    let credit = host.mint(0.015).await;
    let call = |key: &str| {
        let request = host.request(Method::POST, "/tools/count").header("x-developer-credit", &credit).header("idempotency-key", key);
        host.send(request.json(&json!({})))
    };
    let first = call("one").await.is(200);
    for change in [json!({ "priceUsd": 0.5 }), json!({ "priceUsd": 0 }), json!({ "status": "paused" })] {
        host.change("count", &change).await;
        assert_eq!(call("one").await.is(200).receipt_id(), first.receipt_id(), "{change}");
    }
    call("two").await.fails(409, "endpoint_paused", "tool");
    host.manage(Method::DELETE, "/ai/endpoints/count", &Value::Null).await.is(200);
    assert_eq!(call("one").await.is(200).receipt_id(), first.receipt_id());
    call("two").await.fails(404, "unknown_endpoint", "caller");
    assert_eq!(host.credit_balance(&credit).await, 5_000);
}

#[tokio::test]
async fn a_run_in_flight_is_joined_though_its_tool_is_paused_meanwhile() {
    let host = Host::start().await;
    host.publish(&js("count", PRICE, COUNTER)).await;
    let payer = Payer::funded(&host, 1.0).await;
    let (payment, input) = (payer.pay(&host.challenge("count").await), json!({ "ms": 5_000 }));
    let joins = async {
        let reserved = async || host.payment(&payment.id()).await.filter(|payment| payment["state"] == "reserved");
        eventually("it runs", Duration::from_secs(20), reserved).await;
        host.change("count", &json!({ "status": "paused" })).await;
        host.call_paid("count", &input, &payment).await.is(200)
    };
    let (first, joined) = tokio::join!(host.call_paid("count", &input, &payment), joins);
    assert_eq!((joined.body.clone(), joined.receipt_id()), (first.is(200).body, joined.receipt_id()));
    assert_eq!(host.balance(&payer.address).await, FUNDS - MICROS);
}

#[tokio::test]
async fn a_payment_that_has_bought_nothing_opens_no_closed_tool() {
    let host = Host::start().await;
    host.publish(&js("count", PRICE, COUNTER)).await;
    let bought = by_v2(&host).await;
    let fresh = bought.payer.pay(&host.challenge("count").await);
    let other = json!({ "city": "Rome" });
    let mcp = async |input: &Value, payment: &Payment| {
        let answer = host.mcp().call("count", input.clone(), json!({ "x402/payment": payment.payload })).await;
        answer["_meta"]["tollhouse/error"]["code"].clone()
    };
    for (closes, status, code, fault) in [("paused", 409, "endpoint_paused", "tool"), ("deleted", 404, "unknown_endpoint", "caller")] {
        match closes {
            "paused" => _ = host.change("count", &json!({ "status": "paused" })).await,
            _ => _ = host.manage(Method::DELETE, "/ai/endpoints/count", &Value::Null).await.is(200),
        }
        host.call_paid("count", &bought.input, &fresh).await.fails(status, code, fault);
        // The answer is given only for its own request and with the payer's signature.
        host.call_paid("count", &other, &bought.payment).await.fails(status, code, fault);
        let forged = bought.payment.altered("/payload/signature", json!(format!("0x{}1b", "11".repeat(64))));
        host.call_paid("count", &bought.input, &forged).await.fails(status, code, fault);
        host.call("count", &bought.input).await.fails(status, code, fault);
        if closes == "paused" {
            assert_eq!(mcp(&bought.input, &fresh).await, code);
            assert_eq!(mcp(&other, &bought.payment).await, code);
        }
        let head = host.request(Method::HEAD, "/tools/count").header(bought.payment.header, bought.payment.encoded());
        assert_eq!(host.send(head).await.status, status, "HEAD gives no answer");
    }
    assert_eq!((host.payment(&fresh.id()).await, host.balance(&bought.payer.address).await), (None, FUNDS - MICROS));
}

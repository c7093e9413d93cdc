//! The whole business of a builder, as one story over HTTP. All reports of the host must agree.

use std::{collections::BTreeSet, time::Duration};

use axum::{Json, Router, extract::State, http::HeaderMap, routing::get};
use reqwest::Method;
use serde_json::{Value, json};
use std::sync::{Arc, Mutex};

use crate::harness::{Answer, Host, Payer, eventually, listen, micros};

const PRICE: u64 = 12_345;
const CALLS: usize = 20;
/// The calls that are to fail.
const FAILING: [usize; 3] = [4, 11, 17];
/// The host's fee, in basis points of the price.
const FEE_BPS: u64 = 1_000;

const SOURCE: &str = r#"
interface Input { city: string; fail?: boolean }

export default async function (req: ToolRequest<Input>, ctx: ToolContext): Promise<ToolResult> {
  const { city, fail } = req.input;
  ctx.log.info("asked", { city });
  if (fail) throw new Error(`no weather today, and never ${ctx.env.MOOD}`);
  const { json } = await ctx.httpGetJson<{ degrees: number }>(`${ctx.env.ORIGIN}/weather?city=${city}`, {
    auth: { header: "x-api-key", env: "API_KEY" },
  });
  const served = ((await ctx.kv.get<number>("served")) ?? 0) + 1;
  await ctx.kv.set("served", served);
  return { city, degrees: json.degrees, served, knows: ctx.env.API_KEY ?? null };
}
"#;

const API_KEY: &str = "weather-key-55e1c7a0b2";
const MOOD: &str = "a-mood-nobody-should-read-81f3";

/// Starts a weather service that requires a key, and records the keys that it gets.
async fn weather() -> (String, Arc<Mutex<Vec<String>>>) {
    let shown = Arc::<Mutex<Vec<String>>>::default();
    let answer = |State(shown): State<Arc<Mutex<Vec<String>>>>, headers: HeaderMap| async move {
        let key = headers.get("x-api-key").and_then(|key| key.to_str().ok()).unwrap_or_default().to_owned();
        shown.lock().unwrap().push(key);
        Json(json!({ "degrees": 21 }))
    };
    let router = Router::new().route("/weather", get(answer)).with_state(Arc::clone(&shown));
    let address = listen(router).await.to_string();
    (address, shown)
}

/// A builder with their key.
struct Owner<'a> {
    host: &'a Host,
    key: String,
}

impl Owner<'_> {
    async fn ask(&self, method: Method, path: &str, body: &Value) -> Answer {
        self.host.as_builder(&self.key, method, path, body).await
    }

    async fn get(&self, path: &str) -> Value {
        self.ask(Method::GET, path, &Value::Null).await.is(200).json()
    }

    /// Returns all items of a list, read page by page.
    async fn all(&self, path: &str, name: &str) -> Vec<Value> {
        let (mut items, mut cursor) = (vec![], String::new());
        loop {
            let page = self.get(&format!("{path}&limit=7{cursor}")).await;
            items.extend(page[name].as_array().unwrap().iter().cloned());
            match page["nextCursor"].as_str() {
                Some(next) => cursor = format!("&cursor={next}"),
                None => return items,
            }
        }
    }
}

/// Registers with an x402 payment, and repeats the registration with the same payment.
async fn register(host: &Host) -> (String, String) {
    let body = json!({ "name": "Weather Works", "contact": "ops@weather.example" });
    let challenge = host.post("/ai/builders/register", &body).await.is(402).decoded("payment-required");
    let payer = Payer::funded(host, 5.0).await;
    let payment = payer.pay(&challenge);
    let pay = || host.request(Method::POST, "/ai/builders/register").header(payment.header, payment.encoded()).json(&body);
    let first = host.send(pay()).await.is(200);
    let again = host.send(pay()).await.is(200);
    assert_eq!((first.receipt_id(), &first.json()["builderId"]), (again.receipt_id(), &again.json()["builderId"]));
    // As if the first answer had been lost. The last key that was returned is the valid one.
    let text = |name: &str| again.json()[name].as_str().unwrap().to_owned();
    (text("builderId"), text("builderKey"))
}

#[tokio::test]
async fn a_builder_earns_with_a_tool_and_is_paid() {
    let (address, shown) = weather().await;
    let host = Host::builder().flag("--guard-allow", &address).flag("--fee-bps", FEE_BPS).start().await;
    let (_, key) = register(&host).await;
    let owner = Owner { host: &host, key };

    // A TypeScript tool with kv, logs, a secret, and web requests, which need an approval.
    let tool = json!({
        "slug": "weather",
        "title": "Weather",
        "description": "Degrees of a city.",
        "priceUsd": PRICE as f64 / 1e6,
        "handlerType": "js_request_response",
        "inputSchema": { "type": "object", "properties": { "city": { "type": "string" }, "fail": { "type": "boolean" } }, "required": ["city"] },
        "outputSchema": { "type": "object", "properties": { "degrees": { "type": "number" } }, "required": ["degrees"] },
        "capabilities": { "kv": true, "logs": true, "httpGetJson": true },
        "allowedHosts": ["127.0.0.1"],
        "handler": { "source": SOURCE, "language": "ts" },
        "safetyAttestation": { "accepted": true },
    });
    let created = owner.ask(Method::POST, "/ai/endpoints/create", &tool).await.is(200).json()["endpoint"].clone();
    assert_eq!((&created["capabilities"]["kv"], &created["capabilities"]["httpGetJson"]), (&json!(true), &json!(false)), "{created}");
    assert_eq!(created["requestedCapabilities"]["httpGetJson"], true);
    assert_eq!(created["contentSafety"]["outcome"], "pass", "{created}");
    let first_version = created["version"].as_str().unwrap().to_owned();
    for (name, value, visibility) in
        [("API_KEY", API_KEY, "auth"), ("MOOD", MOOD, "env"), ("ORIGIN", format!("http://{address}").as_str(), "env")]
    {
        let secret = json!({ "name": name, "value": value, "visibility": visibility });
        let set = owner.ask(Method::POST, "/ai/endpoints/weather/secrets", &secret).await.is(200);
        assert!(!String::from_utf8_lossy(&set.body).contains(value), "{set:?}");
    }

    // Without the approval the call fails and is not charged.
    let payer = Payer::funded(&host, 5.0).await;
    let funds = host.balance(&payer.address).await;
    let early = payer.pay(&host.challenge("weather").await);
    host.call_paid("weather", &json!({ "city": "Oslo" }), &early).await.fails(502, "handler_failed", "tool");

    let queue = host.manage(Method::GET, "/ai/admin/reviews", &Value::Null).await.is(200).json();
    let waiting = queue["reviews"].as_array().unwrap().iter().find(|review| review["slug"] == "weather").expect("it is in the queue");
    assert_eq!(waiting["requestedCapabilities"]["httpGetJson"], true, "{waiting}");
    let approval =
        json!({ "decision": "approve", "capabilities": { "httpGetJson": true }, "allowedHosts": ["127.0.0.1"], "reason": "known service" });
    crate::gates::decide(&host, "weather", approval).await.is(200);

    // A stranger pays 20 times. Three of the calls fail.
    let mut receipts = vec![];
    for call in 0..CALLS {
        let input = json!({ "city": format!("city-{call}"), "fail": FAILING.contains(&call) });
        let answer = host.call_paid("weather", &input, &payer.pay(&host.challenge("weather").await)).await;
        if FAILING.contains(&call) {
            let error = answer.fails(502, "handler_failed", "tool");
            assert!(!error.to_string().contains(MOOD), "{error}");
        } else {
            let answer = answer.is(200);
            assert_eq!((&answer.json()["degrees"], &answer.json()["knows"]), (&json!(21), &Value::Null));
            receipts.push(answer.receipt_id());
        }
    }
    let paid = CALLS - FAILING.len();
    assert_eq!(receipts.len(), paid);
    assert_eq!(host.balance(&payer.address).await, funds - paid as u64 * PRICE);
    assert_eq!(*shown.lock().unwrap(), vec![API_KEY; paid]);

    // Receipts, revenue, events and logs agree.
    let mut gross = 0;
    for id in &receipts {
        let receipt = host.receipt(id).await;
        gross += micros(&receipt["priceUsd"]);
        host.verify_receipt(&receipt).unwrap();
    }
    let fee = PRICE * FEE_BPS / 10_000;
    let net = paid as u64 * (PRICE - fee);
    assert_eq!(gross, paid as u64 * PRICE);
    let failed = FAILING.len() + 1;
    let revenue = eventually("all calls are counted", Duration::from_secs(5), || async {
        let revenue = owner.get("/ai/builders/revenue?since=30d").await;
        (revenue["totals"]["calls"] == paid + failed).then_some(revenue)
    })
    .await;
    for row in [&revenue["totals"], &revenue["byEndpoint"][0], &revenue["byDay"][0]] {
        assert_eq!(
            (&row["calls"], &row["paidCalls"], &row["failedCalls"]),
            (&json!(paid + failed), &json!(paid), &json!(failed)),
            "{revenue}"
        );
        let money = ["grossUsd", "feesUsd", "netUsd"].map(|name| micros(&row[name]));
        assert_eq!(money, [gross, paid as u64 * fee, net], "{revenue}");
    }
    let events = owner.all("/ai/builders/events?since=7d&endpointSlug=weather", "events").await;
    let of = |kind: &str| events.iter().filter(|event| event["kind"] == kind).collect::<Vec<_>>();
    let listed: BTreeSet<_> = of("call.succeeded").iter().map(|event| event["data"]["receiptId"].as_str().unwrap().to_owned()).collect();
    assert_eq!(listed, receipts.iter().cloned().collect());
    assert_eq!((of("payment.settled").len(), of("call.failed").len()), (paid, failed));
    assert_eq!((of("endpoint.created").len(), of("capability.granted").len(), of("secret.set").len()), (1, 1, 3));
    let logs = eventually("all lines are written", Duration::from_secs(5), || async {
        let logs = owner.all("/ai/endpoints/weather/logs?since=1h", "logs").await;
        (logs.iter().filter(|line| line["message"] == "asked").count() == paid + failed).then_some(logs)
    })
    .await;
    let calls: BTreeSet<_> =
        of("call.succeeded").iter().chain(&of("call.failed")).map(|event| event["data"]["callId"].to_string()).collect();
    let logged: BTreeSet<_> = logs.iter().map(|line| line["callId"].to_string()).collect();
    assert_eq!(calls, logged);
    let everything = json!([logs, events, revenue]).to_string();
    assert!(!everything.contains(MOOD) && !everything.contains(API_KEY) && !everything.contains(&owner.key));

    // The money is put into one payout, approved, and paid.
    let earner = Payer::new().address;
    owner.ask(Method::POST, "/ai/builders/payouts", &json!({})).await.fails(409, "payout_settings_missing", "caller");
    let settings = json!({ "address": earner, "minimumUsd": 0.01 });
    owner.ask(Method::POST, "/ai/builders/payout-settings", &settings).await.is(200);
    let packet = owner.ask(Method::POST, "/ai/builders/payouts", &json!({})).await.is(200).json()["payout"].clone();
    assert_eq!(
        (micros(&packet["amountUsd"]), &packet["receiptCount"], &packet["status"]),
        (net, &json!(paid), &json!("created")),
        "{packet}"
    );
    let mut sorted = receipts.clone();
    sorted.sort();
    let digest = hex::encode(<sha2::Sha256 as sha2::Digest>::digest(sorted.join("\n")));
    assert!(packet["digest"].as_str().unwrap().ends_with(&digest), "{packet}");
    let second = owner.ask(Method::POST, "/ai/builders/payouts", &json!({})).await.is(200).json()["payout"].clone();
    assert_eq!((&second["amountUsd"], &second["receiptCount"]), (&json!(0), &json!(0)), "{second}");
    let decide = format!("/ai/admin/payouts/{}", packet["id"].as_str().unwrap());
    let transaction = format!("0x{}", "ab".repeat(32));
    host.manage(Method::POST, &decide, &json!({ "decision": "approve" })).await.is(200);
    let done = host.manage(Method::POST, &decide, &json!({ "decision": "paid", "transaction": transaction })).await.is(200).json();
    assert_eq!((&done["payout"]["status"], &done["payout"]["transaction"]), (&json!("paid"), &json!(transaction)));
    assert_eq!(owner.get("/ai/builders/payouts?limit=5").await["payouts"].as_array().unwrap().len(), 1);

    // The tool is paused, resumed, changed, rolled back and deleted. The receipts stay.
    let path = "/ai/endpoints/weather";
    owner.ask(Method::PATCH, path, &json!({ "status": "paused" })).await.is(200);
    host.call("weather", &json!({ "city": "Oslo" })).await.fails(409, "endpoint_paused", "tool");
    owner.ask(Method::PATCH, path, &json!({ "status": "active" })).await.is(200);
    let source = "export default async () => ({ degrees: 0, second: true });";
    let changed = owner.ask(Method::PATCH, path, &json!({ "handler": { "source": source }, "priceUsd": 0 })).await.is(200).json();
    assert_ne!(changed["endpoint"]["version"], first_version.as_str());
    assert_eq!(host.call("weather", &json!({ "city": "Oslo" })).await.is(200).json()["second"], true);
    let rolled = owner.ask(Method::PATCH, path, &json!({ "version": first_version })).await.is(200).json();
    assert_eq!(rolled["endpoint"]["version"], first_version.as_str());
    let back = host.call("weather", &json!({ "city": "Oslo" })).await.is(200).json();
    assert_eq!((&back["degrees"], &back["served"]), (&json!(21), &json!(paid + 1)));
    owner.ask(Method::DELETE, path, &Value::Null).await.is(200);
    host.call("weather", &json!({ "city": "Oslo" })).await.fails(404, "unknown_endpoint", "caller");
    for id in &receipts {
        assert_eq!(host.receipt(id).await["slug"], "weather");
    }
    assert_eq!(micros(&owner.get("/ai/builders/revenue?since=30d").await["totals"]["netUsd"]), net);
}

//! A call is paid for once, however often its form is submitted.

use std::time::Duration;

use futures_util::future::join_all;
use serde_json::{Value, json};

use super::{
    super::{html, text, values},
    ECHO,
    browser::{Browser, Form, form, forms, labels},
};
use crate::harness::{Answer, Facilitator, Host, Payer, SettleMode, eventually, js};

/// Returns the address of the browser's wallet with simulated money.
pub(super) fn payer(browser: &Browser<'_>) -> String {
    Payer::of(&browser.cookie("-play").expect("it has a wallet")).address
}

fn receipt(answer: &Answer) -> String {
    let links = values(&html(answer), "href");
    links.into_iter().find_map(|link| link.strip_prefix("/dashboard/receipts/").map(str::to_owned)).expect("it has a receipt")
}

async fn host(price: f64) -> Host {
    let host = Host::start().await;
    host.publish(&js("echo", price, ECHO)).await;
    host
}

#[tokio::test]
async fn play_money_pays_once_for_a_form_that_is_sent_a_hundred_times() {
    let host = host(0.003).await;
    let browser = Browser::new(&host);
    let terms = browser.terms("echo", r#"{"text":"hi"}"#).await;
    let shown = text(&html(&terms));
    for reported in ["$0.003", "simulated", "eip155:84532", "3000", "Nothing is charged before you press a button."] {
        assert!(shown.contains(reported), "{reported}: {shown}");
    }
    let pays = form(&terms, "Call for $0.003 of play money");
    let payer = payer(&browser);
    assert_eq!(host.balance(&payer).await, 1_000_000, "nothing was taken for the terms");
    // The button is pressed several times at once, and again later, as after a reload or a lost
    // answer.
    let (first, others) = tokio::join!(browser.press(&pays, "Call"), join_all((0..14).map(|_| browser.press(&pays, "Call"))));
    let mut receipts = vec![receipt(&first.is(200))];
    for answer in others {
        receipts.push(receipt(&answer.is(200)));
    }
    for _ in 0..85 {
        receipts.push(receipt(&browser.press(&pays, "Call").await.is(200)));
    }
    receipts.dedup();
    assert_eq!(receipts.len(), 1, "one answer");
    assert_eq!(host.balance(&payer).await, 997_000, "1 charge in 100");
    let stored = text(&html(&browser.press(&pays, "Call").await.is(200)));
    assert!(stored.contains("Nothing was charged this time."), "{stored}");
}

#[tokio::test]
async fn going_back_reuses_the_payment() {
    let host = host(0.01).await;
    let browser = Browser::new(&host);
    let page = browser.get("/dashboard/tools/echo/try").await.is(200);
    let asks = form(&page, "See the terms");
    let (terms, again) = (browser.press(&asks, "See the terms").await.is(200), browser.press(&asks, "See the terms").await.is(200));
    let payment = |terms: &Answer| form(terms, "play money").get("payment").to_owned();
    assert_eq!(payment(&terms), payment(&again), "the page of the terms, loaded again");
    browser.press_on(&terms, "of play money").await.is(200);
    // The form is loaded again: the answer may have been lost.
    let fresh = browser.press_on(&browser.get("/dashboard/tools/echo/try").await, "See the terms").await.is(200);
    assert!(text(&html(&fresh)).contains("You already paid for this call"));
    assert_eq!(labels(&fresh)[..2], ["Show the answer · cannot be charged twice", "See the terms for a new call"]);
    browser.press_on(&fresh, "Show the answer").await.is(200);
    assert_eq!(host.balance(&payer(&browser)).await, 990_000);
    // A user who wants another answer asks for it explicitly. This is one more call, once.
    let wants = form(&fresh, "See the terms for a new call");
    for _ in 0..2 {
        let terms = browser.press(&wants, "See the terms").await.is(200);
        let label = if labels(&terms)[0].starts_with("Call for") { "of play money" } else { "Show the answer" };
        browser.press_on(&terms, label).await.is(200);
    }
    assert_eq!(host.balance(&payer(&browser)).await, 980_000);
    // Another input is another call.
    browser.press_on(&browser.terms("echo", r#"{"other":1}"#).await, "of play money").await.is(200);
    assert_eq!(host.balance(&payer(&browser)).await, 970_000);
}

#[tokio::test]
async fn nothing_is_signed_while_a_payment_is_open() {
    let host = Host::start().await;
    let source = "export default async () => { await new Promise((done) => setTimeout(done, 60_000)); return {}; };";
    let mut tool = js("slow", 0.01, source);
    tool["limits"] = json!({ "wallMs": 60_000 });
    host.publish(&tool).await;
    let browser = Browser::new(&host);
    let terms = browser.terms("slow", "{}").await;
    let pays = form(&terms, "of play money");
    let id = values(&html(&terms), "data-payment")[0].clone();
    let lost = tokio::spawn(browser.request(&pays, "Call").send());
    eventually("it runs", Duration::from_secs(20), async || host.payment(&id).await.filter(|payment| payment["state"] == "reserved")).await;
    lost.abort();
    let same = browser.terms("slow", "{}").await;
    assert!(text(&html(&same)).contains("This call is running"));
    assert_eq!(form(&same, "Send the same payment again").get("payment"), pays.get("payment"));
    let other = browser.terms("slow", r#"{"n":1}"#).await;
    assert!(text(&html(&other)).contains("You have an open payment") && text(&html(&other)).contains(&id));
    assert!(forms(&other).iter().all(|form| form.get("payment").is_empty() && form.get("key").is_empty()), "there is nothing to pay with");
}

#[tokio::test]
async fn owed_run_can_be_repeated_with_its_payment_or_paid_for_again() {
    let host = Host::start().await;
    let source = "export default async (req, ctx) => {
        const runs = 1 + ((await ctx.kv.get('runs')) ?? 0);
        await ctx.kv.set('runs', runs);
        if (runs < 3) throw new Error('not yet');
        return { runs };
    };";
    let mut tool = js("order", 0.01, source);
    tool["settle"] = json!("before");
    host.publish(&tool).await;
    let browser = Browser::new(&host);
    let terms = browser.terms("order", "{}").await;
    assert!(html(&terms).contains("<div data-restart=\"\" hidden>"), "for the script");
    let failed = browser.press_on(&terms, "of play money").await.is(502);
    let shown = text(&html(&failed));
    for reported in ["paid_run_failed", "Charged once, before the run. You are owed a run.", "owed", "Runs left", "9", "rcpt_"] {
        assert!(shown.contains(reported), "{reported}: {shown}");
    }
    assert_eq!(labels(&failed)[..2], ["Run again with the same payment", "Pay for a new call"]);
    // The page of the terms says so as well. The second run fails too.
    let owed = browser.terms("order", "{}").await;
    assert!(text(&html(&owed)).contains("You are owed a run"));
    assert_eq!(labels(&owed)[..2], ["Run again with the same payment", "Pay for a new call"]);
    let failed = browser.press_on(&owed, "Run again").await.is(502);
    assert_eq!(host.balance(&payer(&browser)).await, 990_000, "it is the same payment");
    // Another call is possible meanwhile.
    form(&browser.terms("order", r#"{"n":1}"#).await, "of play money");
    // A new call has a payment of its own, and is answered.
    let again = browser.press_on(&failed, "Pay for a new call").await.is(200);
    let answer = browser.press_on(&again, "of play money").await.is(200);
    assert!(text(&html(&answer)).contains("\"runs\": 3"));
    assert_eq!(host.balance(&payer(&browser)).await, 980_000);
    // The run that was owed is still owed, and charges nothing.
    let answer = browser.press_on(&failed, "Run again").await.is(200);
    let shown = text(&html(&answer));
    assert!(shown.contains("\"runs\": 4") && shown.contains("Nothing was charged this time."), "{shown}");
    assert_eq!(host.balance(&payer(&browser)).await, 980_000);
}

#[tokio::test]
async fn payment_without_runs_left_offers_only_a_new_call() {
    let host = Host::builder().env("TOLLHOUSE_PAID_RUNS", 1).start().await;
    let mut tool = js("order", 0.01, "export default () => { throw new Error('never'); };");
    tool["settle"] = json!("before");
    host.publish(&tool).await;
    let browser = Browser::new(&host);
    let terms = browser.terms("order", "{}").await;
    let failed = browser.press_on(&terms, "of play money").await.is(502);
    assert_eq!(labels(&failed), ["Pay for a new call", "Call with another input"]);
    let again = browser.press_on(&terms, "of play money").await.is(410);
    assert!(text(&html(&again)).contains("No runs are left"));
    assert_eq!(labels(&again), ["Pay for a new call", "Call with another input"]);
    form(&browser.press_on(&again, "Pay for a new call").await.is(200), "of play money");
    assert_eq!(host.balance(&payer(&browser)).await, 990_000);
}

#[tokio::test]
async fn a_form_pays_what_it_says_and_nothing_else() {
    let host = host(0.01).await;
    let browser = Browser::new(&host);
    let pays = form(&browser.terms("echo", "{}").await, "of play money");
    for (name, value) in
        [("amount", "1"), ("amount", ""), ("asset", "0x1"), ("network", "eip155:1"), ("payment", "e30="), ("way", "any"), ("way", "own")]
    {
        let refused = browser.press(&pays.clone().with(name, value), "Call").await.is(400);
        assert!(html(&refused).contains("nothing was charged"), "{name}");
    }
    let other = form(&browser.terms("echo", r#"{"n":1}"#).await, "of play money");
    browser.press(&pays.clone().with("input", other.get("input")), "Call").await.is(200);
    let refused = browser.press(&pays, "Call").await.is(409);
    assert!(text(&html(&refused)).contains("payment_reused"), "the payment was for another input");
    assert_eq!(host.balance(&payer(&browser)).await, 990_000);
}

#[tokio::test]
async fn a_price_that_has_changed_is_reported_before_it_is_paid() {
    let host = host(0.01).await;
    let browser = Browser::new(&host);
    let terms = browser.terms("echo", "{}").await;
    host.change("echo", &json!({ "priceUsd": 0.02 })).await;
    let refused = browser.press_on(&terms, "of play money").await.is(402);
    assert!(text(&html(&refused)).contains("Nothing was charged."));
    let answer = browser.press_on(&refused, "See the terms again").await.is(200);
    browser.press_on(&answer, "Call for $0.02 of play money").await.is(200);
    assert_eq!(host.balance(&payer(&browser)).await, 980_000);
}

#[tokio::test]
async fn metered_tool_is_paid_up_to_its_maximum() {
    let host = Host::start().await;
    let mut tool = js("meter", 0.0, "export default async (req, ctx) => { await ctx.charge('0.0123'); return {}; };");
    tool["maxPriceUsd"] = json!(0.05);
    host.publish(&tool).await;
    let browser = Browser::new(&host);
    let terms = browser.terms("meter", "{}").await;
    let pays = form(&terms, "Call for up to $0.05 of play money");
    for _ in 0..2 {
        let answer = browser.press(&pays, "Call").await.is(200);
        assert!(text(&html(&answer)).contains("$0.0123"));
    }
    assert_eq!(host.balance(&payer(&browser)).await, 987_700);
}

#[tokio::test]
async fn a_credit_pays_once_and_its_token_is_not_kept() {
    let host = host(0.01).await;
    let (browser, credit) = (Browser::new(&host), host.mint(1.0).await);
    let terms = browser.terms("echo", "{}").await;
    let pays = form(&terms, "with this credit").with("credit", &credit);
    for answer in join_all((0..5).map(|_| browser.press(&pays, "Call"))).await {
        assert!(!html(&answer.is(200)).contains(&credit));
    }
    assert_eq!(host.credit_balance(&credit).await, 990_000);
    // The same call, from pages that were loaded again.
    let again = form(&browser.terms("echo", "{}").await, "with this credit").with("credit", &credit);
    let stored = browser.press(&again, "Call").await.is(200);
    assert!(text(&html(&stored)).contains("Nothing was charged this time."));
    assert_eq!(host.credit_balance(&credit).await, 990_000);
    let more = form(&browser.press_on(&stored, "See the terms for a new call").await.is(200), "with this credit").with("credit", &credit);
    browser.press(&more, "Call").await.is(200);
    assert_eq!(host.credit_balance(&credit).await, 980_000);
    // The price is the one that the page showed.
    host.change("echo", &json!({ "priceUsd": 0.5 })).await;
    let quoted = form(&browser.terms("echo", r#"{"n":1}"#).await, "with this credit").with("credit", &credit);
    host.change("echo", &json!({ "priceUsd": 0.9 })).await;
    browser.press(&quoted, "Call").await.is(200);
    assert_eq!(host.credit_balance(&credit).await, 480_000);
    let wrong = form(&terms, "with this credit").with("credit", "dc_1_wrong");
    let refused = browser.press(&wrong, "Call").await.is(401);
    assert!(text(&html(&refused)).contains("No developer credit has this token"));
}

#[tokio::test]
async fn holder_pays_with_the_credit_by_its_button_only() {
    let host = host(0.01).await;
    let (browser, credit) = (Browser::new(&host), host.mint(1.0).await);
    browser.sign_in(&credit).await;
    let page = browser.get("/dashboard/tools/echo/try").await.is(200);
    let terms = browser.press_on(&page, "See the terms").await.is(200);
    assert_eq!(host.credit_balance(&credit).await, 1_000_000, "the terms cost nothing");
    let pays = form(&terms, "Call for $0.01 with your credit");
    for _ in 0..3 {
        browser.press(&pays, "Call").await.is(200);
    }
    assert_eq!(host.credit_balance(&credit).await, 990_000);
    browser.press(&pays.without("csrf"), "Call").await.is(403);
    assert_eq!(page.has("cache-control"), "no-store");
}

#[tokio::test]
async fn events_are_shown_live() {
    let host = Host::start().await;
    host.publish(&js("says", 0.01, "export default async (req, ctx) => { ctx.progress('half'); return { done: true }; };")).await;
    let browser = Browser::new(&host);
    let pays = form(&browser.terms("says", "{}").await, "of play money");
    let asks = || async {
        let answer = browser.host.send(browser.request(&pays, "Call").header("accept", "text/event-stream")).await.is(200);
        assert_eq!(answer.has("cache-control"), "no-store");
        answer.events()
    };
    let response = asks().await;
    let names: Vec<_> = response.iter().map(|event| event.name.as_str()).collect();
    assert_eq!((names.first(), names.last()), (Some(&"accepted"), Some(&"result")), "{names:?}");
    assert!(response.iter().any(|event| event.data["message"] == "half"));
    let last = &response.last().unwrap().data;
    assert_eq!((&last["result"]["done"], &last["settlement"]["success"]), (&json!(true), &json!(true)));
    assert_eq!(asks().await.last().unwrap().data["receipt"], last["receipt"], "the same call");
    assert_eq!(host.balance(&payer(&browser)).await, 990_000);
}

/// Starts a host with payments that it takes for real. Returns it and a payer.
async fn of_a_wallet(facilitator: &Facilitator) -> (Host, Payer) {
    let host = Host::builder().settled_by(&facilitator.url).start().await;
    host.publish(&js("echo", 0.01, ECHO)).await;
    (host, Payer::new())
}

fn signed(terms: &Answer, payer: &Payer) -> Form {
    let offer: Value = serde_json::from_str(&values(&html(terms), "data-wallet")[0]).unwrap();
    let challenge = json!({ "accepts": [offer["accepted"]], "resource": offer["resource"] });
    let form = forms(terms).into_iter().find(|form| form.get("amount") == "10000").unwrap();
    form.with("payment", &payer.pay(&challenge).encoded()).pressed_by_script("Call")
}

#[tokio::test]
async fn where_money_is_real_the_host_signs_nothing() {
    let facilitator = Facilitator::start(SettleMode::Well).await;
    let (host, payer) = of_a_wallet(&facilitator).await;
    let browser = Browser::new(&host);
    let terms = browser.terms("echo", "{}").await;
    assert!(!text(&html(&terms)).contains("play money") && browser.cookie("-play").is_none());
    let pays = signed(&terms, &payer);
    for _ in 0..3 {
        browser.press(&pays, "Call").await.is(200);
    }
    assert_eq!(facilitator.asked(), 1);
}

#[tokio::test]
async fn an_unknown_settlement_leaves_nothing_to_pay_with_but_the_same_payment() {
    let facilitator = Facilitator::start(SettleMode::Unanswered).await;
    let (host, payer) = of_a_wallet(&facilitator).await;
    let browser = Browser::new(&host);
    let pays = signed(&browser.terms("echo", "{}").await, &payer);
    let unknown = browser.press(&pays, "Call").await.is(502);
    let shown = text(&html(&unknown));
    for reported in ["settlement_unknown", "Not known yet whether it was charged.", "settling"] {
        assert!(shown.contains(reported), "{reported}: {shown}");
    }
    assert_eq!(labels(&unknown), ["Send the same payment again · cannot be charged twice"]);
    assert_eq!(form(&unknown, "Send the same payment again").get("payment"), pays.get("payment"));
    // The settlement succeeds.
    facilitator.set_mode(SettleMode::Well);
    eventually("it is resolved", Duration::from_secs(60), async || {
        let again = browser.press_on(&unknown, "Send the same payment again").await;
        (again.status == 200).then_some(())
    })
    .await;
}

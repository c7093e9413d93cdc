//! Calls under a quote, before and after it expires.

use tollhouse_money::{CreditOffer, QuoteRefusal};

use super::*;

const LONG: Duration = Duration::from_secs(20);

impl Bench {
    fn quoted(&self, live: &Arc<Live>, offered: Offered, quote: &str) -> Call {
        Call { quote: Some(quote.to_owned()), ..self.call(live, offered) }
    }

    fn quote(&self, live: &Live) -> String {
        self.calls.quote(&live.terms).quote_id
    }

    /// Lets every quote that was made expire.
    fn wait(&self) {
        self.clock.set(self.clock.now().plus_millis(60_000));
    }
}

fn expired(ended: &Shared) -> bool {
    matches!(ended.as_ref().map_err(|error| &**error), Err(CallError::Quote { why: QuoteRefusal::Expired { .. }, .. }))
}

#[tokio::test]
async fn a_payment_at_a_quoted_price_settles_though_its_quote_has_expired_meanwhile() {
    let bench = Bench::new().await;
    let quote = bench.quote(&*bench.tool(0.01).await);
    let live = bench.repriced(0.05).await;
    bench.settle(Settles::Later);
    let call = bench.calls.perform(bench.quoted(&live, pays(1), &quote));
    let go = async {
        while bench.calls.in_flight.calls().is_empty() {
            tokio::task::yield_now().await;
        }
        bench.wait();
        // A request with the same payment waits for the same answer, and any other one is refused.
        let joining = bench.calls.perform(bench.quoted(&live, pays(1), &quote));
        let another = bench.calls.perform(bench.quoted(&live, pays(2), &quote)).await;
        assert!(expired(&another), "{another:?}");
        bench.facilitator.go.notify_one();
        joining.await
    };
    let (first, joined) = tokio::time::timeout(LONG, async { tokio::join!(call, go) }).await.unwrap();
    let (first, joined) = (first.unwrap(), joined.unwrap());
    assert_eq!(first.answer.receipt_id, joined.answer.receipt_id);
    let receipt = bench.receipts.find(&first.answer.receipt_id).await.unwrap().unwrap();
    assert_eq!((&receipt["priceUsd"], &receipt["amount"], &receipt["quoteId"]), (&json!(0.01), &json!("10000"), &json!(quote)));
    assert_eq!(bench.records(&live).await[0]["priceUsd"], json!(0.01));
    assert_eq!(bench.events(Kind::PaymentSettled).await[0].data["feeUsd"], json!(0.0005), "of what was paid");
}

#[tokio::test]
async fn an_answer_that_was_bought_under_a_quote_is_given_again_when_that_has_expired() {
    let bench = Bench::new().await;
    let quote = bench.quote(&*bench.tool(0.01).await);
    let live = bench.repriced(0.05).await;
    let bought = bench.calls.perform(bench.quoted(&live, pays(1), &quote)).await.unwrap();
    bench.wait();
    for named in [&*quote, "quo_nonsense"] {
        let again = bench.calls.perform(bench.quoted(&live, pays(1), named)).await.unwrap();
        assert_eq!(again.answer.receipt_id, bought.answer.receipt_id);
    }
    assert!(expired(&bench.calls.perform(bench.quoted(&live, pays(2), &quote)).await));
    assert!(expired(&bench.calls.perform(bench.quoted(&live, Offered::Nothing, &quote)).await));
}

#[tokio::test]
async fn a_payment_of_a_quoted_price_that_was_not_taken_buys_at_that_price_while_the_quote_holds() {
    let bench = Bench::new().await;
    let quote = bench.quote(&*bench.tool(0.01).await);
    let live = bench.repriced(0.05).await;
    bench.settle(Settles::Refused("insufficient_funds"));
    let refused = bench.calls.perform(bench.quoted(&live, pays(1), &quote)).await.unwrap_err();
    let CallError::SettlementRefused(challenge) = &*refused else { panic!("{refused:?}") };
    assert_eq!(challenge.v2["accepts"][0]["amount"], "10000", "asked for again as it was quoted");
    bench.settle(Settles::Well);
    bench.calls.perform(bench.quoted(&live, pays(1), &quote)).await.unwrap();
}

#[tokio::test]
async fn a_refused_quote_comes_with_one_that_holds() {
    let bench = Bench::new().await;
    let quote = bench.quote(&*bench.tool(0.01).await);
    let live = bench.repriced(0.05).await;
    bench.wait();
    let refused = bench.calls.perform(bench.quoted(&live, Offered::Nothing, &quote)).await.unwrap_err();
    let CallError::Quote { current, .. } = &*refused else { panic!("{refused:?}") };
    assert_eq!(current.json()["accepts"][0]["amount"], "50000");
    let again = bench.calls.perform(bench.quoted(&live, Offered::Nothing, &current.quote_id)).await.unwrap_err();
    let CallError::PaymentRequired(challenge) = &*again else { panic!("{again:?}") };
    assert_eq!(challenge.v2["accepts"], current.json()["accepts"]);
}

#[tokio::test]
async fn an_owner_and_who_pays_for_nothing_need_no_quote_that_holds() {
    let bench = Bench::new().await;
    let live = bench.tool(0.01).await;
    let own = Call { by: CalledBy::Owner, ..bench.quoted(&live, Offered::Nothing, "quo_nonsense") };
    assert!(bench.calls.perform(own).await.unwrap().payment.is_none());
    let free = bench.repriced(0.0).await;
    assert!(bench.calls.perform(bench.quoted(&free, Offered::Nothing, "quo_nonsense")).await.unwrap().payment.is_none());
}

#[tokio::test]
async fn credit_pays_the_quoted_price() {
    let bench = Bench::new().await;
    let quote = bench.quote(&*bench.tool(0.01).await);
    let live = bench.repriced(0.05).await;
    let minted = bench.gate.credits().mint(MicroUsd(15_000), "a test", None).await.unwrap();
    let credit = || Offered::Credit(CreditOffer { token: minted.token.clone().unwrap(), idempotency_key: None, observer: None });
    bench.calls.perform(bench.quoted(&live, credit(), &quote)).await.unwrap();
    let left = bench.gate.credits().get(&minted.credit.id).await.unwrap().unwrap().balance;
    assert_eq!(left, MicroUsd(5_000), "it would not have paid for the price of the moment");
    let refused = bench.calls.perform(bench.quoted(&live, credit(), &quote)).await.unwrap_err();
    assert!(matches!(&*refused, CallError::PaymentRequired(_)), "{refused:?}");
}

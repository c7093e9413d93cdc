//! Calls under a quote, before and after it expires.

use tollhouse_money::{CreditOffer, QuoteRefusal};

use super::*;

const LONG: Duration = Duration::from_secs(20);

impl Fixture {
    fn quoted(&self, live: &Arc<LiveEndpoint>, offered: OfferedPayment, quote: &str) -> Call {
        Call { quote: Some(quote.to_owned()), ..self.call(live, offered) }
    }

    fn quote(&self, live: &LiveEndpoint) -> String {
        self.calls.quote(&live.terms).quote_id
    }

    /// Lets every quote that was made expire.
    fn wait(&self) {
        self.clock.set(self.clock.now().plus_millis(60_000));
    }
}

fn expired(ended: &SharedResult) -> bool {
    matches!(ended.as_ref().map_err(|error| &**error), Err(CallError::Quote { reason: QuoteRefusal::Expired { .. }, .. }))
}

#[tokio::test]
async fn a_payment_at_a_quoted_price_settles_though_its_quote_has_expired_meanwhile() {
    let fixture = Fixture::new().await;
    let quote = fixture.quote(&*fixture.tool(0.01).await);
    let live = fixture.repriced(0.05).await;
    fixture.settle(Settles::Later);
    let call = fixture.calls.perform(fixture.quoted(&live, pays(1), &quote));
    let go = async {
        while fixture.calls.in_flight.calls.lock().is_empty() {
            tokio::task::yield_now().await;
        }
        fixture.wait();
        // A request with the same payment waits for the same answer, and any other one is refused.
        let joining = fixture.calls.perform(fixture.quoted(&live, pays(1), &quote));
        let another = fixture.calls.perform(fixture.quoted(&live, pays(2), &quote)).await;
        assert!(expired(&another), "{another:?}");
        fixture.facilitator.proceed.notify_one();
        joining.await
    };
    let (first, joined) = tokio::time::timeout(LONG, async { tokio::join!(call, go) }).await.unwrap();
    let (first, joined) = (first.unwrap(), joined.unwrap());
    assert_eq!(first.answer.receipt_id, joined.answer.receipt_id);
    let receipt = fixture.receipts.find(&first.answer.receipt_id).await.unwrap().unwrap();
    assert_eq!((&receipt["priceUsd"], &receipt["amount"], &receipt["quoteId"]), (&json!(0.01), &json!("10000"), &json!(quote)));
    assert_eq!(fixture.records(&live).await[0]["priceUsd"], json!(0.01));
    assert_eq!(fixture.events(Kind::PaymentSettled).await[0].data["feeUsd"], json!(0.0005), "of the paid call");
}

#[tokio::test]
async fn an_answer_that_was_bought_under_a_quote_is_given_again_when_that_has_expired() {
    let fixture = Fixture::new().await;
    let quote = fixture.quote(&*fixture.tool(0.01).await);
    let live = fixture.repriced(0.05).await;
    let bought = fixture.calls.perform(fixture.quoted(&live, pays(1), &quote)).await.unwrap();
    fixture.wait();
    for named in [&*quote, "quo_nonsense"] {
        let again = fixture.calls.perform(fixture.quoted(&live, pays(1), named)).await.unwrap();
        assert_eq!(again.answer.receipt_id, bought.answer.receipt_id);
    }
    assert!(expired(&fixture.calls.perform(fixture.quoted(&live, pays(2), &quote)).await));
    assert!(expired(&fixture.calls.perform(fixture.quoted(&live, OfferedPayment::Nothing, &quote)).await));
}

#[tokio::test]
async fn an_unsettled_payment_of_a_quote_buys_at_that_price_while_it_holds() {
    let fixture = Fixture::new().await;
    let quote = fixture.quote(&*fixture.tool(0.01).await);
    let live = fixture.repriced(0.05).await;
    fixture.settle(Settles::Refused("insufficient_funds"));
    let refused = fixture.calls.perform(fixture.quoted(&live, pays(1), &quote)).await.unwrap_err();
    let CallError::SettlementRefused(challenge) = &*refused else { panic!("{refused:?}") };
    assert_eq!(challenge.v2["accepts"][0]["amount"], "10000", "asked for again as it was quoted");
    fixture.settle(Settles::Well);
    fixture.calls.perform(fixture.quoted(&live, pays(1), &quote)).await.unwrap();
}

#[tokio::test]
async fn a_refused_quote_comes_with_one_that_holds() {
    let fixture = Fixture::new().await;
    let quote = fixture.quote(&*fixture.tool(0.01).await);
    let live = fixture.repriced(0.05).await;
    fixture.wait();
    let refused = fixture.calls.perform(fixture.quoted(&live, OfferedPayment::Nothing, &quote)).await.unwrap_err();
    let CallError::Quote { current, .. } = &*refused else { panic!("{refused:?}") };
    assert_eq!(current.json()["accepts"][0]["amount"], "50000");
    let again = fixture.calls.perform(fixture.quoted(&live, OfferedPayment::Nothing, &current.quote_id)).await.unwrap_err();
    let CallError::PaymentRequired(challenge) = &*again else { panic!("{again:?}") };
    assert_eq!(challenge.v2["accepts"], current.json()["accepts"]);
}

#[tokio::test]
async fn owners_and_free_calls_need_no_valid_quote() {
    let fixture = Fixture::new().await;
    let live = fixture.tool(0.01).await;
    let own = Call { by: CalledBy::Owner, ..fixture.quoted(&live, OfferedPayment::Nothing, "quo_nonsense") };
    assert!(fixture.calls.perform(own).await.unwrap().payment.is_none());
    let free = fixture.repriced(0.0).await;
    assert!(fixture.calls.perform(fixture.quoted(&free, OfferedPayment::Nothing, "quo_nonsense")).await.unwrap().payment.is_none());
}

#[tokio::test]
async fn credit_pays_the_quoted_price() {
    let fixture = Fixture::new().await;
    let quote = fixture.quote(&*fixture.tool(0.01).await);
    let live = fixture.repriced(0.05).await;
    let minted = fixture.payments.credits().mint(MicroUsd(15_000), "a test", None).await.unwrap();
    let credit = || OfferedPayment::Credit(CreditOffer { token: minted.token.clone().unwrap(), idempotency_key: None, observer: None });
    fixture.calls.perform(fixture.quoted(&live, credit(), &quote)).await.unwrap();
    let remaining = fixture.payments.credits().get(&minted.credit.id).await.unwrap().unwrap().balance;
    assert_eq!(remaining, MicroUsd(5_000), "it would not have paid for the price of the moment");
    let refused = fixture.calls.perform(fixture.quoted(&live, credit(), &quote)).await.unwrap_err();
    assert!(matches!(&*refused, CallError::CreditTooLow(_)), "{refused:?}");
}

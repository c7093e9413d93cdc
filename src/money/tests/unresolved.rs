//! Settlements without a known outcome are looked up for a day, and then an admin decides.

use super::*;

const DAY_MS: u64 = 24 * 60 * 60 * 1_000;

/// Returns a payment whose settlement got no answer for a day.
async fn unresolved() -> (Fixture, PaymentId) {
    let fixture = Fixture::new().await;
    fixture.facilitator.feel(FacilitatorMood::Unsure);
    let admission = fixture.run(Payer::new(1).pays(1)).await;
    let id = admission.id().clone();
    fixture.settle(admission).await.unwrap_err();
    fixture.clock.set(NOW.plus_millis(DAY_MS - 1));
    fixture.poll().await;
    assert_eq!((fixture.state(&id).await, fixture.payments.open_intents()), (Some(PaymentState::Settling), 1), "a millisecond is left");
    fixture.clock.set(NOW.plus_millis(DAY_MS));
    fixture.poll().await;
    (fixture, id)
}

impl Fixture {
    /// Looks up all open settlements, even if they are not due.
    async fn poll(&self) {
        self.payments.recover().await.unwrap();
        self.payments.tick().await.unwrap();
    }

    async fn resolve(&self, id: &PaymentId, resolution: Resolution) -> Result<PaymentState, ResolutionError> {
        self.payments.resolve_unresolved(id, &resolution).await.map(|state| state.state)
    }
}

/// Regression test: with an `http` facilitator and no node it was looked up every five minutes forever.
#[tokio::test]
async fn settlement_without_an_answer_is_queried_for_a_day() {
    let (fixture, id) = unresolved().await;
    assert_eq!((fixture.state(&id).await, fixture.payments.open_intents()), (Some(PaymentState::Unresolved), 0));
    assert_eq!(fixture.payments.held_balances(), 0);
    assert_eq!(count_unresolved(&*fixture.store, 10).await.unwrap(), 1);
    // A lookup would now find that nothing moved, and settle.
    fixture.facilitator.feel(FacilitatorMood::Honest);
    fixture.poll().await;
    let restarted = fixture.restarted();
    restarted.poll().await;
    for fixture in [&fixture, &restarted] {
        assert_eq!((fixture.state(&id).await, fixture.earned().await), (Some(PaymentState::Unresolved), 0));
        assert!(matches!(fixture.payments.ended(&id).await.unwrap(), HeldPaymentEnd::Open));
        assert!(
            matches!(fixture.admit(Payer::new(1).pays(1)).await, Ok(Admit::Seen(SeenPayment::InFlight(seen))) if seen == id),
            "its nonce stays used"
        );
        let other = fixture.payments.admit(&terms(), Payer::new(1).pays(1), "another request").await;
        assert!(matches!(other, Err(Refusal::Reused)), "{}", what(&other));
    }
    let mut flaws = tollhouse_base::check_report::CheckReport::default();
    check_payments(&*fixture.store, &mut flaws).await.unwrap();
    assert_eq!(flaws.count, 0, "{flaws:?}");
    let reading = crate::ledger::read(&*fixture.store, 10, None).await.unwrap();
    assert_eq!(reading.unresolved_settlements, Some(1));
}

#[tokio::test]
async fn owner_gets_one_event_for_an_unresolved_settlement() {
    let (fixture, id) = unresolved().await;
    fixture.poll().await;
    let events: Vec<Value> = fixture.all(Space::Events).await.iter().filter_map(|(_, bytes)| event(bytes)).collect();
    let listed: Vec<_> = events.iter().filter(|event| event["kind"] == "payment.unresolved").collect();
    assert_eq!(listed.len(), 1, "{events:?}");
    assert_eq!((&listed[0]["data"]["paymentId"], &listed[0]["endpointSlug"]), (&json!(id), &json!("sum-up")));
}

/// Parses the JSON of an event's row.
fn event(bytes: &[u8]) -> Option<Value> {
    let from = bytes.iter().position(|byte| *byte == b'{')?;
    serde_json::from_slice(&bytes[from..]).ok()
}

#[tokio::test]
async fn admin_finds_unresolved_settlements_with_all_that_it_takes_to_look_them_up() {
    let (fixture, id) = unresolved().await;
    let listed = fixture.payments.unresolved(None, 10).await.unwrap();
    let reported = serde_json::to_value(&listed).unwrap();
    let expected = json!([{
        "paymentId": id, "since": NOW, "network": "eip155:84532", "asset": ASSETS[0].address, "amount": "10000",
        "payer": Payer::new(1).address(), "payTo": PAY_TO, "slug": "sum-up", "priceUsd": 0.01, "facilitator": "moody", "transaction": null,
    }]);
    assert_eq!(reported, expected);
    assert!(fixture.payments.unresolved(Some(&id), 10).await.unwrap().is_empty());
    assert_eq!(summarize_unresolved(&*fixture.store, 10).await.unwrap(), (1, Some(NOW)));
}

#[tokio::test]
async fn unresolved_settlement_that_was_paid_has_its_answer_and_receipt() {
    let (fixture, id) = unresolved().await;
    let paid = |transaction: &str| Resolution::Paid { transaction: transaction.to_owned() };
    let refused = fixture.resolve(&id, paid("0xab")).await;
    assert!(matches!(refused, Err(ResolutionError::Transaction(_))), "{refused:?}");
    let hash = format!("0x{}", "ab".repeat(32));
    assert_eq!(fixture.resolve(&id, paid(&hash)).await.unwrap(), PaymentState::Settled);
    assert_eq!(stored(fixture.admit(Payer::new(1).pays(1)).await).body, ANSWER);
    assert_eq!(fixture.receipts().await[0].transaction.as_deref(), Some(hash.as_str()));
    assert_eq!(count_unresolved(&*fixture.store, 10).await.unwrap(), 0);
    let again = fixture.resolve(&id, Resolution::Unpaid).await;
    assert!(matches!(again, Err(ResolutionError::WrongState(PaymentState::Settled))), "{again:?}");
}

#[tokio::test]
async fn one_transaction_resolves_one_settlement() {
    let fixture = Fixture::new().await;
    let sold = fixture.buy(Payer::new(2).pays(7)).await;
    let transaction = fixture.receipts().await[0].transaction.clone().unwrap();
    fixture.facilitator.feel(FacilitatorMood::Unsure);
    let admission = fixture.run(Payer::new(1).pays(1)).await;
    let id = admission.id().clone();
    fixture.settle(admission).await.unwrap_err();
    fixture.clock.set(NOW.plus_millis(DAY_MS));
    fixture.poll().await;
    let resolved = fixture.resolve(&id, Resolution::Paid { transaction }).await;
    assert!(matches!(resolved, Err(ResolutionError::NotPaid)), "{resolved:?}, though {} has it", sold.receipt_id);
    assert_eq!(fixture.state(&id).await, Some(PaymentState::Unresolved));
}

#[tokio::test]
async fn unresolved_settlement_that_was_not_paid_is_refused() {
    let (fixture, id) = unresolved().await;
    // The facilitator in force has no chain to read.
    let undecided = fixture.resolve(&id, Resolution::LookUp).await;
    assert!(matches!(undecided, Err(ResolutionError::Undecided(_))), "{undecided:?}");
    assert_eq!(fixture.state(&id).await, Some(PaymentState::Unresolved));
    assert_eq!(fixture.resolve(&id, Resolution::Unpaid).await.unwrap(), PaymentState::Refused);
    assert!(fixture.receipts().await.is_empty() && matches!(fixture.payments.ended(&id).await.unwrap(), HeldPaymentEnd::Without));
    assert_eq!(count_unresolved(&*fixture.store, 10).await.unwrap(), 0);
    let unknown: PaymentId = format!("pmt_{}", "0".repeat(32)).parse().unwrap();
    assert!(matches!(fixture.resolve(&unknown, Resolution::Unpaid).await, Err(ResolutionError::Unknown)));
}

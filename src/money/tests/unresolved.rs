//! Settlements without a known outcome are looked up for a day, and then an admin decides.

use super::*;

const DAY_MS: u64 = 24 * 60 * 60 * 1_000;

/// Returns a payment whose settlement got no answer for a day.
async fn unresolved() -> (Bench, PaymentId) {
    let bench = Bench::new().await;
    bench.facilitator.feel(Mood::Unsure);
    let admission = bench.run(Payer::new(1).pays(1)).await;
    let id = admission.id().clone();
    bench.settle(admission).await.unwrap_err();
    bench.clock.set(NOW.plus_millis(DAY_MS - 1));
    bench.asks().await;
    assert_eq!((bench.state(&id).await, bench.gate.open_intents()), (Some(State::Settling), 1), "a millisecond is left");
    bench.clock.set(NOW.plus_millis(DAY_MS));
    bench.asks().await;
    (bench, id)
}

impl Bench {
    /// Looks up all open settlements, even if they are not due.
    async fn asks(&self) {
        self.gate.recover().await.unwrap();
        self.gate.tick().await.unwrap();
    }

    async fn resolve(&self, id: &PaymentId, resolution: Resolution) -> Result<State, ResolutionError> {
        self.gate.resolve_unresolved(id, &resolution).await.map(|state| state.state)
    }
}

/// Regression test: with an `http` facilitator and no node it was looked up every five minutes forever.
#[tokio::test]
async fn settlement_that_nobody_answers_for_is_asked_about_for_a_day() {
    let (bench, id) = unresolved().await;
    assert_eq!((bench.state(&id).await, bench.gate.open_intents()), (Some(State::Unresolved), 0));
    assert_eq!(bench.gate.purses_held(), 0);
    assert_eq!(count_unresolved(&*bench.store, 10).await.unwrap(), 1);
    // A lookup would now find that nothing moved, and settle.
    bench.facilitator.feel(Mood::Honest);
    bench.asks().await;
    let restarted = bench.restarted();
    restarted.asks().await;
    for bench in [&bench, &restarted] {
        assert_eq!((bench.state(&id).await, bench.earned().await), (Some(State::Unresolved), 0));
        assert!(matches!(bench.gate.ended(&id).await.unwrap(), Ended::Open));
        assert!(matches!(bench.admit(Payer::new(1).pays(1)).await, Ok(Admit::InFlight(seen)) if seen == id), "its nonce stays used");
        let other = bench.gate.admit(&terms(), Payer::new(1).pays(1), "another request").await;
        assert!(matches!(other, Err(Refusal::Reused)), "{}", what(&other));
    }
    let mut flaws = tollhouse_base::flaws::Flaws::default();
    check_payments(&*bench.store, &mut flaws).await.unwrap();
    assert_eq!(flaws.count, 0, "{flaws:?}");
    let reading = crate::ledger::read(&*bench.store, 10, None).await.unwrap();
    assert_eq!(reading.unresolved_settlements, 1);
}

#[tokio::test]
async fn owner_of_the_tool_hears_once_that_a_settlement_is_unresolved() {
    let (bench, id) = unresolved().await;
    bench.asks().await;
    let events: Vec<Value> = bench.all(Space::Events).await.iter().filter_map(|(_, bytes)| event(bytes)).collect();
    let told: Vec<_> = events.iter().filter(|event| event["kind"] == "payment.unresolved").collect();
    assert_eq!(told.len(), 1, "{events:?}");
    assert_eq!((&told[0]["data"]["paymentId"], &told[0]["endpointSlug"]), (&json!(id), &json!("sum-up")));
}

/// Parses the JSON of an event's row.
fn event(bytes: &[u8]) -> Option<Value> {
    let from = bytes.iter().position(|byte| *byte == b'{')?;
    serde_json::from_slice(&bytes[from..]).ok()
}

#[tokio::test]
async fn admin_finds_unresolved_settlements_with_all_that_it_takes_to_look_them_up() {
    let (bench, id) = unresolved().await;
    let listed = bench.gate.unresolved(None, 10).await.unwrap();
    let told = serde_json::to_value(&listed).unwrap();
    let expected = json!([{
        "paymentId": id, "since": NOW, "network": "eip155:84532", "asset": ASSETS[0].address, "amount": "10000",
        "payer": Payer::new(1).address(), "payTo": PAY_TO, "slug": "sum-up", "priceUsd": 0.01, "facilitator": "moody", "transaction": null,
    }]);
    assert_eq!(told, expected);
    assert!(bench.gate.unresolved(Some(&id), 10).await.unwrap().is_empty());
    assert_eq!(bench.gate.summarize_unresolved(10).await.unwrap(), (1, Some(NOW)));
}

#[tokio::test]
async fn unresolved_settlement_that_was_paid_has_its_answer_and_receipt() {
    let (bench, id) = unresolved().await;
    let paid = |transaction: &str| Resolution::Paid { transaction: transaction.to_owned() };
    let refused = bench.resolve(&id, paid("0xab")).await;
    assert!(matches!(refused, Err(ResolutionError::Transaction(_))), "{refused:?}");
    let hash = format!("0x{}", "ab".repeat(32));
    assert_eq!(bench.resolve(&id, paid(&hash)).await.unwrap(), State::Settled);
    assert_eq!(stored(bench.admit(Payer::new(1).pays(1)).await).body, ANSWER);
    assert_eq!(bench.receipts().await[0].transaction.as_deref(), Some(hash.as_str()));
    assert_eq!(count_unresolved(&*bench.store, 10).await.unwrap(), 0);
    let again = bench.resolve(&id, Resolution::Unpaid).await;
    assert!(matches!(again, Err(ResolutionError::WrongState(State::Settled))), "{again:?}");
}

#[tokio::test]
async fn one_transaction_resolves_one_settlement() {
    let bench = Bench::new().await;
    let sold = bench.buy(Payer::new(2).pays(7)).await;
    let transaction = bench.receipts().await[0].transaction.clone().unwrap();
    bench.facilitator.feel(Mood::Unsure);
    let admission = bench.run(Payer::new(1).pays(1)).await;
    let id = admission.id().clone();
    bench.settle(admission).await.unwrap_err();
    bench.clock.set(NOW.plus_millis(DAY_MS));
    bench.asks().await;
    let resolved = bench.resolve(&id, Resolution::Paid { transaction }).await;
    assert!(matches!(resolved, Err(ResolutionError::NotPaid)), "{resolved:?}, though {} has it", sold.receipt_id);
    assert_eq!(bench.state(&id).await, Some(State::Unresolved));
}

#[tokio::test]
async fn unresolved_settlement_that_was_not_paid_is_refused() {
    let (bench, id) = unresolved().await;
    // The facilitator in force has no chain to read.
    let undecided = bench.resolve(&id, Resolution::LookUp).await;
    assert!(matches!(undecided, Err(ResolutionError::Undecided(_))), "{undecided:?}");
    assert_eq!(bench.state(&id).await, Some(State::Unresolved));
    assert_eq!(bench.resolve(&id, Resolution::Unpaid).await.unwrap(), State::Refused);
    assert!(bench.receipts().await.is_empty() && matches!(bench.gate.ended(&id).await.unwrap(), Ended::Without));
    assert_eq!(count_unresolved(&*bench.store, 10).await.unwrap(), 0);
    let unknown: PaymentId = format!("pmt_{}", "0".repeat(32)).parse().unwrap();
    assert!(matches!(bench.resolve(&unknown, Resolution::Unpaid).await, Err(ResolutionError::Unknown)));
}

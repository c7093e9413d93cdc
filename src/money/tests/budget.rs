//! No budget of a credit is exceeded, however many calls end at once.

use futures_util::future::join_all;
use tollhouse_store::test_wrappers::YieldingStore;

use super::{ledger::ledger_agrees, *};

const DAY_MS: u64 = 24 * 60 * 60 * 1_000;

fn by_credit(token: &str) -> OfferedPayment {
    OfferedPayment::Credit(CreditOffer { token: token.to_owned(), idempotency_key: None, observer: None })
}

fn calls(count: u64) -> Option<MicroUsd> {
    Some(MicroUsd(count * PRICE.0))
}

async fn minted(fixture: &Fixture) -> (String, CreditId) {
    let MintedCredit { token, credit } = fixture.payments.credits().mint(MicroUsd(100 * PRICE.0), "", None).await.unwrap();
    (token.unwrap(), credit.id.clone())
}

async fn set(fixture: &Fixture, id: &CreditId, by: SetBy, budget: Budget) {
    fixture.payments.credits().set_budget(id, by, &budget, None).await.unwrap();
}

async fn today(fixture: &Fixture, id: &CreditId) -> Value {
    let credit = fixture.payments.credits().get(id).await.unwrap().unwrap();
    json!(fixture.payments.credits().today(&credit).await.unwrap())
}

#[tokio::test]
async fn budget_is_set_only_onto_the_revision_that_was_read() {
    let fixture = Fixture::over(Arc::new(YieldingStore::default()));
    let (_, id) = minted(&fixture).await;
    let set = async |by, onto| {
        fixture.payments.credits().set_budget(&id, by, &Budget::default(), onto).await.map(|credit| credit.budgets.revision)
    };
    assert!(matches!(set(SetBy::Holder, Some(1)).await, Err(CreditError::Changed(0))), "none was set");
    assert_eq!(
        [set(SetBy::Holder, Some(0)).await.unwrap(), set(SetBy::Admin, None).await.unwrap(), set(SetBy::Admin, Some(2)).await.unwrap()],
        [1, 2, 3]
    );
    assert!(matches!(set(SetBy::Holder, Some(2)).await, Err(CreditError::Changed(3))));
}

#[tokio::test]
async fn concurrent_calls_debit_at_most_the_daily_budget() {
    for (budget, paid) in [
        (Budget { per_day_usd: calls(10), ..Budget::default() }, 10),
        (Budget { per_tool_usd: calls(7), ..Budget::default() }, 7),
        (Budget { per_day_usd: calls(9), per_tool_usd: calls(5), ..Budget::default() }, 5),
    ] {
        let fixture = Fixture::over(Arc::new(YieldingStore::default()));
        let (token, id) = minted(&fixture).await;
        // The calls are admitted before there is a budget, so only the commits enforce it.
        let admitted = join_all((0..64).map(|_| fixture.run(by_credit(&token)))).await;
        set(&fixture, &id, SetBy::Admin, budget).await;
        let settled = join_all(admitted.into_iter().map(|admission| fixture.settle(admission))).await;
        assert_eq!(settled.iter().filter(|settled| settled.is_ok()).count(), paid);
        assert!(settled.iter().all(|settled| matches!(settled, Ok(_) | Err(SettleError::OverBudget(_)))));
        assert_eq!(today(&fixture, &id).await["spentUsd"], json!(MicroUsd(paid as u64 * PRICE.0)));
        assert_eq!(fixture.receipts().await.len(), paid);
        ledger_agrees(&fixture, "64 at once").await;
    }
}

#[tokio::test]
async fn concurrent_calls_run_within_the_budget() {
    for (budget, paid) in
        [(Budget { per_day_usd: calls(10), ..Budget::default() }, 10), (Budget { per_tool_usd: calls(7), ..Budget::default() }, 7)]
    {
        let fixture = Fixture::over(Arc::new(YieldingStore::default()));
        let (token, id) = minted(&fixture).await;
        set(&fixture, &id, SetBy::Holder, budget).await;
        for round in ["first", "once those have gone"] {
            let request = join_all((0..64).map(|_| fixture.admit(by_credit(&token)))).await;
            let (admitted, refused): (Vec<_>, Vec<_>) = request.into_iter().partition(Result::is_ok);
            assert_eq!(admitted.len(), paid, "{round}");
            assert!(refused.iter().all(|refused| matches!(refused, Err(Refusal::OverBudget(_)))), "{round}");
        }
    }
}

#[tokio::test]
async fn call_beyond_a_budget_is_refused_with_the_time_to_retry() {
    let fixture = Fixture::new().await;
    let (token, id) = minted(&fixture).await;
    set(&fixture, &id, SetBy::Admin, Budget { per_day_usd: calls(2), ..Budget::default() }).await;
    let first = fixture.run(by_credit(&token)).await;
    fixture.buy(by_credit(&token)).await;
    // The price of one call is spent, and that of another is held.
    let Err(Refusal::OverBudget(over)) = fixture.admit(by_credit(&token)).await else { panic!("it is refused") };
    assert_eq!((over.kind, over.limit_usd, over.spent_usd), (BudgetKind::PerDay, MicroUsd(2 * PRICE.0), MicroUsd(2 * PRICE.0)));
    let midnight = Timestamp((NOW.0 / DAY_MS + 1) * DAY_MS);
    assert_eq!((over.price_usd, over.resets_at), (PRICE, Some(midnight)));
    first.release().await;
    fixture.buy(by_credit(&token)).await;
    assert!(matches!(fixture.admit(by_credit(&token)).await, Err(Refusal::OverBudget(_))));
    fixture.clock.set(midnight);
    fixture.buy(by_credit(&token)).await;
    assert_eq!(today(&fixture, &id).await["spentUsd"], json!(PRICE), "another day");
    // Sums of old days are deleted.
    assert_eq!(fixture.all(Space::CreditDays).await.len(), 4);
    fixture.clock.set(midnight.plus_millis(8 * DAY_MS));
    fixture.payments.credits().forget_days().await.unwrap();
    assert!(fixture.all(Space::CreditDays).await.is_empty());
    ledger_agrees(&fixture, "days").await;
}

#[tokio::test]
async fn lower_budget_of_admin_and_holder_applies() {
    let fixture = Fixture::new().await;
    let (token, id) = minted(&fixture).await;
    let refused = async || match fixture.admit(by_credit(&token)).await {
        Ok(Admit::Run(admission)) => {
            admission.release().await;
            None
        }
        Err(Refusal::OverBudget(over)) => Some((over.kind, over.limit_usd)),
        other => panic!("{}", what(&other)),
    };
    set(&fixture, &id, SetBy::Admin, Budget { per_call_usd: Some(MicroUsd(PRICE.0 - 1)), ..Budget::default() }).await;
    assert_eq!(refused().await, Some((BudgetKind::PerCall, MicroUsd(PRICE.0 - 1))));
    set(&fixture, &id, SetBy::Holder, Budget { per_call_usd: calls(5), ..Budget::default() }).await;
    assert_eq!(refused().await, Some((BudgetKind::PerCall, MicroUsd(PRICE.0 - 1))), "the holder lifts no admin's limit");
    set(&fixture, &id, SetBy::Admin, Budget::default()).await;
    assert_eq!(refused().await, None);
    set(&fixture, &id, SetBy::Holder, Budget { per_tool_usd: Some(MicroUsd(1)), ..Budget::default() }).await;
    assert_eq!(refused().await, Some((BudgetKind::PerTool, MicroUsd(1))));
}

#[tokio::test]
async fn a_frozen_credit_pays_for_nothing_from_the_commit_on_that_froze_it() {
    let fixture = Fixture::new().await;
    let (token, id) = minted(&fixture).await;
    for by in [SetBy::Admin, SetBy::Holder] {
        let admitted = fixture.run(by_credit(&token)).await;
        set(&fixture, &id, by, Budget { frozen: true, ..Budget::default() }).await;
        assert_eq!(matches!(fixture.settle(admitted).await, Err(SettleError::Refused { .. })), by == SetBy::Admin, "{by:?}");
        assert!(matches!(fixture.admit(by_credit(&token)).await, Err(Refusal::CreditFrozen)));
        set(&fixture, &id, by, Budget::default()).await;
        fixture.buy(by_credit(&token)).await;
    }
    set(&fixture, &id, SetBy::Admin, Budget { frozen: true, ..Budget::default() }).await;
    set(&fixture, &id, SetBy::Holder, Budget::default()).await;
    assert!(matches!(fixture.admit(by_credit(&token)).await, Err(Refusal::CreditFrozen)), "the holder lifts no admin's freeze");
}

/// Regression test: a holder froze its credit during 50 calls. All of them ran, and none was paid.
#[tokio::test]
async fn holder_pays_for_calls_in_flight_whatever_budget_it_sets_meanwhile() {
    for budget in [
        Budget { frozen: true, ..Budget::default() },
        Budget { per_call_usd: Some(MicroUsd(1)), ..Budget::default() },
        Budget { per_tool_usd: Some(MicroUsd(1)), ..Budget::default() },
        Budget { per_day_usd: Some(MicroUsd(1)), ..Budget::default() },
    ] {
        let fixture = Fixture::over(Arc::new(YieldingStore::default()));
        let (token, id) = minted(&fixture).await;
        let admitted = join_all((0..50).map(|_| fixture.run(by_credit(&token)))).await;
        set(&fixture, &id, SetBy::Holder, budget).await;
        assert!(fixture.admit(by_credit(&token)).await.is_err(), "it binds new calls");
        let settled = join_all(admitted.into_iter().map(|admission| fixture.settle(admission))).await;
        assert_eq!(settled.iter().filter(|settled| settled.is_ok()).count(), 50);
        assert_eq!(today(&fixture, &id).await["spentUsd"], json!(MicroUsd(50 * PRICE.0)));
        ledger_agrees(&fixture, "set meanwhile").await;
    }
}

/// Calls begin while others are debited and release what they held.
#[tokio::test]
async fn holders_budget_is_kept_while_calls_begin_and_end() {
    let fixture = Fixture::over(Arc::new(YieldingStore::default()));
    let (token, id) = minted(&fixture).await;
    set(&fixture, &id, SetBy::Holder, Budget { per_day_usd: calls(20), ..Budget::default() }).await;
    let buys = (0..8).map(async |_| {
        let mut bought = 0;
        while let Ok(Admit::Run(admission)) = fixture.admit(by_credit(&token)).await {
            fixture.settle(admission).await.unwrap();
            bought += 1;
        }
        bought
    });
    assert!(join_all(buys).await.into_iter().sum::<u64>() <= 20);
}

#[tokio::test]
async fn holder_sees_the_spending_per_tool_and_a_warning() {
    let fixture = Fixture::new().await;
    let (token, id) = minted(&fixture).await;
    let budget = Budget { per_day_usd: calls(3), per_tool_usd: calls(4), alert_at_usd: calls(2), ..Budget::default() };
    set(&fixture, &id, SetBy::Holder, budget).await;
    for (bought, alert) in [(1, false), (2, true), (3, true)] {
        fixture.buy(by_credit(&token)).await;
        let answer = today(&fixture, &id).await;
        let usd = |calls: u64| json!(MicroUsd(calls * PRICE.0));
        assert_eq!((&answer["spentUsd"], &answer["leftUsd"], &answer["alert"]), (&usd(bought), &usd(3 - bought), &json!(alert)));
        assert_eq!(answer["byTool"], json!([{ "slug": terms().slug, "spentUsd": usd(bought), "leftUsd": usd(4 - bought) }]));
    }
}

#[tokio::test]
async fn a_holder_sees_a_thousand_tools() {
    let fixture = Fixture::new().await;
    let (token, id) = {
        let MintedCredit { token, credit } = fixture.payments.credits().mint(MicroUsd(2_000 * PRICE.0), "", None).await.unwrap();
        (token.unwrap(), credit.id.clone())
    };
    for tool in 0..1_001 {
        let terms = CallTerms { slug: format!("tool-{tool:04}").parse().unwrap(), ..terms() };
        let admission = run(fixture.payments.admit(&terms, by_credit(&token), REQUEST).await);
        fixture.settle(admission).await.unwrap();
    }
    let answer = today(&fixture, &id).await;
    assert_eq!(answer["spentUsd"], json!(MicroUsd(1_001 * PRICE.0)));
    assert_eq!(answer["byTool"].as_array().unwrap().len(), 1_000);
    assert_eq!(answer["byTool"][999]["slug"], "tool-0999");
}

#[tokio::test]
async fn refusal_names_the_exceeded_budget() {
    for (budget, words) in [
        (Budget { per_day_usd: Some(MicroUsd(1)), ..Budget::default() }, "per day"),
        (Budget { per_call_usd: Some(MicroUsd(1)), ..Budget::default() }, "per call"),
        (Budget { per_tool_usd: Some(MicroUsd(1)), ..Budget::default() }, "per tool and day"),
    ] {
        let fixture = Fixture::new().await;
        let (token, id) = minted(&fixture).await;
        set(&fixture, &id, SetBy::Holder, budget).await;
        let Err(refused) = fixture.admit(by_credit(&token)).await else { panic!("it is refused") };
        assert!(refused.to_string().contains(words), "{refused}");
    }
}

#[tokio::test]
async fn call_that_became_dearer_than_its_limit_is_not_paid() {
    for (limit, paid) in [(PRICE.0 - 1, false), (PRICE.0, true), (PRICE.0 + 1, true)] {
        let fixture = Fixture::new().await;
        let (token, id) = minted(&fixture).await;
        let admitted = fixture.run(by_credit(&token)).await;
        set(&fixture, &id, SetBy::Admin, Budget { per_call_usd: Some(MicroUsd(limit)), ..Budget::default() }).await;
        let settled = fixture.settle(admitted).await;
        assert_eq!(settled.is_ok(), paid, "{limit}");
        let is_over = matches!(&settled, Err(SettleError::OverBudget(over)) if over.kind == BudgetKind::PerCall);
        assert_eq!(is_over, !paid, "the answer names the budget: {settled:?}");
    }
}

#[tokio::test]
async fn call_holds_and_pays_only_its_charged_price() {
    let fixture = Fixture::new().await;
    let (token, id) = minted(&fixture).await;
    let max = CallTerms { price: MicroUsd(60 * PRICE.0), metered: true, ..terms() };
    let admit = async || fixture.payments.admit(&max, by_credit(&token), REQUEST).await;
    let mut first = run(admit().await);
    assert!(matches!(admit().await, Err(Refusal::InsufficientCredit { .. })), "it may need most of the balance");
    first.charge(PRICE);
    let second = run(admit().await);
    fixture.settle(first).await.unwrap();
    second.release().await;
    let movements = fixture.payments.credits().movements(&id, None, 10).await.unwrap().movements;
    assert_eq!((movements[0].kind, movements[0].amount_usd), (MovementKind::Debit, PRICE));
    ledger_agrees(&fixture, "charged").await;
}

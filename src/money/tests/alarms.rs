//! Warnings for operators in `/health`.

use super::*;

/// Returns the current warnings.
fn warnings(fixture: &Fixture) -> Vec<String> {
    serde_json::from_value(fixture.payments.unpaid()["warnings"].clone()).unwrap()
}

/// Admits `runs` runs of payers who can afford them, each payer 25.
async fn admitted(fixture: &Fixture, runs: u64) -> Vec<Admission> {
    let mut admissions = vec![];
    for run in 0..runs {
        let payer = Payer::new(10 + u8::try_from(run / 25).unwrap());
        if run % 25 == 0 {
            fixture.ledger.faucet(&payer.address(), FUNDS).await.unwrap();
        }
        admissions.push(fixture.run(payer.pays(run)).await);
    }
    admissions
}

#[tokio::test]
async fn a_hundred_unpaid_runs_in_a_minute_are_warned_of() {
    let fixture = Fixture::new().await;
    let mut admissions = admitted(&fixture, 100).await;
    let last = admissions.pop().unwrap();
    for admission in admissions {
        admission.fail().await;
    }
    assert_eq!(warnings(&fixture), [""; 0], "99 are few");
    last.fail().await;
    assert_eq!(warnings(&fixture), ["100 runs in the last minute were not paid for"]);
}

#[tokio::test]
async fn a_hundred_open_settlements_are_warned_of_until_they_end() {
    let fixture = Fixture::new().await;
    fixture.facilitator.feel(FacilitatorMood::Unsure);
    for admission in admitted(&fixture, 100).await {
        fixture.settle(admission).await.unwrap_err();
    }
    let reported = warnings(&fixture);
    assert!(reported.iter().any(|warning| warning.starts_with("100 settlements are open")), "{reported:?}");
    fixture.facilitator.feel(FacilitatorMood::Honest);
    fixture.restart_questions().await;
    assert_eq!(warnings(&fixture), [""; 0]);
}

#[tokio::test]
async fn gas_of_underpaid_settlements_above_half_of_its_limit_causes_a_warning() {
    let fixture = Fixture::new().await;
    fixture.payments.use_underpaid_gas(30_000_000);
    assert_eq!(warnings(&fixture), [""; 0], "exactly half is not above half");
    fixture.payments.use_underpaid_gas(1);
    let reported = warnings(&fixture);
    assert!(reported.len() == 1 && reported[0].starts_with("settlements below `--least-settlement-usd` have used"), "{reported:?}");
}

#[tokio::test]
async fn gas_above_half_of_its_limit_is_warned_of() {
    let fixture = Fixture::new().await;
    fixture.payments.burn_gas(30_000_000);
    assert_eq!(warnings(&fixture), [""; 0], "exactly half is not above half");
    fixture.payments.burn_gas(1);
    assert_eq!(warnings(&fixture), ["failed settlements have used more than half of their gas allowance for this hour"]);
}

//! Warnings for operators in `/health`.

use super::*;

/// Returns the current warnings.
fn warnings(bench: &Bench) -> Vec<String> {
    serde_json::from_value(bench.gate.unpaid()["warnings"].clone()).unwrap()
}

/// Admits `runs` runs of payers who can afford them, each payer 25.
async fn admitted(bench: &Bench, runs: u64) -> Vec<Admission> {
    let mut admissions = vec![];
    for run in 0..runs {
        let payer = Payer::new(10 + u8::try_from(run / 25).unwrap());
        if run % 25 == 0 {
            bench.ledger.faucet(&payer.address(), FUNDS).await.unwrap();
        }
        admissions.push(bench.run(payer.pays(run)).await);
    }
    admissions
}

#[tokio::test]
async fn a_hundred_unpaid_runs_in_a_minute_are_warned_of() {
    let bench = Bench::new().await;
    let mut admissions = admitted(&bench, 100).await;
    let last = admissions.pop().unwrap();
    for admission in admissions {
        admission.fail().await;
    }
    assert_eq!(warnings(&bench), [""; 0], "99 are few");
    last.fail().await;
    assert_eq!(warnings(&bench), ["100 runs of the last minute were not paid for"]);
}

#[tokio::test]
async fn a_hundred_open_settlements_are_warned_of_until_they_end() {
    let bench = Bench::new().await;
    bench.facilitator.feel(Mood::Unsure);
    for admission in admitted(&bench, 100).await {
        bench.settle(admission).await.unwrap_err();
    }
    let told = warnings(&bench);
    assert!(told.iter().any(|warning| warning.starts_with("100 settlements are open")), "{told:?}");
    bench.facilitator.feel(Mood::Honest);
    bench.restart_questions().await;
    assert_eq!(warnings(&bench), [""; 0]);
}

#[tokio::test]
async fn gas_of_underpaid_settlements_above_half_of_its_limit_causes_a_warning() {
    let bench = Bench::new().await;
    bench.gate.use_underpaid_gas(30_000_000);
    assert_eq!(warnings(&bench), [""; 0], "exactly half is not above half");
    bench.gate.use_underpaid_gas(1);
    let told = warnings(&bench);
    assert!(told.len() == 1 && told[0].starts_with("settlements below `--least-settlement-usd` have used"), "{told:?}");
}

#[tokio::test]
async fn gas_above_half_of_its_limit_is_warned_of() {
    let bench = Bench::new().await;
    bench.gate.burn_gas(30_000_000);
    assert_eq!(warnings(&bench), [""; 0], "exactly half is not above half");
    bench.gate.burn_gas(1);
    assert_eq!(warnings(&bench), ["settlements have burned more than half of the gas that they may burn in an hour"]);
}

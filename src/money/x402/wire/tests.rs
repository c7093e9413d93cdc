use super::*;
use crate::tests::terms;

#[test]
fn a_description_is_cut_where_that_is_to_be_cut() {
    let long = CallTerms { description: "d".repeat(400), ..terms() };
    let describe = |cut| resource(&long, EntryMethod::Post, cut)["description"].as_str().unwrap().len();
    assert_eq!([describe(ChallengeDetail::None), describe(ChallengeDetail::Directories)], [400, 400]);
    assert_eq!([describe(ChallengeDetail::Description), describe(ChallengeDetail::Offers)], [CUT_DESCRIPTION; 2]);
}

#[test]
fn challenge_states_the_price_and_why_the_call_did_not_run() {
    let costs = format!("`sum-up` costs {} USD for each successful call, paid with x402 or developer credit.", terms().price);
    assert_eq!(sentence(&terms(), &Refusal::NoPayment.to_string()), costs);
    assert_eq!(sentence(&terms(), "insufficient_funds"), format!("Not charged: the payment was refused (insufficient_funds). {costs}"));
    let metered = CallTerms { metered: true, ..terms() };
    assert!(sentence(&metered, "insufficient_funds").contains("costs at most "));
}

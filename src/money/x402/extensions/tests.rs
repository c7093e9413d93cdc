use super::*;
use crate::tests::terms;

#[test]
fn each_detail_level_leaves_out_its_own_extensions_alone() {
    let names = |cut| {
        let reported = extensions_json(&terms(), EntryMethod::Post, &[json!({ "format": "jws" })], new_token().as_deref(), cut);
        ALL.map(|name| reported[name].is_object())
    };
    for cut in [ChallengeDetail::None, ChallengeDetail::Output, ChallengeDetail::Forms, ChallengeDetail::Schemas] {
        assert_eq!(names(cut), [true; 4], "{cut:?}");
    }
    for cut in [ChallengeDetail::Directories, ChallengeDetail::Description] {
        assert_eq!(names(cut), [true, true, true, false], "{cut:?}");
    }
    assert_eq!(names(ChallengeDetail::Offers), [true, true, false, false]);
}

#[test]
fn empty_offers_are_omitted() {
    assert!(extensions_json(&terms(), EntryMethod::Post, &[], None, ChallengeDetail::None)[OFFER_RECEIPT].is_null());
}

#[test]
fn token_of_a_challenge_is_its_own_and_comes_back_as_it_was() {
    let (one, other) = (new_token().unwrap(), new_token().unwrap());
    assert_ne!(one, other);
    let echoed = extensions_json(&terms(), EntryMethod::Post, &[], Some(&one), ChallengeDetail::None);
    assert_eq!(token_of(&json!({ "extensions": echoed })), Some(&*one));
    check_echo(&echoed, &terms()).unwrap();
    for changed in [json!("short"), json!(7), json!("x".repeat(129)), json!("a token with spaces"), Value::Null] {
        let mut echoed = echoed.clone();
        echoed[REPLAY_TOKEN]["info"]["token"] = changed;
        assert!(check_echo(&echoed, &terms()).is_err());
        assert_eq!(token_of(&json!({ "extensions": echoed })), None);
    }
}

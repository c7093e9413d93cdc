use serde_json::json;

use super::*;

#[test]
fn identical_terms_are_signed_once_a_minute() {
    let (offers, mut signed) = (SignedOffers::default(), 0);
    for (at, amount, times) in [
        ((1, EntryMethod::Post), "1", 1),
        ((1, EntryMethod::Post), "1", 1),
        ((1, EntryMethod::Post), "2", 2),
        ((1, EntryMethod::Get), "2", 3),
        ((2, EntryMethod::Get), "2", 4),
        ((2, EntryMethod::Get), "2", 4),
    ] {
        let accepts = [json!({ "amount": amount })];
        let reported = offers.of(at, &accepts, || {
            signed += 1;
            accepts.to_vec()
        });
        assert_eq!((reported[..] == accepts, signed), (true, times), "{at:?}: {amount}");
    }
}

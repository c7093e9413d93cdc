use serde_json::json;

use super::*;

#[test]
fn what_is_asked_for_in_one_way_is_signed_once_a_minute() {
    let (offers, mut signed) = (SignedOffers::default(), 0);
    for (at, amount, times) in [
        ((1, Way::Post), "1", 1),
        ((1, Way::Post), "1", 1),
        ((1, Way::Post), "2", 2),
        ((1, Way::Get), "2", 3),
        ((2, Way::Get), "2", 4),
        ((2, Way::Get), "2", 4),
    ] {
        let accepts = [json!({ "amount": amount })];
        let told = offers.of(at, &accepts, || {
            signed += 1;
            accepts.to_vec()
        });
        assert_eq!((told[..] == accepts, signed), (true, times), "{at:?}: {amount}");
    }
}

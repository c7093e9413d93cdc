use super::*;
use crate::money::tests::terms;

#[test]
fn what_is_cut_is_left_out_and_nothing_else() {
    let names = |cut| {
        let told = told(&terms(), Way::Post, &[json!({ "format": "jws" })], cut);
        ALL.map(|name| told[name].is_object())
    };
    for cut in [Cut::None, Cut::Output, Cut::Forms, Cut::Schemas] {
        assert_eq!(names(cut), [true; 3], "{cut:?}");
    }
    for cut in [Cut::Directories, Cut::Description] {
        assert_eq!(names(cut), [true, true, false], "{cut:?}");
    }
    assert_eq!(names(Cut::Offers), [true, false, false]);
}

#[test]
fn where_there_are_no_offers_none_are_told() {
    assert!(told(&terms(), Way::Post, &[], Cut::None)[OFFER_RECEIPT].is_null());
}

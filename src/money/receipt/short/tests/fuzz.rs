//! Rows of any bytes, and receipts of any text.

use super::*;

#[test]
fn any_text_is_kept_as_it_is_and_any_row_is_a_receipt_or_none() {
    tollhouse_fuzz::check("stored", |bytes| {
        if bytes.first() == Some(&b'{') {
            let read = Stored::of_bytes(&stored(bytes, true)).expect("it was written");
            assert!(read.json == bytes);
        }
        // As a row of the short form begins.
        if let Some(read) = Stored::of_bytes(&[&[0xf5, Short::FORMAT], bytes].concat()) {
            assert!(read.short && read.json.ends_with(b"\"}"));
        }
    });
}

#[test]
fn seeds_of_paid_calls_are_stored_short() {
    for seed in [include_str!("../../../../../tests/fuzz/seeds/stored/paid"), include_str!("../../../../../tests/fuzz/seeds/stored/credit")] {
        assert!(Stored::of_bytes(&stored(seed.as_bytes(), true)).is_some_and(|read| read.short));
    }
}

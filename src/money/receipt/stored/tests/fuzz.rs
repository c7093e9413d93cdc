//! Parses random rows and random receipts.

use super::*;

#[test]
fn any_text_is_kept_as_it_is_and_any_row_is_a_receipt_or_none() {
    tollhouse_fuzz::check("stored", |bytes| {
        if bytes.first() == Some(&b'{') {
            let read = StoredReceipt::of_bytes(&stored(bytes, true)).expect("it was written");
            assert!(read.json == bytes);
        }
        // As a short row begins.
        let row = [&[0xf5, ShortRow::FORMAT], bytes].concat();
        let read = StoredReceipt::of_bytes(&row).expect("it is a row");
        assert!(if read.short { read.json.ends_with(b"\"}") } else { read.json == row });
    });
}

/// A row written by an earlier version, and its original receipt.
#[test]
fn a_row_reads_as_it_did_in_every_version_so_far() {
    let (paid, row) =
        (include_str!("../../../../../tests/fuzz/seeds/stored/paid"), include_bytes!("../../../../../tests/fuzz/seeds/stored/row"));
    let row = [&[0xf5, ShortRow::FORMAT], row.as_slice()].concat();
    assert_eq!(stored(paid.as_bytes(), true), row);
    assert_eq!(StoredReceipt::of_bytes(&row).map(|read| String::from_utf8(read.json).unwrap()).as_deref(), Some(paid));
}

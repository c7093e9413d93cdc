//! Parses random rows and random receipts.

use super::*;

/// The first bytes of a short row: the mark and the number of the format, and the variant.
const SHORT: [u8; 3] = [0xf5, 1, 1];

#[test]
fn any_text_and_any_row_is_read() {
    tollhouse_fuzz::check("stored", |bytes| {
        if bytes.first() == Some(&b'{') {
            let read = StoredReceipt::of_bytes(&stored(bytes)).expect("it was written");
            assert!(read.json == bytes);
        }
        let row = [&SHORT, bytes].concat();
        let read = StoredReceipt::of_bytes(&row).expect("it is a row");
        assert!(read.json == row || read.json.ends_with(b"\"}"));
    });
}

#[test]
fn recorded_row_is_restored_exactly() {
    let (paid, row) =
        (include_str!("../../../../../tests/fuzz/seeds/stored/paid"), include_bytes!("../../../../../tests/fuzz/seeds/stored/row"));
    let row = [&SHORT, row.as_slice()].concat();
    assert_eq!(stored(paid.as_bytes()), row);
    assert_eq!(StoredReceipt::of_bytes(&row).map(|read| String::from_utf8(read.json).unwrap()).as_deref(), Some(paid));
}

use super::*;

#[test]
fn rows_of_earlier_versions_are_read() {
    let row = r#"{"settlement":{"receiptId":"rcpt_01JD000000000000000000000A","payment":"pmt_00000000000000000000000000000000",
        "network":"eip155:84532","transaction":"0xa","block":7,"blockHash":null,"owner":"platform","slug":null,"missingSince":null},
        "at":"2027-01-15T08:00:00.000Z"}"#;
    let mut read: ReorganizedSettlement = serde_json::from_str(row).unwrap();
    assert_eq!((&read.recovery, read.lost, &read.settlement.signed), (&Recovery::default(), None, &None));
    for (transaction, former) in [("0xb", vec!["0xa"]), ("0xa", vec!["0xb"]), ("0xc", vec!["0xb", "0xa"])] {
        read.settlement.made_by(transaction);
        assert_eq!(read.transaction(), transaction);
        assert_eq!(read.settlement.former, former);
    }
}

use super::*;
use crate::store::Value as _;

fn settled(tail: Option<Tail>) -> Record {
    let answer =
        StoredAnswer { status: 200, headers: vec![], body: Bytes::from_static(b"{}"), receipt_id: "r".to_owned(), settlement: None };
    let record = Record::reserved("request", "digest".to_owned(), Tail { showable_until_ms: 0, named: None }, Timestamp(5));
    Record { state: State::Settled, answer: Some(answer), tail, ..record }
}

#[test]
fn records_without_a_tail_are_read() {
    for tail in [None, Some(Tail { showable_until_ms: 7, named: Some("cid/x".to_owned()) })] {
        let record = settled(tail);
        assert_eq!(Record::of_bytes(&record.to_bytes()), Some(record));
    }
    let cut = settled(Some(Tail { showable_until_ms: 1 << 40, named: Some("cid/x".to_owned()) })).to_bytes();
    assert_eq!(Record::of_bytes(&cut[..cut.len() - 3]), None);
}

#[test]
fn of_a_payment_that_is_spent_for_good_nobody_learns_what_it_bought() {
    let answer = settled(None).answer.unwrap();
    let texts = || "text".to_owned();
    let intent = Intent { version: WireVersion::V2, payload: texts(), requirements: texts(), draft: vec![1], answer };
    let settler = Some(Settler { facilitator: texts(), transaction: None });
    let spent = Record { intent: Some(intent), settler, ..settled(Some(Tail { showable_until_ms: 7, named: None })) }.spent();
    assert_eq!([&spent.holder, &spent.request, &spent.digest], ["", "", ""]);
    assert_eq!((spent.state, spent.answer, spent.intent, spent.tail, spent.settler), (State::Settled, None, None, None, None));
}

#[test]
fn a_record_goes_when_nothing_can_be_asked_of_it() {
    let (day, hour) = (24 * 3_600_000, 3_600_000);
    let tail = |showable_until_ms| Some(Tail { showable_until_ms, named: None });
    let record = settled(tail(3 * day));
    assert_eq!(record.due(Timestamp(day)), Due::At(Timestamp(day + 5)));
    assert_eq!(record.due(Timestamp(day + 5)), Due::Answer);
    let without = Record { answer: None, ..record };
    assert_eq!(without.due(Timestamp(day + 5)), Due::At(Timestamp(3 * day + hour)));
    assert_eq!(without.due(Timestamp(3 * day + hour)), Due::Record);
    // One whose authorisation ends before its answer does goes with the answer.
    assert_eq!(settled(tail(60_000)).due(Timestamp(day + 4)), Due::At(Timestamp(day + 5)));
    assert_eq!(settled(tail(60_000)).due(Timestamp(day + 5)), Due::Record);
    // One that does not say how long its authorisation is valid stays.
    assert_eq!(settled(None).due(Timestamp(day + 5)), Due::Answer);
    assert_eq!(Record { answer: None, ..settled(None) }.due(Timestamp(u64::MAX)), Due::Never);
    // What took nothing goes sooner; what is under way does not go.
    let ended = |state| Record { state, answer: None, ..settled(tail(u64::MAX)) };
    assert_eq!(ended(State::Released).due(Timestamp(hour + 4)), Due::At(Timestamp(hour + 5)));
    assert_eq!(ended(State::Released).due(Timestamp(hour + 5)), Due::Record);
    assert_eq!(ended(State::Refused).due(Timestamp(hour + 5)), Due::At(Timestamp(day + 5)));
    assert_eq!(ended(State::Reserved).due(Timestamp(u64::MAX)), Due::Never);
    assert_eq!(ended(State::Settling).due(Timestamp(u64::MAX)), Due::Never);
}

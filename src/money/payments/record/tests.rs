use super::*;

fn settled(tail: Option<ExpiryInfo>) -> PaymentRecord {
    let record = PaymentRecord::reserved("request", "digest".to_owned(), ExpiryInfo { showable_until_ms: 0, named: None }, Timestamp(5));
    PaymentRecord { state: PaymentState::Settled, has_answer: true, tail, ..record }
}

#[test]
fn spent_record_does_not_reveal_the_purchase() {
    let texts = || "text".to_owned();
    let intent = SettlementIntent { version: WireVersion::V2, payload: texts(), requirements: texts(), draft: vec![1] };
    let settler = Some(Settler { facilitator: texts(), transaction: None });
    let notice = Some(SettlementNotice { version: WireVersion::V2, body: texts() });
    let record = settled(Some(ExpiryInfo { showable_until_ms: 7, named: None }));
    let spent = PaymentRecord { intent: Some(intent), notice, settler, ..record }.spent();
    assert!(!spent.has_answer);
    assert_eq!([&spent.holder, &spent.request, &spent.digest], ["", "", ""]);
    assert_eq!((spent.state, spent.notice, spent.intent, spent.tail, spent.settler), (PaymentState::Settled, None, None, None, None));
}

#[test]
fn record_expires_when_nothing_can_be_looked_up() {
    let (day, hour) = (24 * 3_600_000, 3_600_000);
    let tail = |showable_until_ms| Some(ExpiryInfo { showable_until_ms, named: None });
    let record = settled(tail(3 * day));
    assert_eq!(record.due(Timestamp(day)), RecordTimeout::At(Timestamp(day + 5)));
    assert_eq!(record.due(Timestamp(day + 5)), RecordTimeout::Answer);
    let without = PaymentRecord { has_answer: false, ..record };
    assert_eq!(without.due(Timestamp(day + 5)), RecordTimeout::At(Timestamp(3 * day + hour)));
    assert_eq!(without.due(Timestamp(3 * day + hour)), RecordTimeout::Record);
    // One whose authorization ends before its answer expires is deleted with the answer.
    assert_eq!(settled(tail(60_000)).due(Timestamp(day + 4)), RecordTimeout::At(Timestamp(day + 5)));
    assert_eq!(settled(tail(60_000)).due(Timestamp(day + 5)), RecordTimeout::Record);
    // One with an authorization of unknown validity stays.
    assert_eq!(settled(None).due(Timestamp(day + 5)), RecordTimeout::Answer);
    assert_eq!(PaymentRecord { has_answer: false, ..settled(None) }.due(Timestamp(u64::MAX)), RecordTimeout::Never);
    // Payments that took nothing are deleted sooner; open ones are not deleted.
    let ended = |state| PaymentRecord { state, has_answer: false, ..settled(tail(u64::MAX)) };
    assert_eq!(ended(PaymentState::Released).due(Timestamp(hour + 4)), RecordTimeout::At(Timestamp(hour + 5)));
    assert_eq!(ended(PaymentState::Released).due(Timestamp(hour + 5)), RecordTimeout::Record);
    assert_eq!(ended(PaymentState::Refused).due(Timestamp(hour + 5)), RecordTimeout::At(Timestamp(day + 5)));
    // An owed payment stays as long as the tool can be run for it.
    let owed = |until_ms| PaymentRecord { owed: Some(Owed { runs: 1, until_ms }), tail: tail(60_000), ..ended(PaymentState::Owed) };
    assert_eq!(owed(day).due(Timestamp(day + hour - 1)), RecordTimeout::At(Timestamp(day + hour)));
    assert_eq!(owed(day).due(Timestamp(day + hour)), RecordTimeout::Record);
    assert_eq!(owed(day).spent().state, PaymentState::Settled);
    assert_eq!(ended(PaymentState::Reserved).due(Timestamp(u64::MAX)), RecordTimeout::Never);
    assert_eq!(ended(PaymentState::Settling).due(Timestamp(u64::MAX)), RecordTimeout::Never);
}

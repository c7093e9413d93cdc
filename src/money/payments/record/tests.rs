use tollhouse_store::{Value as _, write_postcard};

use super::{
    format::{Older, OlderIntent},
    *,
};
use crate::x402::offer::named_digest;

fn answer() -> StoredAnswer {
    StoredAnswer { status: 200, headers: vec![], body: Bytes::from_static(b"{}"), receipt_id: "r".to_owned(), settlement: None }
}

fn settled(tail: Option<ExpiryInfo>) -> PaymentRecord {
    let record = PaymentRecord::reserved("request", "digest".to_owned(), ExpiryInfo { showable_until_ms: 0, named: None }, Timestamp(5));
    PaymentRecord { state: PaymentPhase::Settled, answer: Some(AnswerLocation::Apart(None)), tail, ..record }
}

/// Encodes a record as earlier versions did.
fn older(record: &PaymentRecord) -> Vec<u8> {
    let PaymentRecord { state, holder, request, digest, updated_ms, receipt_id, reason, transaction, intent, tail, settler, .. } =
        record.clone();
    let intent = intent.map(|SettlementIntent { version, payload, requirements, draft, .. }| OlderIntent {
        version,
        payload,
        requirements,
        draft,
        answer: answer(),
    });
    let answer = record.answer.as_ref().map(|_| answer());
    let mut out = vec![0xf5, 1];
    write_postcard(&Older { state, holder, request, digest, updated_ms, receipt_id, reason, transaction, intent, answer }, &mut out);
    tail.iter().for_each(|tail| write_postcard(tail, &mut out));
    settler.iter().for_each(|settler| write_postcard(settler, &mut out));
    out
}

#[test]
fn records_of_older_versions_are_read() {
    let tail = || Some(ExpiryInfo { showable_until_ms: 7, named: Some("cid/x".to_owned()) });
    for tail in [None, tail()] {
        let record = PaymentRecord { answer: Some(AnswerLocation::Here(answer())), ..settled(tail) };
        assert_eq!(PaymentRecord::of_bytes(&older(&record)), Some(record.clone()));
        assert_eq!(PaymentRecord::of_bytes(&older(&record)[2..]), Some(record.clone()), "without a format");
        assert_eq!(PaymentRecord::of_bytes(&record.to_bytes()), Some(record));
    }
    let texts = || "text".to_owned();
    let intent =
        SettlementIntent { version: WireVersion::V2, payload: texts(), requirements: texts(), draft: vec![1], answer: Some(answer()) };
    let settler = Settler { facilitator: texts(), transaction: None };
    let settling =
        PaymentRecord { state: PaymentPhase::Settling, intent: Some(intent), settler: Some(settler), answer: None, ..settled(tail()) };
    assert_eq!(PaymentRecord::of_bytes(&older(&settling)), Some(settling));
    let cut = older(&settled(Some(ExpiryInfo { showable_until_ms: 1 << 40, named: Some("cid/x".to_owned()) })));
    assert_eq!(PaymentRecord::of_bytes(&cut[..cut.len() - 3]), None);
}

#[test]
fn record_is_written_as_the_version_before_reads_it_unless_it_says_more() {
    let record = settled(Some(ExpiryInfo::new(7, None)));
    assert_eq!(record.to_bytes()[..2], [0xf5, 3]);
    let held = HeldBalance { purse: "a/b/c".to_owned(), amount: 10_000 };
    for record in [PaymentRecord { held: Some(held), ..record.clone() }, PaymentRecord { state: PaymentPhase::Unresolved, ..record }] {
        let bytes = record.to_bytes();
        assert_eq!(bytes[..2], [0xf5, 4]);
        assert_eq!(PaymentRecord::of_bytes(&bytes), Some(record));
    }
}

#[test]
fn a_record_of_a_version_without_replicas_is_nobodys() {
    let record = settled(Some(ExpiryInfo::new(7, None)));
    let mut older = vec![0xf5, 2];
    write_postcard(&record, &mut older);
    assert_eq!((older.pop(), older.pop()), (Some(0), Some(0)), "that it holds nothing, and owes nothing");
    let mut without = older.clone();
    (without[1], older[1]) = (3, 2);
    assert_eq!(PaymentRecord::of_bytes(&without), Some(record.clone()), "a record of format 3 owes nothing");
    assert_eq!(older.pop(), Some(0), "that there is no replica");
    assert_eq!(PaymentRecord::of_bytes(&older), Some(record.clone()));
    let held = record.held_by(&ReplicaId::generate());
    assert_eq!(PaymentRecord::of_bytes(&held.to_bytes()), Some(held));
}

#[test]
fn an_answer_of_an_older_version_is_given_again_under_the_name_of_its_payment() {
    let tail = ExpiryInfo::new(7, Some(("0xpayer", "name-of-my-order-1")));
    let record = PaymentRecord { answer: Some(AnswerLocation::Here(answer())), ..settled(Some(tail)) };
    let read = PaymentRecord::of_bytes(&older(&record)).unwrap();
    assert_eq!(read, PaymentRecord { digest: named_digest("digest", "name-of-my-order-1"), ..record });
    assert_eq!(PaymentRecord::of_bytes(&read.to_bytes()), Some(read.clone()), "once");
}

#[test]
fn of_a_payment_that_is_spent_for_good_nobody_learns_what_it_bought() {
    let texts = || "text".to_owned();
    let intent =
        SettlementIntent { version: WireVersion::V2, payload: texts(), requirements: texts(), draft: vec![1], answer: Some(answer()) };
    let settler = Some(Settler { facilitator: texts(), transaction: None });
    let spent = PaymentRecord { intent: Some(intent), settler, ..settled(Some(ExpiryInfo { showable_until_ms: 7, named: None })) }.spent();
    assert_eq!([&spent.holder, &spent.request, &spent.digest], ["", "", ""]);
    assert_eq!((spent.state, spent.answer, spent.intent, spent.tail, spent.settler), (PaymentPhase::Settled, None, None, None, None));
}

#[test]
fn a_record_goes_when_nothing_can_be_asked_of_it() {
    let (day, hour) = (24 * 3_600_000, 3_600_000);
    let tail = |showable_until_ms| Some(ExpiryInfo { showable_until_ms, named: None });
    let record = settled(tail(3 * day));
    assert_eq!(record.due(Timestamp(day)), RecordTimeout::At(Timestamp(day + 5)));
    assert_eq!(record.due(Timestamp(day + 5)), RecordTimeout::Answer);
    let without = PaymentRecord { answer: None, ..record };
    assert_eq!(without.due(Timestamp(day + 5)), RecordTimeout::At(Timestamp(3 * day + hour)));
    assert_eq!(without.due(Timestamp(3 * day + hour)), RecordTimeout::Record);
    // One whose authorization ends before its answer expires is deleted with the answer.
    assert_eq!(settled(tail(60_000)).due(Timestamp(day + 4)), RecordTimeout::At(Timestamp(day + 5)));
    assert_eq!(settled(tail(60_000)).due(Timestamp(day + 5)), RecordTimeout::Record);
    // One with an authorization of unknown validity stays.
    assert_eq!(settled(None).due(Timestamp(day + 5)), RecordTimeout::Answer);
    assert_eq!(PaymentRecord { answer: None, ..settled(None) }.due(Timestamp(u64::MAX)), RecordTimeout::Never);
    // Payments that took nothing are deleted sooner; open ones are not deleted.
    let ended = |state| PaymentRecord { state, answer: None, ..settled(tail(u64::MAX)) };
    assert_eq!(ended(PaymentPhase::Released).due(Timestamp(hour + 4)), RecordTimeout::At(Timestamp(hour + 5)));
    assert_eq!(ended(PaymentPhase::Released).due(Timestamp(hour + 5)), RecordTimeout::Record);
    assert_eq!(ended(PaymentPhase::Refused).due(Timestamp(hour + 5)), RecordTimeout::At(Timestamp(day + 5)));
    // An owed payment stays as long as the tool can be run for it.
    let owed =
        |until_ms| PaymentRecord { owed: Some(Owed { runs: 1, until_ms, notice: None }), tail: tail(60_000), ..ended(PaymentPhase::Owed) };
    assert_eq!(owed(day).due(Timestamp(day + hour - 1)), RecordTimeout::At(Timestamp(day + hour)));
    assert_eq!(owed(day).due(Timestamp(day + hour)), RecordTimeout::Record);
    assert_eq!(owed(day).spent().state, PaymentPhase::Settled);
    assert_eq!(ended(PaymentPhase::Reserved).due(Timestamp(u64::MAX)), RecordTimeout::Never);
    assert_eq!(ended(PaymentPhase::Settling).due(Timestamp(u64::MAX)), RecordTimeout::Never);
}

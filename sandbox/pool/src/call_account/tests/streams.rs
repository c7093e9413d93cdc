//! Streamed answers: order, sizes and counts of their chunks.

use super::*;

fn open(op: u32) -> ToHost {
    ToHost::Op { op, request: OpRequest::StreamOpen { status: 200, headers: vec![], first: "first".into() } }
}

fn write(op: u32, bytes: usize) -> ToHost {
    ToHost::Op { op, request: OpRequest::StreamWrite { chunk: vec![b'x'; bytes].into() } }
}

fn streamed() -> Outcome {
    Outcome::Returned(ToolReply { status: 200, headers: vec![], body: ReplyBody::Streamed })
}

fn done(outcome: Outcome) -> ToHost {
    ToHost::Done { outcome, spent: Spent::default() }
}

fn threw() -> ToHost {
    done(Outcome::Threw(Thrown { message: "m".into(), stack: String::new() }))
}

/// Returns a ledger whose call has sent one chunk, which the host has accepted or not.
fn opened(is_accepted: bool) -> CallLedger {
    let mut ledger = ledger();
    ledger.admit(open(1)).unwrap();
    ledger.answered(OpKind::Chunk, is_accepted);
    ledger
}

fn is_lie(admitted: Result<Step, Breach>) -> bool {
    matches!(admitted, Err(Breach::Protocol(_)))
}

#[test]
fn chunks_come_one_at_a_time_and_end_with_their_answer() {
    let mut ledger = ledger();
    ledger.admit(open(1)).unwrap();
    assert_eq!(ledger.in_flight(), 1);
    ledger.answered(OpKind::Chunk, true);
    for op in 2..5_000 {
        ledger.admit(ToHost::Waiting).unwrap();
        ledger.admit(write(op, 1)).unwrap();
        ledger.answered(OpKind::Chunk, true);
    }
    assert_eq!((ledger.in_flight(), ledger.ops()), (0, 0), "chunks are no ops");
    assert!(matches!(ledger.admit(done(streamed())), Ok(Step::Done(..))));
}

#[test]
fn chunks_out_of_order_are_breaches() {
    assert!(is_lie(ledger().admit(write(1, 1))), "a chunk before the first");
    assert!(is_lie(opened(true).admit(open(2))), "a second stream");
    assert!(is_lie(opened(false).admit(write(2, 1))), "a chunk of a stream that failed");
    assert!(is_lie(opened(false).admit(open(2))), "a second stream after one that failed");
    let mut busy = ledger();
    busy.admit(open(1)).unwrap();
    assert!(is_lie(busy.admit(write(2, 1))), "a chunk before the host accepted the one before it");
    for work in [Work::Scheduled, Work::Check(Side::Output)] {
        assert!(is_lie(CallLedger::new(Limits::default(), work).admit(open(1))), "{work:?}");
    }
    let mut late = ledger();
    let ToHost::Done { outcome, spent } = returned(4) else { unreachable!() };
    late.admit(ToHost::Answered { outcome, spent }).unwrap();
    assert!(is_lie(late.admit(open(1))), "a stream after the answer");
}

#[test]
fn an_answer_is_the_one_that_was_streamed() {
    assert!(is_lie(ledger().admit(done(streamed()))), "nothing was streamed");
    assert!(is_lie(opened(false).admit(done(streamed()))), "the host refused it");
    assert!(is_lie(opened(true).admit(returned(4))), "another answer");
    let mut busy = ledger();
    busy.admit(open(1)).unwrap();
    assert!(is_lie(busy.admit(done(streamed()))), "the host has not accepted the last chunk");
    assert!(matches!(opened(true).admit(threw()), Ok(Step::Done(..))), "the tool broke it off");
    assert!(matches!(opened(false).admit(threw()), Ok(Step::Done(..))));
    let mut ledger = opened(true);
    ledger.admit(ToHost::Answered { outcome: streamed(), spent: Spent::default() }).unwrap();
    assert!(is_lie(ledger.admit(done(streamed()))), "it was answered already");
    assert!(matches!(ledger.admit(returned(4)), Ok(Step::Done(..))));
}

#[test]
fn chunks_are_neither_empty_nor_too_large() {
    for bytes in [0, STREAM_CHUNK_BYTES + 1] {
        assert!(is_lie(opened(true).admit(write(2, bytes))), "{bytes}");
    }
    assert!(opened(true).admit(write(2, STREAM_CHUNK_BYTES)).is_ok());
    let headers = vec![("n".into(), "v".repeat(65_536))];
    let request = OpRequest::StreamOpen { status: 200, headers, first: "first".into() };
    assert!(matches!(ledger().admit(ToHost::Op { op: 1, request }), Err(Breach::Limit(StopReason::OutputSize { .. }))));
}

#[test]
fn bytes_and_chunks_of_a_stream_are_limited() {
    let mut ledger = opened(true);
    let limit_bytes = Limits::default().stream_bytes;
    let last = (2..).find_map(|op| {
        let admitted = ledger.admit(write(op, STREAM_CHUNK_BYTES));
        ledger.answered(OpKind::Chunk, true);
        admitted.err().map(|breach| (op, breach))
    });
    let (op, breach) = last.unwrap();
    assert_eq!(breach, Breach::Limit(StopReason::OutputSize { limit_bytes }));
    assert_eq!(u64::from(op) - 1, limit_bytes / STREAM_CHUNK_BYTES as u64, "the first chunk has five bytes");

    let mut ledger = opened(true);
    let breach = (2..).find_map(|op| {
        let admitted = ledger.admit(write(op, 1));
        ledger.answered(OpKind::Chunk, true);
        admitted.err()
    });
    assert!(matches!(breach, Some(Breach::Limit(StopReason::Ops { limit: STREAM_CHUNKS, .. }))), "{breach:?}");
}

#[test]
fn input_cannot_be_invalid_after_a_chunk() {
    assert!(is_lie(opened(true).admit(invalid(Side::Input, 1))));
    assert!(is_lie(opened(true).admit(ToHost::Begun)));
}

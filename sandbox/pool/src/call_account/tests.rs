use tollhouse_protocol::{JailReport, LogLevel};

use super::*;

mod streams;

fn ledger() -> CallLedger {
    CallLedger::new(Limits::default(), Work::Handle)
}

fn get(op: u32) -> ToHost {
    ToHost::Op { op, request: OpRequest::KvGet { key: "k".into() } }
}

fn returned(bytes: usize) -> ToHost {
    let body = ReplyBody::Json(Bytes::from(vec![b'1'; bytes]));
    ToHost::Done { outcome: Outcome::Returned(ToolReply { status: 200, headers: vec![], body }), spent: Spent::default() }
}

/// Returns how many copies of a message a ledger admits before it detects a flood, and how many of
/// them it passes on.
fn flood(ledger: &mut CallLedger, message: &ToHost) -> (u64, u64) {
    let (mut admitted, mut delivered) = (0, 0);
    loop {
        match ledger.admit(message.clone()) {
            Ok(Step::Drop) => {}
            Ok(_) => delivered += 1,
            Err(Breach::Protocol(_)) => return (admitted, delivered),
            Err(breach) => panic!("{breach:?}"),
        }
        admitted += 1;
        assert!(admitted < 10_000, "a flood is detected at some point");
    }
}

fn log(message: impl Into<String>, fields: impl Into<String>) -> ToHost {
    ToHost::Log(LogLine { level: LogLevel::Info, message: message.into(), fields: fields.into() })
}

#[test]
fn op_number_that_does_not_rise_is_a_breach() {
    for second in [0, 1] {
        let mut ledger = ledger();
        ledger.admit(get(1)).unwrap();
        assert!(matches!(ledger.admit(get(second)), Err(Breach::Protocol(_))));
    }
}

#[test]
fn concurrent_and_total_ops_are_limited() {
    let mut ledger = ledger();
    let at_once = Limits::default().ops_in_flight + SLACK;
    for op in 0..at_once {
        ledger.admit(get(op as u32)).unwrap();
    }
    assert!(matches!(ledger.admit(get(99)), Err(Breach::Limit(StopReason::Ops { .. }))));

    let mut ledger = self::ledger();
    let in_all = Limits::default().ops + SLACK;
    for op in 0..in_all {
        ledger.admit(get(op as u32)).unwrap();
        ledger.answered(OpKind::Request, true);
    }
    assert_eq!(ledger.admit(get(u32::MAX)).err(), Some(Breach::Limit(StopReason::Ops { what: "ops".into(), limit: 1_000 })));
}

#[test]
fn reads_of_responses_are_no_ops_and_have_a_limit_of_their_own() {
    let limits = Limits { ops: 1, ..Limits::default() };
    let mut ledger = CallLedger::new(limits, Work::Handle);
    let read = |op| ToHost::Op { op, request: OpRequest::FetchRead { id: 1 } };
    for op in 0..READS_PER_OP + SLACK {
        ledger.admit(read(op as u32)).unwrap();
        ledger.answered(OpKind::Request, true);
        ledger.admit(ToHost::Waiting).unwrap();
    }
    assert_eq!(ledger.ops(), 0);
    let limit = READS_PER_OP;
    let beyond = Breach::Limit(StopReason::Ops { what: "reads of responses".into(), limit });
    assert_eq!(ledger.admit(read(u32::MAX)).err(), Some(beyond));
}

#[test]
fn the_end_of_a_request_waits_for_no_op_and_counts_as_one() {
    let mut ledger = ledger();
    let cancel = |op| ToHost::Op { op, request: OpRequest::FetchCancel { id: 1 } };
    let in_all = Limits::default().ops + SLACK;
    for op in 0..in_all {
        ledger.admit(cancel(op as u32)).unwrap();
    }
    assert_eq!(ledger.in_flight(), 0);
    assert!(matches!(ledger.admit(cancel(u32::MAX)), Err(Breach::Limit(StopReason::Ops { .. }))));
}

#[test]
fn concurrent_timers_have_their_own_limit() {
    let mut ledger = ledger();
    let sleep = |op| ToHost::Op { op, request: OpRequest::Sleep { ms: 1 } };
    let at_once = Limits::default().timers + SLACK;
    for op in 0..at_once {
        ledger.admit(sleep(op as u32)).unwrap();
    }
    ledger.admit(get(200)).unwrap();
    assert_eq!(ledger.in_flight(), at_once + 1);
    ledger.answered(OpKind::Timer, true);
    assert_eq!(ledger.in_flight(), at_once);
    ledger.admit(sleep(201)).unwrap();
    let limit = Limits::default().timers;
    assert_eq!(ledger.admit(sleep(202)).err(), Some(Breach::Limit(StopReason::Ops { what: "timers at once".into(), limit })));
}

#[test]
fn result_over_its_limit_is_a_breach_and_at_its_limit_is_not() {
    let limit = Limits::default().output_bytes;
    assert!(matches!(ledger().admit(returned(limit as usize)), Ok(Step::Done(..))));
    assert_eq!(ledger().admit(returned(limit as usize + 1)).err(), Some(Breach::Limit(StopReason::OutputSize { limit_bytes: limit })));
}

#[test]
fn headers_of_a_result_count_by_their_names_and_values() {
    let replied = |name: usize, value: usize| {
        let headers = vec![("n".repeat(name), "v".repeat(value))];
        let body = ReplyBody::Raw(Bytes::new());
        ToHost::Done { outcome: Outcome::Returned(ToolReply { status: 200, headers, body }), spent: Spent::default() }
    };
    assert!(matches!(ledger().admit(replied(1, 65_535)), Ok(Step::Done(..))));
    assert!(matches!(ledger().admit(replied(1, 65_536)), Err(Breach::Limit(StopReason::OutputSize { .. }))));
}

#[test]
fn log_line_is_cut_between_characters() {
    let cut = |message: String, fields: usize| match ledger().admit(log(message, "f".repeat(fields))).unwrap() {
        Step::Log(line) => (line.message.len(), line.fields.len()),
        step => panic!("{step:?}"),
    };
    assert_eq!(cut("é".repeat(4_000), 0), (4_096, 0));
    assert_eq!(cut("é".repeat(4_000), 5), (4_090, 5));
    assert_eq!(cut("m".into(), 4_096), (0, 4_096));
    assert_eq!(cut("m".into(), 4_097), (1, 0), "cut JSON is not valid JSON");
}

#[test]
fn log_lines_beyond_the_limits_are_dropped_and_a_flood_of_them_is_a_breach() {
    let Limits { log_lines, log_bytes, log_line_bytes, .. } = Limits::default();
    assert_eq!(flood(&mut ledger(), &log("x", "")), (log_lines * 2 + SLACK, log_lines + SLACK));
    let half = "x".repeat(log_line_bytes as usize / 2);
    let lines = log_bytes / log_line_bytes + 1;
    assert_eq!(flood(&mut ledger(), &log(half.clone(), half)), (lines * 2, lines));
}

#[test]
fn progress_is_cut_and_limited_and_a_flood_is_a_breach() {
    let mut ledger = ledger();
    let say = |message: String, fraction| ToHost::Progress(ProgressMessage { message, fraction });
    match ledger.admit(say("é".repeat(4_000), Some(f64::NAN))).unwrap() {
        Step::Progress(text) => assert_eq!((text.message.len(), text.fraction), (512, None)),
        step => panic!("{step:?}"),
    }
    match ledger.admit(say("x".into(), Some(1.0))).unwrap() {
        Step::Progress(text) => assert_eq!(text.fraction, Some(1.0)),
        step => panic!("{step:?}"),
    }
    let messages = Limits::default().progress_messages;
    assert_eq!(flood(&mut ledger, &say("x".into(), None)), (messages * 2 + SLACK - 2, messages - 2));
}

#[test]
fn worker_waits_twice_for_each_op_and_a_few_times_more() {
    let mut ledger = ledger();
    for op in 0..3 {
        ledger.admit(get(op)).unwrap();
    }
    assert_eq!(flood(&mut ledger, &ToHost::Waiting).0, 3 * 2 + SLACK);
}

#[test]
fn messages_out_of_order_are_breaches() {
    let mut ledger = ledger();
    assert!(ledger.admit(ToHost::Ready { jail: JailReport::default() }).is_err());
    let crashed = ToHost::Done { outcome: Outcome::Stopped(StopReason::Crashed), spent: Spent::default() };
    assert!(ledger.admit(crashed).is_err());
}

fn invalid(side: Side, problems: usize) -> ToHost {
    let problem = Problem { pointer: format!("/{}", "p".repeat(9_000)), message: "m".repeat(9_000) };
    ToHost::Done { outcome: Outcome::Invalid(side, vec![problem; problems]), spent: Spent::default() }
}

#[test]
fn problems_are_limited_and_not_empty() {
    let Ok(Step::Done(Outcome::Invalid(Side::Output, problems), _)) = ledger().admit(invalid(Side::Output, 100)) else {
        panic!("an invalid value is a clean end")
    };
    assert_eq!(problems.len(), MAX_PROBLEMS);
    assert!(problems.iter().all(|problem| problem.pointer.len() == 1_024 && problem.message.len() == 1_024));
    assert!(matches!(ledger().admit(invalid(Side::Output, 0)), Err(Breach::Protocol(_))));
}

#[test]
fn invalid_input_is_reported_before_the_handler_starts() {
    assert!(matches!(ledger().admit(invalid(Side::Input, 1)), Ok(Step::Done(..))));
    let message = ToHost::Progress(ProgressMessage { message: "m".into(), fraction: None });
    for first in [ToHost::Begun, get(1), log("m", ""), message] {
        let mut ledger = ledger();
        ledger.admit(first).unwrap();
        assert!(matches!(ledger.admit(ToHost::Begun), Err(Breach::Protocol(_))));
        assert!(matches!(ledger.admit(invalid(Side::Input, 1)), Err(Breach::Protocol(_))));
        assert!(matches!(ledger.admit(invalid(Side::Output, 1)), Ok(Step::Done(..))));
    }
}

#[test]
fn check_runs_no_handler_and_rejects_only_what_it_checked() {
    let check = || CallLedger::new(Limits::default(), Work::Check(Side::Output));
    assert!(matches!(check().admit(returned(4)), Ok(Step::Done(..))));
    assert!(matches!(check().admit(invalid(Side::Output, 1)), Ok(Step::Done(..))));
    let text = ToHost::Progress(ProgressMessage { message: "m".into(), fraction: None });
    let thrown = Outcome::Threw(Thrown { message: "m".into(), stack: String::new() });
    let threw = ToHost::Done { outcome: thrown, spent: Spent::default() };
    for message in [invalid(Side::Input, 1), threw, ToHost::Begun, get(1), log("m", ""), text] {
        assert!(matches!(check().admit(message), Err(Breach::Protocol(_))));
    }
}

#[test]
fn thrown_text_is_cut() {
    let thrown = Thrown { message: "m".repeat(9_000), stack: "s".repeat(90_000) };
    let Ok(Step::Done(Outcome::Threw(thrown), _)) =
        ledger().admit(ToHost::Done { outcome: Outcome::Threw(thrown), spent: Spent::default() })
    else {
        panic!("a thrown error is a clean end")
    };
    assert_eq!((thrown.message.len(), thrown.stack.len()), (1_024, 8_192));
}

use bytes::Bytes;
use tollhouse_protocol::LogLevel;

use super::*;

fn ledger() -> Ledger {
    Ledger::new(Limits::default(), Work::Handle)
}

fn get(op: u32) -> ToHost {
    ToHost::Op { op, request: OpRequest::KvGet { key: "k".into() } }
}

fn returned(bytes: usize) -> ToHost {
    let body = ReplyBody::Json(Bytes::from(vec![b'1'; bytes]));
    ToHost::Done { outcome: Outcome::Returned(ToolReply { status: 200, headers: vec![], body }), spent: Spent::default() }
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
fn ops_at_once_and_ops_in_all_have_their_limits() {
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
        ledger.answered(OpKind::Request);
    }
    assert_eq!(ledger.admit(get(u32::MAX)).err(), Some(Breach::Limit(StopReason::Ops { what: "ops".into(), limit: 1_000 })));
}

#[test]
fn timers_do_not_count_as_requests_at_once() {
    let mut ledger = ledger();
    for op in 0..50 {
        ledger.admit(ToHost::Op { op, request: OpRequest::Sleep { ms: 1 } }).unwrap();
    }
    ledger.admit(get(50)).unwrap();
    assert_eq!(ledger.in_flight(), 51);
}

#[test]
fn result_over_its_limit_is_a_breach_and_at_its_limit_is_not() {
    let limit = Limits::default().output_bytes;
    assert!(matches!(ledger().admit(returned(limit as usize)), Ok(Step::Done(..))));
    assert_eq!(ledger().admit(returned(limit as usize + 1)).err(), Some(Breach::Limit(StopReason::OutputSize { limit_bytes: limit })));
}

#[test]
fn log_line_is_cut_between_characters_and_a_flood_is_a_breach() {
    let mut ledger = ledger();
    let line = |message: String| ToHost::Log(LogLine { level: LogLevel::Info, message, fields: String::new() });
    match ledger.admit(line("é".repeat(4_000))).unwrap() {
        Step::Log(line) => assert_eq!(line.message.len(), 4_096),
        step => panic!("{step:?}"),
    }
    let mut delivered = 1;
    let flood = (0..10_000).find_map(|_| match ledger.admit(line("x".into())) {
        Ok(Step::Log(_)) => {
            delivered += 1;
            None
        }
        Ok(_) => None,
        Err(breach) => Some(breach),
    });
    assert!(matches!(flood, Some(Breach::Protocol(_))));
    assert_eq!(delivered, Limits::default().log_lines + SLACK);
}

#[test]
fn progress_is_cut_and_kept_within_bounds_and_a_flood_is_a_breach() {
    let mut ledger = ledger();
    let say = |message: String, fraction| ToHost::Progress(Said { message, fraction });
    match ledger.admit(say("é".repeat(4_000), Some(f64::NAN))).unwrap() {
        Step::Progress(said) => assert_eq!((said.message.len(), said.fraction), (512, None)),
        step => panic!("{step:?}"),
    }
    let mut delivered = 1;
    let flood = (0..10_000).find_map(|_| match ledger.admit(say("x".into(), Some(1.0))) {
        Ok(Step::Progress(said)) => {
            assert_eq!(said.fraction, Some(1.0));
            delivered += 1;
            None
        }
        Ok(_) => None,
        Err(breach) => Some(breach),
    });
    assert!(matches!(flood, Some(Breach::Protocol(_))));
    assert_eq!(delivered, Limits::default().progress_messages);
}

#[test]
fn waiting_without_end_and_messages_out_of_order_are_breaches() {
    let mut ledger = ledger();
    assert!((0..100).any(|_| ledger.admit(ToHost::Waiting).is_err()));
    assert!(ledger.admit(ToHost::Ready { jail: vec![] }).is_err());
    let crashed = ToHost::Done { outcome: Outcome::Stopped(StopReason::Crashed), spent: Spent::default() };
    assert!(ledger.admit(crashed).is_err());
}

fn unfit(side: Side, problems: usize) -> ToHost {
    let problem = Problem { pointer: format!("/{}", "p".repeat(9_000)), message: "m".repeat(9_000) };
    ToHost::Done { outcome: Outcome::Unfit(side, vec![problem; problems]), spent: Spent::default() }
}

#[test]
fn problems_are_few_and_short_and_say_something() {
    let Ok(Step::Done(Outcome::Unfit(Side::Output, problems), _)) = ledger().admit(unfit(Side::Output, 100)) else {
        panic!("a misfit is a clean end")
    };
    assert_eq!(problems.len(), MAX_PROBLEMS);
    assert!(problems.iter().all(|problem| problem.pointer.len() == 1_024 && problem.message.len() == 1_024));
    assert!(matches!(ledger().admit(unfit(Side::Output, 0)), Err(Breach::Protocol(_))));
}

#[test]
fn input_is_found_unfit_before_its_handler_shows_itself() {
    assert!(matches!(ledger().admit(unfit(Side::Input, 1)), Ok(Step::Done(..))));
    let line = ToHost::Log(LogLine { level: LogLevel::Info, message: "m".into(), fields: String::new() });
    for first in [ToHost::Begun, get(1), line] {
        let mut ledger = ledger();
        ledger.admit(first).unwrap();
        assert!(matches!(ledger.admit(ToHost::Begun), Err(Breach::Protocol(_))));
        assert!(matches!(ledger.admit(unfit(Side::Input, 1)), Err(Breach::Protocol(_))));
        assert!(matches!(ledger.admit(unfit(Side::Output, 1)), Ok(Step::Done(..))));
    }
}

#[test]
fn check_runs_no_handler_and_finds_unfit_only_what_it_checked() {
    let check = || Ledger::new(Limits::default(), Work::Check(Side::Output));
    assert!(matches!(check().admit(returned(4)), Ok(Step::Done(..))));
    assert!(matches!(check().admit(unfit(Side::Output, 1)), Ok(Step::Done(..))));
    let line = ToHost::Log(LogLine { level: LogLevel::Info, message: "m".into(), fields: String::new() });
    let said = ToHost::Progress(Said { message: "m".into(), fraction: None });
    let thrown = Outcome::Threw(Thrown { message: "m".into(), stack: String::new() });
    let threw = ToHost::Done { outcome: thrown, spent: Spent::default() };
    for message in [unfit(Side::Input, 1), threw, ToHost::Begun, get(1), line, said] {
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

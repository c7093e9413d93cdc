use std::{sync::OnceLock, time::Duration};

use tokio::sync::mpsc;
use tollhouse_base::{
    clock::{Clock, Timestamp},
    cpu_share::CpuShares,
    id::{CallId, ReceiptId},
};
use tollhouse_pool::OpHost;
use tollhouse_protocol::{LogLine, OpRequest};
use tollhouse_tool::MicroUsd;

use super::*;
use crate::{
    Input,
    answer_head::{REPLY_HEADER_BYTES, reply_headers},
    run::sandboxed::HOST_WORK,
    tests::{Fixture, head},
};

fn reply(status: u16, headers: &[(&str, &str)], body: ReplyBody) -> ToolReply {
    let headers = headers.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
    ToolReply { status, headers, body }
}

fn json(text: &str) -> ReplyBody {
    ReplyBody::Json(Bytes::copy_from_slice(text.as_bytes()))
}

fn raw(text: &str) -> ReplyBody {
    ReplyBody::Raw(Bytes::copy_from_slice(text.as_bytes()))
}

#[tokio::test]
async fn a_handler_answers_with_statuses_that_are_its_own() {
    let live = Fixture::new().await.tool(0.0).await;
    for (status, is_one) in
        [(199, false), (200, true), (299, true), (300, true), (400, true), (401, false), (402, false), (404, true), (407, false)]
            .into_iter()
            .chain([(599, true), (600, false)])
    {
        for body in [json("{}"), raw("text")] {
            let answered = answer(reply(status, &[], body), &live).await;
            match answered {
                Ok(produced) => assert!(is_one && produced.status == status && produced.success == (status < 300)),
                Err(error) => assert!(!is_one && matches!(error, CallError::Misbehaved(_)), "{status}: {error}"),
            }
        }
    }
}

#[tokio::test]
async fn no_answer_leads_its_caller_elsewhere() {
    let live = Fixture::new().await.tool(0.0).await;
    let answered = async |status, name, to| answer(reply(status, &[(name, to)], raw("")), &live).await;
    for status in 300..400 {
        for (name, to) in [("location", "https://example.com/"), ("Location", "/tools/other"), ("LOCATION", "")] {
            let error = answered(status, name, to).await.unwrap_err();
            assert!(
                matches!(&error, CallError::Misbehaved(reason) if reason.contains(&format!("status {status} and `location`"))),
                "{error}"
            );
        }
        answered(status, "link", "</a>").await.unwrap();
    }
    for status in [200, 201, 202, 404] {
        assert_eq!(answered(status, "location", "/things/7").await.unwrap().headers[0].1, "/things/7");
    }
    // These redirect too, and are dropped from all answers.
    for name in
        ["refresh", "alt-svc", "content-location", "uri", "x-accel-redirect", "x-sendfile", "payment-required", "x-payment-required"]
    {
        let carried = answered(200, name, "0; url=https://example.com/").await.unwrap().headers;
        assert!(carried.iter().all(|(name, _)| name == "content-type"), "{carried:?}");
    }
}

#[tokio::test]
async fn headers_of_an_answer_have_8_kib_together() {
    let live = Fixture::new().await.tool(0.0).await;
    let value = |bytes: usize| "x".repeat(bytes);
    let answered = async |headers: &[(&str, &str)]| answer(reply(200, headers, json("{}")), &live).await;
    let whole = value(REPLY_HEADER_BYTES - "link".len());
    answered(&[("link", &whole)]).await.unwrap();
    answered(&[("link", &whole), ("x-dropped", &whole)]).await.unwrap();
    let half = value(REPLY_HEADER_BYTES / 2);
    for beyond in [
        &[("link", format!("{whole}x"))][..],
        &[("link", half.clone()), ("content-language", half.clone())],
        &[("link", half.clone()), ("Link", half)],
    ] {
        let beyond: Vec<_> = beyond.iter().map(|(name, value)| (*name, value.as_str())).collect();
        let error = answered(&beyond).await.unwrap_err();
        assert!(
            matches!(&error, CallError::Misbehaved(reason) if reason.contains("most of them in `") && reason.contains("the limit is 8192")),
            "{error}"
        );
    }
}

#[tokio::test]
async fn an_answer_may_be_as_long_and_as_deep_as_the_limits_say() {
    let mut live = LiveEndpoint::clone(&*Fixture::new().await.tool(0.0).await);
    (live.endpoint.limits.output_bytes, live.endpoint.limits.output_depth) = (8, 2);
    let answered = async |body| answer(reply(200, &[], body), &live).await;
    for body in [json("[[1234]]"), json("12345678"), raw("12345678")] {
        answered(body).await.unwrap();
    }
    let stopped = |error| match error {
        Err(CallError::Stopped(reason)) => reason,
        other => panic!("{other:?}"),
    };
    assert_eq!(stopped(answered(raw("123456789")).await), StopReason::OutputSize { limit_bytes: 8 });
    assert_eq!(stopped(answered(json("[[[1]]]")).await), StopReason::OutputDepth { limit: 2 });
}

#[tokio::test]
async fn bytes_follow_their_content_type_and_must_be_json_if_it_says_so() {
    let live = Fixture::new().await.tool(0.0).await;
    let plain = answer(reply(200, &[], raw("x")), &live).await.unwrap();
    assert_eq!(plain.headers, [("content-type".to_owned(), BYTES.to_owned())]);
    let text = answer(reply(200, &[("content-type", "text/plain")], raw("x")), &live).await.unwrap();
    assert_eq!((text.headers.len(), &*text.body), (1, &b"x"[..]));
    let json = [("content-type", "application/json")];
    assert!(matches!(answer(reply(200, &json, raw("x")), &live).await, Err(CallError::Output(_))));
    // An error status may have any content, and an answer without a body has none.
    assert_eq!(&*answer(reply(404, &json, raw("x")), &live).await.unwrap().body, b"x");
    assert_eq!(&*answer(reply(204, &json, raw("x")), &live).await.unwrap().body, b"");
}

#[test]
fn an_answer_carries_the_headers_that_do_not_speak_for_the_host() {
    let given = [
        ("Link", "<a>"),
        ("set-cookie", "a=b"),
        ("content-type", "text/plain"),
        ("link", "<b>"),
        ("payment-response", "x"),
        ("Content-Type", "text/csv"),
        ("location", "a\tb"),
        ("retry-after", "1\r\nset-cookie: a=b"),
    ];
    let given = given.map(|(name, value)| (name.to_owned(), value.to_owned())).to_vec();
    let carried = [("Link", "<a>, <b>"), ("content-type", "text/csv"), ("location", "a\tb")];
    assert_eq!(reply_headers(given), carried.map(|(name, value)| (name.to_owned(), value.to_owned())));
}

#[test]
fn secrets_are_hidden_in_bodies_and_headers_and_nothing_else_changes() {
    let redactor = Redactor::new(["super-secret-value"]);
    let headers = [("link", "<super-secret-value>")];
    for (body, reported) in [
        (json(r#"{"a": "super-secret-value"}"#), json(r#"{"a": "[redacted]"}"#)),
        (json(r#"{"a": "<\u0073uper-secret-valu\u0065>", "n": 1.10}"#), json(r#"{"a": "<[redacted]>", "n": 1.10}"#)),
        (json(r#"{"a": "super-secret-value", "b": [1e999, "\ud83d"]}"#), json(r#"{"a": "[redacted]", "b": [1e999, "\ud83d"]}"#)),
        (json(r#"{"a":  1.10, "b": 12345678901234567890.1}"#), json(r#"{"a":  1.10, "b": 12345678901234567890.1}"#)),
        (raw("a super-secret-value"), raw("a [redacted]")),
        (raw("nothing"), raw("nothing")),
    ] {
        let changes = matches!(&reported, ReplyBody::Json(text) if text.windows(10).any(|part| part == b"[redacted]"));
        let hidden = redacted(reply(201, &headers, body), &redactor);
        assert_eq!(hidden, Ok((changes, reply(201, &[("link", "<[redacted]>")], reported))));
    }
}

#[test]
fn json_that_cannot_be_searched_for_secrets_is_rejected() {
    let redactor = Redactor::new(["super-secret-value"]);
    let cases = [
        (&br#"["super-secret-value", "\x"]"#[..], PortabilityIssue::NotJson),
        (br#"["super-secret-value", ""#, PortabilityIssue::NotJson),
        (b"[\"\xff super-secret-value\"]", PortabilityIssue::NotUtf8 { line: 1, column: 3 }),
    ];
    for (body, issue) in cases {
        assert_eq!(redacted(reply(200, &[], ReplyBody::Json(Bytes::from_static(body))), &redactor), Err(issue));
    }
}

#[test]
fn the_result_proper_of_blocks_is_their_structured_content() {
    let proper = structured(br#"{ "content": [], "structuredContent": { "a": 1 } }"#);
    assert_eq!(proper, Some(Bytes::from_static(br#"{"a":1}"#)));
    assert_eq!(structured(br#"{ "content": [], "structuredContent": { "a": 1 }, "isError": true }"#), None, "a failure has none");
}

#[tokio::test]
async fn worker_messages_reach_the_caller_the_owner_and_the_cpu_turn() {
    let fixture = Fixture::new().await;
    let live = fixture.tool(0.0).await;
    let shares = CpuShares::new(None);
    let turn = shares.turn([127, 0, 0, 1].into(), Duration::ZERO).await.unwrap();
    let (input, _) = Input::Body(bytes::Bytes::new()).read(&live).await.unwrap();
    let (receipt, elapsed, head) = (ReceiptId::generate(), OnceLock::new(), head());
    let (progress, mut output) = mpsc::channel(4);
    let task = Task {
        live: &live,
        work: Work::Handle,
        by: CalledBy::Anyone,
        price: MicroUsd::ZERO,
        call: CallId::generate(),
        receipt: &receipt,
        head: &head,
        input: &input,
        payer: None,
        payment: None,
        now: Timestamp(0),
        progress: Some(&progress),
        stream: None,
        scratch: None,
        charge: &Arc::default(),
        turn: &turn,
        elapsed: &elapsed,
    };
    let grants = CallGrants {
        owner: tollhouse_tool::Owner::Platform,
        endpoint_id: live.endpoint.id.clone(),
        call_id: task.call.clone(),
        by_owner: false,
        grant: Arc::clone(&live.grant),
        secrets: vec![],
        limits: live.endpoint.limits,
    };
    let scratch = DryRunStore::new(&Clock::fixed(Timestamp(0)));
    let ops = Ops::new(grants, Arc::clone(&fixture.services)).with_dry_run(Arc::clone(&scratch));
    let ops = Arc::new(ops);
    let hearing = CallListener::new(Arc::clone(&ops), task.acceptance(), turn.meter(), Arc::clone(task.charge));
    hearing.started();
    assert!(matches!(output.try_recv(), Ok(Progress::Accepted { receipt: output, .. }) if output == receipt));
    hearing.used(Duration::from_millis(3));
    hearing.used(Duration::from_millis(4));
    assert_eq!(turn.total(), Duration::from_millis(7));
    hearing.log(LogLine { level: tollhouse_protocol::LogLevel::Info, message: "a line".to_owned(), fields: String::new() });
    assert_eq!(turn.total(), Duration::from_millis(7) + HOST_WORK, "what the host does for it counts too");
    hearing.answered(Outcome::Stopped(StopReason::Deadlock), tollhouse_protocol::Spent::default());
    let charge = OpRequest::Charge { call: task.call.to_string(), usd: "0".to_owned() };
    assert!(hearing.op(charge).await.is_err());
    assert!(matches!(log_error(&ops, CallError::Misbehaved("it said `teapot`".to_owned())), CallError::Misbehaved(_)));
    let log = scratch.take_log();
    assert!(log.last().is_some_and(|line| line.message.contains("it said `teapot`")), "{log:?}");
}

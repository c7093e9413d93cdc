//! Permissions and inputs of calls, and the results of the host's own handlers.

use super::*;
use crate::{json_bytes, run::builtin::readiness};

#[tokio::test]
async fn a_paused_tool_is_its_owners_to_call() {
    let fixture = Fixture::new().await;
    let paused = json!({ "status": "paused", "handlerType": "static_json", "handler": { "response": {} } });
    fixture.publish(paused).await;
    let find = async |by| fixture.calls.find("some-tool", |owner| if *owner == fixture.owner { by } else { panic!("of {owner:?}") }).await;
    assert!(matches!(find(CalledBy::Owner).await, Ok((_, CalledBy::Owner))));
    assert!(matches!(find(CalledBy::Anyone).await, Err(CallError::Paused(..))));
    assert!(matches!(fixture.calls.find("other-tool", |_| CalledBy::Owner).await, Err(CallError::UnknownEndpoint(_))));
}

#[tokio::test]
async fn an_input_may_be_as_long_and_as_deep_as_the_limits_say() {
    let fixture = Fixture::new().await;
    let mut live = LiveEndpoint::clone(&*fixture.tool(0.0).await);
    (live.endpoint.limits.input_bytes, live.endpoint.limits.input_depth) = (10, 3);
    let read = async |input: Input| input.read(&live).await.map(|(parsed, _)| parsed);
    let too_large = |read: Result<ParsedInput, CallError>| matches!(read, Err(CallError::BodyTooLarge { limit: 10 }));
    let body = |text: &'static [u8]| Input::Body(bytes::Bytes::from_static(text));
    let parsed = read(body(br#"{"a": 123}"#)).await.unwrap();
    assert_eq!((&parsed.value, &*parsed.text), (&json!({ "a": 123 }), &br#"{"a": 123}"#[..]));
    assert!(too_large(read(body(br#"{"a": 1234}"#)).await));
    let depths = [(json!([]), true), (json!([[[]]]), true), (json!([[[[]]]]), false)];
    for (value, is_read) in depths {
        let read = read(Input::Body(json_bytes(&value))).await;
        let is_too_deep = |error: CallError| error.to_string() == "the nesting of the input exceeds its maximum depth of 3";
        assert!(if is_read { read.is_ok() } else { read.is_err_and(is_too_deep) }, "{value}");
    }
    // An empty or blank body is an empty object.
    for blank in [&b""[..], b" \r\n"] {
        assert_eq!(&*read(body(blank)).await.unwrap().text, b"{}");
    }
    assert!(matches!(read(body(b"{")).await, Err(CallError::InvalidJson(_))));
    let mut long = live.clone();
    long.endpoint.limits.input_bytes = 100;
    let reserved = body(br#"{"$serde_json::private::RawValue":"[1,2]"}"#).read(&long).await;
    assert!(
        matches!(reserved, Err(CallError::InvalidJson(reason)) if reason.contains("reserved key")),
        "a handler would read another value"
    );
    // A JavaScript handler parses the text itself.
    let js = LiveEndpoint { runs: EndpointCode::Js, ..live.clone() };
    assert_eq!(body(br#"{"a": 1}"#).read(&js).await.unwrap().0.value, Value::Null);
}

#[tokio::test]
async fn a_payment_is_bound_to_the_bytes_and_the_type_of_a_body() {
    let fixture = Fixture::new().await;
    let mut live = LiveEndpoint::clone(&*fixture.tool(0.01).await);
    (live.endpoint.request_types, live.endpoint.limits.body_bytes) = (vec!["text/*".to_owned()], 10);
    let raw = |content_type: &str, bytes: &'static [u8]| {
        let content = Some(Arc::new(tollhouse_capability::CallBody::in_memory(bytes.into())));
        let hash = receipt::bytes_hash(bytes);
        RawBody { content_type: content_type.to_owned(), bytes: bytes.len() as u64, hash, content }
    };
    let read = async |raw: RawBody| Input::Raw(raw).read_bound(&live, "POST", None).await.unwrap();
    let (parsed, hash, bound) = read(raw("text/csv", b"a,b")).await;
    assert!(parsed.fits() && parsed.text.is_empty() && parsed.bytes() == 3);
    for (other, is_same) in [
        (raw("text/csv", b"a,b"), true),
        (RawBody { content: None, ..raw("text/csv", b"a,b") }, true),
        (raw("text/csv", b"a;b"), false),
        (raw("text/csv; header=present", b"a,b"), false),
    ] {
        let known = Input::Raw(other.clone()).bound(live.endpoint.slug.as_str(), "POST", None).await;
        let (_, other_hash, other_bound) = read(other).await;
        assert_eq!((known.as_ref() == Some(&bound), other_bound == bound, other_hash == hash), (is_same, is_same, is_same));
    }
    let refused = async |raw: RawBody| read(raw).await.0.check().err();
    assert!(matches!(refused(raw("text/csv", b"12345678901")).await, Some(CallError::BodyTooLarge { limit: 10 })));
    let type_of = refused(raw("image/png", b"a")).await;
    assert!(
        matches!(&type_of, Some(error @ CallError::UnsupportedMediaType { .. }) if error.to_string().contains("`text/*`")),
        "{type_of:?}"
    );
}

#[tokio::test]
async fn a_file_in_json_is_the_body_and_bound_as_json() {
    let fixture = Fixture::new().await;
    let mut live = LiveEndpoint::clone(&*fixture.tool(0.01).await);
    let given = || Input::Body(bytes::Bytes::from_static(br#"{"body": {"data": "YSxi"}}"#));
    let plain = given().read_bound(&live, "POST", None).await.unwrap();
    assert!(plain.0.raw.is_none(), "a tool without types has its own field `body`");
    live.endpoint.request_types = vec!["text/csv".to_owned()];
    let (parsed, hash, bound) = given().read_bound(&live, "POST", None).await.unwrap();
    assert_eq!((&hash, &bound), (&plain.1, &plain.2));
    let raw = parsed.check().unwrap().raw.unwrap();
    assert_eq!((&*raw.content_type, raw.bytes), ("text/csv", 3));
    let wrong = Input::Body(bytes::Bytes::from_static(br#"{"body": {"data": "?"}}"#)).read(&live).await.unwrap().0;
    assert!(matches!(wrong.check(), Err(CallError::Input(mismatch)) if mismatch.problems[0].pointer == "/body/data"));
}

/// Regression test: `bodyBytes` bounded only bodies outside JSON.
#[tokio::test]
async fn a_file_in_json_has_at_most_the_bytes_of_a_body() {
    let fixture = Fixture::new().await;
    let mut live = LiveEndpoint::clone(&*fixture.tool(0.01).await);
    (live.endpoint.request_types, live.endpoint.limits.body_bytes) = (vec!["text/csv".to_owned()], 3);
    let given = |text: &'static str| Input::Body(bytes::Bytes::from_static(text.as_bytes()));
    assert!(given(r#"{"body": {"data": "YSxi"}}"#).read(&live).await.unwrap().0.fits());
    let long = || given(r#"{"body": {"data": "YSxiYw=="}}"#);
    assert!(matches!(long().read(&live).await.err(), Some(CallError::BodyTooLarge { limit: 3 })));
    let paid = long().read_bound(&live, "POST", None).await.unwrap().0;
    assert!(matches!(paid.check().err(), Some(CallError::BodyTooLarge { limit: 3 })));
}

/// Regression test: a lowered limit of the input hid answers that were paid for.
#[tokio::test]
async fn paid_answer_is_replayed_for_an_input_beyond_the_limits() {
    let fixture = Fixture::new().await;
    let live = fixture.tool(0.01).await;
    let call = |live: &Arc<LiveEndpoint>, nonce| {
        let input = Input::Body(bytes::Bytes::from_static(br#"{"a": [1]}"#));
        fixture.calls.perform(Call { input, ..fixture.call(live, pays(nonce)) })
    };
    let bought = call(&live, 1).await.unwrap();
    for (input_bytes, input_depth) in [(5, 64), (100, 1)] {
        let mut narrowed = LiveEndpoint::clone(&live);
        (narrowed.endpoint.limits.input_bytes, narrowed.endpoint.limits.input_depth) = (input_bytes, input_depth);
        let narrowed = Arc::new(narrowed);
        assert_eq!(call(&narrowed, 1).await.unwrap().answer.receipt_id, bought.answer.receipt_id);
        let ended = call(&narrowed, 2).await;
        let ended = ended.as_ref().map_err(|error| &**error);
        assert!(matches!(ended, Err(CallError::BodyTooLarge { .. } | CallError::InvalidJson(_))), "{ended:?}");
    }
    assert_eq!(fixture.facilitator.verified.load(Ordering::SeqCst), 1);
}

/// Regression test: a payment was verified for each input with which no run can begin.
#[tokio::test]
async fn no_payment_is_verified_for_an_input_that_does_not_match_the_schema() {
    let fixture = Fixture::new().await;
    let live = fixture.tool(0.01).await;
    let call = |input: Value| Call { input: Input::Body(json_bytes(&input)), ..fixture.call(&live, pays(1)) };
    let verified = || fixture.facilitator.verified.load(Ordering::SeqCst);
    for _ in 0..100 {
        let ended = fixture.calls.perform(call(json!([1]))).await;
        assert!(matches!(ended.as_ref().map_err(|error| &**error), Err(CallError::Input(_))));
    }
    assert_eq!(verified(), 0);
    let bought = fixture.calls.perform(call(json!({}))).await.unwrap();
    assert_eq!(verified(), 1);
    // The payment is bound to its own input.
    let ended = fixture.calls.perform(call(json!([1]))).await;
    assert!(matches!(ended.as_ref().map_err(|error| &**error), Err(CallError::Input(_))));
    let again = fixture.calls.perform(call(json!({}))).await.unwrap();
    assert_eq!((again.answer.receipt_id.as_str(), verified()), (bought.answer.receipt_id.as_str(), 1));
}

#[tokio::test]
async fn listeners_get_the_start_of_a_call_and_its_receipt() {
    let fixture = Fixture::new().await;
    let live = fixture.tool(0.01).await;
    let (progress, mut reported) = mpsc::channel(4);
    let done = fixture.calls.perform(Call { progress: Some(progress), ..fixture.call(&live, pays(1)) }).await.unwrap();
    assert!(matches!(reported.recv().await, Some(Progress::Admitted(payment)) if Some(&payment) == done.payment.as_ref()));
    let Some(Progress::Accepted { payment, receipt, .. }) = reported.recv().await else { panic!("no event came") };
    assert_eq!((payment, receipt.as_str()), (done.payment, &*done.answer.receipt_id));
    assert!(reported.recv().await.is_none(), "once");
}

#[tokio::test]
async fn an_echo_matches_the_receipt() {
    let fixture = Fixture::new().await;
    let live = fixture.publish(json!({ "priceUsd": 0.01, "handlerType": "receipt_echo" })).await;
    let echoed = async |call: Call| {
        let done = fixture.calls.perform(call).await.unwrap();
        let echo: Value = serde_json::from_slice(&done.answer.body).unwrap();
        assert_eq!((&echo["ok"], &echo["request"]["path"]), (&json!(true), &json!("/tools/x")));
        assert_eq!((&echo["receipt"]["receiptId"], &echo["receipt"]["slug"]), (&json!(done.answer.receipt_id), &json!("some-tool")));
        echo["receipt"].clone()
    };
    let paid = echoed(fixture.call(&live, pays(1))).await;
    assert_eq!((&paid["kind"], &paid["priceUsd"]), (&json!("paid"), &json!(0.01)));
    let quote = Some(fixture.calls.quote(&live.terms).quote_id);
    let dearer = fixture.repriced(0.05).await;
    let quoted = echoed(Call { quote, ..fixture.call(&dearer, pays(2)) }).await;
    assert_eq!((&quoted["kind"], &quoted["priceUsd"]), (&json!("paid"), &json!(0.01)));
    let own = echoed(Call { by: CalledBy::Owner, ..fixture.call(&live, OfferedPayment::Nothing) }).await;
    assert!(own["kind"] == "free" && own["priceUsd"] == 0.0 && own["payer"].is_null(), "{own}");
    let free = Arc::new({
        let mut live = LiveEndpoint::clone(&live);
        live.endpoint.price_usd = MicroUsd::ZERO;
        live.terms = Arc::new(CallTerms { price: MicroUsd::ZERO, ..CallTerms::clone(&live.terms) });
        live
    });
    assert_eq!(echoed(fixture.call(&free, OfferedPayment::Nothing)).await["kind"], "free");
}

#[tokio::test]
async fn a_check_that_asks_for_a_check_is_informed() {
    let fixture = Fixture::new().await;
    let live = fixture.publish(json!({ "handlerType": "x402_readiness_check" })).await;
    let checked = async |name: &'static str, value: &str| {
        let headers = BTreeMap::from([(name.into(), value.to_owned())]);
        let call = Call { head: RequestHead { headers, ..head() }, ..fixture.call(&live, OfferedPayment::Nothing) };
        let done = fixture.calls.perform(call).await.unwrap();
        serde_json::from_slice::<Value>(&done.answer.body).unwrap()
    };
    assert_eq!(checked("user-agent", readiness::request::AGENT).await, readiness::of_a_check(""));
    for (name, value) in [("user-agent", "curl"), ("accept", readiness::request::AGENT)] {
        let report = checked(name, value).await;
        assert!(report.is_object() && report != readiness::of_a_check(""), "{report}");
    }
    assert!(readiness::of_a_check("https://a.example").to_string().contains("a check cannot request another check"));
}

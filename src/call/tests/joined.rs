//! Calls that share a payment, and calls that others wait for.

use std::sync::LazyLock;

use tollhouse_money::{Admit, CreditOffer, OwedRun};
use tollhouse_tool::SettleTime;

use super::*;

const LONG: Duration = Duration::from_secs(20);

/// A request whose client stays.
static WAITER: LazyLock<Waiter> = LazyLock::new(|| Waiter { from: FROM, gone: CancellationToken::new() });

/// Begins a call whose settlement stays in flight, and returns it and its payment.
async fn settling(fixture: &Fixture, live: &Arc<LiveEndpoint>) -> (RunningCall<CompletedCall>, PaymentId) {
    fixture.settle(Settles::Later);
    let first = fixture.begin(live, pays(1));
    let payment = tokio::time::timeout(LONG, async {
        loop {
            if let Some(payment) = fixture.calls.in_flight.calls.lock().keys().next() {
                break payment.clone();
            }
            tokio::task::yield_now().await;
        }
    });
    (first, payment.await.unwrap())
}

/// Waits until so many requests wait for calls.
async fn until_waiting(fixture: &Fixture, (payments, addresses): (usize, usize)) {
    let reached = async {
        while fixture.calls.in_flight.waiting() != (payments, addresses) {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(LONG, reached).await.unwrap();
}

/// Regression test: a request that had joined a run waited until its end, whatever its client did.
#[tokio::test]
async fn joined_request_stops_waiting_when_its_client_is_gone() {
    let fixture = Fixture::new().await;
    let live = fixture.tool(0.01).await;
    let (first, _) = settling(&fixture, &live).await;
    let second = fixture.begin(&live, pays(1));
    until_waiting(&fixture, (1, 1)).await;
    assert_eq!(fixture.calls.in_flight(), 2);
    drop(second);
    until_waiting(&fixture, (0, 0)).await;
    let ended = async {
        while fixture.calls.in_flight() > 1 {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(LONG, ended).await.unwrap();
    fixture.facilitator.proceed.notify_one();
    assert!(!first.await.unwrap().answer.receipt_id.is_empty(), "the call itself goes on");
}

/// Regression test: one address could let thousands of requests wait for a run that nobody paid for.
#[tokio::test]
async fn only_so_many_requests_wait_for_the_run_of_a_payment() {
    let fixture = Fixture::new().await;
    let live = fixture.tool(0.01).await;
    let (first, payment) = settling(&fixture, &live).await;
    let joined: Vec<_> = (0..LIMITS.of_payment).map(|_| fixture.begin(&live, pays(1))).collect();
    let refused = async {
        loop {
            // The others may not wait yet.
            let ended = tokio::time::timeout(Duration::from_millis(20), fixture.begin(&live, pays(1))).await;
            if let Ok(ended) = ended {
                break ended;
            }
        }
    };
    let error = tokio::time::timeout(LONG, refused).await.unwrap().unwrap_err();
    let full = JoinsFull::Payment(LIMITS.of_payment);
    assert!(matches!(&*error, CallError::TooManyJoins { payment: of, full: is, .. } if (of, is) == (&payment, &full)), "{error:?}");
    fixture.facilitator.proceed.notify_one();
    let receipt = first.await.unwrap().answer.receipt_id.clone();
    for ended in futures_util::future::join_all(joined).await {
        assert_eq!(ended.unwrap().answer.receipt_id, receipt);
    }
    assert_eq!(fixture.calls.in_flight.waiting(), (0, 0));
}

/// Regression test: each request that waited for another host's run looked it up every 100 ms.
#[tokio::test(start_paused = true)]
async fn requests_that_wait_for_another_host_share_its_lookups() {
    let fixture = Fixture::new().await;
    let live = fixture.tool(0.01).await;
    let Ok(Admit::Run(admission)) = fixture.payments.admit(&live.terms, pays(1), "a request").await else { panic!("not admitted") };
    let (in_flight, payment) = (InFlight::new(LIMITS), admission.id().clone());
    let reads = || fixture.store.reads();
    let count = async |waiting: usize| {
        let before = reads();
        let joins = (0..waiting).map(|_| in_flight.join(&fixture.payments, &payment, &WAITER, Duration::from_secs(10)));
        futures_util::future::join_all(joins).await;
        reads() - before
    };
    let (one, many) = (count(1).await, count(LIMITS.of_payment).await);
    assert_eq!(one, many);
    assert!((10..60).contains(&one), "{one} reads in ten seconds");
    admission.release().await;
}

#[tokio::test]
async fn caller_learns_the_payment_before_it_is_settled() {
    let fixture = Fixture::new().await;
    let live = fixture.tool(0.01).await;
    fixture.settle(Settles::Later);
    let admitted = async |receiver: &mut mpsc::Receiver<Progress>| match receiver.recv().await {
        Some(Progress::Admitted(payment)) => payment,
        other => panic!("{other:?}"),
    };
    let (sender, mut first) = mpsc::channel(4);
    let call = Call { progress: Some(sender), ..fixture.call(&live, pays(1)) };
    let run = fixture.calls.begin(call, CancellationToken::new(), ());
    let payment = tokio::time::timeout(LONG, admitted(&mut first)).await.unwrap();
    let (sender, mut second) = mpsc::channel(4);
    let call = Call { progress: Some(sender), ..fixture.call(&live, pays(1)) };
    let joined = fixture.calls.begin(call, CancellationToken::new(), ());
    assert_eq!(tokio::time::timeout(LONG, admitted(&mut second)).await.unwrap(), payment, "of a request that joins, too");
    fixture.facilitator.proceed.notify_one();
    assert_eq!(run.await.unwrap().payment, Some(payment));
    joined.await.unwrap();
}

/// Performs two calls with one payment. The second one comes while the first one's settlement is in flight.
async fn two_at_once(fixture: &Fixture, live: &Arc<LiveEndpoint>, settles: Settles) -> (SharedResult, SharedResult) {
    fixture.settle(Settles::Later);
    let both = async { tokio::join!(fixture.perform(live, pays(1)), fixture.perform(live, pays(1))) };
    let go = async {
        while fixture.calls.in_flight.calls.lock().is_empty() {
            tokio::task::yield_now().await;
        }
        assert!(!fixture.calls.drain(Duration::from_millis(50)).await, "they are under way");
        fixture.settle(settles);
        fixture.facilitator.proceed.notify_one();
    };
    tokio::time::timeout(LONG, async { tokio::join!(both, go) }).await.unwrap().0
}

#[tokio::test]
async fn a_request_with_the_payment_of_a_running_call_joins_it() {
    let fixture = Fixture::new().await;
    let live = fixture.tool(0.01).await;
    let (first, second) = two_at_once(&fixture, &live, Settles::Well).await;
    let (first, second) = (first.unwrap(), second.unwrap());
    assert_eq!((&first.answer.receipt_id, &first.answer.body), (&second.answer.receipt_id, &second.answer.body));
    assert!(!first.answer.receipt_id.is_empty());
    assert_eq!(fixture.records(&live).await.len(), 1);
    assert!(fixture.calls.drain(LONG).await, "none is in progress anymore");
    assert_eq!(fixture.calls.in_flight.calls.lock().len(), 0, "ended calls leave nothing in memory");
}

#[tokio::test]
async fn joined_requests_get_the_error_of_the_call() {
    let fixture = Fixture::new().await;
    let live = fixture.tool(0.01).await;
    let (first, second) = two_at_once(&fixture, &live, Settles::Refused("insufficient_funds")).await;
    for ended in [first, second] {
        assert!(matches!(ended.as_ref().map_err(|error| &**error), Err(CallError::SettlementRefused(_))), "{ended:?}");
    }
    assert_eq!(fixture.records(&live).await.len(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_call_of_another_replica_is_waited_for_while_there_is_patience() {
    let fixture = Fixture::new().await;
    let live = fixture.tool(0.01).await;
    let Ok(Admit::Run(admission)) = fixture.payments.admit(&live.terms, pays(1), "a request").await else { panic!("not admitted") };
    let (in_flight, payment) = (InFlight::new(LIMITS), admission.id().clone());
    let started = tokio::time::Instant::now();
    let ended = tokio::time::timeout(LONG, in_flight.join(&fixture.payments, &payment, &WAITER, Duration::from_millis(250))).await.unwrap();
    let ended = shared(ended);
    assert!(matches!(ended.as_ref().map_err(|error| &**error), Err(CallError::Joined(joined)) if *joined == payment), "{ended:?}");
    assert!(started.elapsed() >= Duration::from_millis(250), "{:?}", started.elapsed());
    let join = in_flight.join(&fixture.payments, &payment, &WAITER, LONG);
    let (ended, ()) = tokio::time::timeout(LONG, async { tokio::join!(join, admission.release()) }).await.unwrap();
    let ended = shared(ended);
    assert!(matches!(ended.as_ref().map_err(|error| &**error), Err(CallError::Joined(_))), "it ended without an answer: {ended:?}");
    assert_eq!((in_flight::join_timeout(0), in_flight::join_timeout(10_000)), (Duration::from_secs(90), Duration::from_secs(100)));
}

#[tokio::test(start_paused = true)]
async fn join_of_a_short_call_elsewhere_takes_about_as_long() {
    let fixture = Fixture::new().await;
    let live = fixture.tool(0.01).await;
    let Ok(Admit::Run(admission)) = fixture.payments.admit(&live.terms, pays(1), "a request").await else { panic!("not admitted") };
    let (in_flight, payment, started) = (InFlight::new(LIMITS), admission.id().clone(), tokio::time::Instant::now());
    let ends = async {
        tokio::time::sleep(Duration::from_millis(25)).await;
        admission.release().await;
    };
    let (ended, ()) = tokio::join!(in_flight.join(&fixture.payments, &payment, &WAITER, LONG), ends);
    let ended = shared(ended);
    assert!(matches!(ended.as_ref().map_err(|error| &**error), Err(CallError::Joined(_))), "{ended:?}");
    assert!(started.elapsed() < Duration::from_millis(40), "{:?}", started.elapsed());
}

/// A call on credit that is charged before its run.
struct Upfront {
    terms: CallTerms,
    offered: OfferedPayment,
}

impl Upfront {
    async fn of(fixture: &Fixture, live: &LiveEndpoint) -> Self {
        let token = fixture.payments.credits().mint(MicroUsd(1_000_000), "a test", None).await.unwrap().token.unwrap();
        let offered = OfferedPayment::Credit(CreditOffer { token, idempotency_key: Some("a-key".to_owned()), observer: None });
        Self { terms: CallTerms { settle: SettleTime::Before, ..CallTerms::clone(&live.terms) }, offered }
    }

    async fn admit(&self, fixture: &Fixture) -> Admit {
        fixture.payments.admit(&self.terms, self.offered.clone(), "a request").await.unwrap()
    }

    /// Charges it, and begins its first run.
    async fn charge(&self, fixture: &Fixture) -> OwedRun {
        let Admit::Run(admission) = self.admit(fixture).await else { panic!("not admitted") };
        let draft = receipt::ReceiptDraft {
            receipt_id: ReceiptId::generate(),
            slug: self.terms.slug.clone(),
            endpoint_id: self.terms.endpoint_id.clone(),
            version: self.terms.version.clone(),
            price_usd: self.terms.price,
            quote_id: None,
            max_price_usd: None,
            owner: false,
            resource_url: self.terms.resource_url.clone(),
            request_hash: String::new(),
            result_hash: String::new(),
            streamed: false,
            settle: SettleTime::Before,
            started_at: NOW,
            issued_at: NOW,
        };
        let (call, owner, fee) = (CallId::generate(), fixture.owner.clone(), MicroUsd::ZERO);
        let closing = ReceiptFinisher::encode(&ReceiptContext { receipt: draft, call, owner, fee, registered: None });
        fixture.payments.settle_before(admission, &closing).await.unwrap()
    }

    /// Begins another run.
    async fn again(&self, fixture: &Fixture) -> OwedRun {
        let Admit::Seen(SeenPayment::Owed(owed)) = self.admit(fixture).await else { panic!("nothing is owed") };
        fixture.payments.resume(owed, &self.terms, PaymentRequest::from("a request")).await.unwrap().expect("nobody was faster")
    }
}

/// Joins the run as a request at another host does, while `ends` ends it.
async fn join_from_elsewhere<T>(fixture: &Fixture, payment: &PaymentId, ends: impl Future<Output = T>) -> (JoinEnd, T) {
    let later = async {
        tokio::time::sleep(Duration::from_millis(50)).await;
        ends.await
    };
    let in_flight = InFlight::new(LIMITS);
    tokio::time::timeout(LONG, async { tokio::join!(in_flight.join(&fixture.payments, payment, &WAITER, LONG), later) }).await.unwrap()
}

/// Regression test: each request that had joined at another host began its own run, until the payment had no runs left.
#[tokio::test(start_paused = true)]
async fn request_that_joined_an_owed_run_at_another_host_shares_its_failure() {
    let fixture = Fixture::new().await;
    let live = fixture.tool(0.01).await;
    let upfront = Upfront::of(&fixture, &live).await;
    for remaining in [9, 8] {
        let run = if remaining == 9 { upfront.charge(&fixture).await } else { upfront.again(&fixture).await };
        let payment = run.payment().clone();
        let (ended, reported) = join_from_elsewhere(&fixture, &payment, run.fail(true)).await;
        let error = shared(ended).unwrap_err();
        let CallError::PaidRunFailed(failure) = &*error else { panic!("{error:?}") };
        assert_eq!((&failure.unanswered, failure.cause.is_none(), reported.runs_left), (&reported, true, remaining));
    }
    // A run that its host had no room for is left to the request that waited for it.
    let run = upfront.again(&fixture).await;
    let payment = run.payment().clone();
    let (ended, reported) = join_from_elsewhere(&fixture, &payment, run.fail(false)).await;
    assert!(matches!(ended, JoinEnd::Abandoned), "{ended:?}");
    assert_eq!(reported.runs_left, 8, "neither of them has run");
}

fn shared(ended: JoinEnd) -> SharedResult {
    match ended {
        JoinEnd::Shared(ended) => ended,
        JoinEnd::Abandoned => panic!("it was abandoned"),
    }
}

/// Regression test: a request that came after the last one had left and before the payment was released got the answer
/// that somebody else had canceled the call.
#[tokio::test]
async fn caller_that_comes_while_a_canceled_call_ends_gets_a_run_of_its_own() {
    let fixture = Fixture::new().await;
    let live = fixture.tool(0.01).await;
    let Ok(Admit::Run(admission)) = fixture.payments.admit(&live.terms, pays(1), "a request").await else { panic!("not admitted") };
    let (in_flight, payment) = (InFlight::new(LIMITS), admission.id().clone());
    let tracked = in_flight.track(&payment);
    // Nobody has joined, so it is stopped.
    tokio::time::timeout(LONG, in_flight.abandoned(&payment)).await.unwrap();
    let late = in_flight.join(&fixture.payments, &payment, &WAITER, LONG);
    let ends = async {
        tokio::task::yield_now().await;
        admission.fail().await;
        _ = tracked.end(Err(Arc::new(CallError::Cancelled)));
    };
    let (late, ()) = tokio::time::timeout(LONG, async { tokio::join!(late, ends) }).await.unwrap();
    assert!(matches!(late, JoinEnd::Abandoned), "{late:?}");
    assert!(matches!(fixture.payments.admit(&live.terms, pays(1), "a request").await, Ok(Admit::Run(_))));
}

/// A call that completes although nobody waits for it is shared like any other.
#[tokio::test]
async fn end_of_a_call_that_settled_all_the_same_is_shared() {
    let fixture = Fixture::new().await;
    let in_flight = InFlight::new(LIMITS);
    let payment = PaymentId::of(&["a", "test"]);
    let tracked = in_flight.track(&payment);
    tokio::time::timeout(LONG, in_flight.abandoned(&payment)).await.unwrap();
    let ends = async {
        tokio::task::yield_now().await;
        _ = tracked.end(Err(Arc::new(CallError::SettlementUnknown(payment.clone()))));
    };
    let (late, ()) = tokio::join!(in_flight.join(&fixture.payments, &payment, &WAITER, LONG), ends);
    assert!(matches!(shared(late).as_ref().map_err(|error| &**error), Err(CallError::SettlementUnknown(_))));
}

/// Regression test: about a third of them got the error that 0.01 USD of credit does not pay for a call of 0.01 USD.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn identical_calls_with_one_key_share_one_run_that_takes_all_of_the_credit() {
    let fixture = Arc::new(Fixture::new().await);
    let live = fixture.tool(0.01).await;
    for round in 0..40 {
        let token = fixture.payments.credits().mint(MicroUsd(10_000), "a test", None).await.unwrap().token.unwrap();
        let calls: Vec<_> = (0..12)
            .map(|_| {
                let credit = CreditOffer { token: token.clone(), idempotency_key: Some(format!("round-{round}")), observer: None };
                let (fixture, live) = (Arc::clone(&fixture), Arc::clone(&live));
                tokio::spawn(async move { fixture.perform(&live, OfferedPayment::Credit(credit)).await })
            })
            .collect();
        let mut receipts = vec![];
        for call in calls {
            let done = call.await.unwrap();
            receipts.push(done.unwrap_or_else(|error| panic!("round {round}: {error}")).answer.receipt_id.clone());
        }
        receipts.dedup();
        assert_eq!(receipts.len(), 1, "round {round}");
    }
    assert_eq!(fixture.records(&live).await.len(), 40);
}

#[tokio::test]
async fn a_canceled_call_continues_for_those_who_joined_it() {
    let in_flight = InFlight::new(LIMITS);
    let payment = PaymentId::of(&["a", "test"]);
    let tracked = in_flight.track(&payment);
    let joined = in_flight.calls.lock().get(&payment).map(|call| call.end.subscribe()).unwrap();
    let remaining = in_flight.abandoned(&payment);
    tokio::pin!(remaining);
    assert!(tokio::time::timeout(Duration::from_millis(50), &mut remaining).await.is_err(), "somebody waits for it");
    drop(joined);
    tokio::time::timeout(LONG, remaining).await.unwrap();
    // Admitted again, the payment has another call, which the first one must not remove.
    let again = in_flight.track(&payment);
    drop(tracked);
    assert_eq!(in_flight.calls.lock().len(), 1);
    drop(again);
    assert_eq!(in_flight.calls.lock().len(), 0);
}

#[tokio::test]
async fn running_calls_are_awaited_up_to_the_limit() {
    let fixture = Fixture::new().await;
    let (go, removed) = tokio::sync::oneshot::channel::<()>();
    let in_flight = fixture.calls.detached(|_| async move {
        _ = removed.await;
        Ok(())
    });
    assert!(!fixture.calls.drain(Duration::from_millis(20)).await);
    go.send(()).unwrap();
    in_flight.await.unwrap();
    assert!(fixture.calls.drain(LONG).await);
}

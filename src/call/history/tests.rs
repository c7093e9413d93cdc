use tollhouse_base::id::CallId;
use tollhouse_event::feed::Position as _;
use tollhouse_money::receipt;
use tollhouse_store::{
    Durability,
    memory::MemoryStore,
    sweep_cursor::TURN,
    test_wrappers::{CountingStore, InterleavingStore},
};
use tollhouse_tool::MicroUsd;

use super::*;

const NOW: Timestamp = Timestamp(1_800_000_000_000);
const DAY: u64 = 24 * 3_600_000;

struct Fixture {
    store: Arc<dyn Store>,
    clock: Clock,
    history: Arc<History>,
}

impl Fixture {
    fn keeping(count: u64) -> Self {
        Self::of(Arc::new(MemoryStore::new()), count)
    }

    fn of(store: Arc<dyn Store>, count: u64) -> Self {
        let clock = Clock::fixed(NOW);
        let settings = HistorySettings { count, ..HistorySettings::default() };
        let history = History::new(Arc::clone(&store), clock.clone(), settings);
        Self { store, clock, history }
    }

    /// Stores a batch as calls do.
    async fn add(&self, calls: &[(&EndpointId, CallRecord)]) {
        let calls = calls.iter().map(|(endpoint, call)| ((*endpoint).clone(), call.clone())).collect();
        let (batch, chapters) = History::stored(calls);
        batch.commit(&*self.store, Durability::Buffered).await.unwrap();
        self.history.announce(chapters);
    }

    async fn list(&self, endpoint: &EndpointId, query: &CallQuery) -> Vec<CallRecord> {
        let (mut all, mut query) = (vec![], query.clone());
        loop {
            let page = self.history.list(endpoint, &query).await.unwrap();
            assert!(page.calls.len() <= query.limit);
            all.extend(page.calls);
            query.cursor = page.next;
            if query.cursor.is_none() {
                return all;
            }
        }
    }

    async fn packs(&self) -> usize {
        CALLS.count(&*self.store, &CALLS.all(), 100_000).await.unwrap()
    }
}

fn call(at: Timestamp, code: Option<&str>) -> CallRecord {
    CallRecord {
        call_id: CallId::generate(),
        at,
        kind: tollhouse_api::CallKind::Request,
        schedule: None,
        outcome: if code.is_some() { CallOutcome::Failed } else { CallOutcome::Succeeded },
        code: code.map(str::to_owned),
        error: None,
        thrown_at: vec![],
        charged: Charge::No,
        price_usd: MicroUsd(1_500),
        owner: false,
        payment: receipt::PaymentKind::X402,
        duration_ms: 1.25,
        cpu_ms: Some(0.5),
        tier: None,
        cold: None,
        input_bytes: 17,
        receipt_id: None,
        version: "sha256:abc".to_owned(),
        method: Some("POST".to_owned()),
        status: None,
    }
}

fn all(limit: usize) -> CallQuery {
    CallQuery { limit, ..CallQuery::default() }
}

#[tokio::test]
async fn calls_of_one_hour_that_are_written_together_lie_in_one_pack() {
    let (fixture, endpoint) = (Fixture::keeping(1_000), EndpointId::generate());
    let calls = [0, 1, 1_800_000, 3_599_999, 3_600_000].map(|later| (&endpoint, call(NOW.plus_millis(later), None)));
    fixture.add(&calls).await;
    assert_eq!((NOW.0 % 3_600_000, fixture.packs().await), (0, 2));
}

#[tokio::test]
async fn calls_are_paged_newest_first_and_followed_oldest_first() {
    let fixture = Fixture::keeping(1_000);
    let (endpoint, other) = (EndpointId::generate(), EndpointId::generate());
    let mut listed = vec![];
    for batch in 0..10 {
        let some: Vec<_> =
            (0..30).map(|n| call(Timestamp(NOW.0 - 10_000 + batch * 100 + n), (n % 3 == 0).then_some("handler_failed"))).collect();
        let mixed: Vec<_> = some.iter().map(|call| (&endpoint, call.clone())).chain([(&other, call(NOW, None))]).collect();
        fixture.add(&mixed).await;
        listed.extend(some);
    }
    let newest_first: Vec<_> = listed.iter().rev().cloned().collect();
    for limit in [1, 7, 30, 1_000] {
        assert_eq!(fixture.list(&endpoint, &all(limit)).await, newest_first, "{limit} at a time");
    }
    assert_eq!(fixture.list(&other, &all(50)).await.len(), 10);
    let failed = |ending| CallQuery { ending: Some(ending), ..all(7) };
    let requested: Vec<_> = newest_first.iter().filter(|call| call.outcome == CallOutcome::Failed).cloned().collect();
    assert_eq!(fixture.list(&endpoint, &failed(OutcomeFilter::As(CallOutcome::Failed))).await, requested);
    assert_eq!(fixture.list(&endpoint, &failed(OutcomeFilter::With("handler_failed".to_owned()))).await, requested);
    assert_eq!(fixture.list(&endpoint, &failed(OutcomeFilter::With("busy".to_owned()))).await, []);
    let since = CallQuery { since: Some(listed[45].at), ..all(7) };
    assert_eq!(fixture.list(&endpoint, &since).await, newest_first[..255]);
    let until = CallQuery { until: Some(listed[45].at), ..since };
    assert_eq!(fixture.list(&endpoint, &until).await, []);
    let until = CallQuery { until: Some(listed[60].at), ..until };
    assert_eq!(fixture.list(&endpoint, &until).await, newest_first[240..255]);
    // Following from any call on works across packs.
    let mut position = CallPosition::start_of(Timestamp(0));
    let mut followed = vec![];
    loop {
        let some = fixture.history.after(&endpoint, &position, 7).await.unwrap();
        let Some(last) = some.last() else { break };
        position = CallPosition::from_cursor(&last.position.to_cursor()).unwrap();
        followed.extend(some.into_iter().map(|placed| placed.call));
    }
    assert_eq!(followed, listed);
}

/// As after a long outage of the store.
#[tokio::test]
async fn calls_of_hours_that_are_written_together_are_found_by_their_time() {
    let fixture = Fixture::keeping(100_000);
    let endpoint = EndpointId::generate();
    let some: Vec<_> = (0..200).map(|n| call(Timestamp(NOW.0 - n * 600_000), None)).collect();
    fixture.add(&some.iter().map(|call| (&endpoint, call.clone())).collect::<Vec<_>>()).await;
    for (from, to) in [(0, 200), (0, 1), (7, 8), (30, 50), (199, 200)] {
        let (since, until) = (Some(some[to - 1].at), Some(some[from].at.plus_millis(1)));
        let found = fixture.list(&endpoint, &CallQuery { since, until, ..all(7) }).await;
        assert_eq!(found, some[from..to], "{from} to {to}");
    }
}

#[tokio::test]
async fn a_call_is_reported_live_at_the_place_where_it_is_stored() {
    let fixture = Fixture::keeping(1_000);
    let endpoint = EndpointId::generate();
    let mut follower = fixture.history.follow(&endpoint).unwrap();
    let one = call(NOW, None);
    fixture.add(&[(&endpoint, one.clone()), (&endpoint, call(NOW, None))]).await;
    let Some(tollhouse_event::feed::FeedItem::Entry(reported)) = follower.next().await else { panic!("no event came") };
    assert_eq!(reported.call, one);
    assert_eq!(fixture.history.after(&endpoint, &reported.position, 10).await.unwrap().len(), 1);
}

#[tokio::test]
async fn endpoint_keeps_its_last_calls_regardless_of_others() {
    let fixture = Fixture::keeping(100);
    let (busy, quiet) = (EndpointId::generate(), EndpointId::generate());
    fixture.add(&[(&quiet, call(NOW, None))]).await;
    let mut last = vec![];
    for batch in 0..20 {
        let some: Vec<_> = (0..25).map(|_| call(Timestamp(NOW.0 - 1_000 + batch), None)).collect();
        fixture.add(&some.iter().map(|call| (&busy, call.clone())).collect::<Vec<_>>()).await;
        last.extend(some);
    }
    fixture.history.trim().await.unwrap();
    let remaining = fixture.list(&busy, &all(50)).await;
    assert!((100..115).contains(&remaining.len()), "{}", remaining.len());
    assert!(remaining.iter().rev().eq(&last[last.len() - remaining.len()..]), "the newest are left");
    assert_eq!(fixture.list(&quiet, &all(50)).await.len(), 1);
    // From here on they are counted as they come. A tenth more triggers no trim.
    let packs = fixture.packs().await;
    fixture.add(&[(&busy, call(NOW, None))]).await;
    fixture.history.trim().await.unwrap();
    assert_eq!(fixture.packs().await, packs + 1);
}

#[tokio::test]
async fn calls_removed_by_another_host_are_not_removed_again() {
    let store: Arc<dyn Store> = Arc::new(MemoryStore::shared(Clock::fixed(NOW)));
    let [one, other] = [(); 2].map(|()| Fixture::of(Arc::clone(&store), 100));
    let endpoint = EndpointId::generate();
    let add = async |fixture: &Fixture, from: u64, count: u64| {
        for at in from..from + count {
            fixture.add(&[(&endpoint, call(Timestamp(NOW.0 - 1_000 + at), None))]).await;
        }
    };
    add(&one, 0, 120).await;
    one.history.trim().await.unwrap();
    add(&one, 120, 11).await;
    // To this host they are all new, and it counts them.
    add(&other, 131, 1).await;
    other.history.trim().await.unwrap();
    assert_eq!(one.packs().await, 100);
    one.history.trim().await.unwrap();
    assert_eq!(one.packs().await, 100);
}

#[tokio::test]
async fn two_hosts_that_remove_at_once_remove_as_many_as_one() {
    let inner = Arc::new(MemoryStore::shared(Clock::fixed(NOW)));
    let one = Fixture::of(Arc::clone(&inner) as _, 100);
    let endpoint = EndpointId::generate();
    for at in 0..120 {
        one.add(&[(&endpoint, call(Timestamp(NOW.0 - 1_000 + at), None))]).await;
    }
    let history = Arc::clone(&one.history);
    let meanwhile = async move { history.trim().await.unwrap() };
    // By the fourth scan, the other host has read the first call and counted all of them.
    let other = Fixture::of(InterleavingStore::before_scan(4, Arc::clone(&inner), meanwhile), 100);
    other.add(&[(&endpoint, call(NOW, None))]).await;
    other.history.trim().await.unwrap();
    assert_eq!(one.packs().await, 100);
}

#[tokio::test]
async fn calls_are_removed_once_there_are_a_tenth_too_many_and_down_to_the_count() {
    // Batches of this many calls, and how many are left after each: packs are deleted whole.
    let oldest_is_large = [(25, 25), (75, 100), (10, 110), (15, 100), (11, 111)];
    let oldest_is_small = [(5, 5), (95, 100), (10, 110), (1, 106)];
    for batches in [&oldest_is_large[..], &oldest_is_small] {
        let fixture = Fixture::keeping(100);
        let endpoint = EndpointId::generate();
        for (at, (count, remaining)) in (NOW.0 - 100..).zip(batches) {
            fixture.add(&vec![(&endpoint, call(Timestamp(at), None)); *count]).await;
            fixture.history.trim().await.unwrap();
            assert_eq!(fixture.list(&endpoint, &all(50)).await.len(), *remaining, "after {count} more of {batches:?}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn excess_calls_are_removed_automatically_once_started() {
    let fixture = Fixture::keeping(1);
    let endpoint = EndpointId::generate();
    fixture.history.start();
    // The task begins with the old calls, and counts again afterwards.
    tokio::time::sleep(std::time::Duration::from_millis(100)).await;
    for at in 0..3 {
        fixture.add(&[(&endpoint, call(Timestamp(NOW.0 - 10 + at), None))]).await;
    }
    let removed = async {
        while fixture.packs().await > 1 {
            tokio::time::sleep(std::time::Duration::from_millis(20)).await;
        }
    };
    tokio::time::timeout(std::time::Duration::from_secs(10), removed).await.unwrap();
}

#[tokio::test]
async fn one_read_shows_as_many_as_are_asked_for_and_looks_at_a_bounded_number() {
    let fixture = Fixture::keeping(10_000);
    let endpoint = EndpointId::generate();
    for at in 0..101 {
        fixture.add(&vec![(&endpoint, call(Timestamp(NOW.0 - 1_000 + at), None)); 50]).await;
    }
    let read = async |query: &CallQuery| fixture.history.list(&endpoint, query).await.unwrap();
    for limit in [1, 50, 51, 4_999] {
        let page = read(&all(limit)).await;
        assert_eq!((page.calls.len(), page.next.is_some()), (limit, true));
    }
    // None of these matches, but the next position is returned.
    let failed = CallQuery { ending: Some(OutcomeFilter::As(CallOutcome::Failed)), ..all(10) };
    let page = read(&failed).await;
    assert_eq!((page.calls.len(), page.next.as_ref().map(|next| next.at())), (0, Some(Timestamp(NOW.0 - 999))));
    let rest = read(&CallQuery { cursor: page.next, ..all(100) }).await;
    assert_eq!((rest.calls.len(), rest.next), (50, None));
    for limit in [1, 50, 51, 4_999, 5_050] {
        let after = fixture.history.after(&endpoint, &CallPosition::start_of(Timestamp(0)), limit).await.unwrap();
        assert_eq!(after.len(), limit);
    }
}

#[tokio::test]
async fn a_call_that_is_too_old_is_not_shown_for_the_sake_of_a_younger_one() {
    let fixture = Fixture::keeping(100);
    let endpoint = EndpointId::generate();
    let young = call(NOW.plus_millis(DAY), None);
    fixture.add(&[(&endpoint, call(NOW, None)), (&endpoint, young.clone())]).await;
    fixture.clock.set(NOW.plus_millis(30 * DAY + 1));
    assert_eq!(fixture.list(&endpoint, &all(50)).await, [young]);
}

#[test]
fn an_ending_is_an_outcome_or_a_code() {
    let ending = |text: &str| OutcomeFilter::try_from(text.to_owned());
    assert_eq!(ending("succeeded"), Ok(OutcomeFilter::As(CallOutcome::Succeeded)));
    assert_eq!(ending("failed"), Ok(OutcomeFilter::As(CallOutcome::Failed)));
    assert_eq!(ending("handler_failed"), Ok(OutcomeFilter::With("handler_failed".to_owned())));
    for none in ["", "Failed", "handler failed", "handler-failed", "busy!"] {
        assert!(ending(none).is_err(), "{none}");
    }
}

#[tokio::test]
async fn old_calls_go_and_are_not_shown_before_they_do() {
    let fixture = Fixture::keeping(100);
    let endpoint = EndpointId::generate();
    fixture.add(&[(&endpoint, call(NOW, None))]).await;
    fixture.add(&[(&endpoint, call(NOW.plus_millis(DAY), None))]).await;
    fixture.clock.set(NOW.plus_millis(30 * DAY + 1));
    assert_eq!(fixture.list(&endpoint, &all(50)).await.len(), 1);
    assert_eq!(fixture.packs().await, 2);
    fixture.history.sweep().await.unwrap();
    assert_eq!(fixture.packs().await, 1);
}

#[tokio::test]
async fn a_sweep_reads_no_more_than_a_turn_however_many_endpoints_have_nothing_to_remove() {
    let (store, clock) = (CountingStore::of(MemoryStore::new()), Clock::fixed(NOW));
    let history = History::new(Arc::clone(&store) as _, clock.clone(), HistorySettings::default());
    let mut endpoints: Vec<_> = (0..TURN + 20).map(|_| EndpointId::generate()).collect();
    endpoints.sort();
    let later = NOW.plus_millis(30 * DAY + 1);
    let calls = [(endpoints.last().unwrap().clone(), call(NOW, None))].into_iter();
    let calls = calls.chain(endpoints.iter().map(|endpoint| (endpoint.clone(), call(later, None))));
    History::stored(calls.collect()).0.commit(&*store, Durability::Buffered).await.unwrap();
    clock.set(later);
    store.rows();
    history.sweep().await.unwrap();
    assert!(store.rows() <= TURN + 1);
    assert_eq!(CALLS.count(&*store, &CALLS.all(), usize::MAX).await.unwrap(), endpoints.len() + 1, "old calls are on later pages");
    history.sweep().await.unwrap();
    assert_eq!(CALLS.count(&*store, &CALLS.all(), usize::MAX).await.unwrap(), endpoints.len());
}

#[test]
fn a_record_holds_nothing_of_the_caller() {
    let shown = serde_json::to_value(call(NOW, Some("busy"))).unwrap();
    let mut names: Vec<_> = shown.as_object().unwrap().keys().cloned().collect();
    names.sort();
    let expected =
        ["at", "callId", "charged", "code", "cpuMs", "durationMs", "inputBytes", "method", "outcome", "payment", "priceUsd", "version"];
    assert_eq!(names, expected);
    assert_eq!((&shown["charged"], &shown["priceUsd"], &shown["payment"]), (&false.into(), &0.0015.into(), &"x402".into()));
}

use super::*;
use tollhouse_base::id::{BuilderId, RequestId};
use tollhouse_store::{
    Direction,
    faulty::{Fault, FaultyStore},
    memory::MemoryStore,
    test_wrappers::InterleavingStore,
};

const DAY: u64 = 24 * 3_600 * 1_000;
const FEW: AuditSettings = AuditSettings { count: 3, age_ms: 400 * DAY };

fn action(actor: Actor, slug: Option<&str>) -> Action {
    Action {
        actor,
        method: "PATCH".to_owned(),
        path: "/ai/endpoints/a-tool".to_owned(),
        slug: slug.map(|slug| slug.parse().unwrap()),
        builder_id: None,
        subject: slug.map(str::to_owned),
        request_id: RequestId::generate(),
        fields: vec!["priceUsd".to_owned()],
    }
}

#[tokio::test]
async fn entries_are_read_newest_first_by_actor_and_endpoint() {
    let clock = Clock::fixed(Timestamp(1_000 * DAY));
    let audit = Audit::new(Arc::new(MemoryStore::new()), clock.clone(), AuditSettings::default());
    let builders = [BuilderId::generate(), BuilderId::generate()];
    for n in 0..600_u64 {
        clock.set(Timestamp(1_000 * DAY + n));
        let actor = match n % 3 {
            0 => Actor::Admin,
            other => Actor::Builder { builder_id: builders[usize::try_from(other - 1).unwrap()].clone() },
        };
        let entry = audit.begin(action(actor, (n % 2 == 0).then_some("a-tool"))).await.unwrap();
        if n % 5 != 0 {
            audit.end(entry, 200, None).await.unwrap();
        }
    }
    let read = async |by: Option<Actor>, slug: Option<&str>, since: Option<u64>| {
        let slug = slug.map(|slug| slug.parse().unwrap());
        let mut query = AuditQuery { by, slug, since: since.map(|n| Timestamp(1_000 * DAY + n)), limit: 7, before: None };
        let mut all = vec![];
        loop {
            let page = audit.list(&query).await.unwrap();
            assert!(page.entries.len() <= 7);
            all.extend(page.entries.iter().map(|entry| entry.at.0 - 1_000 * DAY));
            match page.next {
                Some(next) => query.before = Some(next),
                None => return all,
            }
        }
    };
    let expected = |requested: fn(u64) -> bool| (0..600).rev().filter(|n| requested(*n)).collect::<Vec<u64>>();
    assert_eq!(read(None, None, None).await, expected(|_| true));
    assert_eq!(read(Some(Actor::Admin), None, None).await, expected(|n| n % 3 == 0));
    assert_eq!(
        read(Some(Actor::Builder { builder_id: builders[1].clone() }), Some("a-tool"), None).await,
        expected(|n| n % 3 == 2 && n % 2 == 0)
    );
    assert_eq!(read(None, Some("a-tool"), Some(500)).await, expected(|n| n % 2 == 0 && n >= 500));
    assert!(read(None, Some("other-tool"), None).await.is_empty());
    let page = audit.list(&AuditQuery { limit: 200, ..AuditQuery::default() }).await.unwrap();
    assert!(page.entries.iter().all(|entry| entry.outcome.is_none() == (entry.at.0 % 5 == 1_000 * DAY % 5)));
}

#[tokio::test]
async fn old_entries_are_not_shown_and_are_removed() {
    let (store, clock) = (Arc::new(MemoryStore::new()), Clock::fixed(Timestamp(1_000 * DAY)));
    let audit = Audit::new(Arc::clone(&store) as _, clock.clone(), AuditSettings::default());
    for day in [1_000, 1_001, 1_400, 1_401] {
        clock.set(Timestamp(day * DAY));
        audit.begin(action(Actor::Admin, None)).await.unwrap();
    }
    let days = async || {
        let page = audit.list(&AuditQuery { limit: 50, ..AuditQuery::default() }).await.unwrap();
        page.entries.iter().map(|entry| entry.at.0 / DAY).collect::<Vec<_>>()
    };
    assert_eq!(days().await, [1_401, 1_400, 1_001]);
    audit.sweep().await.unwrap();
    let remaining = AUDIT.count(&*store, &AUDIT.all(), 50).await.unwrap();
    assert_eq!((remaining, days().await.len()), (3, 3));
}

#[tokio::test]
async fn newest_entries_stay_when_there_are_too_many() {
    let (store, clock) = (Arc::new(MemoryStore::new()), Clock::fixed(Timestamp(1_000 * DAY)));
    let audit = Audit::new(Arc::clone(&store) as _, clock.clone(), FEW);
    for n in 0..3_000 {
        clock.set(Timestamp(1_000 * DAY + n));
        audit.begin(action(Actor::Admin, None)).await.unwrap();
    }
    audit.sweep().await.unwrap();
    let page = audit.list(&AuditQuery { limit: 50, ..AuditQuery::default() }).await.unwrap();
    assert_eq!(page.entries.iter().map(|entry| entry.at.0 - 1_000 * DAY).collect::<Vec<_>>(), [2_999, 2_998, 2_997]);
    assert_eq!(AUDIT.count(&*store, &AUDIT.all(), 50).await.unwrap(), 3);
    audit.sweep().await.unwrap();
    assert_eq!(AUDIT.count(&*store, &AUDIT.all(), 50).await.unwrap(), 3);
}

#[tokio::test]
async fn concurrent_sweeps_remove_as_many_as_one() {
    let (inner, clock) = (Arc::new(MemoryStore::shared(Clock::default())), Clock::fixed(Timestamp(1_000 * DAY)));
    let one = Audit::new(Arc::clone(&inner) as _, clock.clone(), FEW);
    for n in 0..10 {
        clock.set(Timestamp(1_000 * DAY + n));
        one.begin(action(Actor::Admin, None)).await.unwrap();
    }
    let meanwhile = async move { one.sweep().await.unwrap() };
    // By the fourth scan, the other host has searched for old entries and counted all: one page and an empty one.
    let other = Audit::new(InterleavingStore::before_scan(4, Arc::clone(&inner), meanwhile), clock, FEW);
    other.sweep().await.unwrap();
    assert_eq!(AUDIT.count(&*inner, &AUDIT.all(), 50).await.unwrap(), 3);
}

#[tokio::test]
async fn busy_actor_does_not_evict_entries_of_others() {
    let (store, clock) = (Arc::new(MemoryStore::new()), Clock::fixed(Timestamp(1_000 * DAY)));
    let audit = Audit::new(Arc::clone(&store) as _, clock.clone(), AuditSettings { count: 1_000, ..FEW });
    let busy = Actor::Builder { builder_id: BuilderId::generate() };
    for n in 0..3_000 {
        clock.set(Timestamp(1_000 * DAY + n));
        audit.begin(action(if n % 10 == 0 { Actor::Admin } else { busy.clone() }, None)).await.unwrap();
    }
    audit.sweep().await.unwrap();
    let rows = AUDIT.page(&*store, &AUDIT.all(), 10_000, Direction::Forward).await.unwrap();
    let (admins, busy): (Vec<_>, Vec<_>) = rows.iter().partition(|row| row.value.action.actor == Actor::Admin);
    assert_eq!((admins.len(), busy.len()), (300, 700));
    assert!(busy.iter().all(|row| row.value.at.0 > 1_000 * DAY + 2_200), "the newest stay");
}

#[tokio::test]
async fn action_does_not_begin_if_its_entry_is_not_stored() {
    let store = Arc::new(FaultyStore::new(MemoryStore::new()));
    let audit = Audit::new(Arc::clone(&store) as _, Clock::fixed(Timestamp(DAY)), AuditSettings::default());
    store.fail_nth(1, Fault::Before);
    assert!(audit.begin(action(Actor::Admin, None)).await.is_err());
    let entry = audit.begin(action(Actor::Admin, None)).await.unwrap();
    store.fail_nth(1, Fault::Lost);
    assert!(audit.end(entry.clone(), 200, None).await.is_err());
    let page = audit.list(&AuditQuery { limit: 50, ..AuditQuery::default() }).await.unwrap();
    assert_eq!(page.entries, [entry], "an action that has no end is still known to have begun");
}

#[test]
fn shares_are_equal_after_unused_parts_are_divided() {
    let of = |has: &[(&'static str, u64)], max| {
        let has = has.iter().copied().collect();
        let mut beyond: Vec<_> = beyond(&has, max).into_iter().map(|(who, more)| (*who, more)).collect();
        beyond.sort_unstable();
        beyond
    };
    assert_eq!(of(&[], 10), []);
    assert_eq!(of(&[("a", 10)], 10), []);
    assert_eq!(of(&[("a", 13)], 10), [("a", 3)]);
    assert_eq!(of(&[("a", 2), ("b", 8)], 10), []);
    assert_eq!(of(&[("a", 2), ("b", 100)], 10), [("b", 92)]);
    assert_eq!(of(&[("a", 2), ("b", 6), ("c", 7)], 10), [("b", 2), ("c", 3)]);
    assert_eq!(of(&[("a", 5), ("b", 5), ("c", 5)], 10), [("a", 2), ("b", 2), ("c", 2)]);
    assert_eq!(of(&[("a", 1), ("b", 1)], 0), [("a", 1), ("b", 1)]);
}

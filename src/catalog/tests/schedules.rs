//! Schedules: one host claims each run, in order, and none is done twice.

use tollhouse_base::id::{CallId, EndpointId};
use tollhouse_store::{Space, Write};

use super::{follow::receives, *};
use crate::schedule_check::{check_export, problems};

/// 2027-01-15, 08:00 UTC, the time of the hosts.
const EIGHT: Timestamp = Timestamp(1_800_000_000_000);

fn at(hours: u64, minutes: u64, seconds: u64) -> Timestamp {
    EIGHT.plus_millis((((hours - 8) * 60 + minutes) * 60 + seconds) * 1_000)
}

/// Creates two hosts of one store that know the tool `ticks`, which has these schedules.
async fn two_hosts(crons: &[&str]) -> (Arc<Catalog>, Arc<Catalog>, EndpointId, [tempfile::TempDir; 2]) {
    let store: Arc<dyn Store> = Arc::new(MemoryStore::shared(Clock::fixed(EIGHT)));
    let ((one, folder), (other, too)) = (catalog_of(Arc::clone(&store)).await, catalog_of(store).await);
    let id = scheduled(&one, "ticks", Owner::Platform, crons).await.unwrap();
    receives(&other).await;
    (one, other, id, [folder, too])
}

/// Publishes a tool with these schedules. Its answer is fixed, because there is no worker.
async fn scheduled(catalog: &Catalog, slug: &str, owner: Owner, crons: &[&str]) -> Result<EndpointId, PublishError> {
    let live = catalog.create(draft(slug), owner, ChangedBy::Admin).await.unwrap();
    reschedule(catalog, &live.endpoint, crons).await.map(|()| live.endpoint.id.clone())
}

async fn reschedule(catalog: &Catalog, endpoint: &Endpoint, crons: &[&str]) -> Result<(), PublishError> {
    let with = Endpoint { schedules: crons.iter().map(|cron| (*cron).to_owned()).collect(), ..endpoint.clone() };
    let rows = catalog.schedule_rows(Some(endpoint), Some(&with)).await?;
    rows.commit(&*catalog.store, Durability::Durable).await.unwrap();
    Ok(())
}

async fn turn(catalog: &Catalog, id: &EndpointId, now: Timestamp) -> ScheduleTurn {
    catalog.claim_schedule(id, &CallId::generate(), now).await.unwrap()
}

/// Claims a run, and returns its call, expression and time.
async fn begin(catalog: &Catalog, id: &EndpointId, now: Timestamp) -> Option<(CallId, String, Timestamp)> {
    let turn = turn(catalog, id, now).await;
    assert!(turn.lost.is_none());
    turn.run.map(|(claim, _)| (claim.call, claim.cron, claim.at))
}

/// Runs once, and returns the expression and its time.
async fn run(catalog: &Catalog, id: &EndpointId, now: Timestamp) -> Option<(String, Timestamp)> {
    let (call, cron, at) = begin(catalog, id, now).await?;
    assert_eq!(catalog.finish_schedule(id, &call, false).await.unwrap(), 0);
    Some((cron, at))
}

async fn due(catalog: &Catalog, now: Timestamp) -> Vec<EndpointId> {
    let (mut due, mut found) = (catalog.due_schedules(now), vec![]);
    while let Some(page) = due.next().await.unwrap() {
        found.extend(page.into_iter().map(|due| due.endpoint));
    }
    found
}

#[tokio::test]
async fn two_hosts_run_each_occurrence_once() {
    let (one, other, id, _folders) = two_hosts(&["*/5 * * * *"]).await;
    assert_eq!(due(&one, at(8, 4, 59)).await, []);
    assert!(begin(&one, &id, at(8, 4, 59)).await.is_none());
    for minute in [5, 10, 15] {
        let now = at(8, minute, 0);
        assert_eq!(due(&other, now).await, std::slice::from_ref(&id));
        let (first, second) = tokio::join!(begin(&one, &id, now), begin(&other, &id, now));
        let (call, _, time) = first.as_ref().xor(second.as_ref()).expect("one of them").clone();
        assert_eq!(time, now);
        // Until it has ended, nobody looks at the tool.
        assert_eq!(due(&other, at(8, minute, 30)).await, []);
        assert!(begin(&other, &id, at(8, minute, 30)).await.is_none());
        assert_eq!(other.finish_schedule(&id, &call, true).await.unwrap(), u32::try_from(minute / 5).unwrap());
        assert!(begin(&other, &id, at(8, minute, 31)).await.is_none());
    }
    let (call, ..) = begin(&one, &id, at(8, 20, 0)).await.unwrap();
    assert_eq!(one.finish_schedule(&id, &call, false).await.unwrap(), 0, "a success ends the row of failures");
}

#[tokio::test]
async fn run_of_a_host_that_ended_is_reported_and_not_repeated() {
    let (one, other, id, _folders) = two_hosts(&["*/5 * * * *"]).await;
    let (call, ..) = begin(&one, &id, at(8, 5, 0)).await.unwrap();
    // The host is killed here. After the time of a call, the other host finds its claim.
    let found = turn(&other, &id, at(8, 6, 30)).await;
    let (lost, live) = found.lost.unwrap();
    assert_eq!((&lost.call, lost.at, live.endpoint.slug.as_str()), (&call, at(8, 5, 0), "ticks"));
    assert!(found.run.is_none(), "8:05 is not repeated");
    assert_eq!(run(&other, &id, at(8, 10, 0)).await.map(|(_, time)| time), Some(at(8, 10, 0)));
    assert_eq!(one.finish_schedule(&id, &call, false).await.unwrap(), 0, "the killed host has no say anymore");
    // It is also found together with the next occurrence.
    begin(&one, &id, at(8, 15, 0)).await.unwrap();
    let found = turn(&other, &id, at(8, 20, 0)).await;
    assert_eq!((found.lost.unwrap().0.at, found.run.unwrap().0.at), (at(8, 15, 0), at(8, 20, 0)));
}

#[tokio::test]
async fn missed_occurrences_run_once_as_of_the_latest() {
    let (one, _other, id, _folders) = two_hosts(&["*/10 * * * *"]).await;
    assert_eq!(run(&one, &id, at(11, 13, 7)).await.map(|(_, time)| time), Some(at(11, 10, 0)));
    assert_eq!(due(&one, at(11, 19, 59)).await, []);
    // A run that takes longer than the interval.
    let (call, ..) = begin(&one, &id, at(11, 20, 0)).await.unwrap();
    assert_eq!(one.finish_schedule(&id, &call, false).await.unwrap(), 0);
    assert_eq!(run(&one, &id, at(11, 45, 0)).await.map(|(_, time)| time), Some(at(11, 40, 0)));
}

#[tokio::test]
async fn delayed_run_is_due_until_the_next_occurrence() {
    let (one, other, id, _folders) = two_hosts(&["*/5 * * * *"]).await;
    let claim = turn(&one, &id, at(8, 5, 0)).await.run.unwrap().0;
    assert!(one.delay_schedule(&id, &claim, at(8, 5, 20)).await.unwrap());
    assert!(!one.delay_schedule(&id, &claim, at(8, 5, 21)).await.unwrap(), "the claim is no longer in force");
    assert_eq!(due(&other, at(8, 5, 22)).await, std::slice::from_ref(&id));
    let again = turn(&other, &id, at(8, 9, 59)).await.run.unwrap().0;
    assert_eq!((again.cron.as_str(), again.at), ("*/5 * * * *", at(8, 5, 0)));
    assert!(!other.delay_schedule(&id, &again, at(8, 10, 0)).await.unwrap(), "the next occurrence takes its place");
    assert_eq!(other.finish_schedule(&id, &again.call, true).await.unwrap(), 1);
    assert_eq!(run(&one, &id, at(8, 10, 0)).await.map(|(_, time)| time), Some(at(8, 10, 0)));
    // Expressions that are changed meanwhile do not come back.
    let claim = turn(&one, &id, at(8, 15, 0)).await.run.unwrap().0;
    let endpoint = one.find("ticks").await.unwrap().unwrap().endpoint.clone();
    let before = Endpoint { schedules: vec!["*/5 * * * *".to_owned()], ..endpoint };
    reschedule(&one, &before, &["0 * * * *"]).await.unwrap();
    assert!(!one.delay_schedule(&id, &claim, at(8, 15, 1)).await.unwrap());
}

#[tokio::test]
async fn each_expression_has_its_own_run_in_order() {
    let (one, other, id, _folders) = two_hosts(&["0 9 * * *", "*/30 * * * *"]).await;
    let now = at(9, 0, 5);
    let half = ("*/30 * * * *".to_owned(), at(9, 0, 0));
    // 8:30 was missed, so this expression is due first.
    assert_eq!(run(&one, &id, now).await, Some(half));
    assert_eq!(due(&one, now).await, std::slice::from_ref(&id));
    assert_eq!(run(&other, &id, now).await, Some(("0 9 * * *".to_owned(), at(9, 0, 0))));
    assert_eq!(run(&one, &id, now).await, None);
}

#[tokio::test]
async fn paused_tool_runs_nothing_and_makes_up_for_nothing() {
    let (one, _other, id, _folders) = two_hosts(&["*/5 * * * *"]).await;
    one.update("ticks", patch(json!({ "status": "paused" })), None, ChangedBy::Admin).await.unwrap();
    assert!(begin(&one, &id, at(8, 5, 0)).await.is_none());
    one.update("ticks", patch(json!({ "status": "active" })), None, ChangedBy::Admin).await.unwrap();
    assert!(begin(&one, &id, at(8, 7, 0)).await.is_none());
    assert!(run(&one, &id, at(8, 10, 0)).await.is_some());
}

#[tokio::test]
async fn schedules_follow_changes_of_their_tool() {
    let (one, _other, id, _folders) = two_hosts(&["*/5 * * * *"]).await;
    let endpoint = one.find("ticks").await.unwrap().unwrap().endpoint.clone();
    let before = Endpoint { schedules: vec!["*/5 * * * *".to_owned()], ..endpoint.clone() };
    let (call, ..) = begin(&one, &id, at(8, 5, 0)).await.unwrap();
    reschedule(&one, &before, &["0 * * * *"]).await.unwrap();
    // The run goes on under the new schedules.
    assert_eq!(due(&one, at(8, 6, 0)).await, []);
    one.finish_schedule(&id, &call, false).await.unwrap();
    assert_eq!(due(&one, at(8, 59, 59)).await, []);
    assert!(run(&one, &id, at(9, 0, 0)).await.is_some());
    let after = Endpoint { schedules: vec!["0 * * * *".to_owned()], ..endpoint };
    one.schedule_rows(Some(&after), None).await.unwrap().commit(&*one.store, Durability::Durable).await.unwrap();
    assert_eq!(due(&one, at(23, 0, 0)).await, []);
    assert!(begin(&one, &id, at(23, 0, 0)).await.is_none());
}

#[tokio::test]
async fn unreadable_schedules_stop_no_others() {
    let (one, _other, id, _folders) = two_hosts(&["*/5 * * * *"]).await;
    let next = scheduled(&one, "tocks", Owner::Platform, &["*/10 * * * *"]).await.unwrap();
    let damaged = Write::put(Space::Meta, format!("schedules/{id}"), b"{".to_vec());
    one.store.apply(Batch::of(vec![], vec![damaged]), Durability::Buffered).await.unwrap();
    assert_eq!(due(&one, at(8, 10, 0)).await, [next]);
}

#[tokio::test]
async fn tool_that_cannot_be_read_stops_no_other_schedules() {
    let (one, other, id, _folders) = two_hosts(&["*/5 * * * *"]).await;
    let damaged = Write::put(Space::Endpoints, "ticks", b"{".to_vec());
    one.store.apply(Batch::of(vec![], vec![damaged]), Durability::Buffered).await.unwrap();
    assert!(matches!(other.find("ticks").await, Err(FindError::Store(_))));
    let found = turn(&other, &id, at(8, 10, 0)).await;
    assert!(found.run.is_none() && found.lost.is_none());
    assert_eq!(due(&other, at(8, 10, 0)).await, [id], "it runs once it can be read");
}

#[tokio::test]
async fn schedules_are_limited_per_tool_and_builder() {
    let (catalog, _folder) = catalog().await;
    let (owner, all) =
        (builder(), ["0 1 * * *", "0 2 * * *", "0 3 * * *", "0 4 * * *", "0 5 * * *", "0 6 * * *", "0 7 * * *", "0 8 * * *"]);
    assert_eq!(all.len(), MAX_SCHEDULES);
    for number in 0..MAX_SCHEDULES_OF_BUILDER / MAX_SCHEDULES {
        scheduled(&catalog, &format!("tool-{number}"), owner.clone(), &all).await.unwrap();
    }
    let rest = MAX_SCHEDULES_OF_BUILDER % MAX_SCHEDULES;
    let error = scheduled(&catalog, "more", owner.clone(), &all[..=rest]).await.unwrap_err();
    assert!(error.to_string().contains("100 schedules"), "{error}");
    let live = catalog.find("more").await.unwrap().unwrap();
    reschedule(&catalog, &live.endpoint, &all[..rest]).await.unwrap();
    scheduled(&catalog, "of-another", builder(), &all).await.unwrap();
    let with = |schedules: &[&str], handler_type| Endpoint {
        schedules: schedules.iter().map(|cron| (*cron).to_owned()).collect(),
        handler_type,
        ..live.endpoint.clone()
    };
    let message = |endpoint: Endpoint| problems(&endpoint).first().map(ToString::to_string).unwrap_or_default();
    assert_eq!(message(with(&all, tool::HandlerType::JsRequestResponse)), "");
    assert!(message(with(&[&all[..], &["9 9 * * *"]].concat(), tool::HandlerType::JsRequestResponse)).contains("at most 8 schedules"));
    assert!(message(with(&["0 1 * * *", "0 1 * * *"], tool::HandlerType::JsRequestResponse)).contains("twice"));
    assert!(message(with(&["0 1 * *"], tool::HandlerType::JsRequestResponse)).contains("five fields"));
    assert!(message(with(&all, tool::HandlerType::StaticJson)).contains("js_request_response"));
}

#[tokio::test]
async fn export_and_schedules_belong_together() {
    let (catalog, _folder) = catalog().await;
    let live = catalog.create(draft("ticks"), Owner::Platform, ChangedBy::Admin).await.unwrap();
    let check = |schedules: &[&str], exports| {
        let schedules = schedules.iter().map(|cron| (*cron).to_owned()).collect();
        let endpoint = Endpoint { schedules, ..live.endpoint.clone() };
        check_export(&endpoint, exports).err().map(|error| error.to_string()).unwrap_or_default()
    };
    let hourly = ["0 * * * *"];
    assert_eq!([check(&[], Some(false)), check(&hourly, Some(true)), check(&hourly, None), check(&[], None)].concat(), "");
    assert!(check(&[], Some(true)).contains("has no schedule: add one to `schedules`"));
    assert!(check(&hourly, Some(false)).contains("does not export the function `scheduled`"));
}

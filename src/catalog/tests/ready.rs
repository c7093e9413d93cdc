//! Caching of endpoints: created on demand, evicted when memory is short.

use tollhouse_store::{StoreError, faulty::FaultyStore};
use tollhouse_tool::Capabilities;

use super::*;
use crate::entry::{CARDS, ENDPOINTS};

/// Creates a host with room only for endpoints in use.
async fn crowded(store: &Arc<dyn Store>) -> (Arc<Catalog>, tempfile::TempDir) {
    catalog_with(Arc::clone(store), CatalogCapacity { max_endpoints: 4, ready_bytes: 1 }).await
}

/// Finds other endpoints until all unused ones are evicted.
async fn crowd_out(catalog: &Catalog) {
    for _ in 0..4 {
        for slug in ["other", "third"] {
            catalog.find(slug).await.unwrap().unwrap();
        }
    }
}

async fn with_three(store: &Arc<dyn Store>) -> (Arc<Catalog>, tempfile::TempDir) {
    let (catalog, folder) = crowded(store).await;
    let mut wants = draft("tool");
    wants.capabilities = Capabilities { kv: true, ..Capabilities::default() };
    catalog.create(wants, builder(), ChangedBy::Builder).await.unwrap();
    for slug in ["other", "third"] {
        catalog.create(draft(slug), Owner::Platform, ChangedBy::Admin).await.unwrap();
    }
    (catalog, folder)
}

#[tokio::test]
async fn start_reads_only_cards() {
    let store: Arc<dyn Store> = Arc::new(MemoryStore::new());
    let (one, _folder) = catalog_of(Arc::clone(&store)).await;
    one.create(draft("tool"), Owner::Platform, ChangedBy::Admin).await.unwrap();
    let mut row = ENDPOINTS.row(&*store, &"tool".to_owned()).await.unwrap().unwrap().value;
    row.title = "Another".to_owned();
    // Writes only the record, which no real host does.
    let (key, card) = ("tool".to_owned(), CARDS.get(&*store, &"tool".to_owned()).await.unwrap().unwrap());
    let mut alone = Batch::new();
    alone.replace(&ENDPOINTS, &ENDPOINTS.row(&*store, &key).await.unwrap().unwrap(), &row).put(&CARDS, &key, &card);
    alone.commit(&*store, Durability::Buffered).await.unwrap();
    let (again, _folder) = catalog_of(store).await;
    let words = search::Query::parse("another").unwrap();
    assert_eq!(again.all().len(), 1);
    assert_eq!(again.all().search(&words, 0, 9, |_| true).unwrap().total, 0, "it has the words of its card");
    assert_eq!(again.find("tool").await.unwrap().unwrap().endpoint.title, "Another", "and is called as its record says");
}

#[tokio::test]
async fn revocation_reaches_a_call_of_an_evicted_endpoint() {
    let store: Arc<dyn Store> = Arc::new(MemoryStore::new());
    let (catalog, _folder) = with_three(&store).await;
    let revoke = || serde_json::from_value(json!({ "decision": "revoke", "capabilities": { "kv": true } })).unwrap();
    // Held as by a running call: either all of it, or the version before with the shared grant.
    let running = catalog.find("tool").await.unwrap().unwrap();
    catalog.update("tool", patch(json!({ "title": "Later" })), None, ChangedBy::Admin).await.unwrap();
    crowd_out(&catalog).await;
    let again = catalog.find("tool").await.unwrap().unwrap();
    assert!(Arc::ptr_eq(&again.grant, &running.grant), "they share their grants");
    drop(again);
    crowd_out(&catalog).await;
    assert!(running.grant.now().capabilities.kv);
    catalog.decide("tool", &revoke(), None).await.unwrap();
    assert!(!running.grant.now().capabilities.kv);
}

#[tokio::test]
async fn evicted_endpoint_is_rebuilt_with_the_current_policy() {
    let store: Arc<dyn Store> = Arc::new(MemoryStore::new());
    let (catalog, _folder) = with_three(&store).await;
    crowd_out(&catalog).await;
    assert!(catalog.find_cached("tool").is_none(), "it is not kept");
    let low: PolicyDraft = serde_json::from_value(json!({ "limits": { "wallMs": 50 } })).unwrap();
    catalog.set_policy(low, None).await.unwrap();
    assert_eq!(catalog.find("tool").await.unwrap().unwrap().endpoint.limits.wall_ms, 50, "a policy applies to later builds");
    catalog.decide("tool", &serde_json::from_value(json!({ "decision": "takedown" })).unwrap(), None).await.unwrap();
    crowd_out(&catalog).await;
    let down = catalog.find("tool").await.unwrap().unwrap();
    assert_eq!((down.endpoint.availability(), &*down.grant.now()), (tool::Availability::TakenDown, &Granted::default()));
    catalog.delete("tool", None, ChangedBy::Admin).await.unwrap();
    assert!(catalog.find("tool").await.unwrap().is_none());
}

#[tokio::test]
async fn concurrent_first_calls_load_once() {
    let (catalog, _folder) = with_three(&(Arc::new(MemoryStore::new()) as _)).await;
    crowd_out(&catalog).await;
    let found = futures_util::future::join_all((0..32).map(|_| catalog.find("tool"))).await;
    let first = found[0].as_ref().unwrap().as_ref().unwrap();
    assert!(found.iter().all(|live| Arc::ptr_eq(live.as_ref().unwrap().as_ref().unwrap(), first)));
}

#[tokio::test]
async fn publishing_stops_at_the_maximum() {
    let (catalog, _folder) = with_three(&(Arc::new(MemoryStore::new()) as _)).await;
    catalog.create(draft("fourth"), Owner::Platform, ChangedBy::Admin).await.unwrap();
    let fifth = catalog.create(draft("fifth"), Owner::Platform, ChangedBy::Admin).await;
    assert!(matches!(fifth, Err(PublishError::Full(4))));
}

#[tokio::test]
async fn cached_endpoints_are_found_while_the_store_is_down() {
    let faulty = Arc::new(FaultyStore::new(MemoryStore::new()));
    let (catalog, _folder) = with_three(&(Arc::clone(&faulty) as _)).await;
    let stored = catalog.find("tool").await.unwrap().unwrap();
    crowd_out(&catalog).await;
    let away = ["other", "third"].into_iter().find(|slug| catalog.find_cached(slug).is_none());
    faulty.fail_reads();
    assert!(Arc::ptr_eq(&catalog.find("tool").await.unwrap().unwrap(), &stored));
    let Some(away) = away else { panic!("one of them was evicted") };
    assert!(matches!(catalog.find(away).await, Err(FindError::Store(StoreError::Away(_)))));
    assert!(catalog.find("unknown").await.unwrap().is_none());
}

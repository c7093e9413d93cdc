use std::path::Path;

use axum::http::Request;
use tollhouse_account::{
    admin_token,
    builder::{Builder, Builders},
    first_key::FirstKeys,
    session::{SessionKind, SessionSettings},
};
use tollhouse_api::{BuilderDecision, BuilderVerdict};
use tollhouse_base::{
    clock::{Clock, Timestamp},
    id::BuilderId,
};
use tollhouse_store::{Batch, Durability, memory::MemoryStore, test_wrappers::CountingStore};

use super::*;

const TOKEN: &str = "adm_0123456789abcdef";

/// The age of a check that is valid until something changes.
const UNTIL_A_CHANGE: Duration = Duration::MAX;
/// The age of a check that is never valid again.
const ALWAYS: Duration = Duration::ZERO;

struct Fixture {
    store: Arc<CountingStore<MemoryStore>>,
    clock: Clock,
    builders: Arc<Builders>,
    callers: Arc<Authenticator>,
    id: BuilderId,
    key: String,
}

impl Fixture {
    async fn new() -> Self {
        let (store, clock) = (CountingStore::of(MemoryStore::new()), Clock::fixed(Timestamp(1_000)));
        let builders = Arc::new(Builders::new(Arc::clone(&store) as _, clock.clone(), FirstKeys::of_tests()));
        let (builder, key) = Builder::new("Ada", None, clock.now(), builders.first_keys()).unwrap();
        builder.stored().commit(&*store, Durability::Durable).await.unwrap();
        let admin = admin_token::open(Some(TOKEN), Path::new("")).unwrap();
        let callers = Arc::new(Authenticator::new(admin, Arc::clone(&builders)));
        Self { store, clock, builders, callers, id: builder.id, key }
    }

    fn sessions(&self) -> Arc<Sessions> {
        Arc::new(Sessions::new(Arc::clone(&self.store) as _, self.clock.clone(), SessionSettings::default()))
    }

    fn access(&self, header: &str, credential: &str, session: Option<RequestSession>) -> StreamAccess {
        let (mut parts, ()) = Request::builder().header(header, credential).body(()).unwrap().into_parts();
        if let Some(session) = session {
            parts.extensions.insert(session);
        }
        StreamAccess::of(&self.callers, &parts)
    }

    async fn decide(&self, decision: BuilderDecision) {
        let verdict = BuilderVerdict { decision, tier: None, allowed_hosts: vec![], reason: None };
        self.builders.set_standing(&self.id, &verdict, Batch::new()).await.unwrap();
    }
}

async fn checked(access: &mut StreamAccess, age: Duration) -> Result<(), Code> {
    access.checked_within(age).await.unwrap().map_err(|fault| fault.code())
}

#[tokio::test]
async fn check_reads_the_store_once_until_a_builder_changes() {
    let fixture = Fixture::new().await;
    let mut access = fixture.access("x-builder-key", &fixture.key, None);
    assert_eq!(checked(&mut access, UNTIL_A_CHANGE).await, Ok(()));
    assert!(fixture.store.rows() > 0);
    for _ in 0..100 {
        assert_eq!(checked(&mut access, UNTIL_A_CHANGE).await, Ok(()));
    }
    assert_eq!(fixture.store.rows(), 0);
    fixture.builders.note_change();
    assert_eq!(checked(&mut access, UNTIL_A_CHANGE).await, Ok(()));
    assert!(fixture.store.rows() > 0, "another host may have changed the builder");
    assert_eq!(checked(&mut access, ALWAYS).await, Ok(()));
    assert!(fixture.store.rows() > 0, "the check was too old");
}

#[tokio::test]
async fn new_key_ends_the_access_of_the_old_one() {
    let fixture = Fixture::new().await;
    let mut access = fixture.access("x-builder-key", &fixture.key, None);
    assert_eq!(checked(&mut access, UNTIL_A_CHANGE).await, Ok(()));
    let (_, key) = fixture.builders.rotate(&fixture.id, Batch::new()).await.unwrap();
    assert_eq!(checked(&mut access, UNTIL_A_CHANGE).await, Err(Code::Unauthorized));
    assert!(access.check().await.is_err() && access.check_idle().await.is_err(), "also later");
    assert_eq!(checked(&mut fixture.access("x-builder-key", &key, None), UNTIL_A_CHANGE).await, Ok(()));
}

#[tokio::test]
async fn suspension_ends_access() {
    let fixture = Fixture::new().await;
    let mut access = fixture.access("x-builder-key", &fixture.key, None);
    assert_eq!(checked(&mut access, UNTIL_A_CHANGE).await, Ok(()));
    fixture.decide(BuilderDecision::Suspend).await;
    assert_eq!(checked(&mut access, UNTIL_A_CHANGE).await, Err(Code::BuilderSuspended));
    fixture.decide(BuilderDecision::Restore).await;
    assert_eq!(checked(&mut access, UNTIL_A_CHANGE).await, Ok(()));
}

#[tokio::test]
async fn access_ends_with_its_session_on_this_host_or_another() {
    let fixture = Fixture::new().await;
    let (here, elsewhere) = (fixture.sessions(), fixture.sessions());
    for ending in [&here, &elsewhere] {
        let token = here.begin(fixture.id.as_str(), SessionKind::Builder, &fixture.key, "a browser").await.unwrap();
        let opened = here.open(&token).await.unwrap().unwrap();
        let session = RequestSession::new(Arc::clone(&here), opened.owner.clone(), opened.name.clone());
        let mut access = fixture.access("x-builder-key", &fixture.key, Some(session));
        assert_eq!(checked(&mut access, UNTIL_A_CHANGE).await, Ok(()));
        ending.end(&opened.owner, &opened.name).await.unwrap();
        let age = if Arc::ptr_eq(ending, &here) { UNTIL_A_CHANGE } else { ALWAYS };
        assert_eq!(checked(&mut access, age).await, Err(Code::Unauthorized));
    }
}

#[tokio::test]
async fn admin_keeps_access_and_a_wrong_credential_gets_none() {
    let fixture = Fixture::new().await;
    assert_eq!(checked(&mut fixture.access("x-admin-token", TOKEN, None), ALWAYS).await, Ok(()));
    for (header, credential) in [("x-admin-token", "adm_wrong"), ("x-builder-key", "bk_wrong"), ("accept", "*/*")] {
        assert_eq!(checked(&mut fixture.access(header, credential, None), ALWAYS).await, Err(Code::Unauthorized), "{header}");
    }
}

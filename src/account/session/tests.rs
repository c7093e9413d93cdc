//! Tests of what sessions open, when they end, and how many there are.

use tollhouse_store::{memory::MemoryStore, sweep_cursor::TURN, test_wrappers::CountingStore};

use super::*;

const HOUR: u64 = 3_600 * 1_000;

fn sessions() -> (Sessions, Clock, Arc<MemoryStore>) {
    let (store, clock) = (Arc::new(MemoryStore::new()), Clock::fixed(Timestamp(1_000_000 * HOUR)));
    (Sessions::new(Arc::clone(&store) as _, clock.clone(), SessionSettings { max: 3, ..SessionSettings::default() }), clock, store)
}

async fn begin(sessions: &Sessions, credential: &str) -> Token {
    sessions.begin("bld_1", SessionKind::Builder, credential, "a browser\n").await.unwrap()
}

fn later(clock: &Clock, ms: u64) {
    clock.set(clock.now().plus_millis(ms));
}

#[tokio::test]
async fn token_opens_a_session_and_the_store_alone_does_not() {
    let (sessions, _, store) = sessions();
    let token = begin(&sessions, "bk_secret").await;
    let read: Token = token.to_string().parse().unwrap();
    let opened = sessions.open(&read).await.unwrap().unwrap();
    assert_eq!((opened.owner.as_str(), opened.kind, opened.credential.as_str()), ("bld_1", SessionKind::Builder, "bk_secret"));
    assert_eq!(opened.form_token.len(), 64);
    let rows = SESSIONS.page(&*store, &SESSIONS.all(), 9, Direction::Forward).await.unwrap();
    let stored = format!("{:?}", rows);
    assert!(!stored.contains("bk_secret") && !stored.contains(token.to_string().split('.').nth(1).unwrap()), "{stored}");
    assert_eq!(rows[0].value.browser, "a browser");
}

#[tokio::test]
async fn no_other_token_opens_it() {
    let (sessions, ..) = sessions();
    let token = begin(&sessions, "bk_secret").await;
    let other = begin(&sessions, "bk_secret").await;
    assert_ne!(sessions.open(&token).await.unwrap().unwrap().form_token, sessions.open(&other).await.unwrap().unwrap().form_token);
    for wrong in [
        Token { key: other.key.clone(), ..token.clone() },
        Token { id: other.id, ..token.clone() },
        Token { owner: "bld_2".to_owned(), ..token.clone() },
        Token { owner: "bld".to_owned(), ..token.clone() },
    ] {
        assert!(sessions.open(&wrong).await.unwrap().is_none(), "{wrong:?}");
    }
    let text = token.to_string();
    for wrong in ["", "..", "admin", &text[1..], &format!("{text}."), &text.replace("bld_1", ""), &text.replace("bld_1", "b\0")] {
        let opened = match wrong.parse::<Token>() {
            Ok(token) => sessions.open(&token).await.unwrap(),
            Err(()) => None,
        };
        assert!(opened.is_none(), "{wrong:?}");
    }
}

#[tokio::test]
async fn session_ends_when_idle_or_old() {
    let (sessions, clock, store) = sessions();
    let (idle, used) = (begin(&sessions, "a").await, begin(&sessions, "b").await);
    for _ in 0..13 {
        later(&clock, HOUR - 1);
        assert!(sessions.open(&used).await.unwrap().is_some());
    }
    assert!(sessions.open(&idle).await.unwrap().is_none());
    assert_eq!(sessions.list("bld_1").await.unwrap().len(), 1);
    sessions.sweep().await.unwrap();
    assert_eq!(SESSIONS.count(&*store, &SESSIONS.all(), 9).await.unwrap(), 1);
    for _ in 0..7 * 24 {
        later(&clock, HOUR);
        _ = sessions.open(&used).await.unwrap();
    }
    assert!(sessions.open(&used).await.unwrap().is_none(), "however much it was used");
}

#[tokio::test]
async fn sweep_reads_one_turn_and_continues_later() {
    let (store, clock) = (CountingStore::of(MemoryStore::new()), Clock::fixed(Timestamp(1_000 * HOUR)));
    let sessions = Sessions::new(Arc::clone(&store) as _, clock.clone(), SessionSettings::default());
    for n in 0..TURN + 20 {
        sessions.begin(&format!("bld_{n:06}"), SessionKind::Builder, "a key", "").await.unwrap();
    }
    later(&clock, 12 * HOUR);
    let remaining = async || SESSIONS.count(&*store, &SESSIONS.all(), usize::MAX).await.unwrap();
    store.rows();
    sessions.sweep().await.unwrap();
    assert!(store.rows() <= TURN + 1);
    assert_eq!(remaining().await, 20);
    sessions.sweep().await.unwrap();
    assert_eq!(remaining().await, 0);
}

#[tokio::test]
async fn excess_sessions_end_longest_unused_first() {
    let (sessions, clock, store) = sessions();
    let mut tokens = vec![];
    for n in 0..3 {
        tokens.push(begin(&sessions, &n.to_string()).await);
        later(&clock, 2 * WRITE_INTERVAL_MS);
    }
    assert!(sessions.open(&tokens[0]).await.unwrap().is_some());
    tokens.push(begin(&sessions, "3").await);
    let mut open = vec![];
    for token in &tokens {
        open.push(sessions.open(token).await.unwrap().is_some());
    }
    assert_eq!(open, [true, false, true, true]);
    later(&clock, 12 * HOUR);
    begin(&sessions, "4").await;
    assert_eq!(SESSIONS.count(&*store, &SESSIONS.all(), 9).await.unwrap(), 1, "those that ended make room");
    let foreign = sessions.begin("bld_10", SessionKind::Builder, "x", "").await.unwrap();
    sessions.end_all("bld_1").await.unwrap();
    assert!(sessions.list("bld_1").await.unwrap().is_empty());
    let opened = sessions.open(&foreign).await.unwrap().unwrap();
    sessions.end("bld_10", &opened.name).await.unwrap();
    assert!(sessions.open(&foreign).await.unwrap().is_none());
}

#[tokio::test]
async fn link_signs_in_once_within_a_minute() {
    let (sessions, clock, _) = sessions();
    let (link, until) = sessions.link("bld_1", SessionKind::Builder, "bk_secret").await.unwrap();
    assert_eq!(until, clock.now().plus_millis(60_000));
    assert!(sessions.open(&link).await.unwrap().is_none());
    assert!(sessions.list("bld_1").await.unwrap().is_empty());
    let session = begin(&sessions, "bk_secret").await;
    assert!(sessions.redeem(&session).await.unwrap().is_none(), "a session is not a link");
    let opened = sessions.redeem(&link).await.unwrap().unwrap();
    assert_eq!((opened.owner.as_str(), opened.kind, opened.credential.as_str()), ("bld_1", SessionKind::Builder, "bk_secret"));
    assert!(sessions.redeem(&link).await.unwrap().is_none());
    let (late, _) = sessions.link("bld_1", SessionKind::Builder, "bk_secret").await.unwrap();
    later(&clock, 60_000);
    assert!(sessions.redeem(&late).await.unwrap().is_none());
}

#[tokio::test]
async fn reading_a_link_does_not_use_it() {
    let (sessions, clock, _) = sessions();
    let (link, _) = sessions.link("bld_1", SessionKind::Builder, "bk_secret").await.unwrap();
    let session = begin(&sessions, "bk_secret").await;
    for _ in 0..2 {
        assert_eq!(sessions.linked(&link).await.unwrap().as_deref(), Some("bld_1"));
    }
    let forged = Token { key: session.key.clone(), ..link.clone() };
    assert_eq!((sessions.linked(&forged).await.unwrap(), sessions.linked(&session).await.unwrap()), (None, None));
    assert!(sessions.redeem(&link).await.unwrap().is_some());
    assert_eq!(sessions.linked(&link).await.unwrap(), None);
    let (late, _) = sessions.link("bld_1", SessionKind::Builder, "bk_secret").await.unwrap();
    later(&clock, LINK_MS);
    assert_eq!(sessions.linked(&late).await.unwrap(), None);
}

#[tokio::test]
async fn one_valid_token_of_many_opens_its_session() {
    let (sessions, ..) = sessions();
    let right = begin(&sessions, "bk_secret").await;
    let wrong: Vec<_> = (0..40).map(|_| Token::of("bld_1").unwrap()).collect();
    for before in [0, 1, MAX_TRIED - 1, 40 - MAX_TRIED + 1, 39, 40] {
        let mut tokens = wrong.clone();
        tokens.insert(before, right.clone());
        assert!(sessions.open_any(&tokens).await.unwrap().is_some(), "behind {before}");
    }
    let mut hidden = wrong.clone();
    hidden.insert(20, right.clone());
    assert!(sessions.open_any(&hidden).await.unwrap().is_none(), "so many are not tried");
    assert!(sessions.open_any(&wrong[..9]).await.unwrap().is_none() && sessions.open_any(&[]).await.unwrap().is_none());
    assert!(sessions.open_any(&[right]).await.unwrap().is_some());
}

use std::sync::atomic::{AtomicUsize, Ordering};

use hickory_resolver::proto::{op::ResponseCode, rr::RecordType};
use tokio::time::{advance, pause};

use super::*;
use crate::testing::NameServer;

const DAY: u32 = 24 * 60 * 60;

fn address(last: u8) -> IpAddr {
    [8, 8, 8, last].into()
}

async fn found(dns: &Dns, name: &str) -> io::Result<Vec<IpAddr>> {
    dns.lookup("owner", name.to_owned()).await
}

#[tokio::test]
async fn an_answer_is_cached_for_its_ttl_within_bounds() {
    let server = NameServer::start(|name, _| match name {
        "brief.dev" => Some(vec![(address(1), 0)]),
        "long.dev" => Some(vec![(address(2), DAY)]),
        _ => Some(Vec::new()),
    })
    .await;
    let dns = Dns::new(server.settings());
    for (name, addresses, seconds) in [("brief.dev", vec![address(1)], 5), ("long.dev", vec![address(2)], 300), ("none.dev", vec![], 1)] {
        let (started, kept_for) = (Instant::now(), Duration::from_secs(seconds));
        assert_eq!(found(&dns, name).await.unwrap(), addresses);
        let until = dns.0.answers.get(name).unwrap().until;
        assert!(until >= started + kept_for && until <= Instant::now() + kept_for, "{name}");
    }
    assert_eq!(server.names(""), 3, "a name is asked for as it is");
    // If it were not cached, each lookup would ask for both kinds of address.
    for _ in 0..20 {
        assert_eq!(found(&dns, "long.dev").await.unwrap(), [address(2)]);
    }
    assert!(server.questions() < 20);
    pause();
    advance(Duration::from_secs(301)).await;
    assert!(["brief.dev", "long.dev", "none.dev"].iter().all(|name| dns.0.cached(name).is_none()));
}

#[tokio::test]
async fn failed_lookup_is_retried() {
    for reason in [ResponseCode::ServFail, ResponseCode::Refused] {
        let server = NameServer::unable(reason).await;
        let dns = Dns::new(server.settings());
        assert!(found(&dns, "some.dev").await.is_err(), "{reason}");
        assert!(dns.0.cached("some.dev").is_none(), "{reason}");
    }
}

#[tokio::test(start_paused = true)]
async fn settings_are_read_again_from_time_to_time() {
    let read = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&read);
    let dns = Dns::new(move || {
        counted.fetch_add(1, Ordering::Relaxed);
        system_settings()
    });
    let reads = || {
        // All lookups together may use one connection, and each sends two queries.
        let servers = dns.0.servers().unwrap();
        assert!(servers.resolvers.iter().all(|server| server.options().max_active_requests >= 2 * LOOKUPS));
        read.load(Ordering::Relaxed)
    };
    assert_eq!([reads(), reads()], [1, 1]);
    advance(SETTINGS_FOR - Duration::from_millis(1)).await;
    assert_eq!(reads(), 1);
    advance(Duration::from_millis(1)).await;
    assert_eq!([reads(), reads()], [2, 2]);
}

#[test]
fn system_settings_always_name_a_server() {
    assert!(!system_settings().0.is_empty());
}

#[tokio::test]
async fn the_cache_is_bounded_in_bytes() {
    let many = |_: &str, kind| Some((0..40).filter(|_| kind == RecordType::A).map(|last| (address(last), DAY)).collect());
    let server = NameServer::start(many).await;
    let dns = Dns::new(server.settings());
    assert_eq!(found(&dns, "many.dev").await.unwrap().len(), ADDRESSES);
    let answer = dns.0.answers.get("many.dev").unwrap();
    for number in 0..4_000 {
        dns.0.answers.insert(format!("{number}.many.dev"), answer.clone());
    }
    dns.0.answers.run_pending_tasks();
    assert!(dns.0.answers.weighted_size() <= CACHED_NAMES_BYTES && dns.0.answers.entry_count() < 2_000);
}

#[tokio::test]
async fn addresses_of_one_kind_are_an_answer_where_the_other_kind_s_does_not_come() {
    let server = NameServer::start(|_, kind| (kind == RecordType::A).then(|| vec![(address(1), DAY)])).await;
    let started = std::time::Instant::now();
    assert_eq!(found(&Dns::new(server.settings()), "half.dev").await.unwrap(), [address(1)]);
    // This test is about the time: the lookup does not wait for the other kind of address until the timeout.
    assert!(started.elapsed() < SILENCE, "{:?}", started.elapsed());
}

#[tokio::test]
async fn a_name_whose_server_is_silent_is_given_up_and_its_place_is_free() {
    let server = NameServer::start(|_, _| None).await;
    let dns = Dns::new(server.settings());
    let free = || std::iter::from_fn(|| dns.0.slots.take("owner".into())).collect::<Vec<_>>().len();
    let mut looking = Box::pin(found(&dns, "silent.dev"));
    tokio::select! {
        _ = &mut looking => panic!("nobody answered"),
        () = server.was_asked(1, "silent.dev") => assert_eq!(free(), 55),
    }
    assert!(looking.await.is_err());
    assert_eq!(free(), 56);
    // A caller that goes away leaves no query running.
    tokio::select! {
        _ = found(&dns, "gone.dev") => panic!("nobody answered"),
        () = server.was_asked(1, "gone.dev") => {}
    }
    assert_eq!(free(), 56);
}

#[tokio::test]
async fn six_hundred_slow_names_of_one_owner_hold_up_no_name_of_another() {
    let server = NameServer::start(|name, _| (!name.ends_with(".slow.dev")).then(|| vec![(address(1), DAY)])).await;
    let (dns, ended) = (Arc::new(Dns::new(server.settings())), Arc::new(AtomicUsize::new(0)));
    let ask = |number: usize| {
        let (dns, ended) = (Arc::clone(&dns), Arc::clone(&ended));
        async move {
            _ = dns.lookup("greedy", format!("{number}.slow.dev")).await;
            ended.fetch_add(1, Ordering::Relaxed);
        }
    };
    let greedy: Vec<_> = (0..600).map(|number| tokio::spawn(ask(number))).collect();
    server.was_asked(56, ".slow.dev").await;
    for number in 0..20 {
        assert_eq!(dns.lookup("other", format!("{number}.quick.dev")).await.unwrap(), [address(1)]);
        let (request, ended) = (server.names(".slow.dev"), ended.load(Ordering::Relaxed));
        assert!(request <= ended + 56, "{request} slow names asked for, {ended} of them at an end");
    }
    assert!(ended.load(Ordering::Relaxed) < 600, "the slow ones were waited for");
    greedy.iter().for_each(tokio::task::JoinHandle::abort);
}

/// Returns settings with a server that never answers before the others.
fn behind_a_dead_one(servers: &[&NameServer]) -> (impl Fn() -> Settings + Send + Sync + use<>, std::net::UdpSocket) {
    let silent = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
    let mut connection = hickory_resolver::config::ConnectionConfig::udp();
    connection.port = silent.local_addr().unwrap().port();
    let mut all = vec![NameServerConfig::new(Ipv4Addr::LOCALHOST.into(), true, vec![connection])];
    all.extend(servers.iter().flat_map(|server| server.settings()().0));
    (move || (all.clone(), ResolverOpts::default()), silent)
}

#[tokio::test]
async fn a_dead_server_before_others_costs_its_silence_once() {
    let server = NameServer::start(|_, _| Some(vec![(address(1), DAY)])).await;
    let (settings, _silent) = behind_a_dead_one(&[&server]);
    let dns = Dns::new(settings);
    assert_eq!(found(&dns, "one.dev").await.unwrap(), [address(1)]);
    assert_eq!(dns.0.servers().unwrap().first.load(Ordering::Relaxed), 1, "the one that answered is asked first from now on");
    for number in 0..10 {
        assert_eq!(found(&dns, &format!("{number}.dev")).await.unwrap(), [address(1)]);
    }
}

#[tokio::test]
async fn an_answer_cut_short_is_asked_for_over_tcp_also_behind_a_dead_server() {
    let many = |_: &str, kind| Some((0..40).filter(|_| kind == RecordType::A).map(|last| (address(last), DAY)).collect());
    let server = NameServer::truncating(many).await;
    assert_eq!(found(&Dns::new(server.settings()), "many.dev").await.unwrap().len(), ADDRESSES);
    let (settings, _silent) = behind_a_dead_one(&[&server]);
    assert_eq!(found(&Dns::new(settings), "many.dev").await.unwrap().len(), ADDRESSES);
}

#[tokio::test]
async fn the_next_server_is_asked_if_one_has_no_answer() {
    let (unable, able) = (NameServer::unable(ResponseCode::ServFail).await, NameServer::start(|_, _| Some(vec![(address(1), DAY)])).await);
    let all: Vec<_> = [&unable, &able].iter().flat_map(|server| server.settings()().0).collect();
    let dns = Dns::new(move || (all.clone(), ResolverOpts::default()));
    assert_eq!(found(&dns, "some.dev").await.unwrap(), [address(1)]);
}

#[tokio::test]
async fn addresses_of_both_versions_are_an_answer_those_of_version_4_first() {
    let six: IpAddr = "2606:4700::1111".parse().unwrap();
    let server = NameServer::start(move |_, kind| Some(vec![if kind == RecordType::AAAA { (six, DAY) } else { (address(1), DAY) }])).await;
    assert_eq!(found(&Dns::new(server.settings()), "both.dev").await.unwrap(), [address(1), six]);
}

/// Starts a server that answers each alias with the next one: `N.chain.dev` with `N-1.chain.dev`. `a.loop.dev` leads
/// back to itself.
async fn aliasing() -> NameServer {
    let aliases = |name: &str| match name {
        "a.loop.dev" => Some("b.loop.dev".to_owned()),
        "b.loop.dev" => Some("a.loop.dev".to_owned()),
        name => match name.strip_suffix(".chain.dev")?.parse().ok()? {
            0_u32 => None,
            link => Some(format!("{}.chain.dev", link - 1)),
        },
    };
    NameServer::aliasing(aliases, |name, _| if name == "0.chain.dev" { Some(vec![(address(1), DAY)]) } else { Some(Vec::new()) }).await
}

#[tokio::test]
async fn aliases_are_followed_within_bounds_and_a_loop_of_them_ends() {
    let server = aliasing().await;
    let dns = Dns::new(server.settings());
    for links in [0, 1, 5] {
        assert_eq!(found(&dns, &format!("{links}.chain.dev")).await.unwrap(), [address(1)], "{links} links");
    }
    for endless in ["a.loop.dev", "200.chain.dev"] {
        let (before, started) = (server.questions(), std::time::Instant::now());
        let addresses = found(&dns, endless).await.unwrap_or_default();
        assert!(addresses.is_empty() && started.elapsed() < DNS_WALL, "{endless}: {addresses:?} after {:?}", started.elapsed());
        assert!(server.questions() - before < 100, "{endless}: {} questions", server.questions() - before);
    }
}

#[tokio::test]
async fn search_domains_are_ignored() {
    let server =
        NameServer::start(|name, _| if name.ends_with(".searched.dev") { Some(vec![(address(9), DAY)]) } else { Some(Vec::new()) }).await;
    let (servers, _) = server.settings()();
    let mut options = ResolverOpts::default();
    options.ndots = 15;
    let dns = Dns::new(move || (servers.clone(), options.clone()));
    for name in ["none.dev", "a.b.none.dev", "api"] {
        assert_eq!(found(&dns, name).await.unwrap(), [] as [IpAddr; 0], "{name}");
    }
    assert_eq!((server.names(""), server.names(".searched.dev")), (3, 0), "no other name is asked for");
}

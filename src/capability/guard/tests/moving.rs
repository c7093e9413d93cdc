//! Names whose address changes, or becomes one that is not public (DNS rebinding).

use std::sync::Mutex;

use futures_util::future::BoxFuture;

use super::*;

/// A resolver with addresses that a test can change, and that counts lookups.
#[derive(Default)]
struct Moving {
    means: Mutex<Vec<IpAddr>>,
    requested: AtomicUsize,
}

impl Moving {
    fn to(&self, addresses: &[&str]) {
        *self.means.lock().unwrap() = addresses.iter().map(|address| address.parse().unwrap()).collect();
    }
}

impl Lookup for Moving {
    fn lookup(&self, _: &str, _: String) -> BoxFuture<'static, io::Result<Vec<IpAddr>>> {
        self.requested.fetch_add(1, Ordering::SeqCst);
        Box::pin(std::future::ready(Ok(self.means.lock().unwrap().clone())))
    }
}

/// A connection stays with the address that was checked and dialed, as long as it is used or idle. A changed address
/// applies to the next connection.
#[tokio::test]
async fn a_new_connection_uses_the_new_address_of_a_name() {
    let server = || {
        let last = || async { ([(header::CONNECTION, "close")], "here") };
        Router::new().route("/", get(|| async { "here" })).route("/last", get(last))
    };
    let here = serve(server()).await;
    let names = Arc::new(Moving::default());
    names.to(&["127.0.0.1"]);
    let allow = vec![format!("moving.dev:{}", here.port())];
    let guard = guard(GuardSettings { allow, lookup: Some(Arc::clone(&names) as _), ..GuardSettings::default() });
    let ask = async |path: &str| fetch(&guard, &format!("http://moving.dev:{}{path}", here.port())).await;
    assert_eq!(ask("/").await.unwrap().body, "here");
    names.to(&["127.0.0.2"]);
    for path in ["/", "/last"] {
        // A connection becomes idle once its response has been read, which it does not announce.
        tokio::time::sleep(Duration::from_millis(50)).await;
        assert_eq!(ask(path).await.unwrap().body, "here");
    }
    assert_eq!(names.requested.load(Ordering::SeqCst), 1);
    tokio::time::sleep(Duration::from_millis(50)).await;
    assert!(matches!(ask("/").await.unwrap_err(), FetchError::Unreachable(_)), "nobody listens at its new address");
    assert_eq!(names.requested.load(Ordering::SeqCst), 2);
}

#[tokio::test]
async fn a_name_that_has_come_to_mean_a_local_address_is_not_dialled() {
    let names = Arc::new(Moving::default());
    let guard = guard(GuardSettings { lookup: Some(Arc::clone(&names) as _), ..GuardSettings::default() });
    // The server at that address has no certificate for the name.
    names.to(&["8.8.8.8"]);
    let hasty = guard.fetch(Fetch::get("https://rebound.dev/", Duration::from_millis(300), 1_000)).await;
    assert!(!matches!(hasty, Err(FetchError::Forbidden(_))), "{hasty:?}");
    names.to(&["8.8.8.8", "127.0.0.1"]);
    assert!(matches!(fetch(&guard, "https://rebound.dev/").await.unwrap_err(), FetchError::Forbidden(_)));
    assert_eq!(names.requested.load(Ordering::SeqCst), 2);
}

#[tokio::test]
async fn addresses_that_stand_for_others_are_not_dialled_in_answers_either() {
    let names = Arc::new(Moving::default());
    let guard = guard(GuardSettings { lookup: Some(Arc::clone(&names) as _), ..GuardSettings::default() });
    for address in [
        "64:ff9b::7f00:1",
        "64:ff9b::808:808",
        "64:ff9b:1::a00:1",
        "2002:7f00:1::",
        "2001:0:4136:e378:8000:63bf:3fff:fdd2",
        "::ffff:127.0.0.1",
        "::7f00:1",
        "fe80::1",
        "fec0::1",
        "fd00:ec2::254",
    ] {
        names.to(&["8.8.8.8", address]);
        let refused = fetch(&guard, "https://translated.dev/").await.unwrap_err();
        assert!(matches!(refused, FetchError::Forbidden(_)), "{address}: {refused:?}");
    }
}

#[test]
fn an_address_with_a_scope_is_not_a_host() {
    let guard = guard(GuardSettings::default());
    for host in ["[fe80::1%25eth0]", "[fe80::1%eth0]", "[fe80::1%251]", "[2606:4700:4700::1111%25lo]", "[::1%25lo]", "fe80::1%25eth0"] {
        let checked = guard.check(&format!("https://{host}/"), None);
        assert!(matches!(checked, Err(FetchError::InvalidUrl(_) | FetchError::Forbidden(_))), "{host}: {checked:?}");
    }
}

#[tokio::test]
async fn a_certificate_counts_for_the_very_names_in_it() {
    let router = || Router::new().route("/", get(|| async { "here" }));
    let (address, root) = serve_tls(router(), &["first.dev", "*.wild.dev", "127.0.0.1"]).await;
    let (unknown, _) = serve_tls(router(), &["first.dev"]).await;
    let names = Arc::new(Moving::default());
    names.to(&["127.0.0.1"]);
    let hosts =
        ["first.dev", "a.wild.dev", "127.0.0.1", "other.dev", "wild.dev", "a.b.wild.dev", "first.dev.other.dev", "[::ffff:127.0.0.1]"];
    let mut allow: Vec<_> = hosts.iter().map(|host| format!("{host}:{}", address.port())).collect();
    allow.push(format!("first.dev:{}", unknown.port()));
    let guard = guard(GuardSettings { allow, roots: vec![root], lookup: Some(names as _), ..GuardSettings::default() });
    for (position, host) in hosts.iter().enumerate() {
        let fetched = fetch(&guard, &format!("https://{host}:{}/", address.port())).await;
        assert_eq!(fetched.is_ok(), position < 3, "{host}: {fetched:?}");
        assert!(position < 3 || matches!(fetched, Err(FetchError::Unreachable(_))), "{host}: {fetched:?}");
    }
    assert!(matches!(fetch(&guard, &format!("https://first.dev:{}/", unknown.port())).await, Err(FetchError::Unreachable(_))));
}

//! Concurrent requests of several owners.

use std::sync::Mutex;

use tokio::sync::watch;
use tollhouse_fair::{FairSemaphore, Share};

use super::{limits::CACHED_HOSTS, *};

/// Starts a server that answers only when told to, and records who came.
async fn holding(reported: watch::Receiver<bool>, received: Arc<Mutex<Vec<String>>>) -> SocketAddr {
    let answer = move |headers: HeaderMap| {
        let (mut reported, received) = (reported.clone(), Arc::clone(&received));
        async move {
            let owner = headers["x-owner"].to_str().unwrap().to_owned();
            let quick = owner == "other";
            received.lock().unwrap().push(owner);
            if !quick {
                reported.wait_for(|reported| *reported).await.unwrap();
            }
        }
    };
    serve(Router::new().route("/", get(answer))).await
}

#[tokio::test]
async fn connections_to_exempt_hosts_are_reused_outside_of_shares() {
    let guard = guard(GuardSettings { allow: vec!["own.dev:443".to_owned()], ..GuardSettings::default() });
    let url = |host: &str| Url::parse(&format!("https://{host}/")).unwrap();
    let mut others = (0..).map(|number| guard.keeps("greedy", &url(&format!("{number}.dev"))));
    assert!(others.next().unwrap());
    assert!(others.take(CACHED_HOSTS).any(|is_kept| !is_kept));
    for _ in 0..2 {
        assert!(guard.keeps("greedy", &url("own.dev")));
        assert!(!guard.keeps("greedy", &url("own.dev:444")), "which is another host");
    }
}

#[tokio::test]
async fn an_owner_s_requests_leave_others_their_share() {
    let (report, reported) = watch::channel(false);
    let received = Arc::new(Mutex::new(Vec::new()));
    let address = holding(reported, Arc::clone(&received)).await;
    let mut guard = allowing(&[address]);
    Arc::get_mut(&mut guard.0).unwrap().open = FairSemaphore::new(8, Share::OfFree);
    let url = format!("http://{address}/");
    let ask = |owner: &'static str, wall| {
        let (guard, url) = (guard.clone(), url.clone());
        async move {
            let mut request = Fetch { owner, ..Fetch::get(&url, wall, 1_000) };
            request.headers.insert("x-owner", owner.parse().unwrap());
            guard.fetch(request).await
        }
    };
    let long = Duration::from_secs(60);
    let greedy: Vec<_> = (0..20).map(|_| tokio::spawn(ask("greedy", long))).collect();
    let have_come = |number: usize| received.lock().unwrap().iter().filter(|owner| *owner == "greedy").count() >= number;
    while !have_come(7) {
        tokio::task::yield_now().await;
    }
    // A waiting request is limited by its own timeout.
    let hasty = Duration::from_millis(50);
    assert_eq!(ask("greedy", hasty).await.unwrap_err(), FetchError::Timeout(50));
    for _ in 0..10 {
        ask("other", long).await.unwrap();
    }
    assert!(!have_come(8));
    report.send(true).unwrap();
    for answer in greedy {
        answer.await.unwrap().unwrap();
    }
    assert!(have_come(20));
}

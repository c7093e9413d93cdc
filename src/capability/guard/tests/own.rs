//! The host's own addresses, and the grant of any public host.

use super::*;

const OWN: &str = "93.184.216.34";

fn own_guard() -> Guard {
    let lookup = FixedNames::new(&[("pay.example.net", &[OWN]), ("alias.dev", &["1.1.1.1", OWN]), ("v6.dev", &["2606:4700::1"])]);
    let own = OwnHost::new(Some("https://pay.example.net"), "[2606:4700::1]:4020".parse().unwrap());
    guard(GuardSettings { lookup: Some(lookup), own, ..GuardSettings::default() })
}

async fn refusal(hosts: &[&str], url: &str) -> Option<FetchError> {
    let hosts = AllowedHosts::parse(hosts).unwrap();
    own_guard().fetch(Fetch { hosts: Some(&hosts), ..Fetch::get(url, WALL, 1_000) }).await.err()
}

#[tokio::test]
async fn any_public_host_does_not_include_the_host_itself() {
    for url in [
        "https://pay.example.net/tools/x",
        "https://PAY.example.net./",
        "https://93.184.216.34/",
        "https://[2606:4700::1]/",
        "https://alias.dev/",
        "https://v6.dev/",
    ] {
        let refused = refusal(&["*"], url).await;
        assert!(matches!(&refused, Some(FetchError::Forbidden(reason)) if reason.contains("this host")), "{url}: {refused:?}");
    }
}

#[tokio::test]
async fn tool_that_names_the_host_can_ask_it_and_others_are_public() {
    let guard = own_guard();
    let named = AllowedHosts::parse(&["*", "pay.example.net", "93.184.216.34"]).unwrap();
    let any = AllowedHosts::parse(&["*"]).unwrap();
    for (hosts, url, is_refused) in [
        (Some(&named), "https://pay.example.net/", false),
        (Some(&named), "https://93.184.216.34/", false),
        (Some(&any), "https://1.1.1.1/", false),
        (Some(&any), "https://other.example.net/", false),
        (Some(&any), "https://93.184.216.34/", true),
        (None, "https://pay.example.net/", false),
    ] {
        assert_eq!(guard.refuse_own(&url.parse().unwrap(), hosts).await.is_err(), is_refused, "{url}");
    }
}

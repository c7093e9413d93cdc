//! Runs from addresses of IPv6 networks.

use super::*;

fn from(payer: &str, address: &str) -> RunParties {
    RunParties { from: Some(address.parse().unwrap()), ..running(payer, "one") }
}

fn full() -> Option<RunLimit> {
    Some(RunLimit::Tool("one".parse().unwrap()))
}

/// Regression test: 200 addresses of one /48 closed a tool to new payers for a minute.
#[tokio::test(start_paused = true)]
async fn half_of_a_tools_places_are_for_networks_without_unpaid_runs() {
    for fails in [false, true] {
        let throttle = throttle(30, 60, 4);
        let in_flight = ["2001:db8:1:1::", "2001:db8:1:2::"].map(|address| throttle.begin(from(address, address)).unwrap());
        let in_flight: Vec<_> = if fails {
            in_flight.into_iter().for_each(|run| run.failed("failed"));
            Vec::new()
        } else {
            in_flight.into()
        };
        assert_eq!(bound(&throttle, &from("c", "2001:db8:1:3::")), full(), "the same /48");
        assert_eq!(bound(&throttle, &from("c", "2001:db8:2:3::")), None, "another one");
        assert_eq!(bound(&throttle, &from("c", "192.0.2.1")), None);
        in_flight.into_iter().for_each(RunPermit::paid);
        advance(2 * WINDOW).await;
        assert_eq!(bound(&throttle, &from("c", "2001:db8:1:3::")), None);
    }
}

#[tokio::test(start_paused = true)]
async fn unpaid_runs_of_a_network_count_at_all_hosts() {
    let (one, other) = (throttle(30, 60, 4), throttle(30, 60, 4));
    exchange(&one, &other);
    for address in ["2001:db8:1:1::", "2001:db8:1:2::"] {
        fail(&one, from(address, address));
    }
    exchange(&one, &other);
    assert_eq!(bound(&other, &from("c", "2001:db8:1:3::")), full());
    assert_eq!(bound(&other, &from("c", "2001:db8:2:3::")), None);
}

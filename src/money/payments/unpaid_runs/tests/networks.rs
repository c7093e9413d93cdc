//! Runs from addresses of IPv6 networks.

use super::*;

/// Regression test: 200 addresses of one /48 closed a tool to new payers for a minute.
#[tokio::test(start_paused = true)]
async fn half_of_a_tools_places_are_for_networks_without_unpaid_runs() {
    let full = Some(RunLimit::Tool("one".parse().unwrap()));
    let from = |payer: &str, address: &str| RunParties { from: Some(address.parse().unwrap()), ..running(payer, "one") };
    for ends in [
        |run: RunPermit| Some(run),
        |run: RunPermit| {
            run.failed("failed");
            None
        },
    ] {
        let (throttle, mut in_flight) = (throttle(30, 60, 4), Vec::new());
        in_flight.push(ends(throttle.begin(from("a", "2001:db8:1:1::")).unwrap()));
        in_flight.push(ends(throttle.begin(from("b", "2001:db8:1:2::")).unwrap()));
        assert_eq!(bound(&throttle, &from("c", "2001:db8:1:3::")), full, "the same /48");
        assert_eq!(bound(&throttle, &from("c", "2001:db8:2:3::")), None, "another one");
        assert_eq!(bound(&throttle, &from("c", "192.0.2.1")), None);
        let (one, other) = (&throttle, self::throttle(30, 60, 4));
        for ((_, reported), (_, received)) in one.tallies().into_iter().zip(other.tallies()) {
            reported.take_used(100).into_iter().for_each(|(name, used)| received.used_elsewhere(&name, used));
        }
        let expected = full.clone().filter(|_| in_flight.iter().all(Option::is_none));
        assert_eq!(bound(&other, &from("c", "2001:db8:1:3::")), expected, "other hosts learn of failures");
        in_flight.into_iter().flatten().for_each(RunPermit::paid);
        advance(2 * WINDOW).await;
        assert_eq!(bound(&throttle, &from("c", "2001:db8:1:3::")), None);
    }
}

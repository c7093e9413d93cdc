//! Checks that tests poll a condition or pause the clock, instead of sleeping until something has probably happened.

use crate::sources;

/// Files with real sleeps: their number, and the reason. Polls belong in `eventually` and `until`.
const ALLOWED: &[(&str, usize, &str)] = &[
    // The moment or the pause is what is tested.
    ("src/capability/guard/tests.rs", 2, "a server that sends its answer in pieces"),
    ("src/capability/guard/tests/floods.rs", 1, "a server that pauses between its bytes"),
    ("src/capability/guard/tests/moving.rs", 2, "a connection becomes idle without an event"),
    ("src/capability/http/tests.rs", 1, "slow answers, so that requests overlap"),
    ("src/capability/tests.rs", 1, "a limit per second of the real clock"),
    ("src/catalog/tests.rs", 1, "a slow scan, which another thread does"),
    ("src/money/tests/remote.rs", 1, "slow answers, so that requests overlap"),
    ("tests/it/attacks.rs", 3, "attackers choose their moments"),
    ("tests/it/cli/call.rs", 1, "another process finishes late"),
    ("tests/it/cli/devs.rs", 4, "saves at many moments of a publication"),
    ("tests/it/cluster.rs", 1, "the database is killed again and again"),
    ("tests/it/cluster/rolling.rs", 1, "a client reconnects when the host says"),
    ("tests/it/cluster/rounds.rs", 4, "kills at random moments"),
    ("tests/it/cluster/standby.rs", 2, "payments before and after a failover"),
    ("tests/it/connections.rs", 3, "clients that send slowly, and a host that must not spin"),
    ("tests/it/deleted.rs", 1, "a kill at a random moment"),
    ("tests/it/hostile.rs", 2, "samples of the memory, and `Retry-After`"),
    ("tests/it/hostile/server.rs", 1, "a server that sends slowly"),
    ("tests/it/http2.rs", 2, "a client that sends slowly, and samples of the memory"),
    ("tests/it/mcp/tasks.rs", 1, "a kill at a random moment"),
    ("tests/it/operator_checks.rs", 1, "a kill at a random moment"),
    ("tests/it/revenue.rs", 1, "a kill at a random moment"),
    ("tests/it/shares.rs", 2, "callers that come now and then"),
    ("tests/it/shutdown.rs", 1, "a stop at many moments of a start"),
    ("tests/it/suspensions.rs", 2, "uploads and a suspension at many moments"),
    ("tests/it/telemetry/prometheus.rs", 1, "scrapes of a loaded host"),
    ("tests/store_contract/locked.rs", 1, "a lock that is released late"),
    ("tests/store_contract/start.rs", 1, "a kill at a random moment"),
    // Something must not happen, or cannot be observed.
    ("tests/it/burned_gas.rs", 3, "counts that no request shows are written in the background"),
    ("tests/it/mcp/calls.rs", 1, "a wrong cancellation has no effect"),
    ("tests/it/reorganized.rs", 1, "nothing is reported"),
    ("tests/it/replicas/rates.rs", 1, "hosts exchange counts that no request shows"),
    ("tests/it/replicas/starts.rs", 1, "no job runs"),
    ("tests/it/unpaid.rs", 1, "nothing is logged again"),
    // Samples, measurements, slow disks and background load.
    ("src/money/tests/credit.rs", 1, "a slow disk"),
    ("tests/it/cluster/deletions.rs", 2, "samples, and the time of payments without a deletion"),
    ("tests/it/in_flight_bytes.rs", 1, "samples of the memory"),
    ("tests/store_contract/disk.rs", 2, "a slow disk, and a pause before a measurement"),
    ("tests/store_contract/renewal.rs", 3, "background load, and a measurement without a renewal"),
    ("src/base/offload/tests.rs", 1, "a future that is not ready at once"),
    // Polls with a deadline.
    ("src/call/metrics/tests.rs", 1, "a poll"),
    ("src/money/sale/tests.rs", 2, "a poll, and a pause before sales"),
    ("src/call/run/builtin/readiness/tests.rs", 1, "a poll"),
    ("src/money/tests/evm.rs", 1, "a poll"),
    ("src/store/sled/tests.rs", 1, "a poll"),
    ("tests/it/harness.rs", 1, "`eventually`"),
    ("tests/it/harness/balancer.rs", 1, "a poll"),
    ("tests/it/harness/host.rs", 1, "a kill at a random moment"),
    ("tests/it/harness/nginx.rs", 1, "a poll"),
    ("tests/it/harness/postgres.rs", 1, "a poll"),
    ("tests/it/harness/process.rs", 1, "a poll"),
    ("tests/it/harness/s3.rs", 1, "a slow server"),
    ("tests/it/harness/waiting.rs", 2, "samples, and a kill at a random moment"),
    ("tests/store_contract/harness.rs", 2, "polls"),
    // Helpers of tests with a paused clock.
    ("src/call/tests/joined.rs", 1, "paused"),
    ("src/event/pull/tests.rs", 1, "paused"),
    ("src/money/tests/open.rs", 1, "paused"),
    ("src/money/tests/moody.rs", 1, "paused"),
    ("src/objects/tests.rs", 1, "paused"),
    ("src/replica/exchange/tests.rs", 1, "paused"),
];

/// Returns the number of sleeps outside of tests that pause the clock.
fn sleeps(text: &str) -> usize {
    let (mut is_paused, mut count) = (false, 0);
    for line in text.lines() {
        is_paused = (is_paused || line.contains("start_paused")) && line != "}";
        let line = line.trim_start();
        let sleeps = line.contains("time::sleep(") || line.contains("thread::sleep(") || line.starts_with("sleep(");
        count += usize::from(sleeps && !is_paused && !line.starts_with("//"));
    }
    count
}

#[test]
fn only_the_listed_tests_sleep() {
    let is_test = |file: &str| file.starts_with("tests/") && !file.starts_with("tests/tidy/") || file.contains("/tests");
    let tests = ["src", "tests"].iter().flat_map(|folder| sources(folder)).filter(|(file, _)| is_test(file));
    let found: Vec<_> = tests.map(|(file, text)| (sleeps(&text), file)).filter(|(count, _)| *count > 0).collect();
    let allowed = |file: &str| ALLOWED.iter().find(|(allowed, ..)| *allowed == file).map_or(0, |(_, count, _)| *count);
    let wrong: Vec<_> = found.iter().filter(|(count, file)| *count != allowed(file)).collect();
    assert!(wrong.is_empty(), "poll with `eventually`, pause the clock, or change the list: {wrong:?}");
    let gone: Vec<_> = ALLOWED.iter().filter(|(allowed, ..)| found.iter().all(|(_, file)| file != allowed)).collect();
    assert!(gone.is_empty(), "these sleep no longer: {gone:?}");
}

#[test]
fn sleeps_of_a_paused_clock_do_not_count() {
    let paused = "#[tokio::test(start_paused = true)]\nasync fn test() {\n    tokio::time::sleep(A).await;\n}\n";
    assert_eq!([paused, &paused.replace("(start_paused = true)", "")].map(sleeps), [0, 1]);
}

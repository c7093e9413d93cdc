//! The table of all metrics. `/metrics`, the collector's data, `docs/reference/metrics.md` and the tests are made from it.

/// The kind of a metric.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// A count that only grows, from the start of the process.
    Counter,
    /// A current value.
    Gauge,
    /// A histogram of durations.
    Histogram,
}

impl Kind {
    /// Returns the name used in metrics formats.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Counter => "counter",
            Self::Gauge => "gauge",
            Self::Histogram => "histogram",
        }
    }
}

/// A metric: its name, kind, labels and description.
#[derive(Debug)]
pub struct Metric {
    /// Its name, which ends with the unit, and with `_total` for a counter.
    pub name: &'static str,
    /// Whether it is a counter, a gauge or a histogram.
    pub kind: Kind,
    /// The names of its labels.
    pub labels: &'static [&'static str],
    /// A description: a sentence without a period.
    pub what: &'static str,
}

impl Metric {
    /// Returns the unit of its values, or an empty string for a number of things.
    #[must_use]
    pub fn unit(&self) -> &'static str {
        let name = self.name.trim_end_matches("_total");
        ["seconds", "bytes"].into_iter().find(|unit| name.ends_with(unit)).unwrap_or_default()
    }
}

macro_rules! table {
    ($($place:ident $kind:ident $name:literal [$($label:literal)*] $what:literal;)*) => {
        $(#[doc = $what] pub static $place: Metric = Metric { name: $name, kind: Kind::$kind, labels: &[$($label),*], what: $what };)*

        /// All metrics, in table order.
        pub static ALL: &[&Metric] = &[$(&$place),*];
    };
}

table! {
    BUILD Gauge "tollhouse_build_info" ["version"] "always 1, with the version of the host";
    CALLS Counter "tollhouse_calls_total" ["outcome" "fault"] "completed calls, by outcome and side at fault";
    CALLS_UNDER_WAY Gauge "tollhouse_calls_under_way" [] "calls, registrations and dry runs in progress";
    CALL_SECONDS Histogram "tollhouse_call_seconds" [] "duration of calls, from their arrival to their end";
    STAGE_SECONDS Histogram "tollhouse_call_stage_seconds" ["stage"] "duration of a stage, for calls that reached it";
    RESPONSES Counter "tollhouse_http_responses_total" ["class"] "HTTP responses, by the first digit of their status";
    REFUSALS Counter "tollhouse_http_refusals_total" ["code" "fault"] "HTTP responses with an error, by its code";
    CONNECTIONS Gauge "tollhouse_connections" [] "open connections";
    CONNECTIONS_LIMIT Gauge "tollhouse_connections_limit" [] "maximum of concurrent connections; 0 means no limit";
    CONNECTIONS_ACCEPTED Counter "tollhouse_connections_accepted_total" [] "accepted connections";
    CONNECTIONS_REFUSED Counter "tollhouse_connections_refused_total" ["limit"] "connections refused at a limit: for `all`, or for one `address`";
    CONNECTIONS_CLOSED Counter "tollhouse_connections_closed_total" ["reason"] "connections that the host closed, by reason";
    BODIES_HELD Gauge "tollhouse_body_held_bytes" [] "request bodies in memory";
    BODIES_SPOOLED Gauge "tollhouse_body_spooled_bytes" [] "long request bodies on disk";
    ANSWERS_HELD Gauge "tollhouse_answer_held_bytes" [] "unread responses in memory";
    MCP_REQUESTS Counter "tollhouse_mcp_requests_total" ["method"] "requests of MCP, by method";
    MCP_CALLS Counter "tollhouse_mcp_calls_total" ["outcome" "fault"] "calls of tools over MCP, by outcome and side at fault";
    PAYMENTS Counter "tollhouse_payments_total" ["state"] "payments, by state that they reached";
    UNPAID_RUNS Counter "tollhouse_unpaid_runs_total" ["why"] "unpaid runs, by reason";
    SLOWED_RUNS Counter "tollhouse_slowed_runs_total" ["limit"] "runs refused by a limit on unpaid runs";
    BURNED_GAS Counter "tollhouse_burned_gas_total" [] "gas used by reverted settlements, which paid nothing";
    UNDERPAID_GAS Counter "tollhouse_underpaid_gas_total" [] "gas that settlements below `--least-settlement-usd` have used";
    GAS_BALANCE Gauge "tollhouse_gas_balance_wei" ["network"] "balance of the account for gas, in wei: the smallest unit of the network's currency";
    GAS_SETTLEMENTS_LEFT Gauge "tollhouse_gas_settlements_left" ["network"] "settlements that the account for gas still pays for";
    SETTLEMENT_FAULTS Counter "tollhouse_settlement_faults_total" ["kind"] "settlements that need an operator's attention";
    SETTLEMENTS_OPEN Gauge "tollhouse_settlements_open" [] "settlements with no known outcome yet, including those in progress";
    SETTLEMENTS_UNRESOLVED Gauge "tollhouse_settlements_unresolved" [] "settlements without a reported outcome, for an admin to decide; at most 1,000 are counted";
    FACILITATOR_REQUESTS Counter "tollhouse_facilitator_requests_total" ["operation" "outcome"] "requests to facilitators, by outcome";
    FACILITATOR_SECONDS Histogram "tollhouse_facilitator_seconds" ["operation"] "duration of requests to facilitators, including retries";
    STORE_AVAILABLE Gauge "tollhouse_store_available" [] "1 if the store completed a commit for this answer within 2 s, else 0";
    COMMITS Counter "tollhouse_store_commits_total" ["durability" "outcome"] "commits to the store, by outcome";
    COMMIT_SECONDS Histogram "tollhouse_store_commit_seconds" ["durability"] "duration of commits; `durable` ones are on disk when they complete";
    SYNCS Counter "tollhouse_store_syncs_total" [] "writes of commits to disk, each of one or many";
    STORE_ROWS Gauge "tollhouse_store_rows" ["kind"] "rows in the store";
    STORE_BYTES Gauge "tollhouse_store_bytes" ["kind"] "size of keys and values of these rows; more on disk";
    REMOVED Counter "tollhouse_store_rows_removed_total" ["kind"] "rows removed by retention; those of `calls` and `freeReceipts` hold several each";
    DATA_BYTES Gauge "tollhouse_data_bytes" ["part"] "size of the data folder on disk, by part";
    DISK_FREE Gauge "tollhouse_disk_free_bytes" [] "free space on the disk of the data folder";
    POOL_PROCESSES Gauge "tollhouse_pool_processes" [] "worker processes that run, start or end";
    POOL_WORKERS Gauge "tollhouse_pool_workers" ["state"] "workers, by state";
    POOL_QUEUED Gauge "tollhouse_pool_queued" [] "calls that wait for a slot, or for their turn at a worker";
    POOL_BYTES Gauge "tollhouse_pool_memory_bytes" ["of"] "memory of worker processes and zygotes";
    POOL_ZYGOTES Gauge "tollhouse_pool_zygotes" [] "processes that workers are forked from";
    POOL_FAILING Gauge "tollhouse_pool_failing" [] "1 while no worker can be started";
    POOL_RUNS Counter "tollhouse_pool_runs_total" [] "runs in the sandbox, with any outcome";
    POOL_COLD Counter "tollhouse_pool_cold_runs_total" [] "runs that had to load the handler first";
    POOL_PIPELINED Counter "tollhouse_pool_pipelined_runs_total" [] "runs sent to a worker before its previous run ended";
    POOL_REFUSED Counter "tollhouse_pool_refused_total" [] "refused runs: no worker was free in time, or the endpoint is blocked";
    POOL_STOPS Counter "tollhouse_pool_stops_total" [] "runs that were stopped at a limit";
    POOL_KILLS Counter "tollhouse_pool_kills_total" [] "workers that the watchdog killed";
    POOL_CRASHES Counter "tollhouse_pool_crashes_total" [] "runs whose worker ended unexpectedly or broke the protocol";
    POOL_CANCELS Counter "tollhouse_pool_cancels_total" [] "runs canceled by their caller";
    POOL_STARTED Counter "tollhouse_pool_started_total" [] "started worker processes, including forked ones";
    POOL_FORKED Counter "tollhouse_pool_forked_total" [] "worker processes that were forked from a zygote";
    POOL_FAILED_STARTS Counter "tollhouse_pool_failed_starts_total" [] "starts of worker processes that failed";
    POOL_REPLACED Counter "tollhouse_pool_replaced_total" [] "workers that were replaced for their age, calls or memory";
    POOL_IDLE_FAULTS Counter "tollhouse_pool_idle_faults_total" [] "idle workers that exited, or sent unexpected data";
    JAIL Gauge "tollhouse_jail_layer" ["layer"] "1 for a jail layer that every worker has; 0 before the first worker";
    JAIL_REFUSED Gauge "tollhouse_jail_layer_refused" ["layer"] "1 for each layer of the jail that is missing";
    JOBS Counter "tollhouse_job_runs_total" ["name" "outcome"] "runs of periodic jobs, such as retention";
    JOB_DONE Gauge "tollhouse_job_done_timestamp_seconds" ["name"] "time of a job's last success in this process, since 1970; 0 if none";
    FENCED Gauge "tollhouse_replica_fenced" [] "1 while this process misses changes of other hosts, and takes no calls";
    ENDING Gauge "tollhouse_ending" [] "1 once the host is shutting down";
    TRACES Counter "tollhouse_traces_total" ["asked"] "traced calls: sampled by their caller, or by the host";
    TRACES_LEFT_OUT Counter "tollhouse_traces_left_out_total" ["asked"] "sampled calls that exceeded the limit per second";
    SPANS Counter "tollhouse_spans_total" ["outcome"] "spans of traced calls, by outcome";
    EXPORTS Counter "tollhouse_otlp_requests_total" ["signal" "outcome"] "requests to the collector";
    CPU Counter "process_cpu_seconds_total" [] "processor time of the host's process, without its workers";
    RESIDENT Gauge "process_resident_memory_bytes" [] "memory of the host's process";
    STARTED Gauge "process_start_time_seconds" [] "start time of the host's process, since 1970";
    DESCRIPTORS Gauge "process_open_fds" [] "open descriptors of the host's process";
    DESCRIPTORS_LIMIT Gauge "process_max_fds" [] "maximum of open descriptors";
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn every_metric_is_named_as_its_kind_and_unit_want_it() {
        let mut names = BTreeSet::new();
        for Metric { name, kind, labels, what } in ALL {
            assert!(names.insert(name), "two metrics are called {name}");
            assert!(name.chars().all(|c| c.is_ascii_lowercase() || c == '_'), "{name}");
            assert_eq!(name.ends_with("_total"), *kind == Kind::Counter, "{name}");
            assert_eq!(
                *kind == Kind::Histogram,
                name.ends_with("_seconds") && !name.contains("timestamp") && !name.contains("start_time"),
                "{name}"
            );
            assert!(labels.iter().all(|label| !["le", "job", "instance", "quantile"].contains(label)), "{name}");
            assert!(!what.ends_with('.') && !what.contains('\n'), "{name}");
        }
    }
}

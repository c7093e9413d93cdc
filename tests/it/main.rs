//! Tests of a running host over HTTP, as agents and builders use it. Each test is a claim about it.
//!
//! `TOLLHOUSE_WORKER` names the `tollhouse-worker` binary (default: next to `tollhouse`), and
//! `TOLLHOUSE_CLIENTS` the folder of standard x402 payers that `cargo xtask test` prepares.

#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    clippy::print_stderr,
    unreachable_pub,
    reason = "a test may panic, and prints its seed"
)]

mod apart;
mod approvals;
mod attacks;
mod audit;
mod backups;
mod bearer;
mod bound;
mod browsers;
mod buckets;
mod builders;
mod burned;
mod calls;
mod catalog;
mod chain;
mod cli;
mod clients;
mod cluster;
mod compressed;
mod connections;
mod contract;
mod crash;
mod credentials;
mod credits;
mod crowded;
mod databases;
mod deleted;
mod digits;
mod docs;
mod documents;
mod drafts;
mod elsewhere;
mod envelope;
mod errors;
mod events;
mod extensions;
mod failures;
mod fair;
mod fixtures;
mod gates;
mod granted;
mod harness;
mod hostile;
mod http2;
mod jail;
mod kept;
mod killed;
mod large;
mod ledger;
mod listing;
mod logs;
mod long;
mod mcp;
mod metered;
mod operated;
mod outgoing;
mod owners;
mod payments;
mod payouts;
mod portable;
mod proxied;
mod quotes;
mod reached;
mod readiness;
mod reading;
mod received;
mod refunds;
mod renewed;
mod reorganized;
mod replicas;
mod revenue;
mod reviews;
mod safety;
mod schemas;
mod secrets;
mod settlements;
mod shares;
mod shutdown;
mod signer;
mod story;
mod streams;
mod suspensions;
mod telemetry;
mod tiers;
mod twice;
mod unclear;
mod under_way;
mod unpaid;
mod unpayable;
mod upfront;
mod upgrades;
mod upto;
mod versions;
mod ways;
mod web;
mod words;
mod x402_rules;

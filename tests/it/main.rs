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

mod answer_streams;
mod any_host;
mod approvals;
mod attacks;
mod audit;
mod backups;
mod bearer;
mod bodies;
mod browsers;
mod buckets;
mod builders;
mod burned_gas;
mod call_paths;
mod calls;
mod capability_grants;
mod catalog;
mod chain;
mod changed_tools;
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
mod error_messages;
mod errors;
mod events;
mod extensions;
mod failures;
mod fair;
mod fixtures;
mod gates;
mod harness;
mod hostile;
mod http2;
mod in_flight_bytes;
mod index_rebuild;
mod isolation;
mod jail;
mod killed;
mod large;
mod ledger;
mod listing;
mod logs;
mod long_texts;
mod mcp;
mod metered;
mod operator_checks;
mod outgoing;
mod owners;
mod payment_binding;
mod payment_ids;
mod payments;
mod payouts;
mod placeholders;
mod portable;
mod proxied;
mod quotes;
mod readiness;
mod refunds;
mod reorganized;
mod replicas;
mod request_forms;
mod revenue;
mod reviews;
mod safety;
mod schedules;
mod schemas;
mod secrets;
mod settlements;
mod shares;
mod shutdown;
mod signer;
mod stored_state;
mod story;
mod stream_access;
mod streams;
mod suspensions;
mod telemetry;
mod text_documents;
mod tiers;
mod unclear_answers;
mod unpaid;
mod unpayable;
mod upfront;
mod upgrade_path;
mod upgrades;
mod upto;
mod versions;
mod wait_until;
mod wasm;
mod web;
mod x402_rules;

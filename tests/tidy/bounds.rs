//! Checks that everything that grows on a host has a bound. Each table of the store and each map in
//! the host's code names the row in `sandbox/README.md` that bounds it, or the reason why it needs
//! none.

use std::{collections::BTreeSet, fs, path::PathBuf};

use self::Bound::{Line, Reason};
use crate::root;

/// The bound of a table or a map.
#[derive(Debug, Clone, Copy)]
enum Bound {
    /// The row in the table of bounds with this first cell.
    Line(&'static str),
    /// Strangers and builders cannot make it larger, for this reason.
    Reason(&'static str),
}

const HEADING: &str = "## Resources that others can use";

const FEW: Bound = Reason("one row, or as many as the host has settings, jobs or keys");
const OF_A_HOST: Bound = Reason("a row for each host of the store");
const OF_AN_ENDPOINT: Bound = Reason("what each endpoint has, and a builder has as many as the policy says");
const OF_A_BUILDER: Bound = Reason("what each builder has, whose registration is paid for or made by an admin");
const OF_MONEY: Bound = Reason("what was paid, minted or paid out leaves it");
const OF_ONE_WORK: Bound = Reason("it is made for one request, call or check, and goes with it");
const OF_ALL_ENDPOINTS: Bound = Reason("an entry for each endpoint that is published, or for what endpoints have in common");
const OF_SETTINGS: Bound = Reason("as many as the settings or the host's own documents have");
const READY: Bound = Line("endpoints and secrets that are built from stored rows, ready for calls and lists");
const SINCE_A_SWEEP: Bound = Reason("an entry for who has something under way, or had since the last sweep");

/// The tables of the store.
const TABLES: &[(Bound, &[&str])] = &[
    (
        FEW,
        &[
            "POLICY",
            "SHIPPED",
            "SCANNED_BY",
            "FREE_COUNT",
            "FREE_BYTES",
            "FORMATS_WRITTEN",
            "JOBS",
            "ROUNDS",
            "KEYS",
            "RECEIPT_KEYS",
            "GAS_NONCES",
            "FILLED_BY",
            "DEPARTED",
            "LEDGER_OPENED",
            "MONEY_KIND",
            "PAYOUT_COUNTS",
        ],
    ),
    (OF_A_HOST, &["REPLICAS"]),
    (Line("penalties, wrong credentials"), &["USED"]),
    (Line("gas that settlements burn without paying"), &["BURNED_GAS"]),
    (OF_AN_ENDPOINT, &["ENDPOINTS", "CATALOGUE", "VERSION_USES"]),
    (Line("schedules"), &["SCHEDULES", "SCHEDULES_DUE", "SCHEDULES_OF"]),
    (Line("sources kept"), &["VERSIONS", "VERSIONS_LET_GO"]),
    (Line("who uploaded a source first"), &["VERSION_OWNERS"]),
    (Line("slugs of deleted endpoints"), &["RETIRED_SLUGS", "RETIRED_OF"]),
    (
        OF_MONEY,
        &[
            "RECEIPTS",
            "PAYMENTS",
            "PAYMENT_NAMES",
            "PAYMENT_ANSWERS",
            "OPEN_INTENTS",
            "PAYMENT_EXPIRY",
            "CREDITS",
            "CREDIT_MOVEMENTS",
            "CREDIT_DAYS",
            "ACCOUNTS",
            "POSTINGS",
            "REFUNDS",
            "REFUND_KEYS",
            "REFUNDS_OWED",
            "MINTINGS",
            "LEDGER_BALANCES",
            "LEDGER_NONCES",
            "LEDGER_EXPIRY",
            "UNPAID",
            "PAYOUTS",
            "PAYOUT_BUILDERS",
            "PAYOUT_STATES",
            "PAYOUT_HEADS",
            "PAYOUT_RECEIPTS",
            "SENT_TRANSACTIONS",
            "REORGANIZED_SETTLEMENTS",
            "RESETTLED_SETTLEMENTS",
            "CUSTOMERS",
        ],
    ),
    (Line("receipts of free calls on disk"), &["FREE_RECEIPTS"]),
    (Line("kv on disk"), &["KV", "KV_USAGE"]),
    (Line("files on disk"), &["FILES", "FILES_USAGE", "OBJECT_ENDS"]),
    (Line("logs on disk"), &["LOGS"]),
    (Line("secrets"), &["SECRETS", "SECRETS_ADDED"]),
    (Line("marks of endpoints that were deleted"), &["DELETED", "DELETIONS"]),
    (Line("settlements whose block can still be replaced"), &["WATCHED_SETTLEMENTS"]),
    (Line("settlements of which nobody says how they ended"), &["UNRESOLVED_SETTLEMENTS"]),
    (Line("runs under way of one balance"), &["HELD_BALANCES"]),
    (Line("receipts that one transaction pays for"), &["TRANSACTIONS"]),
    (OF_A_BUILDER, &["ENDPOINTS_OWNED", "BUILDERS", "BUILDER_SEEN", "SELLERS", "PAYOUT_SETTINGS"]),
    (Line("events on disk"), &["EVENTS"]),
    (Line("metrics, sales"), &["SALES", "CALL_METRICS"]),
    (Line("audit trail on disk"), &["AUDIT"]),
    (Line("MCP tasks that were paid for"), &["TASKS"]),
    (Line("MCP calls that can be canceled"), &["MCP_RECALLS"]),
    (Line("records of calls on disk"), &["CALLS"]),
    (Line("sessions of the dashboard"), &["SESSIONS"]),
];

/// The fields with a map, a set or a queue, by file.
const FIELDS: &[(&str, Bound, &[&str])] = &[
    ("sandbox/fair/src/lib.rs", SINCE_A_SWEEP, &["owners", "waiting"]),
    ("sandbox/pool/src/background.rs", Line("calls that work after their answer"), &["endpoints", "callers"]),
    ("sandbox/pool/src/breaker.rs", SINCE_A_SWEEP, &["Recent", "callers"]),
    ("sandbox/pool/src/code_cache.rs", Line("compiled code of sources"), &["CodeCache"]),
    ("sandbox/pool/src/core.rs", Line("places in line, running slots, processes, starts"), &["everyone"]),
    ("sandbox/pool/src/exchange/ops.rs", Line("ops"), &["started", "waiting"]),
    ("sandbox/pool/src/flow.rs", Line("bytes between host and workers"), &["owners"]),
    ("sandbox/pool/src/idle/warm.rs", Line("places in line, running slots, processes, starts"), &["by_endpoint", "waiting"]),
    ("sandbox/pool/src/pipeline.rs", Line("places in line, running slots, processes, starts"), &["ahead"]),
    ("sandbox/pool/src/scheduler/wait_queue.rs", Line("places in line, running slots, processes, starts"), &["lanes"]),
    ("sandbox/pool/src/scheduler/owners.rs", SINCE_A_SWEEP, &["all"]),
    ("sandbox/pool/src/scheduler/queue.rs", SINCE_A_SWEEP, &["callers", "endpoints"]),
    ("sandbox/pool/src/users.rs", Line("places in line, running slots, processes, starts"), &["taken"]),
    ("src/account/builder.rs", OF_A_BUILDER, &["names", "written"]),
    ("src/api/call.rs", OF_ONE_WORK, &["headers"]),
    ("src/api/endpoint.rs", OF_ONE_WORK, &["Limits"]),
    ("src/api/health.rs", OF_ONE_WORK, &["kinds"]),
    ("src/api/metrics.rs", OF_ONE_WORK, &["failed"]),
    ("src/api/revenue.rs", OF_ONE_WORK, &["calls_by_day", "failed_by_day"]),
    ("src/app/payment_settings.rs", OF_SETTINGS, &["SharedSettings"]),
    ("src/backup/dump.rs", OF_ONE_WORK, &["named"]),
    ("src/base/amounts.rs", Reason("a part of queues and of ends of tasks, with as many keys as those have"), &["in_order", "of"]),
    ("src/base/anchors.rs", OF_ONE_WORK, &["Anchors"]),
    ("src/base/attempts.rs", Line("penalties, wrong credentials"), &["queues"]),
    (
        "src/base/piles.rs",
        Line("ends of MCP tasks that no payment keeps: free ones, and those that failed"),
        &["ids", "of_left", "of_right", "piles"],
    ),
    ("src/base/fair_queue.rs", Line("log lines on their way"), &["queues", "turns"]),
    ("src/base/rate_limit.rs", Line("connections"), &["now"]),
    ("src/base/cache.rs", OF_ALL_ENDPOINTS, &["all", "making", "turns"]),
    ("src/base/cpu_share.rs", Line("processor time that addresses owe"), &["accounts"]),
    ("src/base/gcra.rs", Line("penalties, wrong credentials"), &["keys"]),
    ("src/call/history.rs", OF_AN_ENDPOINT, &["counts"]),
    ("src/call/in_flight.rs", Line("places in line, running slots, processes, starts"), &["calls"]),
    ("src/call/joins.rs", Line("requests that wait for the running call of their payment"), &["of_addresses", "of_payments"]),
    ("src/call/metrics.rs", Line("metrics, sales"), &["called", "fresh", "open"]),
    ("src/call/metrics/bucket.rs", Reason("an entry for each code of an error"), &["DurationHistogram", "failed"]),
    ("src/call/metrics/recent.rs", Line("metrics, sales"), &["of"]),
    ("src/call/request.rs", OF_ONE_WORK, &["headers", "query"]),
    ("src/call/run/sandbox_counts.rs", OF_ALL_ENDPOINTS, &["SandboxCounts"]),
    ("src/call/scheduled_runs.rs", Line("scheduled runs at once"), &["begun"]),
    (
        "src/call/write_behind/pending.rs",
        Line("records of calls on their way"),
        &["calls_left_out", "dropped", "of_owners", "receipts", "sales"],
    ),
    ("src/capability/lib.rs", Reason("recorded answers are of `tollhouse dev` and tests alone"), &["recorded"]),
    ("src/capability/guard/dns.rs", Line("answers of name servers that are kept"), &["answers"]),
    ("src/capability/guard/cache.rs", Line("connections that are kept for a next request"), &["hosts"]),
    ("src/capability/http.rs", OF_ONE_WORK, &["headers"]),
    ("src/capability/response.rs", Line("responses of `fetch` that are open"), &["OpenRequests"]),
    ("src/capability/kv.rs", OF_AN_ENDPOINT, &["reclaimed"]),
    ("src/capability/log/pending.rs", Line("log lines on their way"), &["unreported"]),
    ("src/capability/log/writer.rs", Line("logs on disk"), &["untrimmed"]),
    ("src/capability/usage.rs", SINCE_A_SWEEP, &["endpoints"]),
    ("src/capability/secret.rs", READY, &["held"]),
    ("src/capability/secret/rotate.rs", OF_AN_ENDPOINT, &["rewritten"]),
    ("src/catalog/lib.rs", OF_A_BUILDER, &["builder_standing"]),
    ("src/catalog/lib.rs", READY, &["ready", "shown_cache"]),
    ("src/catalog/entry.rs", OF_AN_ENDPOINT, &["limit_caps"]),
    ("src/catalog/snapshot_builder.rs", OF_ALL_ENDPOINTS, &["requested", "owners", "prices", "tags"]),
    ("src/catalog/safety/operator.rs", OF_SETTINGS, &["hashes"]),
    ("src/catalog/safety/report.rs", OF_ONE_WORK, &["count"]),
    ("src/catalog/safety/scan.rs", OF_ONE_WORK, &["counted"]),
    ("src/catalog/search.rs", OF_ALL_ENDPOINTS, &["stems"]),
    ("src/catalog/search/stemming.rs", OF_SETTINGS, &["OTHERS", "STOPPED"]),
    ("src/catalog/search/text.rs", OF_ONE_WORK, &["stems"]),
    ("src/catalog/snapshot.rs", OF_ALL_ENDPOINTS, &["requested", "owners", "prices"]),
    ("src/catalog/tag_index.rs", OF_ALL_ENDPOINTS, &["counts"]),
    ("src/config/effective.rs", OF_SETTINGS, &["values"]),
    ("src/event/lib.rs", Line("events on disk"), &["counts"]),
    ("src/event/feed.rs", Line("who follows a log or events"), &["subjects"]),
    ("src/event/pull.rs", OF_ONE_WORK, &["published"]),
    ("src/front/quota.rs", Line("connections"), &["by_network"]),
    ("src/front/spool.rs", Line("bodies that are not JSON"), &["owners"]),
    ("src/front/serve/frames.rs", Reason("a stream for each of `--http2-streams` of a connection"), &["open"]),
    ("src/http/documents/schema_parts.rs", OF_SETTINGS, &["parameters"]),
    ("src/http/documents/examples.rs", OF_SETTINGS, &["ALL"]),
    ("src/http/event_stream.rs", Line("who follows a log or events"), &["ids", "order", "ready"]),
    ("src/mcp/cancel.rs", Line("MCP calls that can be canceled"), &["calls"]),
    ("src/mcp/tool_filter.rs", OF_ONE_WORK, &["ToolFilter"]),
    ("src/mcp/list_cache.rs", Line("lists of MCP"), &["ListCache"]),
    ("src/mcp/chunked_body.rs", OF_ONE_WORK, &["ChunkedBody"]),
    ("src/mcp/tasks.rs", Line("MCP tasks that run"), &["running"]),
    ("src/mcp/tasks/unpaid.rs", Line("ends of MCP tasks that no payment keeps: free ones, and those that failed"), &["ends", "tasks"]),
    ("src/money/facilitator/chain/recent_reads.rs", Line("reads of a node that are remembered"), &["values"]),
    ("src/money/facilitator/kind/evm/pending_txs.rs", Line("settlements whose end is not known"), &["flights", "free"]),
    ("src/money/facilitator/kind/evm/tx_manager.rs", Line("settlements whose end is not known"), &["run"]),
    ("src/money/facilitator/kind/evm/gas.rs", Line("settlements whose end is not known"), &["of", "transactions"]),
    ("src/money/facilitator/kind/evm/nonces.rs", Line("settlements whose end is not known"), &["taken"]),
    ("src/money/payments.rs", Line("settlements whose end is not known"), &["open_runs", "orphaned", "retries"]),
    ("src/money/payments.rs", OF_SETTINGS, &["compared"]),
    ("src/money/payments/claims.rs", Reason("a reservation for each call that runs"), &["Claims"]),
    ("src/money/payments/balance_holds.rs", Line("runs under way of one balance"), &["BalanceHolds"]),
    ("src/money/payments/gas.rs", Line("gas that settlements burn without paying"), &["addresses", "builders", "payers", "unwritten"]),
    (
        "src/money/payments/unpaid_runs.rs",
        Line("unpaid runs, those under way among them"),
        &["Unwritten", "addresses", "customers", "earned", "networks", "payers", "tools"],
    ),
    ("src/money/payments/verdicts.rs", Line("payments that were valid, and with which no run began"), &["Verdicts"]),
    ("src/money/payments/unsent.rs", Line("unpaid runs, those under way among them"), &["counts"]),
    ("src/money/ledger/check.rs", OF_ONE_WORK, &["sums"]),
    ("src/money/sale.rs", OF_A_BUILDER, &["SellerCache", "sold"]),
    ("src/money/sale/report.rs", OF_ONE_WORK, &["days", "endpoints"]),
    ("src/replica/exchange.rs", Line("penalties, wrong credentials"), &["known"]),
    ("src/replica/lease.rs", OF_A_HOST, &["LiveReplicas"]),
    ("src/store/lib.rs", OF_SETTINGS, &["spaces"]),
    ("src/store/faulty.rs", Reason("it is of tests alone"), &["faults"]),
    ("src/store/import.rs", OF_ONE_WORK, &["left_out"]),
    ("src/store/journal/survey.rs", OF_ONE_WORK, &["rows"]),
    ("src/store/journal/walk.rs", OF_ONE_WORK, &["waiting"]),
    ("src/store/memory.rs", Reason("it is of tests and dry runs alone"), &["changelog"]),
    ("src/store/postgres/pending.rs", Line("commits that wait for the store"), &["held", "queues"]),
    ("src/store/postgres/sizes.rs", OF_SETTINGS, &["KnownSizes"]),
    ("src/store/sled/group.rs", Line("commits that wait for the store"), &["writes"]),
    ("src/tool/endpoint.rs", OF_AN_ENDPOINT, &["limit_caps"]),
    ("src/tool/schema/bound.rs", OF_ONE_WORK, &["counted"]),
    ("src/tool/schema/components.rs", OF_ONE_WORK, &["moved", "taken", "targets"]),
    ("src/tool/schema/portable.rs", OF_ONE_WORK, &["known", "positions"]),
    ("src/tool/schema/reference.rs", OF_ONE_WORK, &["anchors", "dynamic", "resources"]),
    ("src/web/render_cache.rs", OF_SETTINGS, &["RenderCache"]),
    ("src/web/parts/highlight.rs", OF_SETTINGS, &["KEYWORDS"]),
    ("src/web/pages/edit/draft.rs", OF_ONE_WORK, &["ToolDraft"]),
    ("src/web/parts/schema_form/draft.rs", OF_ONE_WORK, &["FormDraft"]),
];

/// Parts of the type of a field that can grow.
const GROWING: [&str; 18] = [
    "HashMap<",
    "BTreeMap<",
    "HashSet<",
    "BTreeSet<",
    "VecDeque<",
    "BinaryHeap<",
    "DashMap<",
    "Cache<",
    "OrdMap<",
    "IndexMap<",
    "LruCache<",
    "IndexSet<",
    "OrdSet<",
    "DashSet<",
    "JoinSet<",
    "FuturesUnordered<",
    "UnboundedSender<",
    "UnboundedReceiver<",
];

/// Folders with code that a stranger or a builder can reach.
const FOLDERS: [&str; 4] = ["src", "sandbox/pool/src", "sandbox/fair/src", "sandbox/pace/src"];

/// Parts of these folders that do not belong to a running host, or are tests.
const ELSEWHERE: [&str; 3] = ["src/cli", "/tests", "/testing"];

/// Returns the first cells of the table of bounds.
fn lines() -> BTreeSet<String> {
    let document = fs::read_to_string(root().join("sandbox/README.md")).expect("the document is there");
    let (_, below) = document.split_once(&format!("{HEADING}\n")).expect("the heading is there");
    let rows = below.lines().take_while(|line| !line.starts_with("## ")).filter_map(|line| line.strip_prefix("| "));
    rows.filter_map(|row| Some(row.split_once(" |")?.0.to_owned())).collect()
}

/// Returns the complaint about a bound that is missing, or that names a missing row.
fn astray(lines: &BTreeSet<String>, what: &str, bound: Option<Bound>) -> Option<String> {
    match bound {
        None => Some(format!("{what} has no bound: add a line to the table of `sandbox/README.md`, and name it in `tests/tidy/bounds.rs`")),
        Some(Line(line)) if !lines.contains(line) => Some(format!("{what}: `sandbox/README.md` has no line `{line}`")),
        Some(Reason("")) => Some(format!("{what} has an empty reason")),
        Some(Line(_) | Reason(_)) => None,
    }
}

#[test]
fn every_table_of_the_store_has_a_bound() {
    let schema = fs::read_to_string(root().join("src/store/schema.rs")).expect("the schema is there");
    let is_name = |name: &&str| !name.is_empty() && name.chars().all(|letter| letter.is_ascii_uppercase() || letter == '_');
    let rows = schema.lines().filter_map(|line| line.strip_prefix("    ")?.split_once(": ")).map(|(name, _)| name).filter(is_name);
    let (tables, lines): (BTreeSet<_>, _) = (rows.collect(), lines());
    let bound = |table: &str| TABLES.iter().find(|(_, names)| names.contains(&table)).map(|(bound, _)| *bound);
    let mut wrong: Vec<_> = tables.iter().filter_map(|table| astray(&lines, table, bound(table))).collect();
    let named = TABLES.iter().flat_map(|(_, names)| *names);
    wrong.extend(named.filter(|name| !tables.contains(**name)).map(|name| format!("there is no table {name}")));
    assert!(tables.len() > 60 && wrong.is_empty(), "{} tables\n{}", tables.len(), wrong.join("\n"));
}

/// Returns the sources in a folder, as paths from the root.
fn sources(folder: &str) -> Vec<PathBuf> {
    let (mut open, mut found) = (vec![root().join(folder)], vec![]);
    while let Some(path) = open.pop() {
        if path.is_dir() {
            open.extend(fs::read_dir(&path).expect("a folder can be read").flatten().map(|entry| entry.path()));
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            found.push(path);
        }
    }
    found
}

/// Returns the names of fields, tuple structs and statics whose type can grow. Each declaration
/// must be on one line.
fn growing(text: &str) -> Vec<&str> {
    let code = text.split("#[cfg(test)]\nmod tests {").next().unwrap_or_default();
    let lines = code.lines().map(str::trim).filter(|line| !line.starts_with("//") && !line.contains("fn "));
    lines.filter(|line| GROWING.iter().any(|word| line.contains(word))).filter_map(|line| whole(line).or_else(|| field(line))).collect()
}

/// Returns the name of a tuple struct or a static.
fn whole(line: &str) -> Option<&str> {
    let (_, rest) = line.split_once("struct ").or_else(|| line.split_once("static "))?;
    let rest = rest.split(" = ").next().unwrap_or_default();
    let end = rest.find(|letter: char| !letter.is_alphanumeric() && letter != '_')?;
    let is_one = rest[end..].starts_with([':', '(', '<']) && !rest.contains('{');
    is_one.then(|| &rest[..end])
}

/// Returns the name of a field that owns its contents.
fn field(line: &str) -> Option<&str> {
    let (name, kind) = line.split_once(": ")?;
    let name = name.rsplit(' ').next()?;
    let is_name = name.chars().all(|letter| letter.is_ascii_lowercase() || letter.is_ascii_digit() || letter == '_');
    let is_field = is_name && line.ends_with(',') && !kind.contains('{') && !kind.starts_with('&') && !line.contains(" = ");
    is_field.then_some(name)
}

#[test]
fn every_map_of_the_host_has_a_bound() {
    let (lines, mut wrong, mut seen) = (lines(), vec![], BTreeSet::new());
    for path in FOLDERS.into_iter().flat_map(sources) {
        let name = path.strip_prefix(root()).expect("it is below the root").to_string_lossy().into_owned();
        if ELSEWHERE.iter().any(|elsewhere| name.contains(elsewhere)) {
            continue;
        }
        let text = fs::read_to_string(&path).expect("a source can be read");
        for field in growing(&text) {
            let bound = FIELDS.iter().find(|(file, _, fields)| *file == name && fields.contains(&field)).map(|(_, bound, _)| *bound);
            wrong.extend(astray(&lines, &format!("`{field}` in {name}"), bound));
            seen.insert((name.clone(), field.to_owned()));
        }
    }
    let named = FIELDS.iter().flat_map(|(file, _, fields)| fields.iter().map(move |field| ((*file).to_owned(), (*field).to_owned())));
    wrong.extend(named.filter(|field| !seen.contains(field)).map(|(file, field)| format!("there is no map `{field}` in {file}")));
    assert!(seen.len() > 60 && wrong.is_empty(), "{} maps\n{}", seen.len(), wrong.join("\n"));
}

#[test]
fn growing_names_are_found() {
    let text = "struct A {\n    /// Of all.\n    pub(super) all: Mutex<HashMap<String, Vec<u8>>>,\n    number: usize,\n    queues: [VecDeque<Job>; 2],\n\
        shown: &'a HashMap<u8, u8>,\n}\npub struct Kept(Mutex<HashMap<u8, u8>>);\nstatic ALL: LazyLock<BTreeMap<u8, u8>> = LazyLock::new(make);\n\
        fn f(given: HashMap<u8, u8>) {\n    let made: HashMap<u8, u8> = HashMap::new();\n}\n#[cfg(test)]\nmod tests {\n    x: HashSet<u8>,\n}\n";
    assert_eq!(growing(text), ["all", "queues", "Kept", "ALL"]);
}

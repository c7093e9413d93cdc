//! The schema: every table of the store, in one place.
//!
//! Each row below declares a table: its space, the prefix of its keys, the types of its keys and values, how long its
//! rows are kept (forever, with another item, or until an event), and the table that it is an index of. The modules that
//! own the rows give values their types, because the store knows none of them ([`DeclaredTable::holding`]). Type of the
//! values and retention are documentation.
//!
//! Running hosts have these rows on disk. So a space keeps its number, and a table keeps its prefix and the form of its
//! keys, which the tests below verify. Values may change with the number of their format ([`super::Formatted`]).

use super::{
    declared::DeclaredTable,
    key::{CountedText, TerminatedText},
    position::{KeyPosition, SaleKey},
    space::Space,
    table_plan::TablePlan,
};

use tollhouse_base::{
    clock::Timestamp,
    id::{AuditId, BuilderId, CreditId, EndpointId, PaymentId, PayoutId, ReceiptId, ReplicaId, RequestId},
};

macro_rules! tables {
    ($(
        $(#[doc = $what:literal])+
        $name:ident: $space:ident $prefix:literal, $key:ty => $value:literal, $retention:ident $(($until:literal))?
            $(, of: $of:ident)? $(, followed: $followed:literal)?;
    )+) => {
        $(
            $(#[doc = $what])+
            pub const $name: DeclaredTable<$key> = DeclaredTable::new(const { &TablePlan {
                name: stringify!($name),
                space: Space::$space,
                prefix: $prefix,
                key: stringify!($key),
                index_of: concat!($(stringify!($of))?),
                followed: false $(|| $followed)?,
            } });
        )+

        /// Every table.
        pub const TABLES: &[&TablePlan] = &[$($name.plan()),+];
    };
}

tables! {
    /// The content policy in addition to the built-in rules.
    POLICY: Meta "policy", () => "PolicyInForce", Forever, followed: true;
    /// When the tools that come with the host were published.
    SHIPPED: Meta "catalogue-shipped", () => "String", Forever;
    /// The version of the rules that all tools were scanned with.
    SCANNED_BY: Meta "content-policy-version", () => "String", Forever;
    /// Number of receipts of free calls.
    FREE_COUNT: Meta "free-receipts/count", () => "a sum", Forever;
    /// Bytes of receipts of free calls.
    FREE_BYTES: Meta "free-receipts/bytes", () => "a sum", Forever;
    /// The replicas that serve a shared store, each with its lease.
    REPLICAS: Meta "replicas/", ReplicaId => "Lease", Until("an hour after the lease");
    /// The format up to which the store's rows are written.
    FORMATS_WRITTEN: Meta "formats-written", () => "Formats", Forever;
    /// Uses of rate limits and failures of callers, by period and key, counted across all replicas.
    USED: Meta "used/", (u64, String) => "a sum", Until("two more periods of ten seconds have passed");
    /// Gas burned by settlements that paid nothing, gas of underpaid ones, and the number of reverted ones, per five
    /// minutes: by payer, caller's address, builder, and in total. Also the payments whose burned gas was counted, with
    /// the parties for which it was, and what gas cost.
    BURNED_GAS: Meta "burned-gas/", (u64, String) => "a sum", Until("an hour has passed");
    /// Payers with a settlement in the host's own transaction, per week: payer, `/`, tool.
    CUSTOMERS: Meta "customers/", (u64, String) => "()", Until("two weeks have passed");
    /// Jobs that only one replica runs at a time: when each is due, and which replica has it.
    JOBS: Meta "jobs/", String => "JobState", Forever;
    /// The position of each round, by name.
    ROUNDS: Meta "rounds/", String => "SweepState", Forever;
    /// The ids of keys that all replicas share, by purpose. The keys themselves are never stored.
    KEYS: Meta "keys/", String => "SharedKey", Forever;
    /// Public keys that sign or signed receipts of replicas, by id.
    RECEIPT_KEYS: Meta "receipt-keys/", String => "PublicKey", Forever;
    /// Number of nonces used of a key that pays gas for several hosts: network, `/`, address.
    GAS_NONCES: Meta "gas-nonces/", String => "a sum", Forever;
    /// The process that imports into the store, or has imported and serves it alone until it restarts.
    FILLED_BY: Meta "filled-by", () => "FillSource", Until("the import is complete, or the importing host has restarted");
    /// The store that the rows have moved to or are about to move to.
    DEPARTED: Meta "departed", () => "Departure", Until("an operator makes the store usable again");
    /// Endpoints, by slug.
    ENDPOINTS: Endpoints "", String => "Endpoint", Forever, followed: true;
    /// Summary of an endpoint that is available without its record, by slug.
    CATALOGUE: Catalogue "slug/", String => "Card", With("the endpoint"), of: ENDPOINTS;
    /// The endpoints that run a version or can be rolled back to it.
    VERSION_USES: Catalogue "uses/", (TerminatedText<String>, String) => "()", With("the endpoint, as long as it needs the version");
    /// Source code of handlers, by the hash that is their version. Long sources are objects that the rows name.
    VERSIONS: Versions "", String => "VersionRow", With("the endpoints that have the version");
    /// The owner who first uploaded a version.
    VERSION_OWNERS: VersionOwners "", String => "String", With("the endpoints that have the version");
    /// Versions that no endpoint uses any more as far as one of several replicas knows, and since when.
    VERSIONS_LET_GO: Meta "versions-let-go/", String => "ReleasedVersion", Until("all hosts know which endpoints have them");
    /// Recently deleted endpoints, by when the next cleanup is due. At once, their stored data is removed. An hour
    /// later, data written by calls that were still running.
    DELETIONS: Meta "deletions/", (Timestamp, EndpointId) => "Deletion", Until("nothing is left, and an hour has passed");
    /// When an endpoint with schedules runs next, and the run that was begun.
    SCHEDULES: Meta "schedules/", EndpointId => "ScheduleState", With("the endpoint, while it has schedules");
    /// Endpoints with schedules, by when each is due.
    SCHEDULES_DUE: Meta "schedules-due/", (Timestamp, EndpointId) => "()", With("the endpoint's schedules"), of: SCHEDULES;
    /// Number of schedules of each endpoint, by owner.
    SCHEDULES_OF: Meta "schedules-of/", (TerminatedText<String>, EndpointId) => "CronCount", With("the endpoint's schedules"), of: SCHEDULES;
    /// The endpoint that was deleted last under a slug.
    DELETED: Meta "deleted/", String => "DeletedEndpoint", Until("an hour has passed, or the slug is taken");
    /// Number of a builder's endpoints at the last addition or removal. Hosts that add endpoints concurrently check it.
    ENDPOINTS_OWNED: Meta "endpoints-owned/", TerminatedText<String> => "OwnedCount", Forever;
    /// The owner of a deleted endpoint's slug.
    RETIRED_SLUGS: RetiredSlugs "", String => "String", Until("its owner takes the slug again");
    /// Slugs of an owner's deleted endpoints, by owner.
    RETIRED_OF: Meta "retired-slugs/", (TerminatedText<String>, String) => "()", Until("the owner takes the slug again");
    /// Receipts of paid calls.
    RECEIPTS: Receipts "", ReceiptId => "StoredReceipt", Forever;
    /// Receipts of free calls, in packs: by time window, name, and number of the pack.
    FREE_RECEIPTS: FreeReceipts "", (u64, RequestId, u32) => "Pack", Until("the settings' age or count");
    /// Payments: the state and the intent of each.
    PAYMENTS: Payments "pmt_", PaymentId => "PaymentRecord", Until("it can no longer be asked about");
    /// The payment that a payer's own id for it refers to.
    PAYMENT_NAMES: Payments "cid/", String => "PaymentId", With("the payment");
    /// Answers that were paid for, from the intent on.
    PAYMENT_ANSWERS: PaymentAnswers "pmt_", PaymentId => "AnswerRow", With("the payment, for a day");
    /// Settlements that have begun and not ended.
    OPEN_INTENTS: OpenIntents "pmt_", PaymentId => "()", With("the payment, while it is open"), of: PAYMENTS;
    /// Settlements whose result was still unknown when the host stopped asking.
    UNRESOLVED_SETTLEMENTS: Payments "unresolved/", PaymentId => "()", With("the payment, until the chain or an admin decides"), of: PAYMENTS;
    /// Amounts of payers' balances held by running calls, on hosts that share a store: payer, `/`, network, `/`, token.
    HELD_BALANCES: Payments "held/", String => "a sum", Until("the payer has no run under way");
    /// Payments with data to delete, by when it is due.
    PAYMENT_EXPIRY: PaymentExpiry "", (Timestamp, String) => "()", Until("then");
    /// The receipts that a transaction pays for: network, `/`, hash.
    TRANSACTIONS: Payments "tx/", String => "PaidItems", Forever;
    /// Settlements whose block can still be replaced: network, `/`, block, `/`, receipt.
    WATCHED_SETTLEMENTS: Payments "watched/", String => "WatchedSettlement", Until("its block is safe");
    /// Settlements whose transaction is no longer in any block.
    REORGANIZED_SETTLEMENTS: Payments "reorganized/", ReceiptId => "ReorganizedSettlement", Until("its payment is in a block again");
    /// Settlements that another transaction has made since a reorganization undid them.
    RESETTLED_SETTLEMENTS: Payments "resettled/", ReceiptId => "ResettledSettlement", Forever;
    /// Developer credits.
    CREDITS: Credits "", CreditId => "StoredCredit", Forever;
    /// Movements of a developer credit, by number. The balance comes after the last one, so that one scan sees both.
    CREDIT_MOVEMENTS: CreditMovements "", (CreditId, u64) => "CreditRow", Forever;
    /// Spending of a developer credit on a day, by tool. The total of all tools has an empty name.
    CREDIT_DAYS: CreditDays "", (u32, CreditId, String) => "a sum of micro-dollars", Until("a week has passed");
    /// Balances of the ledger's accounts, except those of credits.
    ACCOUNTS: Accounts "", String => "a sum", Forever;
    /// Postings: movements between accounts.
    POSTINGS: Postings "", String => "Posting", Forever;
    /// When postings began. Since then every movement of money has one.
    LEDGER_OPENED: Meta "ledger-opened", () => "LedgerStart", Forever;
    /// Whether the store's money is play money.
    MONEY_KIND: Meta "money-kind", () => "MoneyKind", Forever;
    /// Refunds of a receipt.
    REFUNDS: Refunds "receipt\0", ReceiptId => "RefundedTotal", Forever;
    /// The refund made under an idempotency key.
    REFUND_KEYS: Refunds "key\0", String => "RefundRow", Forever;
    /// The refunds and payouts that outgoing transactions are recorded for, by hash.
    SENT_TRANSACTIONS: Refunds "tx\0", String => "TransactionPurpose", Forever;
    /// Refunds of a builder's sales that are not in a payout yet.
    REFUNDS_OWED: Refunds "owed\0", BuilderId => "a sum of micro-dollars", Forever;
    /// The credit minted under an idempotency key.
    MINTINGS: Mintings "", String => "MintRow", Forever;
    /// Balances of the simulated ledger: network, `/`, address.
    LEDGER_BALANCES: LedgerBalances "", String => "a sum of micro-dollars", Forever;
    /// Transactions of the simulated ledger: network, `/`, payer, `/`, nonce.
    LEDGER_NONCES: LedgerNonces "", String => "String", Until("the authorization has expired for a while");
    /// Expired nonces of the simulated ledger, by when they can be deleted.
    LEDGER_EXPIRY: LedgerExpiry "", (Timestamp, String) => "()", Until("then");
    /// Values of `ctx.kv`, by endpoint.
    KV: Kv "", (CountedText<EndpointId>, String) => "Entry", With("the endpoint, or its own end");
    /// Number and bytes of an endpoint's kv.
    KV_USAGE: KvUsage "", CountedText<EndpointId> => "Usage", With("the endpoint");
    /// Entries of `ctx.files`, by endpoint and path.
    FILES: Files "", (CountedText<EndpointId>, String) => "Entry", With("the endpoint");
    /// Number and bytes of an endpoint's files.
    FILES_USAGE: FilesUsage "", CountedText<EndpointId> => "Usage", With("the endpoint");
    /// Log lines, by endpoint, time and number.
    LOGS: Logs "", (CountedText<EndpointId>, Timestamp, u64) => "LogEntry", Until("the settings' age or count");
    /// Encrypted secrets, by endpoint and name.
    SECRETS: Secrets "", (CountedText<EndpointId>, String) => "SealedSecret", With("the endpoint"), followed: true;
    /// Number of names ever added to the secrets of an endpoint.
    SECRETS_ADDED: Meta "secrets-added/", EndpointId => "AddedCount", With("the endpoint");
    /// Objects to delete, by when: those that a row may still come to reference, and those that no row references
    /// anymore.
    OBJECT_ENDS: Meta "object-ends/", (Timestamp, String) => "()", Until("a row holds the object, or it is gone");
    /// Builders, with the hash of their current key.
    BUILDERS: Builders "", BuilderId => "Builder", Forever, followed: true;
    /// When a builder was last seen.
    BUILDER_SEEN: Meta "builders-seen/", BuilderId => "LastSeen", Forever;
    /// Events, by owner, time and id.
    EVENTS: Events "", (TerminatedText<String>, KeyPosition) => "Event", Until("the settings' age or count");
    /// Calls and money, by owner: one row for each call, later rolled up into one for each day and endpoint.
    SALES: Sales "", (TerminatedText<String>, SaleKey) => "Sale", Forever;
    /// Owners with sales, by period of 32 days.
    SELLERS: Sellers "", (u32, TerminatedText<String>) => "Seller", Forever;
    /// Net amounts of receipts that are not in a payout yet, by builder.
    UNPAID: Unpaid "", (TerminatedText<BuilderId>, ReceiptId) => "UnpaidSale", Until("a payout contains the receipt");
    /// Payouts, by builder.
    PAYOUTS: Payouts "bld_", (TerminatedText<String>, PayoutId) => "Packet", Forever;
    /// The builder that a payout belongs to.
    PAYOUT_BUILDERS: Payouts "index\0", PayoutId => "BuilderId", With("the payout"), of: PAYOUTS;
    /// The builder that a payout belongs to, by the number of the payout's state.
    PAYOUT_STATES: Payouts "state\0", (u8, PayoutId) => "BuilderId", With("the payout"), of: PAYOUTS;
    /// Number of payouts in each state.
    PAYOUT_COUNTS: Payouts "count\0", u8 => "a sum", Forever;
    /// The newest payout of a builder.
    PAYOUT_HEADS: Payouts "head\0", BuilderId => "NewestPacket", Forever;
    /// Net amounts of the receipts in a payout.
    PAYOUT_RECEIPTS: PayoutReceipts "", (TerminatedText<PayoutId>, String) => "UnpaidSale", With("the payout");
    /// The payout settings of a builder.
    PAYOUT_SETTINGS: PayoutSettings "", BuilderId => "PayoutSettings", Forever;
    /// The audit trail: actions of admins and builders, including failed attempts, by time.
    AUDIT: Audit "", (Timestamp, AuditId) => "Entry", Until("the settings' age or count");
    /// Long-running MCP calls.
    TASKS: Tasks "", String => "TaskRecord", Until("its time to live");
    /// Ids of MCP calls that were canceled at a replica other than the one that runs them.
    MCP_RECALLS: Meta "mcp-recalls/", (Timestamp, String) => "()", Until("a minute has passed, or the call is found");
    /// Calls, in packs: by endpoint, time, a name, and the number of the pack.
    CALLS: Calls "", (TerminatedText<EndpointId>, Timestamp, RequestId, u32) => "Pack", Until("the settings' age or count");
    /// Metrics of calls in a period: by endpoint, length of the period, its start, and the process.
    CALL_METRICS: CallMetrics "", (TerminatedText<EndpointId>, u8, u64, RequestId) => "Bucket", Until("the age of its length");
    /// Dashboard sessions, by account and hash of the session id. Their credentials are encrypted with keys that only
    /// the sessions' holders have.
    SESSIONS: Sessions "", (TerminatedText<String>, String) => "Session", Until("the settings' idle time or age");
}

#[cfg(test)]
mod tests;

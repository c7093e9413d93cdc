//! The schema: every table of the store, in one place.
//!
//! A table is a row below: where it lies, what its keys start with, the type of its keys and of its values, what becomes of
//! its rows, and which table it is an index of. The modules whose rows they are give values their type, since the store
//! knows none of them ([`Declared::holding`]).
//!
//! Rows are on the disks of hosts that run. A space keeps its number, a table its prefix and the form of its keys; the tests
//! below hold them. Values may change form with the number of their format ([`super::Formatted`]).

use super::{
    declared::Declared,
    key::{Counted, Ended},
    place::{Place, SaleKey},
    plan::{Kept, Plan},
    space::Space,
};

use Kept::{Forever, Until, With};
use tollhouse_base::{
    clock::Timestamp,
    id::{AuditId, BuilderId, CreditId, EndpointId, PaymentId, PayoutId, ReceiptId, ReplicaId, RequestId},
};

macro_rules! tables {
    ($(
        $(#[doc = $what:literal])+
        $name:ident: $space:ident $prefix:literal, $key:ty => $value:literal, $kept:expr
            $(, of: $of:ident)? $(, followed: $followed:literal)?;
    )+) => {
        $(
            $(#[doc = $what])+
            pub const $name: Declared<$key> = Declared::new(const { &Plan {
                name: stringify!($name),
                what: concat!($($what),+),
                space: Space::$space,
                prefix: $prefix,
                key: stringify!($key),
                value: $value,
                kept: $kept,
                index_of: concat!($(stringify!($of))?),
                followed: false $(|| $followed)?,
            } });
        )+

        /// Every table.
        pub const TABLES: &[&Plan] = &[$($name.plan()),+];
    };
}

tables! {
    /// What content may be, beside the built-in rules.
    POLICY: Meta "policy", () => "PolicyInForce", Forever, followed: true;
    /// When the endpoints that come with the host were published.
    SHIPPED: Meta "catalogue-shipped", () => "String", Forever;
    /// The version of the rules that all endpoints were scanned by.
    SCANNED_BY: Meta "content-policy-version", () => "String", Forever;
    /// How many receipts of free calls there are.
    FREE_COUNT: Meta "free-receipts/count", () => "a sum", Forever;
    /// Their bytes.
    FREE_BYTES: Meta "free-receipts/bytes", () => "a sum", Forever;
    /// Receipts of free calls that calls added, as one process counted them that had the store to itself.
    FREE_ADDED: Meta "free-receipts/added", () => "Tally", Until("the next start");
    /// The same of those that sorting added.
    FREE_SORTED: Meta "free-receipts/sorted", () => "Tally", Until("the next start");
    /// The same of those that were removed.
    FREE_REMOVED: Meta "free-receipts/removed", () => "Tally", Until("the next start");
    /// How far sorting has come.
    FREE_PLACE: Meta "free-receipts/sorted-to", () => "SortedTo", Forever;
    /// Who serves a store that several processes share, and until when it is sure that they do.
    REPLICAS: Meta "replicas/", ReplicaId => "Lease", Until("an hour after the lease");
    /// Up to which form the store's rows are.
    FORMATS_WRITTEN: Meta "formats-written", () => "Formats", Forever;
    /// Up to which form each of those reads rows.
    FORMATS_READ: Meta "formats-read/", ReplicaId => "Formats", With("its lease");
    /// What callers have used of their rates, and failed, by the stretch of time and the key: counted by all who share the store.
    USED: Meta "used/", (u64, String) => "a sum", Until("some stretches of ten seconds have gone by");
    /// What one of those does at a time: when it is due, and who has it.
    JOBS: Meta "jobs/", String => "Job", Forever;
    /// How far those are with what they go through part by part, by its name.
    ROUNDS: Meta "rounds/", String => "Standing", Forever;
    /// Which keys all of those have, by what they are for: their ids, never the keys.
    KEYS: Meta "keys/", String => "Agreed", Forever;
    /// Public keys that sign, or signed, receipts of hosts that share a store, by id.
    RECEIPT_KEYS: Meta "receipt-keys/", String => "PublicKey", Forever;
    /// How many nonces were handed out of a key that pays gas for several hosts: network, `/`, address.
    GAS_NONCES: Meta "gas-nonces/", String => "a sum", Forever;
    /// Who fills the store, or has filled it and serves it alone: nobody else does, until whoever that is has started again.
    FILLED_BY: Meta "filled-by", () => "FilledBy", Until("all is there, or whoever filled it has started again");
    /// Where the rows have gone, or are about to go.
    DEPARTED: Meta "departed", () => "Departed", Until("an operator takes the store back");
    /// Endpoints, by slug.
    ENDPOINTS: Endpoints "", String => "Endpoint", Forever, followed: true;
    /// What is known of an endpoint without its record, by slug.
    CATALOGUE: Catalogue "slug/", String => "Card", With("the endpoint"), of: ENDPOINTS;
    /// That every endpoint has its row there.
    CATALOGUED: Meta "catalogued", () => "String", Forever;
    /// Which endpoints have a version, or can be rolled back to it.
    VERSION_USES: Catalogue "uses/", (Ended<String>, String) => "()", With("the endpoint, as long as it needs the version");
    /// Handlers' sources, by the hash that is their version: long ones as objects that the rows name.
    VERSIONS: Versions "", String => "VersionRow", With("the endpoints that have the version");
    /// Who uploaded a version first.
    VERSION_OWNERS: VersionOwners "", String => "String", With("the endpoints that have the version");
    /// Versions that no endpoint has any more, as far as one of the hosts knows that share a store, and since when.
    VERSIONS_LET_GO: Meta "versions-let-go/", String => "LetGo", Until("all hosts have heard of who has them still");
    /// Endpoints that were deleted a short while ago, by when there is something to do about it: at once, what they kept is removed; an hour
    /// later, what calls left that were running then.
    DELETIONS: Meta "deletions/", (Timestamp, EndpointId) => "Deletion", Until("nothing is left, and an hour has gone by");
    /// Which endpoint was deleted last under a slug.
    DELETED: Meta "deleted/", String => "Deleted", Until("an hour has gone by, or the slug is taken");
    /// How many endpoints a builder had when the last one was added, or removed: what hosts that add some at once go by.
    ENDPOINTS_OWNED: Meta "endpoints-owned/", Ended<String> => "Owned", Forever;
    /// Who had the slug of a deleted endpoint.
    RETIRED_SLUGS: RetiredSlugs "", String => "String", Until("its owner takes the slug again");
    /// Slugs of an owner's deleted endpoints, by the owner.
    RETIRED_OF: Meta "retired-slugs/", (Ended<String>, String) => "()", Until("the owner takes the slug again");
    /// Receipts of paid calls; of free ones too, of versions that had no packs of them.
    RECEIPTS: Receipts "", ReceiptId => "Stored", Forever;
    /// Receipts of free calls, in packs: by the window of their time, a name, and the number of the pack.
    FREE_RECEIPTS: FreeReceipts "", (u64, RequestId, u32) => "Pack", Until("the settings' age or count");
    /// Payments: where each stands, and its intent.
    PAYMENTS: Payments "pmt_", PaymentId => "Record", Until("nothing can be asked of it any more");
    /// The payment that a payer's own name of it stands for.
    PAYMENT_NAMES: Payments "cid/", String => "PaymentId", With("the payment");
    /// Answers that payments are for, from the intent on.
    PAYMENT_ANSWERS: PaymentAnswers "pmt_", PaymentId => "AnswerRow", With("the payment, for a day");
    /// Every settlement begun and not ended.
    OPEN_INTENTS: OpenIntents "pmt_", PaymentId => "()", With("the payment, while it is open"), of: PAYMENTS;
    /// Every settlement of which nobody said how it ended until the host stopped asking.
    UNRESOLVED_SETTLEMENTS: Payments "unresolved/", PaymentId => "()", With("the payment, until an admin decides"), of: PAYMENTS;
    /// What runs under way hold of payers' balances, on hosts that share a store: payer, `/`, network, `/`, token.
    HELD_BALANCES: Payments "held/", String => "a sum", Until("the payer has no run under way");
    /// Which payment has something to forget, and when.
    PAYMENT_EXPIRY: PaymentExpiry "", (Timestamp, String) => "()", Until("then");
    /// Which receipts a transaction pays for: network, `/`, hash.
    TRANSACTIONS: Payments "tx/", String => "PaidBy", Forever;
    /// Settlements whose block may still be replaced: network, `/`, block, `/`, receipt.
    WATCHED_SETTLEMENTS: Payments "watched/", String => "WatchedSettlement", Until("its block is safe");
    /// Settlements whose transaction is in no block any more.
    REORGANIZED_SETTLEMENTS: Payments "reorganized/", ReceiptId => "ReorganizedSettlement", Until("its transaction is in a block again");
    /// Developer credits.
    CREDITS: Credits "", CreditId => "Holder", Forever;
    /// What moved a developer credit, by number; behind the last its balance, so that one scan sees both.
    CREDIT_MOVEMENTS: CreditMovements "", (CreditId, u64) => "Line", Forever;
    /// What was spent of a developer credit on a day, by tool; of all tools under no name.
    CREDIT_DAYS: CreditDays "", (u32, CreditId, String) => "a sum of micro-dollars", Until("a week has gone by");
    /// Balances of the ledger's accounts, but for those of credits.
    ACCOUNTS: Accounts "", String => "a sum", Forever;
    /// What moved the balances of accounts, from where to where.
    POSTINGS: Postings "", String => "Posting", Forever;
    /// Since when every movement of money has a posting.
    LEDGER_OPENED: Meta "ledger-opened", () => "Opened", Forever;
    /// What was given back of what a receipt paid.
    REFUNDS: Refunds "receipt\0", ReceiptId => "Refunded", Forever;
    /// What was given back under an idempotency key.
    REFUND_KEYS: Refunds "key\0", String => "Done", Forever;
    /// What outgoing transactions are recorded for, by hash: refunds of receipts, and payouts.
    SENT_TRANSACTIONS: Refunds "tx\0", String => "SentFor", Forever;
    /// What was given back of a builder's sales, and is in no payout packet yet.
    REFUNDS_OWED: Refunds "owed\0", BuilderId => "a sum of micro-dollars", Forever;
    /// What was minted under an idempotency key.
    MINTINGS: Mintings "", String => "Done", Forever;
    /// Balances of the simulated ledger: network, `/`, address.
    LEDGER_BALANCES: LedgerBalances "", String => "a sum of micro-dollars", Forever;
    /// Transactions of the simulated ledger: network, `/`, payer, `/`, nonce.
    LEDGER_NONCES: LedgerNonces "", String => "String", Until("the authorisation could not be shown any more");
    /// Which nonce cannot be shown any more, and from when on.
    LEDGER_EXPIRY: LedgerExpiry "", (Timestamp, String) => "()", Until("then");
    /// Values of `ctx.kv`, by endpoint.
    KV: Kv "", (Counted<EndpointId>, String) => "Entry", With("the endpoint, or its own end");
    /// Number and bytes of an endpoint's kv.
    KV_USAGE: KvUsage "", Counted<EndpointId> => "Usage", With("the endpoint");
    /// Entries of `ctx.files`, by endpoint and path.
    FILES: Files "", (Counted<EndpointId>, String) => "Entry", With("the endpoint");
    /// Number and bytes of an endpoint's files.
    FILES_USAGE: FilesUsage "", Counted<EndpointId> => "Usage", With("the endpoint");
    /// Log lines, by endpoint, time and number.
    LOGS: Logs "", (Counted<EndpointId>, Timestamp, u64) => "LogEntry", Until("the settings' age or count");
    /// Encrypted secrets, by endpoint and name.
    SECRETS: Secrets "", (Counted<EndpointId>, String) => "Sealed", With("the endpoint"), followed: true;
    /// How many names were ever added to the secrets of an endpoint.
    SECRETS_ADDED: Meta "secrets-added/", EndpointId => "Added", With("the endpoint");
    /// Objects that go away, by when they do: those that a row may yet come to hold, and those that none holds any more.
    OBJECT_ENDS: Meta "object-ends/", (Timestamp, String) => "()", Until("a row holds the object, or it is gone");
    /// Builders, with the hash of the key in force.
    BUILDERS: Builders "", BuilderId => "Builder", Forever, followed: true;
    /// When a builder was last seen.
    BUILDER_SEEN: Meta "builders-seen/", BuilderId => "LastSeen", Forever;
    /// Events, by owner, time and id.
    EVENTS: Events "", (Ended<String>, Place) => "Event", Until("the settings' age or count");
    /// Calls and money, by owner: one row for each call, folded into one for each day and endpoint.
    SALES: Sales "", (Ended<String>, SaleKey) => "Sale", Forever;
    /// Owners who sold something, by the stretch of 32 days.
    SELLERS: Sellers "", (u32, Ended<String>) => "Seller", Forever;
    /// There once all owners are among those.
    SELLERS_LISTED: Meta "sellers-listed", () => "Seller", Forever;
    /// Net amounts of receipts that are in no payout packet, by builder.
    UNPAID: Unpaid "", (Ended<BuilderId>, ReceiptId) => "Unpaid", Until("a packet takes the receipt");
    /// Payout packets, by builder.
    PAYOUTS: Payouts "bld_", (Ended<String>, PayoutId) => "Packet", Forever;
    /// Whose payout packet one is.
    PAYOUT_BUILDERS: Payouts "index\0", PayoutId => "BuilderId", With("the packet"), of: PAYOUTS;
    /// Whose payout packet one is, by the state of the packet, as that is numbered.
    PAYOUT_STATES: Payouts "state\0", (u8, PayoutId) => "BuilderId", With("the packet"), of: PAYOUTS;
    /// How many payout packets there are of each state.
    PAYOUT_COUNTS: Payouts "count\0", u8 => "a sum", Forever;
    /// That every payout packet is found and counted by its state.
    PAYOUTS_BY_STATE: Meta "payouts-by-state", () => "String", Forever;
    /// The newest payout packet of a builder.
    PAYOUT_HEADS: Payouts "head\0", BuilderId => "Head", Forever;
    /// Net amounts of the receipts in a payout packet.
    PAYOUT_RECEIPTS: PayoutReceipts "", (Ended<PayoutId>, String) => "Unpaid", With("the packet");
    /// Where a builder's payouts go.
    PAYOUT_SETTINGS: PayoutSettings "", BuilderId => "PayoutSettings", Forever;
    /// What admins and builders did, or tried to, by time.
    AUDIT: Audit "", (Timestamp, AuditId) => "Entry", Until("the settings' age or count");
    /// Long-running MCP calls.
    TASKS: Tasks "", String => "Record", Until("its time to live");
    /// Names of MCP calls that were taken back at another replica than the one that runs them.
    MCP_RECALLS: Meta "mcp-recalls/", (Timestamp, String) => "()", Until("a minute has gone by, or the call is found");
    /// Calls, in packs: by endpoint, time, a name, and the number of the pack.
    CALLS: Calls "", (Ended<EndpointId>, Timestamp, RequestId, u32) => "Pack", Until("the settings' age or count");
    /// What happened in a stretch of time: by endpoint, length of the stretch, its start, and the process.
    CALL_METRICS: CallMetrics "", (Ended<EndpointId>, u8, u64, RequestId) => "Bucket", Until("the age of its length");
    /// Who signed in to the dashboard, by account and the hash of the session's id; their credentials sealed under keys that only they have.
    SESSIONS: Sessions "", (Ended<String>, String) => "Session", Until("it was unused, or is old, as the settings say");
}

#[cfg(test)]
mod tests;

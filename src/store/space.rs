//! Spaces: separate parts of the store, each with some tables.

macro_rules! spaces {
    ($($name:ident = $number:literal $stake:ident $($kind:literal)?,)+) => {
        /// A part of the store. Its number identifies it on disk and never changes.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[repr(u8)]
        #[expect(missing_docs, reason = "see the tables in `schema`")]
        pub enum Space { $($name = $number,)+ }

        impl Space {
            /// Every space, in order of number.
            pub const ALL: [Self; [$($number),+].len()] = [$(Self::$name),+];

            /// Returns the name under which operators see its size. `None` if its size is reported otherwise or is
            /// always small.
            pub const fn kind(self) -> Option<&'static str> {
                match self {
                    $(Self::$name => spaces!(@kind $($kind)?),)+
                }
            }

            /// Returns how much depends on the space.
            pub const fn stake(self) -> LossImpact {
                match self {
                    $(Self::$name => LossImpact::$stake,)+
                }
            }
        }
    };
    (@kind) => { None };
    (@kind $kind:literal) => { Some($kind) };
}

// Each row is a space, its number, how much depends on it, and the name of its contents for operators. Sales and sellers
// are sums derived from receipts and postings, and from free calls, which would fill an archive.
spaces! {
    Meta = 0 Host,
    Endpoints = 1 Host "endpoints",
    Versions = 2 Host "versions",
    Receipts = 3 Money "paidReceipts",
    Payments = 4 Money "payments",
    OpenIntents = 5 Money "payments",
    PaymentExpiry = 6 Money "payments",
    Credits = 7 Money "credits",
    LedgerBalances = 8 Money "simulatedLedger",
    LedgerNonces = 9 Money "simulatedLedger",
    Kv = 10 Bulk "kv",
    KvUsage = 11 Host "kv",
    Files = 12 Bulk "files",
    FilesUsage = 13 Host "files",
    Logs = 14 Bulk "logs",
    Secrets = 15 Host "secrets",
    Builders = 16 Host "builders",
    Events = 17 Host "events",
    Sales = 18 Host "sales",
    Unpaid = 19 Money "payouts",
    Payouts = 20 Money "payouts",
    PayoutReceipts = 21 Money "payouts",
    PayoutSettings = 22 Money "payouts",
    Audit = 23 Host "audit",
    CreditMovements = 24 Money "credits",
    RetiredSlugs = 25 Host "endpoints",
    VersionOwners = 26 Host "versions",
    Tasks = 27 Host "tasks",
    Mintings = 28 Money "credits",
    FreeReceipts = 29 Bulk,
    LedgerExpiry = 30 Money "simulatedLedger",
    Calls = 31 Bulk "calls",
    CallMetrics = 32 Bulk "callMetrics",
    PaymentAnswers = 33 Bulk "payments",
    Accounts = 34 Money "ledger",
    Postings = 35 Money "ledger",
    CreditDays = 36 Money "credits",
    Refunds = 37 Money "ledger",
    Sessions = 38 Bulk "sessions",
    Catalogue = 39 Host "endpoints",
    Sellers = 40 Host "sales",
}

/// The importance of a space's data.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LossImpact {
    /// Payments, debts and their proof. It stays in the journal's archive.
    Money,
    /// Data that the host cannot do without. Like money, it is verified before a host starts.
    Host,
    /// Data that calls leave, of any amount. It is verified while the host runs.
    Bulk,
}

impl Space {
    /// Returns the space with this number.
    pub fn of_number(number: u8) -> Option<Self> {
        Self::ALL.get(usize::from(number)).copied()
    }
}

//! Spaces: separate parts of the store, each with some tables.

macro_rules! spaces {
    ($($name:ident = $number:literal $($kind:literal)?,)+) => {
        /// A part of the store. Its number identifies it on disk and never changes.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[repr(u8)]
        #[expect(missing_docs, reason = "the tables say what is in them")]
        pub enum Space { $($name = $number,)+ }

        impl Space {
            /// Every space, in order of number.
            pub const ALL: [Self; [$($number),+].len()] = [$(Self::$name),+];

            /// Returns the name under which operators see its size. `None` if its size is reported otherwise or is
            /// always small.
            #[must_use]
            pub const fn kind(self) -> Option<&'static str> {
                match self {
                    $(Self::$name => spaces!(@kind $($kind)?),)+
                }
            }
        }
    };
    (@kind) => { None };
    (@kind $kind:literal) => { Some($kind) };
}

// Each row is a space, its number, and the name of its contents for operators.
spaces! {
    Meta = 0,
    Endpoints = 1 "endpoints",
    Versions = 2 "versions",
    Receipts = 3 "paidReceipts",
    Payments = 4 "payments",
    OpenIntents = 5 "payments",
    PaymentExpiry = 6 "payments",
    Credits = 7 "credits",
    LedgerBalances = 8 "simulatedLedger",
    LedgerNonces = 9 "simulatedLedger",
    Kv = 10 "kv",
    KvUsage = 11 "kv",
    Files = 12 "files",
    FilesUsage = 13 "files",
    Logs = 14 "logs",
    Secrets = 15 "secrets",
    Builders = 16 "builders",
    Events = 17 "events",
    Sales = 18 "sales",
    Unpaid = 19 "payouts",
    Payouts = 20 "payouts",
    PayoutReceipts = 21 "payouts",
    PayoutSettings = 22 "payouts",
    Audit = 23 "audit",
    CreditMovements = 24 "credits",
    RetiredSlugs = 25 "endpoints",
    VersionOwners = 26 "versions",
    Tasks = 27 "tasks",
    Mintings = 28 "credits",
    FreeReceipts = 29,
    LedgerExpiry = 30 "simulatedLedger",
    Calls = 31 "calls",
    CallMetrics = 32 "callMetrics",
    PaymentAnswers = 33 "payments",
    Accounts = 34 "ledger",
    Postings = 35 "ledger",
    CreditDays = 36 "credits",
    Refunds = 37 "ledger",
    Sessions = 38 "sessions",
    Catalogue = 39 "endpoints",
    Sellers = 40 "sales",
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
    /// Returns how much depends on the space.
    #[must_use]
    pub fn stake(self) -> LossImpact {
        match self {
            Self::Receipts | Self::Payments | Self::OpenIntents | Self::PaymentExpiry | Self::Credits | Self::CreditMovements => {
                LossImpact::Money
            }
            Self::LedgerBalances | Self::LedgerNonces | Self::LedgerExpiry | Self::Mintings | Self::Unpaid => LossImpact::Money,
            Self::Payouts | Self::PayoutReceipts | Self::PayoutSettings | Self::Accounts | Self::Postings => LossImpact::Money,
            Self::CreditDays | Self::Refunds => LossImpact::Money,
            Self::Meta | Self::Endpoints | Self::Versions | Self::VersionOwners | Self::RetiredSlugs | Self::KvUsage => LossImpact::Host,
            Self::Catalogue => LossImpact::Host,
            Self::FilesUsage | Self::Secrets | Self::Builders | Self::Events | Self::Audit | Self::Tasks => LossImpact::Host,
            // These are sums derived from receipts and postings, and from free calls, which would fill an archive.
            Self::Sales | Self::Sellers => LossImpact::Host,
            Self::Kv
            | Self::Files
            | Self::Logs
            | Self::Calls
            | Self::CallMetrics
            | Self::FreeReceipts
            | Self::PaymentAnswers
            | Self::Sessions => LossImpact::Bulk,
        }
    }

    /// Returns the space with this number.
    #[must_use]
    pub fn of_number(number: u8) -> Option<Self> {
        Self::ALL.get(usize::from(number)).copied()
    }
}

//! Spaces: where tables lie, each apart from the others.

macro_rules! spaces {
    ($($name:ident = $number:literal $($kind:literal)?,)+) => {
        /// Where tables lie. The number is the place on disk and never changes.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[repr(u8)]
        #[expect(missing_docs, reason = "the tables say what is in them")]
        pub enum Space { $($name = $number,)+ }

        impl Space {
            /// Every space, each at the place of its number.
            pub const ALL: [Self; [$($number),+].len()] = [$(Self::$name),+];

            /// What operators are told its size under. `None` where that is told otherwise, or is always small.
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

// A row is the space, its number, and the kind of what is in it, as operators know it.
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

/// What is at stake in a space.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stake {
    /// Who paid, who is owed, and what proves it: stays in the archive of the journal.
    Money,
    /// What the host cannot do without. As the money, it is counted again before a host starts.
    Host,
    /// What calls leave, as much as there may be: counted again while the host runs.
    Bulk,
}

impl Space {
    /// What is at stake in it.
    #[must_use]
    pub fn stake(self) -> Stake {
        match self {
            Self::Receipts | Self::Payments | Self::OpenIntents | Self::PaymentExpiry | Self::Credits | Self::CreditMovements => {
                Stake::Money
            }
            Self::LedgerBalances | Self::LedgerNonces | Self::LedgerExpiry | Self::Mintings | Self::Unpaid => Stake::Money,
            Self::Payouts | Self::PayoutReceipts | Self::PayoutSettings | Self::Accounts | Self::Postings => Stake::Money,
            Self::CreditDays | Self::Refunds => Stake::Money,
            Self::Meta | Self::Endpoints | Self::Versions | Self::VersionOwners | Self::RetiredSlugs | Self::KvUsage => Stake::Host,
            Self::Catalogue => Stake::Host,
            Self::FilesUsage | Self::Secrets | Self::Builders | Self::Events | Self::Audit | Self::Tasks => Stake::Host,
            // Sums of what receipts and postings tell, and of free calls, which would fill an archive.
            Self::Sales | Self::Sellers => Stake::Host,
            Self::Kv
            | Self::Files
            | Self::Logs
            | Self::Calls
            | Self::CallMetrics
            | Self::FreeReceipts
            | Self::PaymentAnswers
            | Self::Sessions => Stake::Bulk,
        }
    }

    /// The space with this number.
    #[must_use]
    pub fn of_number(number: u8) -> Option<Self> {
        Self::ALL.get(usize::from(number)).copied()
    }
}

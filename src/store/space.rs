//! Spaces: where tables lie, each apart from the others.

macro_rules! spaces {
    ($($name:ident = $number:literal,)+) => {
        /// Where tables lie. The number is the place on disk and never changes.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[repr(u8)]
        #[expect(missing_docs, reason = "the tables say what is in them")]
        pub enum Space { $($name = $number,)+ }

        impl Space {
            /// Every space, each at the place of its number.
            pub const ALL: [Self; [$($number),+].len()] = [$(Self::$name),+];
        }
    };
}

spaces! {
    Meta = 0,
    Endpoints = 1,
    Versions = 2,
    Receipts = 3,
    Payments = 4,
    OpenIntents = 5,
    PaymentExpiry = 6,
    Credits = 7,
    LedgerBalances = 8,
    LedgerNonces = 9,
    Kv = 10,
    KvUsage = 11,
    Files = 12,
    FilesUsage = 13,
    Logs = 14,
    Secrets = 15,
    Builders = 16,
    Events = 17,
    Sales = 18,
    Unpaid = 19,
    Payouts = 20,
    PayoutReceipts = 21,
    PayoutSettings = 22,
    Audit = 23,
    CreditMovements = 24,
    RetiredSlugs = 25,
    VersionOwners = 26,
    Tasks = 27,
    Mintings = 28,
    FreeReceipts = 29,
    LedgerExpiry = 30,
    Calls = 31,
    CallMetrics = 32,
}

impl Space {
    /// The space with this number.
    #[must_use]
    pub fn of_number(number: u8) -> Option<Self> {
        Self::ALL.get(usize::from(number)).copied()
    }
}

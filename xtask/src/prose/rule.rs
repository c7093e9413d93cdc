//! The names of the rules for prose.

/// A rule for prose.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Rule {
    /// A word in a sense that the style guide excludes.
    Word,
    /// `is told` or `tells`, for information.
    Told,
    /// `has X be Y`.
    HasBe,
    /// `may`, in a text for users.
    May,
    /// A sentence that begins with `What` or `Who`, used as a noun, or with `Of`.
    NounClause,
    /// A British spelling.
    Spelling,
    /// A sentence with too many words.
    LongSentence,
    /// A cell with too many words.
    LongCell,
    /// A line of a document with too many characters.
    LongLine,
    /// A lower-case start where sentence case is required.
    SentenceCase,
    /// A message of an error type that begins with a capital, although other errors embed it.
    ErrorCase,
    /// Help with too many characters.
    HelpLength,
    /// Help or an API error with a final period.
    FinalPeriod,
}

impl Rule {
    /// Returns the name in messages and in the baseline.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Word => "word",
            Self::Told => "told",
            Self::HasBe => "has-be",
            Self::May => "may",
            Self::NounClause => "noun-clause",
            Self::Spelling => "spelling",
            Self::LongSentence => "long-sentence",
            Self::LongCell => "long-cell",
            Self::LongLine => "long-line",
            Self::SentenceCase => "sentence-case",
            Self::ErrorCase => "error-case",
            Self::HelpLength => "help-length",
            Self::FinalPeriod => "final-period",
        }
    }
}

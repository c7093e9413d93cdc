//! How many lines of logs are kept, and how long.

/// How much of a log is kept, and how much may wait to be written.
#[derive(Debug, Clone)]
pub struct LogSettings {
    /// Lines of one endpoint; older ones go. Default: 5,000.
    pub lines: u64,
    /// Age at which a line goes, in milliseconds. Default: 7 days.
    pub age_ms: u64,
    /// Lines that wait for the store; further ones are dropped. Default: 8,192.
    pub waiting: usize,
}

impl Default for LogSettings {
    fn default() -> Self {
        Self { lines: 5_000, age_ms: 7 * 24 * 3_600 * 1_000, waiting: 8_192 }
    }
}

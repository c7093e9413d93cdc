//! What a doctor has found so far.

use std::io::Write as _;

use tollhouse::operate::finding::Finding;

/// What was found so far, told as it is found.
pub(super) struct Told {
    pub(super) found: Vec<Finding>,
    as_json: bool,
}

impl Told {
    pub(super) fn new(as_json: bool) -> Self {
        Self { found: Vec::new(), as_json }
    }

    /// Tells more.
    pub(super) fn add(&mut self, found: impl IntoIterator<Item = Finding>) -> std::io::Result<()> {
        for finding in found {
            if !self.as_json {
                writeln!(std::io::stdout(), "{finding}")?;
            }
            self.found.push(finding);
        }
        Ok(())
    }
}

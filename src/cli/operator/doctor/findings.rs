//! The findings of a doctor's run so far.

use tollhouse_operate::finding::Finding;

use crate::base::{Output, Result};

/// Collects findings, and prints each as it is found.
pub(super) struct Findings {
    pub(super) found: Vec<Finding>,
    out: Output,
}

impl Findings {
    pub(super) fn new(out: Output) -> Self {
        Self { found: Vec::new(), out }
    }

    /// Adds findings, and prints them unless the output is JSON.
    pub(super) fn add(&mut self, found: impl IntoIterator<Item = Finding>) -> Result {
        for finding in found {
            self.out.for_people(&format!("{finding}\n"))?;
            self.found.push(finding);
        }
        Ok(())
    }
}

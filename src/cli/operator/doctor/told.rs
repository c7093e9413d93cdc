//! The findings of a doctor's run so far.

use tollhouse_operate::finding::Finding;

use crate::base::{error::Result, out::Out};

/// Collects findings, and prints each as it is found.
pub(super) struct Told {
    pub(super) found: Vec<Finding>,
    out: Out,
}

impl Told {
    pub(super) fn new(out: Out) -> Self {
        Self { found: Vec::new(), out }
    }

    /// Adds findings, and prints them unless the output is JSON.
    pub(super) fn add(&mut self, found: impl IntoIterator<Item = Finding>) -> Result {
        for finding in found {
            if !self.out.json {
                self.out.text(&format!("{finding}\n"))?;
            }
            self.found.push(finding);
        }
        Ok(())
    }
}

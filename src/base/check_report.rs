//! A report of inconsistencies found by a check.

/// Maximum number of flaws that are listed. All of them are counted.
const MAX_LISTED: usize = 100;

/// The flaws that a check found, and how much it looked at.
#[derive(Debug, Default)]
pub struct CheckReport {
    /// Number of rows and objects checked.
    pub checked_count: u64,
    /// Number of flaws found.
    pub count: u64,
    /// The first flaws, each a sentence that names the item.
    pub listed: Vec<String>,
}

impl CheckReport {
    /// Counts one checked item.
    pub fn count_checked(&mut self) {
        self.checked_count += 1;
    }

    /// Records a flaw.
    pub fn add(&mut self, flaw: impl Into<String>) {
        self.count += 1;
        if self.listed.len() < MAX_LISTED {
            self.listed.push(flaw.into());
        }
    }

    /// Records a flaw unless `is_so`.
    pub fn unless(&mut self, is_so: bool, flaw: impl FnOnce() -> String) {
        if !is_so {
            self.add(flaw());
        }
    }

    /// Counts one checked item and returns its value. A read error is recorded as a flaw.
    pub fn checked<T>(&mut self, read: Result<T, impl std::fmt::Display>) -> Option<T> {
        self.count_checked();
        read.map_err(|error| self.add(error.to_string())).ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn first_hundred_flaws_are_listed_and_all_are_counted() {
        let mut flaws = CheckReport::default();
        (0..150).for_each(|number| flaws.unless(number < 0, || number.to_string()));
        assert_eq!((flaws.count, flaws.listed.len(), flaws.listed[99].as_str()), (150, 100, "99"));
        assert_eq!(flaws.checked(Err::<(), _>("torn")), None);
        assert_eq!((flaws.checked_count, flaws.count), (1, 151));
    }
}

//! A report of inconsistencies found by a check.

/// Maximum number of flaws that are listed. All of them are counted.
const TOLD: usize = 100;

/// The flaws that a check found, and how much it looked at.
#[derive(Debug, Default)]
pub struct Flaws {
    /// Number of rows and objects checked.
    pub looked_at: u64,
    /// Number of flaws found.
    pub count: u64,
    /// The first flaws, each a sentence that names the item.
    pub told: Vec<String>,
}

impl Flaws {
    /// Counts one checked item.
    pub fn look(&mut self) {
        self.looked_at += 1;
    }

    /// Records a flaw.
    pub fn tell(&mut self, flaw: impl Into<String>) {
        self.count += 1;
        if self.told.len() < TOLD {
            self.told.push(flaw.into());
        }
    }

    /// Records a flaw unless `is_so`.
    pub fn unless(&mut self, is_so: bool, flaw: impl FnOnce() -> String) {
        if !is_so {
            self.tell(flaw());
        }
    }

    /// Counts one checked item and returns its value. A read error is recorded as a flaw.
    pub fn sound<T>(&mut self, read: Result<T, impl std::fmt::Display>) -> Option<T> {
        self.look();
        read.map_err(|error| self.tell(error.to_string())).ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_hundred_are_told_and_all_are_counted() {
        let mut flaws = Flaws::default();
        (0..150).for_each(|number| flaws.unless(number < 0, || number.to_string()));
        assert_eq!((flaws.count, flaws.told.len(), flaws.told[99].as_str()), (150, 100, "99"));
        assert_eq!(flaws.sound(Err::<(), _>("torn")), None);
        assert_eq!((flaws.looked_at, flaws.count), (1, 151));
    }
}

//! What does not agree with what, as it is found.

/// Flaws that are told; all are counted.
const TOLD: usize = 100;

/// Flaws, and how much was looked at.
#[derive(Debug, Default)]
pub struct Flaws {
    /// Rows and contents that were looked at.
    pub looked_at: u64,
    /// How many flaws there are.
    pub count: u64,
    /// The first of them, each a sentence that names what it is of.
    pub told: Vec<String>,
}

impl Flaws {
    /// Counts what is looked at now.
    pub fn look(&mut self) {
        self.looked_at += 1;
    }

    /// Tells one.
    pub fn tell(&mut self, flaw: impl Into<String>) {
        self.count += 1;
        if self.told.len() < TOLD {
            self.told.push(flaw.into());
        }
    }

    /// Tells one unless it is so.
    pub fn unless(&mut self, is_so: bool, flaw: impl FnOnce() -> String) {
        if !is_so {
            self.tell(flaw());
        }
    }

    /// What was read; one that was not is told.
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

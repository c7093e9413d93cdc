//! The users that workers become: each another one, so that none may so much as signal another.

use std::str::FromStr;

use rustix::thread::{CapabilitySet, capabilities};

/// What it takes to make other users of processes, and to end and slow them then.
const NEEDED: [CapabilitySet; 4] = [CapabilitySet::SETUID, CapabilitySet::SETGID, CapabilitySet::KILL, CapabilitySet::SYS_NICE];

/// A range of users that nobody else on the machine has, both ends in it.
///
/// They are given out in turn. One comes again when all have been given: a range is longer than what is started within
/// the life of a worker.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Users {
    first: u32,
    last: u32,
}

impl Default for Users {
    fn default() -> Self {
        Self { first: 1_900_000_000, last: 1_900_262_143 }
    }
}

/// What is no range of users.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("a range of users is `FIRST-LAST`, in numbers above 0")]
pub struct NoRange;

impl FromStr for Users {
    type Err = NoRange;

    fn from_str(text: &str) -> Result<Self, NoRange> {
        let (first, last) = text.split_once('-').ok_or(NoRange)?;
        let (first, last) = (first.parse().map_err(|_| NoRange)?, last.parse().map_err(|_| NoRange)?);
        // The largest number stands for none.
        if first == 0 || last < first || last == u32::MAX { Err(NoRange) } else { Ok(Self { first, last }) }
    }
}

impl Users {
    /// The users in turn, from one on that hosts beside each other hardly share; none of them where this process may not make
    /// others of them, or could then neither end nor slow them.
    pub(crate) fn in_turn(self) -> Box<dyn Iterator<Item = u32> + Send> {
        self.in_turn_with(capabilities(None).map_or(CapabilitySet::empty(), |own| own.effective))
    }

    fn in_turn_with(self, own: CapabilitySet) -> Box<dyn Iterator<Item = u32> + Send> {
        if NEEDED.iter().all(|needed| own.contains(*needed)) {
            Box::new(self.from(std::process::id()))
        } else {
            Box::new(std::iter::empty())
        }
    }

    fn from(self, process: u32) -> impl Iterator<Item = u32> + Send {
        let start = self.first + (u64::from(process) * 4_096 % (u64::from(self.last - self.first) + 1)) as u32;
        (start..=self.last).chain((self.first..=self.last).cycle())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn users_come_in_turn_and_again_when_all_have_been_given() {
        let users: Users = "10-13".parse().unwrap();
        assert_eq!(users.from(0).take(6).collect::<Vec<_>>(), [10, 11, 12, 13, 10, 11]);
        let users: Users = "10-5010".parse().unwrap();
        assert_eq!(users.from(1).take(907).last(), Some(10 + (4_096 + 906) % 5_001));
        assert_eq!(users.from(2).next(), Some(10 + 8_192 % 5_001));
        assert_eq!("7-7".parse::<Users>().unwrap().from(99).take(3).collect::<Vec<_>>(), [7, 7, 7]);
    }

    #[test]
    fn workers_become_others_only_where_they_can_then_be_ended_and_slowed() {
        let given = |own| Users::default().in_turn_with(own).next().is_some();
        assert!(given(CapabilitySet::all()));
        for lacking in [CapabilitySet::SETUID, CapabilitySet::SETGID, CapabilitySet::KILL, CapabilitySet::SYS_NICE] {
            assert!(!given(CapabilitySet::all().difference(lacking)), "{lacking:?}");
        }
    }

    #[test]
    fn nobody_becomes_root_or_no_user_at_all() {
        for text in ["", "1", "0-9", "9-1", "1-4294967295", "1-4294967296", "a-b", "-1-5"] {
            assert_eq!(text.parse::<Users>(), Err(NoRange), "{text}");
        }
    }
}

//! System users for workers. Each worker has its own, so that none can even signal another.

use std::{collections::HashSet, str::FromStr};

use rustix::thread::{CapabilitySet, capabilities};

/// Capabilities needed to change the user of a process, and to kill and renice it afterwards.
const NEEDED: [CapabilitySet; 4] = [CapabilitySet::SETUID, CapabilitySet::SETGID, CapabilitySet::KILL, CapabilitySet::SYS_NICE];

/// A range of user ids that nobody else on the machine has, both ends inclusive.
///
/// They are assigned in turn, and none to two processes at the same time. The range must be as long
/// as the maximum number of processes.
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

/// Error for an invalid range of users.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("a range of users must be `FIRST-LAST`, with numbers from 1 to 4294967294 in ascending order")]
pub struct InvalidUserRange;

impl FromStr for Users {
    type Err = InvalidUserRange;

    fn from_str(text: &str) -> Result<Self, InvalidUserRange> {
        let (first, last) = text.split_once('-').ok_or(InvalidUserRange)?;
        let (first, last) = (first.parse().map_err(|_| InvalidUserRange)?, last.parse().map_err(|_| InvalidUserRange)?);
        // The largest number means "no user".
        if first == 0 || last < first || last == u32::MAX { Err(InvalidUserRange) } else { Ok(Self { first, last }) }
    }
}

impl Users {
    /// Returns how many processes can have their own user at the same time. Unlimited if this
    /// process cannot change users, or could neither kill nor renice such processes.
    #[must_use]
    pub fn max(self) -> usize {
        self.max_with(own_capabilities())
    }

    fn max_with(self, own: CapabilitySet) -> usize {
        if can_switch(own) { usize::try_from(self.last - self.first).unwrap_or(usize::MAX).saturating_add(1) } else { usize::MAX }
    }

    /// Returns an allocator of these users. It is empty if this process cannot change users.
    pub(crate) fn allocator(self) -> UserAllocator {
        self.allocator_with(own_capabilities(), std::process::id())
    }

    /// Starts at a user that depends on the process id, so that two hosts on one machine rarely
    /// collide.
    pub(crate) fn allocator_with(self, own: CapabilitySet, process: u32) -> UserAllocator {
        let next = self.first + (u64::from(process) * 4_096 % (u64::from(self.last - self.first) + 1)) as u32;
        UserAllocator { users: can_switch(own).then_some(self), next, taken: HashSet::new() }
    }
}

/// Assigns users in turn.
#[derive(Debug, Default)]
pub(crate) struct UserAllocator {
    users: Option<Users>,
    next: u32,
    taken: HashSet<u32>,
}

impl UserAllocator {
    /// Returns the next free user. `None` if users cannot be changed or all are taken.
    pub(crate) fn take(&mut self) -> Option<u32> {
        let Users { first, last } = self.users.filter(|users| self.taken.len() as u64 <= u64::from(users.last - users.first))?;
        loop {
            let user = self.next;
            self.next = if user == last { first } else { user + 1 };
            if self.taken.insert(user) {
                return Some(user);
            }
        }
    }

    /// Releases a user whose process is gone from the system.
    pub(crate) fn release(&mut self, user: u32) {
        self.taken.remove(&user);
    }
}

fn can_switch(own: CapabilitySet) -> bool {
    NEEDED.iter().all(|needed| own.contains(*needed))
}

fn own_capabilities() -> CapabilitySet {
    capabilities(None).map_or(CapabilitySet::empty(), |own| own.effective)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn turn(range: &str, process: u32) -> UserAllocator {
        range.parse::<Users>().unwrap().allocator_with(CapabilitySet::all(), process)
    }

    #[test]
    fn users_are_assigned_in_turn_and_never_twice() {
        let mut turn = turn("10-13", 0);
        let mut take = |back: &[u32]| {
            back.iter().for_each(|user| turn.release(*user));
            turn.take()
        };
        assert_eq!([&[][..], &[], &[10], &[]].map(&mut take), [10, 11, 12, 13].map(Some));
        assert_eq!([&[][..], &[], &[13, 12], &[]].map(&mut take), [Some(10), None, Some(12), Some(13)]);
    }

    #[test]
    fn concurrent_hosts_start_with_different_users() {
        assert_eq!([1, 2].map(|process| turn("10-5010", process).take()), [Some(10 + 4_096), Some(10 + 8_192 % 5_001)]);
        assert_eq!(turn("7-7", 99).take(), Some(7));
    }

    #[test]
    fn workers_switch_users_only_if_the_host_can_still_kill_and_slow_them() {
        let range: Users = "10-13".parse().unwrap();
        let assigned = |own| (range.allocator_with(own, 0).take(), range.max_with(own));
        assert_eq!(assigned(CapabilitySet::all()), (Some(10), 4));
        for lacking in [CapabilitySet::SETUID, CapabilitySet::SETGID, CapabilitySet::KILL, CapabilitySet::SYS_NICE] {
            assert_eq!(assigned(CapabilitySet::all().difference(lacking)), (None, usize::MAX), "{lacking:?}");
        }
    }

    #[test]
    fn granted_capabilities_are_limited_to_those_of_this_process() {
        let range: Users = "100000-165535".parse().unwrap();
        let assigned = range.allocator().take();
        assert_eq!(assigned, range.allocator_with(own_capabilities(), std::process::id()).take());
        assert_eq!((assigned.is_some(), range.max()), if can_switch(own_capabilities()) { (true, 65_536) } else { (false, usize::MAX) });
    }

    #[test]
    fn root_and_the_invalid_user_are_rejected() {
        for text in ["", "1", "0-9", "9-1", "1-4294967295", "1-4294967296", "a-b", "-1-5"] {
            assert_eq!(text.parse::<Users>(), Err(InvalidUserRange), "{text}");
        }
    }
}

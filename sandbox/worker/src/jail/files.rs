//! Landlock: no file, no TCP, nobody else's abstract socket, no signal to anybody else.

use landlock::{ABI, Access, AccessFs, AccessNet, Ruleset, RulesetAttr, RulesetError, RulesetStatus, Scope};
use rustix::io::{Errno, Result};

/// The newest of Landlock's versions that is asked for; of an older one it is what that has.
const NEWEST: ABI = ABI::V6;

/// Denies all of it, to this thread and those it starts.
pub(crate) fn deny_all() -> Result<()> {
    match restrict() {
        Ok(RulesetStatus::FullyEnforced | RulesetStatus::PartiallyEnforced) => Ok(()),
        Ok(RulesetStatus::NotEnforced) => Err(Errno::NOSYS),
        Err(_) => Err(Errno::INVAL),
    }
}

fn restrict() -> std::result::Result<RulesetStatus, RulesetError> {
    let ruleset = Ruleset::default()
        .handle_access(AccessFs::from_all(NEWEST))?
        .handle_access(AccessNet::from_all(NEWEST))?
        .scope(Scope::from_all(NEWEST))?;
    Ok(ruleset.create()?.restrict_self()?.ruleset)
}

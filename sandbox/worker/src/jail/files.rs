//! Landlock: no files, no TCP, no abstract sockets of others, no signals to others.

use landlock::{ABI, Access, AccessFs, AccessNet, Ruleset, RulesetAttr, RulesetError, RulesetStatus, Scope};
use rustix::io::{Errno, Result};

/// The newest version of Landlock to request. On an older kernel only its features apply.
const NEWEST: ABI = ABI::V6;

/// Applies these denials to the calling thread and the threads that it starts.
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

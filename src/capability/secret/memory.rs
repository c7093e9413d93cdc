//! What keeps the host's memory to itself.

use rustix::process::{DumpableBehavior, Resource, Rlimit, set_dumpable_behavior, setrlimit};

/// No core dump of this process or its children, and no other process of the same user may attach
/// to it or read its memory. Call it before there is a secret.
///
/// # Errors
///
/// The system's.
pub fn keep_private() -> std::io::Result<()> {
    setrlimit(Resource::Core, Rlimit { current: Some(0), maximum: Some(0) })?;
    set_dumpable_behavior(DumpableBehavior::NotDumpable)?;
    Ok(())
}

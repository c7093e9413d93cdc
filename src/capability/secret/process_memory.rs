//! Protects the host's memory from other processes.

use rustix::process::{DumpableBehavior, Resource, Rlimit, set_dumpable_behavior, setrlimit};

/// Disables core dumps of this process and its children, and prevents other processes of the same user from attaching
/// to it or reading its memory. Call it before any secret is loaded.
pub fn keep_private() -> std::io::Result<()> {
    setrlimit(Resource::Core, Rlimit { current: Some(0), maximum: Some(0) })?;
    set_dumpable_behavior(DumpableBehavior::NotDumpable)?;
    Ok(())
}

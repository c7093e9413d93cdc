//! User, group and capabilities of the process.

use rustix::{
    io::Result,
    thread::{
        CapabilitySet, CapabilitySets, Gid, Uid, capability_is_in_bounding_set, clear_ambient_capability_set,
        remove_capability_from_bounding_set, set_capabilities, set_thread_groups, set_thread_res_gid, set_thread_res_uid,
    },
};

/// Switches to a user and the group of the same number. The process must have only one thread.
pub(crate) fn become_user(number: u32) -> Result<()> {
    let (user, group) = (Uid::from_raw(number), Gid::from_raw(number));
    set_thread_groups(&[])?;
    set_thread_res_gid(group, group, group)?;
    set_thread_res_uid(user, user, user)
}

/// Empties the capability bounding set (capabilities(7)), if permitted. Otherwise `no_new_privs`
/// prevents programs from gaining capabilities.
pub(crate) fn drop_bounding_set() {
    for capability in (0..u64::BITS).map(|number| CapabilitySet::from_bits_retain(1 << number)) {
        match capability_is_in_bounding_set(capability) {
            Ok(true) => _ = remove_capability_from_bounding_set(capability),
            Ok(false) => {}
            // The kernel knows no further capabilities.
            Err(_) => return,
        }
    }
}

/// Drops every capability that the process has or could gain.
pub(crate) fn drop_capabilities() -> Result<()> {
    drop_bounding_set();
    clear_ambient_capability_set()?;
    let none = CapabilitySet::empty();
    set_capabilities(None, CapabilitySets { effective: none, permitted: none, inheritable: none })
}

//! The worker's jail: the rights that it drops before it loads a bundle, layer by layer.
//!
//! ```text
//! enter ── (the engine boots) ── leave ── (the watchdog starts) ── seal ── Ready
//! ```
//!
//! - [`Jail::enter`] drops only rights that the engine does not need to boot.
//! - [`Jail::leave`] isolates the process from the host's environment. By then, the engine has read
//!   all that it needs from the system. No second thread runs yet, because it would stay outside.
//! - [`Jail::seal`] drops the rest, on all threads.
//!
//! The `#[path]` attributes exist for `bin/tollhouse-probe.rs`, which enters the same jail from
//! another folder.
//!
//! A layer that the system refuses is reported with its error number, and the host decides whether
//! the rest is enough.

#[path = "jail/code.rs"]
mod code;
#[path = "jail/files.rs"]
mod files;
#[path = "jail/identity.rs"]
mod identity;
#[path = "jail/namespaces.rs"]
mod namespaces;
#[path = "jail/resources.rs"]
mod resources;
#[path = "jail/syscalls.rs"]
mod syscalls;

use std::os::fd::RawFd;

use rustix::{
    io::{Errno, Result},
    process::{DumpableBehavior, Signal, set_dumpable_behavior, set_parent_process_death_signal},
    thread::set_no_new_privs,
};
use tollhouse_protocol::{JailLayer, JailReport, LayerRefusal};

/// A function that puts a layer in force.
type Step = fn() -> Result<()>;

/// A jail that is being entered.
#[derive(Debug)]
pub(crate) struct Jail {
    requested: Vec<JailLayer>,
    report: JailReport,
}

impl Jail {
    /// Returns a jail of these layers, none of which is in force yet.
    pub(crate) fn of(requested: &[JailLayer]) -> Self {
        Self { requested: requested.to_vec(), report: JailReport::default() }
    }

    /// Enters the layers that an engine can boot under.
    pub(crate) fn enter(&mut self, socket: RawFd) {
        self.apply(JailLayer::Descriptors, || resources::close_others(socket));
        self.apply(JailLayer::OomScore, resources::raise_oom_score);
        self.apply(JailLayer::Rlimits, resources::limit);
        self.apply(JailLayer::NoNewPrivs, || set_no_new_privs(true));
        self.apply(JailLayer::NoExec, code::deny);
    }

    /// Leaves the host's environment. `user` is the number of a user and group that only this
    /// process gets.
    pub(crate) fn leave(&mut self, user: Option<u32>) {
        self.apply(JailLayer::PidNamespace, namespaces::require_init);
        // First with the host's rights, if it has any: some systems refuse namespaces to processes
        // without them.
        self.enter_namespaces();
        if self.requested.contains(&JailLayer::Capabilities) {
            // Not permitted anymore after the change of user.
            identity::drop_bounding_set();
        }
        self.apply(JailLayer::OwnUser, || identity::become_user(user.ok_or(Errno::PERM)?));
        self.apply(JailLayer::UserNamespace, namespaces::enter_user);
        // Again for namespaces that were refused: in its own user namespace the process has the
        // right.
        self.enter_namespaces();
        self.apply(JailLayer::Capabilities, identity::drop_capabilities);
        self.apply(JailLayer::Landlock, files::deny_all);
        // A change of user resets these two.
        self.apply(JailLayer::ParentDeathSignal, || set_parent_process_death_signal(Some(Signal::KILL)));
        self.apply(JailLayer::NotDumpable, || set_dumpable_behavior(DumpableBehavior::NotDumpable));
    }

    /// Forbids new threads and all but a few system calls, on all existing threads. `adds_code`: whether
    /// the engine makes new memory executable, as only WebAssembly needs. Returns the report.
    pub(crate) fn seal(mut self, adds_code: bool) -> JailReport {
        if self.is_in_force(JailLayer::Rlimits) {
            self.apply(JailLayer::Rlimits, resources::forbid_new_processes);
        }
        let compiles = !self.is_in_force(JailLayer::NoExec);
        self.apply(JailLayer::Seccomp, || syscalls::allow_few(compiles, adds_code));
        self.report
    }

    /// Enters the namespaces that are not in force yet.
    fn enter_namespaces(&mut self) {
        let steps: [(JailLayer, Step); 4] = [
            (JailLayer::MountNamespace, namespaces::enter_mounts),
            (JailLayer::EmptyRoot, namespaces::empty_root),
            (JailLayer::NetNamespace, namespaces::enter_network),
            (JailLayer::IpcNamespace, namespaces::enter_ipc),
        ];
        for (layer, step) in steps {
            // Otherwise it would change the root of other processes.
            let is_allowed = layer != JailLayer::EmptyRoot || self.is_in_force(JailLayer::MountNamespace);
            if !self.is_in_force(layer) {
                self.apply(layer, || if is_allowed { step() } else { Err(Errno::PERM) });
            }
        }
    }

    fn is_in_force(&self, layer: JailLayer) -> bool {
        self.report.in_force.contains(&layer)
    }

    /// Applies a step of a layer. Its result replaces an earlier one of the same layer.
    fn apply(&mut self, layer: JailLayer, step: impl FnOnce() -> Result<()>) {
        if !self.requested.contains(&layer) {
            return;
        }
        let report = &mut self.report;
        report.in_force.retain(|known| *known != layer);
        report.refused.retain(|known| known.layer != layer);
        match step() {
            Ok(()) => report.in_force.push(layer),
            Err(error) => report.refused.push(LayerRefusal { layer, errno: error.raw_os_error() }),
        }
    }
}

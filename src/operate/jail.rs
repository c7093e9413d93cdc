//! Checks a worker's jail: which layers are active on this machine, and how to get the others.

use std::io;
use tollhouse_base::boxed;

use tollhouse_pool::{Pool, PoolConfig, PoolError};
use tollhouse_protocol::{JailLayer, JailReport, LayerRefusal};

use super::finding::{Finding, Level};

/// Error numbers of missing permissions.
const EPERM: i32 = 1;
const EACCES: i32 = 13;
/// Error number of something that is impossible here for everybody.
const EINVAL: i32 = 22;
/// Error numbers of missing system features.
const ENOSYS: i32 = 38;
const EOPNOTSUPP: i32 = 95;

/// The result of jailing one worker.
#[derive(Debug)]
pub struct JailCheck {
    report: JailReport,
}

/// Starts one worker of the configured tier, asks for its report, and ends it.
#[boxed]
pub async fn examine(config: &PoolConfig) -> Result<JailCheck, PoolError> {
    // Without strict layers, so that the worker starts and reports what is missing.
    let alone = PoolConfig { spares: 0, strict: Vec::new(), ..config.clone() };
    let pool = Pool::start(alone)?;
    let report = pool.ready().await;
    pool.shutdown().await;
    Ok(JailCheck { report: report? })
}

impl JailCheck {
    /// Returns those of `layers` that are not active.
    pub fn lacks<'a>(&self, layers: &'a [JailLayer]) -> impl Iterator<Item = &'a JailLayer> {
        layers.iter().filter(|layer| !self.report.in_force.contains(layer))
    }

    /// Returns the layers that do not belong to its tier.
    fn others(&self) -> impl Iterator<Item = &JailLayer> {
        let refused = |layer: &JailLayer| self.report.refused.iter().any(|refused| refused.layer == *layer);
        self.lacks(&JailLayer::ALL).filter(move |layer| !refused(layer))
    }

    /// Returns the finding about the jail, with `which` as its instance. Without a layer of `strict` a host does not
    /// start. Without another one that the system refuses, workers have less protection than possible.
    pub fn finding(&self, which: impl Into<String>, strict: &[JailLayer]) -> Finding {
        let in_force: Vec<_> = self.report.in_force.iter().map(ToString::to_string).collect();
        let mut text = in_force.join(" ");
        let missing: Vec<_> = self.report.refused.chunk_by(|one, next| reason(one.errno) == reason(next.errno)).map(missing).collect();
        if !missing.is_empty() {
            text = format!("{text}   missing: {}", missing.join(", "));
        }
        let others: Vec<_> = self.others().map(ToString::to_string).collect();
        if !others.is_empty() {
            text = format!("{text}   not of this tier: {}", others.join(" "));
        }
        let alike = self.report.refused.chunk_by(|one, next| remedy(*one) == remedy(*next));
        let mut remedies: Vec<_> = alike
            .map(|refused| {
                let layers: Vec<_> = refused.iter().map(|refused| refused.layer.to_string()).collect();
                format!("{}: {}", layers.join(", "), remedy(refused[0]))
            })
            .collect();
        remedies.extend(others.first().map(|other| format!("{other}: {TIERS}")));
        let level = if self.lacks(strict).next().is_some() {
            Level::Fail
        } else if !self.report.refused.is_empty() || self.lacks(&[JailLayer::Seccomp]).next().is_some() {
            Level::Warn
        } else {
            Level::Ok
        };
        Finding { level, part: "engine", of: Some(which.into()), text, remedies }
    }
}

/// Lists layers that were refused for the same reason, with the reason.
fn missing(alike: &[LayerRefusal]) -> String {
    let layers: Vec<_> = alike.iter().map(|refused| refused.layer.to_string()).collect();
    format!("{} ({})", layers.join(" "), reason(alike[0].errno))
}

/// Describes a system error in a few words.
fn reason(errno: i32) -> String {
    match errno {
        EPERM | EACCES => "not allowed here".to_owned(),
        ENOSYS | EOPNOTSUPP => "not supported".to_owned(),
        _ => io::Error::from_raw_os_error(errno).to_string(),
    }
}

/// The remedy for a layer that the tier leaves out.
const TIERS: &str =
    "use the tier `jitless`, which has this layer: TOLLHOUSE_SANDBOX_TIER sets it for all tools, an admin for a builder or a tool";

/// Returns the remedy for a layer that the system refuses.
fn remedy(refused: LayerRefusal) -> &'static str {
    match refused.layer {
        JailLayer::Descriptors => "use Linux 5.9 or later, which has close_range(2)",
        JailLayer::ParentDeathSignal | JailLayer::NoNewPrivs | JailLayer::NotDumpable => {
            "something around this host filters prctl(2): check the container's seccomp profile"
        }
        JailLayer::Rlimits => "something around this host filters prlimit(2): check the container's seccomp profile",
        JailLayer::OomScore => "mount /proc writable",
        JailLayer::OwnUser if refused.errno == EINVAL => {
            "this user namespace does not have these users: set TOLLHOUSE_SANDBOX_USERS to users that /proc/self/uid_map lists"
        }
        JailLayer::OwnUser => "start the host as root, with CAP_SETUID, CAP_SETGID, CAP_KILL and CAP_SYS_NICE; a worker keeps none of them",
        JailLayer::Capabilities => "something around this host filters capset(2): check the container's seccomp profile",
        JailLayer::UserNamespace | JailLayer::MountNamespace | JailLayer::NetNamespace | JailLayer::IpcNamespace => {
            "allow user namespaces: user.max_user_namespaces above 0, on Debian kernel.unprivileged_userns_clone=1, on Ubuntu \
             kernel.apparmor_restrict_unprivileged_userns=0, in a container a seccomp profile that allows unshare(2); or give the host \
             CAP_SYS_ADMIN, which allows all of these layers except user_namespace"
        }
        JailLayer::PidNamespace => {
            "give the host CAP_SYS_ADMIN, set user.max_pid_namespaces above 0, and in a container use a seccomp profile that allows clone(2), \
             unshare(2) and setns(2) with PID namespaces; a user namespace is not enough"
        }
        JailLayer::EmptyRoot => "allow mount_namespace, a mount over /proc, mount(2) and pivot_root(2); the root must not be an initramfs",
        JailLayer::Landlock => "use Linux 5.13 or later, with `landlock` in /sys/kernel/security/lsm (`lsm=` on the kernel's command line)",
        JailLayer::Seccomp | JailLayer::NoExec => "use a kernel with CONFIG_SECCOMP_FILTER, on x86_64 or aarch64",
        JailLayer::MemoryMax | JailLayer::PidsMax | JailLayer::CpuMax if refused.errno == EOPNOTSUPP => {
            "the host's control group does not have this controller in version 2: check its cgroup.controllers and the cgroup.subtree_control \
             above it; a controller that version 1 uses (/proc/cgroups) is not available to version 2"
        }
        JailLayer::MemoryMax | JailLayer::PidsMax | JailLayer::CpuMax => {
            "give the host a control group of version 2 that it can divide: under systemd `Delegate=yes` in its service, in a container a cgroup \
             namespace of its own (`--cgroupns=private`) with /sys/fs/cgroup mounted writable"
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn missing_layer_has_a_reason_and_a_remedy() {
        const ALL: usize = JailLayer::ALL.len();
        let others = JailLayer::ALL[1..].iter().filter(|layer| **layer != JailLayer::NoExec);
        let refused: Vec<_> = others.map(|layer| LayerRefusal { layer: *layer, errno: 1 }).collect();
        assert_eq!(refused.len(), ALL - 2);
        let examined = JailCheck { report: JailReport { in_force: vec![JailLayer::Descriptors], refused } };
        let finding = examined.finding("v8, jail", &[]);
        assert_eq!(finding.level, Level::Warn, "no list of system calls");
        assert!(finding.to_string().starts_with("warn  engine v8, jail: descriptors   missing: parent_death_signal "), "{finding}");
        assert!(finding.text.ends_with(" (not allowed here)   not of this tier: no_exec"), "{finding}");
        assert_eq!(finding.text.matches("not allowed here").count(), 1, "told once for all that it is of");
        let [in_a_row, others] = [1, EOPNOTSUPP].map(|errno| remedy(LayerRefusal { layer: JailLayer::PidsMax, errno }));
        let describe = |what: &str| finding.remedies.iter().filter(|remedy| remedy.ends_with(what)).count();
        assert_eq!((describe(in_a_row), describe(others), describe(TIERS)), (1, 0, 1), "told once for all that it is for");
        assert_eq!(describe(remedy(LayerRefusal { layer: JailLayer::OwnUser, errno: EINVAL })), 0);
        assert!(in_a_row.contains("Delegate=yes") && others.contains("cgroup.controllers"));
        assert_eq!(examined.finding("v8, jail", &[JailLayer::Landlock]).level, Level::Fail);
        let refused = [(1, JailLayer::UserNamespace), (95, JailLayer::MemoryMax), (95, JailLayer::PidsMax), (7, JailLayer::CpuMax)];
        let refused = refused.map(|(errno, layer)| LayerRefusal { layer, errno }).to_vec();
        let describe =
            JailCheck { report: JailReport { in_force: vec![JailLayer::Seccomp], refused } }.finding("v8, jail", &[]).to_string();
        let missing = "missing: user_namespace (not allowed here), memory_max pids_max (not supported), cpu_max (Argument list too long (os error 7))";
        assert!(describe.starts_with(&format!("warn  engine v8, jail: seccomp   {missing}   not of this tier: ")), "{describe}");
        let complete = JailReport { in_force: JailLayer::ALL[..JailLayer::ALL.len() - 4].to_vec(), refused: vec![] };
        let complete = JailCheck { report: complete };
        assert!(complete.lacks(&[JailLayer::Seccomp]).next().is_none(), "{complete:?}");
        assert_eq!(complete.finding("v8, jail", &[]).level, Level::Ok);
        let groups = JailLayer::OF_GROUPS.map(|layer| LayerRefusal { layer, errno: 95 });
        let without = JailReport { refused: groups.to_vec(), ..complete.report };
        assert_eq!(JailCheck { report: without }.finding("v8, jail", &[]).level, Level::Warn);
        assert_eq!(examined.lacks(&[JailLayer::Descriptors, JailLayer::Seccomp]).collect::<Vec<_>>(), [&JailLayer::Seccomp]);
    }
}

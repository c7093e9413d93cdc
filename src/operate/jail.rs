//! The jail of a worker, looked at: which layers are in force on this machine, and how to get the others.

use std::{fmt, path::PathBuf};

use tollhouse_pool::{Pool, PoolConfig, PoolError};
use tollhouse_protocol::{JailLayer, JailReport, Refused, Tier};

/// The error number of what cannot be here, whoever asks.
const EINVAL: i32 = 22;
/// The error number of what the system has not.
const EOPNOTSUPP: i32 = 95;

/// What became of the jail of one worker.
#[derive(Debug)]
pub struct Examined {
    worker: PathBuf,
    tier: Tier,
    report: JailReport,
}

/// Starts one worker of the tier that is configured, asks it, and ends it.
///
/// # Errors
///
/// Where it does not start.
pub async fn examine(config: &PoolConfig) -> Result<Examined, PoolError> {
    // It is to tell what is missing, whatever may not be.
    let alone = PoolConfig { spares: 0, strict: Vec::new(), ..config.clone() };
    let pool = Pool::start(alone)?;
    let report = pool.ready().await;
    pool.shutdown().await;
    Ok(Examined { worker: config.worker.clone(), tier: config.tier, report: report? })
}

impl Examined {
    /// Those of `layers` that are not in force.
    pub fn lacks<'a>(&self, layers: &'a [JailLayer]) -> impl Iterator<Item = &'a JailLayer> {
        layers.iter().filter(|layer| !self.report.in_force.contains(layer))
    }

    /// Layers that are not of its tier.
    fn others(&self) -> impl Iterator<Item = &JailLayer> {
        let refused = |layer: &JailLayer| self.report.refused.iter().any(|refused| refused.layer == *layer);
        self.lacks(&JailLayer::ALL).filter(move |layer| !refused(layer))
    }
}

impl fmt::Display for Examined {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{}, tier {}", self.worker.display(), self.tier)?;
        for layer in &self.report.in_force {
            writeln!(f, "  in force  {layer}")?;
        }
        for refused in self.report.refused.chunk_by(|one, next| remedy(*one) == remedy(*next)) {
            refused.iter().try_for_each(|refused| writeln!(f, "  missing   {refused}"))?;
            writeln!(f, "            {}", remedy(refused[0]))?;
        }
        for layer in self.others() {
            writeln!(f, "  left out  {layer}: not of this tier\n            {TIERS}")?;
        }
        Ok(())
    }
}

/// What to do for a layer that a tier leaves out.
const TIERS: &str = "the tier `jitless` has it: for all by TOLLHOUSE_SANDBOX_TIER, for builders or one endpoint by what an admin sets";

/// What to do for a layer that the system refuses.
fn remedy(refused: Refused) -> &'static str {
    match refused.layer {
        JailLayer::Descriptors => "Linux 5.9 or later has close_range(2)",
        JailLayer::ParentDeathSignal | JailLayer::NoNewPrivs | JailLayer::NotDumpable => {
            "something around this host filters prctl(2): look at the container's seccomp profile"
        }
        JailLayer::Rlimits => "something around this host filters prlimit(2): look at the container's seccomp profile",
        JailLayer::OomScore => "mount /proc, and let it be written to",
        JailLayer::OwnUser if refused.errno == EINVAL => {
            "this user namespace has no such users: name some of /proc/self/uid_map in TOLLHOUSE_SANDBOX_USERS"
        }
        JailLayer::OwnUser => "start the host as root, with CAP_SETUID, CAP_SETGID, CAP_KILL and CAP_SYS_NICE; a worker keeps none of them",
        JailLayer::Capabilities => "something around this host filters capset(2): look at the container's seccomp profile",
        JailLayer::UserNamespace | JailLayer::MountNamespace | JailLayer::NetNamespace | JailLayer::IpcNamespace => {
            "let processes make user namespaces: user.max_user_namespaces above 0, on Debian kernel.unprivileged_userns_clone=1, on Ubuntu \
             kernel.apparmor_restrict_unprivileged_userns=0, in a container a seccomp profile that allows unshare(2); or give the host \
             CAP_SYS_ADMIN, which does for all of them but user_namespace"
        }
        JailLayer::PidNamespace => {
            "give the host CAP_SYS_ADMIN, with user.max_pid_namespaces above 0, and in a container a seccomp profile that allows clone(2), \
             unshare(2) and setns(2) of such; no user namespace does for it"
        }
        JailLayer::EmptyRoot => "it needs mount_namespace, /proc to mount over, mount(2) and pivot_root(2); the root must be no initramfs",
        JailLayer::Landlock => "Linux 5.13 or later, with `landlock` in /sys/kernel/security/lsm (`lsm=` on the kernel's command line)",
        JailLayer::Seccomp | JailLayer::NoExec => "a kernel with CONFIG_SECCOMP_FILTER, on x86_64 or aarch64",
        JailLayer::MemoryMax | JailLayer::PidsMax | JailLayer::CpuMax if refused.errno == EOPNOTSUPP => {
            "the host's control group is offered no such controller in version 2: look at cgroup.controllers there and at cgroup.subtree_control \
             above it; one that version 1 has (/proc/cgroups) is not there for version 2"
        }
        JailLayer::MemoryMax | JailLayer::PidsMax | JailLayer::CpuMax => {
            "a control group of version 2 that the host may divide: under systemd `Delegate=yes` in its service, in a container a cgroup \
             namespace of its own (`--cgroupns=private`) with /sys/fs/cgroup mounted to be written to"
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_missing_layer_comes_with_why_and_what_to_do() {
        const ALL: usize = JailLayer::ALL.len();
        let others = JailLayer::ALL[1..].iter().filter(|layer| **layer != JailLayer::NoExec);
        let refused: Vec<_> = others.map(|layer| Refused { layer: *layer, errno: 1 }).collect();
        let examined =
            Examined { worker: "w".into(), tier: Tier::Jit, report: JailReport { in_force: vec![JailLayer::Descriptors], refused } };
        let text = examined.to_string();
        assert!(
            text.starts_with("w, tier jit\n  in force  descriptors\n  missing   parent_death_signal: Operation not permitted"),
            "{text}"
        );
        assert!(text.contains("\n  left out  no_exec: not of this tier\n            the tier `jitless` has it"), "{text}");
        assert_eq!(text.matches("\n  missing ").count(), ALL - 2);
        let [in_a_row, others] = [1, EOPNOTSUPP].map(|errno| remedy(Refused { layer: JailLayer::PidsMax, errno }));
        assert_eq!((text.matches(in_a_row).count(), text.matches(others).count()), (1, 0), "told once for all that it is for");
        assert!(!text.contains(remedy(Refused { layer: JailLayer::OwnUser, errno: EINVAL })));
        assert!(in_a_row.contains("Delegate=yes") && others.contains("cgroup.controllers"));
        assert_eq!(examined.lacks(&[JailLayer::Descriptors, JailLayer::Seccomp]).collect::<Vec<_>>(), [&JailLayer::Seccomp]);
    }
}

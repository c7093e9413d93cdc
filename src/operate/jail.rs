//! The jail of a worker, looked at: which layers are in force on this machine, and how to get the others.

use tollhouse_pool::{Pool, PoolConfig, PoolError};
use tollhouse_protocol::{JailLayer, JailReport, Refused, Tier};

use super::finding::{Finding, Level};

/// The error number of what cannot be here, whoever asks.
const EINVAL: i32 = 22;
/// The error number of what the system has not.
const EOPNOTSUPP: i32 = 95;

/// What became of the jail of one worker.
#[derive(Debug)]
pub struct Examined {
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
    Ok(Examined { tier: config.tier, report: report? })
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

impl Examined {
    /// What is told of it. Without a layer of `strict` a host does not start; without the list of system calls a worker is hardly held.
    #[must_use]
    pub fn finding(&self, engine: &str, strict: &[JailLayer]) -> Finding {
        let in_force: Vec<_> = self.report.in_force.iter().map(ToString::to_string).collect();
        let mut text = in_force.join(" ");
        if !self.report.refused.is_empty() {
            let refused: Vec<_> = self.report.refused.iter().map(ToString::to_string).collect();
            text = format!("{text}   missing: {}", refused.join("; "));
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
        } else if self.lacks(&[JailLayer::Seccomp]).next().is_some() {
            Level::Warn
        } else {
            Level::Ok
        };
        Finding { level, part: "engine", of: Some(format!("{engine}, tier {}, jail", self.tier)), text, remedies }
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
        let examined = Examined { tier: Tier::Jit, report: JailReport { in_force: vec![JailLayer::Descriptors], refused } };
        let finding = examined.finding("v8", &[]);
        assert_eq!((finding.level, finding.of.as_deref()), (Level::Warn, Some("v8, tier jit, jail")), "no list of system calls");
        assert!(finding.text.starts_with("descriptors   missing: parent_death_signal: Operation not permitted"), "{finding}");
        assert!(finding.text.ends_with("   not of this tier: no_exec"), "{finding}");
        assert_eq!(finding.text.matches("Operation not permitted").count(), ALL - 2);
        let [in_a_row, others] = [1, EOPNOTSUPP].map(|errno| remedy(Refused { layer: JailLayer::PidsMax, errno }));
        let told = |what: &str| finding.remedies.iter().filter(|remedy| remedy.ends_with(what)).count();
        assert_eq!((told(in_a_row), told(others), told(TIERS)), (1, 0, 1), "told once for all that it is for");
        assert_eq!(told(remedy(Refused { layer: JailLayer::OwnUser, errno: EINVAL })), 0);
        assert!(in_a_row.contains("Delegate=yes") && others.contains("cgroup.controllers"));
        assert_eq!(examined.finding("v8", &[JailLayer::Landlock]).level, Level::Fail);
        assert_eq!(examined.lacks(&[JailLayer::Descriptors, JailLayer::Seccomp]).collect::<Vec<_>>(), [&JailLayer::Seccomp]);
    }
}

//! Tests each layer of the jail from inside: an action of a compromised process fails with the
//! layer, and works without it.

use std::{
    fs,
    io::{self, Write as _},
    net::TcpListener,
    os::unix::process::{CommandExt, ExitStatusExt},
    path::PathBuf,
    process::{Command, Stdio},
    sync::atomic::{AtomicUsize, Ordering},
    thread,
};

use rustix::thread::{UnshareFlags, unshare_unsafe};
use tollhouse_protocol::JailLayer;

/// A user without privileges.
const NOBODY: u32 = 65_534;
/// A user for a worker of a privileged host.
const OWN: u32 = 1_900_000_000;

const KILLED: &str = "signal 31";

/// The result of an attempt under some layers.
#[derive(Debug)]
struct LayerAttempt {
    /// Layers that the system refused.
    refused: Vec<JailLayer>,
    /// `ok`, an error number, or the signal that ended the process.
    ended: String,
}

/// A copy of the probe that every user can run.
struct Probe(PathBuf);

impl Probe {
    fn new() -> Self {
        static MADE: AtomicUsize = AtomicUsize::new(0);
        let copy = format!("tollhouse-probe-{}-{}", std::process::id(), MADE.fetch_add(1, Ordering::Relaxed));
        let copy = std::env::temp_dir().join(copy);
        // Copied by another process: a program that is open for writing cannot be started, and
        // processes of other tests inherit our descriptors.
        let copied = Command::new("cp").arg(env!("CARGO_BIN_EXE_tollhouse-probe")).arg(&copy).status();
        assert!(copied.unwrap().success());
        Self(copy)
    }

    /// Attempts an action under some layers, as the given user or the user of this test.
    fn attempt(&self, act: &str, layers: &[JailLayer], user: Option<u32>) -> LayerAttempt {
        let layers: Vec<_> = layers.iter().map(ToString::to_string).collect();
        let mut command = Command::new(&self.0);
        command.args([act, &layers.join(","), &OWN.to_string()]).env_clear().current_dir("/").stdin(Stdio::null());
        if let Some(user) = user {
            command.uid(user).gid(user);
        }
        let output = command.output().unwrap();
        let text = String::from_utf8(output.stdout).unwrap();
        let mut lines = text.lines();
        let refused = lines.next().and_then(|line| line.strip_prefix("refused ")).unwrap_or_else(|| panic!("{act}: {text}"));
        let ended = match (output.status.signal(), lines.next()) {
            (Some(signal), _) => format!("signal {signal}"),
            (None, Some(message)) => message.to_owned(),
            // The probe executed another program, which succeeded.
            (None, None) => "ok".to_owned(),
        };
        LayerAttempt { refused: refused.split(',').filter_map(JailLayer::named).collect(), ended }
    }

    /// The same as [`attempt`](Self::attempt) in the first process of a PID namespace. `None` if
    /// the system permits no namespace.
    fn attempt_as_first(&self, act: &str, layers: &[JailLayer], user: Option<u32>) -> Option<LayerAttempt> {
        // Only children of that thread are in the namespace.
        let attempt = || begin_namespace().then(|| self.attempt(act, layers, user));
        let tried = thread::scope(|scope| scope.spawn(attempt).join().unwrap());
        if tried.is_none() {
            writeln!(io::stdout(), "skipped: `{act}` in a namespace: this system allows none").unwrap();
        }
        tried
    }

    /// Asserts that an action that works without the layers ends as `ended` under them. Skipped if
    /// the system refuses a layer.
    fn assert_stopped(&self, act: &str, layers: &[JailLayer], user: Option<u32>, ended: &str) {
        let tried = self.attempt(act, layers, user);
        if let [first, ..] = tried.refused[..] {
            writeln!(io::stdout(), "skipped: `{act}` under {first}: this system refuses it").unwrap();
            return;
        }
        assert_eq!(tried.ended, ended, "{act} under {layers:?} as {user:?}");
        let without = self.attempt(act, &[], user).ended;
        if without != "ok" {
            eprintln!("{act} fails here with {without} without a jail, too");
        }
    }
}

impl Drop for Probe {
    fn drop(&mut self) {
        _ = fs::remove_file(&self.0);
    }
}

#[expect(unsafe_code, reason = "the binding is unsafe because of one flag, which is not used here")]
fn begin_namespace() -> bool {
    // SAFETY: the descriptor table stays shared.
    unsafe { unshare_unsafe(UnshareFlags::NEWPID) }.is_ok()
}

fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

/// Returns the users to test with: root and an unprivileged one if this is root, else the current
/// one.
fn users() -> Vec<Option<u32>> {
    if is_root() { vec![None, Some(NOBODY)] } else { vec![None] }
}

#[test]
fn system_calls_that_are_not_listed_end_the_process() {
    let probe = Probe::new();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let connect = format!("connect:{}", listener.local_addr().unwrap().port());
    let acts = [
        "socket",
        &connect,
        "exec",
        "fork",
        "clone3",
        "ptrace",
        "mmap-exec",
        "mprotect-exec",
        "signal-parent",
        "signal-parent-thread",
        "userfaultfd",
        "io_uring",
        "keyctl",
        "stat",
        "unshare",
        "prctl",
        "chroot",
        "x32",
        "second-thread:socket",
    ];
    for user in users() {
        for act in acts {
            probe.assert_stopped(act, &[JailLayer::Seccomp], user, KILLED);
        }
        for act in ["open", "proc", "second-thread:open"] {
            probe.assert_stopped(act, &[JailLayer::Seccomp], user, "2");
        }
        for act in ["nothing", "mmap", "name-memory", "own-schedule"] {
            probe.assert_stopped(act, &[JailLayer::Seccomp], user, "ok");
        }
        probe.assert_stopped("abort", &[JailLayer::Seccomp], user, "signal 6");
    }
}

#[test]
fn no_memory_becomes_executable_in_the_jitless_tier() {
    let probe = Probe::new();
    for user in users() {
        for act in ["mmap-exec", "mprotect-exec", "pkey-exec", "shared-exec", "personality", "exec", "second-thread:mmap-exec"] {
            for layers in [&[JailLayer::NoExec][..], &[JailLayer::NoExec, JailLayer::Seccomp]] {
                probe.assert_stopped(act, layers, user, KILLED);
            }
        }
        for act in ["nothing", "mmap", "second-thread:mmap"] {
            probe.assert_stopped(act, &[JailLayer::NoExec], user, "ok");
        }
    }
}

#[test]
fn landlock_refuses_files_connections_programs_and_signals() {
    let probe = Probe::new();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let connect = format!("connect:{}", listener.local_addr().unwrap().port());
    let layers = [JailLayer::NoNewPrivs, JailLayer::Landlock];
    for user in users() {
        for act in ["open", "proc", "exec", "second-thread:open", &connect] {
            probe.assert_stopped(act, &layers, user, "13");
        }
        for act in ["ptrace", "signal-parent", "signal-parent-thread"] {
            probe.assert_stopped(act, &layers, user, "1");
        }
    }
}

#[test]
fn empty_root_has_no_file_and_no_process() {
    let probe = Probe::new();
    let layers = [JailLayer::UserNamespace, JailLayer::MountNamespace, JailLayer::EmptyRoot];
    for user in users() {
        for act in ["open", "proc", "stat", "exec", "own-memory"] {
            probe.assert_stopped(act, &layers, user, "2");
        }
    }
}

#[test]
fn root_of_other_processes_is_unchanged() {
    let probe = Probe::new();
    for user in users() {
        assert_eq!(probe.attempt("nothing", &[JailLayer::EmptyRoot], user).refused, [JailLayer::EmptyRoot]);
    }
}

#[test]
fn namespaces_hide_network_shared_memory_and_users() {
    let probe = Probe::new();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let connect = format!("connect:{}", listener.local_addr().unwrap().port());
    let segment = Segment::new();
    for user in users() {
        probe.assert_stopped(&connect, &[JailLayer::UserNamespace, JailLayer::NetNamespace], user, "101");
        probe.assert_stopped(&format!("ipc:{}", segment.key), &[JailLayer::UserNamespace, JailLayer::IpcNamespace], user, "2");
        probe.assert_stopped("root", &[JailLayer::UserNamespace], user, "22");
    }
}

#[test]
fn first_process_of_a_namespace_sees_no_other_process() {
    let (probe, layers) = (Probe::new(), [JailLayer::PidNamespace]);
    let signal = format!("signal:{}", std::process::id());
    for user in users() {
        let within = probe.attempt(&signal, &layers, user);
        let is_other = user.is_some_and(|user| user != rustix::process::geteuid().as_raw());
        assert_eq!((&*within.ended, &within.refused[..]), (if is_other { "1" } else { "ok" }, &layers[..]), "as {user:?}");
        for act in [&signal, "signal-parent", "second-thread:nothing"] {
            let Some(first) = probe.attempt_as_first(act, &layers, user) else { return };
            // The probe's parent has no number here, and 0 is the probe's own group.
            let ended = if act == signal { "3" } else { "ok" };
            assert_eq!((&*first.ended, &first.refused[..]), (ended, &[][..]), "{act} as {user:?}");
        }
    }
}

#[test]
fn first_process_of_a_namespace_is_stopped_like_any_other() {
    let probe = Probe::new();
    for user in users() {
        let Some(nothing) = probe.attempt_as_first("nothing", &JailLayer::ALL, user) else { return };
        assert_eq!(nothing.ended, "ok", "{nothing:?}");
        for act in ["socket", "second-thread:socket"] {
            let tried = probe.attempt_as_first(act, &JailLayer::ALL, user).unwrap();
            assert!(tried.refused.contains(&JailLayer::Seccomp) || tried.ended == KILLED, "{act}: {tried:?}");
        }
        // By a fault, because the first process of a namespace ignores its own signals.
        let aborted = probe.attempt_as_first("abort", &JailLayer::ALL, user).unwrap();
        assert!(aborted.ended.starts_with("signal "), "{aborted:?}");
    }
}

#[test]
fn own_user_can_neither_signal_nor_become_others() {
    let probe = Probe::new();
    if !is_root() {
        assert_eq!(probe.attempt("nothing", &[JailLayer::OwnUser], None).refused, [JailLayer::OwnUser]);
        writeln!(io::stdout(), "skipped: workers as users of their own: this process is not root").unwrap();
        return;
    }
    for act in ["signal-parent", "signal-parent-thread", "ptrace", "root", "chroot"] {
        probe.assert_stopped(act, &[JailLayer::OwnUser], None, "1");
    }
    assert_eq!(probe.attempt("nothing", &[JailLayer::OwnUser], Some(NOBODY)).refused, [JailLayer::OwnUser]);
}

#[test]
fn without_capabilities_root_has_no_rights() {
    let probe = Probe::new();
    for user in users() {
        for act in ["chroot", "second-thread:chroot"] {
            probe.assert_stopped(act, &[JailLayer::Capabilities], user, "1");
        }
    }
    if is_root() {
        probe.assert_stopped("ptrace", &[JailLayer::Capabilities], None, "1");
    }
}

#[test]
fn rlimits_allow_no_descriptor_and_no_process() {
    let probe = Probe::new();
    for user in users() {
        probe.assert_stopped("descriptors", &[JailLayer::Rlimits], user, "24");
    }
    // The kernel does not limit root.
    let user = if is_root() { Some(NOBODY) } else { None };
    probe.assert_stopped("fork", &[JailLayer::Rlimits], user, "11");
}

#[test]
fn process_that_is_not_dumpable_cannot_open_its_own_memory() {
    let probe = Probe::new();
    let user = if is_root() { Some(NOBODY) } else { None };
    probe.assert_stopped("own-memory", &[JailLayer::NotDumpable], user, "13");
}

#[test]
fn every_layer_together_leaves_the_process_alive() {
    let probe = Probe::new();
    for user in users() {
        assert_eq!(probe.attempt("nothing", &JailLayer::ALL, user).ended, "ok");
        assert_eq!(probe.attempt("second-thread:nothing", &JailLayer::ALL, user).ended, "ok");
        let tried = probe.attempt("socket", &JailLayer::ALL, user);
        assert!(tried.ended != "ok", "{tried:?}");
    }
}

/// Shared memory that every process of this IPC namespace finds by its key.
struct Segment {
    key: u16,
    id: i32,
}

impl Segment {
    #[expect(unsafe_code, reason = "no safe binding makes shared memory of System V")]
    fn new() -> Self {
        let key = std::process::id() as u16 | 1;
        // SAFETY: takes and returns only numbers.
        let id = unsafe { libc::shmget(key.into(), 4096, libc::IPC_CREAT | 0o666) };
        Self { key, id }
    }
}

impl Drop for Segment {
    #[expect(unsafe_code, reason = "no safe binding removes shared memory of System V")]
    fn drop(&mut self) {
        // SAFETY: nobody has mapped it.
        unsafe { libc::shmctl(self.id, libc::IPC_RMID, std::ptr::null_mut()) };
    }
}

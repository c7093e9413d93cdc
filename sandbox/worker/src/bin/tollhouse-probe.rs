//! Enters some or all layers of a worker's jail, and then tries one forbidden action.
//!
//! Usage: `tollhouse-probe ACT [LAYER,…] [USER]`. It prints the layers that the system refused,
//! then the result of the action: `ok` or an error number. If nothing more is printed, the action
//! ended the process. Only the tests of the jail run it; it is not part of a host.

#![allow(unsafe_code, clippy::disallowed_methods, clippy::print_stdout, reason = "it acts like a handler that controls its process")]

#[path = "../jail.rs"]
mod jail;

use std::{env, io, ptr, str::FromStr, sync::mpsc, thread};

use tollhouse_protocol::JailLayer;

/// Descriptor number that a worker's socket would have.
const SOCKET: i32 = 3;

fn main() {
    let words: Vec<_> = env::args().skip(1).collect();
    let [act, layers, user @ ..] = &words[..] else { panic!("an action and layers") };
    let layers: Vec<_> = layers.split(',').filter_map(JailLayer::named).collect();
    let user = user.first().map(|number| number.parse().expect("a number"));
    let mut jail = jail::Jail::of(&layers);
    jail.enter(SOCKET);
    jail.leave(user);
    // A worker has a second thread, too.
    let (notify, reported) = mpsc::channel::<String>();
    let (begin, started) = mpsc::channel::<String>();
    thread::spawn(move || {
        if let Ok(act) = started.recv() {
            _ = notify.send(attempt(&act));
        }
        // A worker's thread never ends.
        loop {
            thread::park();
        }
    });
    let report = jail.seal(false);
    let refused: Vec<_> = report.refused.iter().map(|refused| refused.layer.to_string()).collect();
    println!("refused {}", refused.join(","));
    if let Some(act) = act.strip_prefix("second-thread:") {
        _ = begin.send(act.to_owned());
        println!("{}", reported.recv().expect("the thread answers"));
    } else {
        println!("{}", attempt(act));
    }
    // Like a worker, exits without cleanup. SAFETY: nothing of the process is used afterwards.
    unsafe { libc::_exit(0) }
}

/// Performs the action, and returns its result.
fn attempt(act: &str) -> String {
    // SAFETY: each call takes numbers, or addresses that outlive it, and its result is only
    // inspected.
    let answer = unsafe {
        match act {
            "nothing" => 0,
            "open" => call(libc::SYS_openat, [libc::AT_FDCWD.into(), address(c"/etc/passwd"), 0, 0]),
            "proc" => call(libc::SYS_openat, [libc::AT_FDCWD.into(), address(c"/proc/1/status"), 0, 0]),
            "stat" => {
                let mut buffer = [0_u8; 512];
                call(libc::SYS_newfstatat, [libc::AT_FDCWD.into(), address(c"/etc/passwd"), buffer.as_mut_ptr() as i64, 0])
            }
            "socket" => call(libc::SYS_socket, [libc::AF_INET.into(), libc::SOCK_STREAM.into(), 0, 0]),
            act if act.starts_with("connect:") => connect(number(act)),
            act if act.starts_with("ipc:") => call(libc::SYS_shmget, [number(act), 0, 0, 0]),
            "exec" => {
                let words = [c"/bin/true".as_ptr(), ptr::null()];
                call(libc::SYS_execve, [words[0] as i64, words.as_ptr() as i64, 0, 0])
            }
            "fork" => match call(libc::SYS_clone, [libc::SIGCHLD.into(), 0, 0, 0]) {
                0 => libc::_exit(0),
                child => child,
            },
            "clone3" => call(libc::SYS_clone3, [0, 0, 0, 0]),
            "ptrace" => call(libc::SYS_ptrace, [0x4206, libc::getppid().into(), 0, 0]),
            "mmap-exec" => map(libc::PROT_READ | libc::PROT_EXEC),
            "mmap" => map(libc::PROT_READ | libc::PROT_WRITE),
            "mprotect-exec" => {
                let page = map(libc::PROT_READ | libc::PROT_WRITE);
                call(libc::SYS_mprotect, [page, 4096, (libc::PROT_READ | libc::PROT_EXEC).into(), 0])
            }
            "pkey-exec" => {
                let page = map(libc::PROT_READ | libc::PROT_WRITE);
                call(libc::SYS_pkey_mprotect, [page, 4096, (libc::PROT_READ | libc::PROT_EXEC).into(), -1])
            }
            "shared-exec" => {
                let segment = call(libc::SYS_shmget, [libc::IPC_PRIVATE.into(), 4096, 0o600, 0]);
                let address = call(libc::SYS_shmat, [segment, 0, libc::SHM_EXEC.into(), 0]);
                call(libc::SYS_shmctl, [segment, libc::IPC_RMID.into(), 0, 0]);
                address
            }
            "personality" => call(libc::SYS_personality, [libc::READ_IMPLIES_EXEC.into(), 0, 0, 0]),
            "signal-parent" => call(libc::SYS_kill, [libc::getppid().into(), 0, 0, 0]),
            act if act.starts_with("signal:") => call(libc::SYS_kill, [number(act), 0, 0, 0]),
            "signal-parent-thread" => call(libc::SYS_tgkill, [libc::getppid().into(), libc::getppid().into(), 0, 0]),
            "userfaultfd" => call(libc::SYS_userfaultfd, [1, 0, 0, 0]),
            "io_uring" => {
                let mut buffer = [0_u8; 256];
                call(libc::SYS_io_uring_setup, [1, buffer.as_mut_ptr() as i64, 0, 0])
            }
            "keyctl" => call(libc::SYS_keyctl, [0, -3, 1, 0]),
            "bpf" => call(libc::SYS_bpf, [0, 0, 0, 0]),
            "unshare" => call(libc::SYS_unshare, [libc::CLONE_NEWUTS.into(), 0, 0, 0]),
            "prctl" => call(libc::SYS_prctl, [libc::PR_SET_DUMPABLE.into(), 1, 0, 0]),
            "name-memory" => {
                let page = map(libc::PROT_READ | libc::PROT_WRITE);
                // Not every kernel supports names for memory.
                libc::prctl(libc::PR_SET_VMA, libc::PR_SET_VMA_ANON_NAME, page, 4096, c"name".as_ptr());
                0
            }
            "own-schedule" => {
                let (mut policy, mut parameters) = (0, std::mem::zeroed());
                i64::from(libc::pthread_getschedparam(libc::pthread_self(), &raw mut policy, &raw mut parameters))
            }
            "root" => call(libc::SYS_setresuid, [0, 0, 0, 0]),
            "chroot" => call(libc::SYS_chroot, [address(c"/"), 0, 0, 0]),
            "descriptors" => (0..20).map(|_| call(libc::SYS_dup, [0; 4])).min().unwrap_or_default(),
            "own-memory" => call(libc::SYS_openat, [libc::AT_FDCWD.into(), address(c"/proc/self/mem"), libc::O_RDWR.into(), 0]),
            "x32" => call(0x4000_0000 | libc::SYS_read, [0, 0, 0, 0]),
            "abort" => libc::abort(),
            _ => panic!("unknown action"),
        }
    };
    if answer >= 0 { "ok".to_owned() } else { io::Error::last_os_error().raw_os_error().unwrap_or_default().to_string() }
}

/// Makes a system call.
///
/// # Safety
///
/// As required by the system call.
unsafe fn call(number: i64, arguments: [i64; 4]) -> i64 {
    let [a, b, c, d] = arguments;
    // SAFETY: guaranteed by the caller.
    unsafe { libc::syscall(number, a, b, c, d) }
}

fn address(text: &std::ffi::CStr) -> i64 {
    text.as_ptr() as i64
}

/// Maps one page of memory.
fn map(protection: i32) -> i64 {
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
    // SAFETY: maps a new page that nobody uses.
    unsafe { libc::mmap(ptr::null_mut(), 4096, protection, flags, -1, 0) as i64 }
}

/// Parses the number after the colon of an action.
fn number<T: FromStr>(act: &str) -> T {
    act.split_once(':').and_then(|(_, number)| number.parse().ok()).expect("a number")
}

/// Connects to a port of this machine, through the network of the process.
fn connect(port: u16) -> i64 {
    let to = libc::sockaddr_in {
        sin_family: libc::AF_INET as libc::sa_family_t,
        sin_port: port.to_be(),
        sin_addr: libc::in_addr { s_addr: u32::from(std::net::Ipv4Addr::LOCALHOST).to_be() },
        sin_zero: [0; 8],
    };
    // SAFETY: takes numbers, and an address that outlives the call.
    unsafe {
        let socket = call(libc::SYS_socket, [libc::AF_INET.into(), libc::SOCK_STREAM.into(), 0, 0]);
        call(libc::SYS_connect, [socket, (&raw const to) as i64, size_of_val(&to) as i64, 0])
    }
}

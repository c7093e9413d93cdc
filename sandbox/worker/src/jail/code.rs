//! Forbids executable memory beyond the program's own code: nothing can be mapped or made
//! executable from here on.

use rustix::io::Result;
use seccompiler::{Error, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter, SeccompRule};

use super::syscalls;

/// Refused system calls, each with the argument and bit that request executable memory. No bit if
/// every use is refused.
const REFUSED: &[(i64, Option<(u8, i32)>)] = &[
    (libc::SYS_mmap, Some((2, libc::PROT_EXEC))),
    (libc::SYS_mprotect, Some((2, libc::PROT_EXEC))),
    (libc::SYS_pkey_mprotect, Some((2, libc::PROT_EXEC))),
    (libc::SYS_shmat, Some((2, libc::SHM_EXEC))),
    // This call can make all readable memory executable.
    (libc::SYS_personality, None),
];

/// Ends the process if this thread, or a thread that it starts from now on, requests executable
/// memory.
pub(crate) fn deny() -> Result<()> {
    install().map_err(syscalls::errno)
}

fn install() -> std::result::Result<(), Error> {
    let mut refused = Vec::new();
    for (call, condition) in REFUSED {
        let rule = condition.map(|(argument, bits)| {
            let bits = u64::from(bits.unsigned_abs());
            SeccompRule::new(vec![SeccompCondition::new(argument, SeccompCmpArgLen::Dword, SeccompCmpOp::MaskedEq(bits), bits)?])
        });
        refused.push((*call, rule.transpose()?.into_iter().collect()));
    }
    let filter = SeccompFilter::new(refused.into_iter().collect(), SeccompAction::Allow, SeccompAction::KillProcess, syscalls::arch()?)?;
    syscalls::apply(filter)
}

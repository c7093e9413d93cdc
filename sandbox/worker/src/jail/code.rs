//! No code but the program's own: nothing executable is mapped from here on, nor made so.

use rustix::io::Result;
use seccompiler::{Error, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter, SeccompRule};

use super::calls;

/// Name, and of which argument which bit asks for code; no bit where there is no other use of it.
const REFUSED: &[(i64, Option<(u8, i32)>)] = &[
    (libc::SYS_mmap, Some((2, libc::PROT_EXEC))),
    (libc::SYS_mprotect, Some((2, libc::PROT_EXEC))),
    (libc::SYS_pkey_mprotect, Some((2, libc::PROT_EXEC))),
    (libc::SYS_shmat, Some((2, libc::SHM_EXEC))),
    // It can make all that is read executable.
    (libc::SYS_personality, None),
];

/// Ends the process where it, or a thread it starts from now on, asks for code.
pub(crate) fn deny() -> Result<()> {
    install().map_err(calls::errno)
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
    let filter = SeccompFilter::new(refused.into_iter().collect(), SeccompAction::Allow, SeccompAction::KillProcess, calls::arch()?)?;
    calls::apply(filter)
}

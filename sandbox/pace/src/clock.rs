//! The kernel's synchronization state of the system clock.

use std::{io, time::Duration};

/// Synchronization of the system clock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ClockState {
    /// Whether a time service synchronizes the clock.
    pub is_synchronized: bool,
    /// The maximum error, as estimated by that service.
    pub max_error: Duration,
}

/// Reads the state of the clock (adjtimex(2)), without changing it.
///
/// # Errors
///
/// The error of the system, for example if a seccomp filter forbids the call.
#[expect(unsafe_code, reason = "no safe binding reads the state of the clock")]
pub fn clock() -> io::Result<ClockState> {
    // SAFETY: the structure contains only numbers, for which zero is valid. With `modes` 0 the call
    // only reads.
    let mut request: libc::timex = unsafe { std::mem::zeroed() };
    // SAFETY: the structure outlives the call, which writes nothing else.
    let state = unsafe { libc::adjtimex(&raw mut request) };
    if state < 0 {
        return Err(io::Error::last_os_error());
    }
    let is_synchronized = state != libc::TIME_ERROR && request.status & libc::STA_UNSYNC == 0;
    // `maxerror` is in microseconds.
    Ok(ClockState { is_synchronized, max_error: Duration::from_micros(u64::try_from(request.maxerror).unwrap_or(u64::MAX)) })
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    #[test]
    fn kernel_reports_its_clock_and_is_not_changed() {
        let Ok(first) = super::clock() else {
            writeln!(std::io::stdout(), "skipped: the kernel's clock: this system does not report it").unwrap();
            return;
        };
        let second = super::clock().unwrap();
        assert_eq!(first.is_synchronized, second.is_synchronized);
    }
}

//! What the kernel says of its clock.

use std::{io, time::Duration};

/// Whether a clock follows others, and how well.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ClockState {
    /// Whether something steers it by a time server.
    pub follows: bool,
    /// How far off it is at most, by whoever steers it.
    pub off_by: Duration,
}

/// Asks the kernel (adjtimex(2)), and changes nothing.
///
/// # Errors
///
/// The system's, where a filter around this process refuses the question.
#[expect(unsafe_code, reason = "no safe binding reads the state of the clock")]
pub fn clock() -> io::Result<ClockState> {
    // SAFETY: the structure is numbers alone, for which zeros are values; with `modes` 0 the call asks.
    let mut asked: libc::timex = unsafe { std::mem::zeroed() };
    // SAFETY: the structure lives as long as the call, which writes to nothing else.
    let state = unsafe { libc::adjtimex(&raw mut asked) };
    if state < 0 {
        return Err(io::Error::last_os_error());
    }
    let follows = state != libc::TIME_ERROR && asked.status & libc::STA_UNSYNC == 0;
    // In microseconds.
    Ok(ClockState { follows, off_by: Duration::from_micros(u64::try_from(asked.maxerror).unwrap_or(u64::MAX)) })
}

#[cfg(test)]
mod tests {
    #[test]
    fn kernel_tells_of_its_clock_and_is_not_changed() {
        let Ok(first) = super::clock() else { return };
        let second = super::clock().unwrap();
        assert_eq!(first.follows, second.follows);
    }
}

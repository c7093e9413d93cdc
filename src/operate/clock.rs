//! Checks whether this machine's clock is synchronized. Payments are judged and receipts dated by it.

use std::{path::Path, time::Duration};

use super::finding::Finding;

/// Maximum error as estimated by the kernel. Authorizations expire to the second.
const MAX_CLOCK_ERROR: Duration = Duration::from_secs(1);

/// Exists once systemd's NTP client has set the clock since the machine started.
const SET_BY_SYSTEMD: &str = "/run/systemd/timesync/synchronized";

/// Reports the state of the kernel's clock.
pub fn examine() -> Finding {
    clock_finding(tollhouse_pace::clock().map_err(|error| error.to_string()), Path::new(SET_BY_SYSTEMD).exists())
}

fn clock_finding(state: Result<tollhouse_pace::ClockState, String>, set_by_systemd: bool) -> Finding {
    const REMEDY: &str = "run an NTP client (systemd-timesyncd or chrony): the host checks payments by this machine's clock";
    match state {
        Ok(state) if state.is_synchronized && state.max_error <= MAX_CLOCK_ERROR => {
            Finding::ok("clock", format!("follows a time server, off by at most {} ms", state.max_error.as_millis()))
        }
        Ok(state) if state.is_synchronized => {
            Finding::warn("clock", format!("follows a time server, but can be off by {:.1} s", state.max_error.as_secs_f64()), REMEDY)
        }
        Ok(_) if set_by_systemd => Finding::ok("clock", "was set from a time server, but the kernel does not report that it follows one"),
        Ok(_) => Finding::warn("clock", "the kernel reports that it does not follow a time server", REMEDY),
        Err(error) => Finding::warn("clock", format!("the kernel does not report whether it follows a time server: {error}"), REMEDY),
    }
}

#[cfg(test)]
mod tests {
    use tollhouse_pace::ClockState;

    use super::*;
    use crate::finding::Level;

    #[test]
    fn synchronized_clock_is_ok() {
        let state = |is_synchronized, ms| Ok(ClockState { is_synchronized, max_error: Duration::from_millis(ms) });
        let level = |state, set| clock_finding(state, set).level;
        assert_eq!((level(state(true, 3), false), level(state(false, 3), true)), (Level::Ok, Level::Ok));
        assert_eq!((level(state(true, 1_001), false), level(state(false, 3), false)), (Level::Warn, Level::Warn));
        assert!(clock_finding(Err("no".to_owned()), true).text.ends_with(": no"));
    }
}

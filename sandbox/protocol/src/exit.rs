//! Exit status of a stopped worker. It reports the reason if the socket accepts no more messages.

use crate::{Limits, Side, StopReason};

/// The host is gone or broke the protocol, or the worker cannot report why it ends.
pub const UNREPORTED: u8 = 70;

/// The process has used all its memory.
pub const OUT_OF_MEMORY: u8 = 75;

impl StopReason {
    /// Returns the exit status for this reason under these limits.
    #[must_use]
    pub fn exit_status(&self, limits: &Limits) -> u8 {
        match self {
            Self::CpuTime { .. } => 71,
            Self::WallTime { .. } => 72,
            Self::Memory { limit_bytes } if *limit_bytes == limits.heap_bytes => 73,
            Self::Memory { limit_bytes } if *limit_bytes == limits.buffer_bytes => 74,
            Self::Memory { .. } => OUT_OF_MEMORY,
            Self::SchemaTime { side: Side::Input, .. } => 76,
            Self::SchemaTime { side: Side::Output, .. } => 77,
            Self::SchemaMemory { side: Side::Input, .. } => 78,
            Self::SchemaMemory { side: Side::Output, .. } => 79,
            Self::Unlisted { side: Side::Input } => 80,
            Self::Unlisted { side: Side::Output } => 81,
            Self::OutputSize { .. } => 82,
            Self::OutputDepth { .. } => 83,
            Self::Deadlock => 84,
            // These reasons have details that do not fit into a number.
            Self::Ops { .. } | Self::Crashed => UNREPORTED,
        }
    }

    /// Returns the reason for an exit status under the limits that were in force, or `None` for any
    /// other status.
    #[must_use]
    pub fn of_exit_status(status: i32, limits: &Limits) -> Option<Self> {
        let Limits { cpu_ms, wall_ms, heap_bytes, buffer_bytes, rss_bytes, .. } = *limits;
        Some(match status {
            71 => Self::CpuTime { limit_ms: cpu_ms },
            72 => Self::WallTime { limit_ms: wall_ms },
            73 => Self::Memory { limit_bytes: heap_bytes },
            74 => Self::Memory { limit_bytes: buffer_bytes },
            75 => Self::Memory { limit_bytes: rss_bytes },
            76 => Self::SchemaTime { side: Side::Input, limit_ms: cpu_ms },
            77 => Self::SchemaTime { side: Side::Output, limit_ms: cpu_ms },
            78 => Self::SchemaMemory { side: Side::Input, limit_bytes: heap_bytes },
            79 => Self::SchemaMemory { side: Side::Output, limit_bytes: heap_bytes },
            80 => Self::Unlisted { side: Side::Input },
            81 => Self::Unlisted { side: Side::Output },
            82 => Self::OutputSize { limit_bytes: limits.output_bytes },
            83 => Self::OutputDepth { limit: limits.output_depth },
            84 => Self::Deadlock,
            _ => return None,
        })
    }
}

impl Limits {
    /// Returns the limits that apply while a bundle is loaded: the time limits become those of
    /// loading.
    #[must_use]
    pub const fn of_load(mut self) -> Self {
        (self.cpu_ms, self.wall_ms) = (self.load_cpu_ms, self.load_wall_ms);
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_stop_reason_except_two_has_an_exit_status() {
        let limits = Limits { rss_bytes: 3, heap_bytes: 1, buffer_bytes: 2, ..Limits::default() };
        let listed: Vec<_> = (0..=255).filter_map(|status| StopReason::of_exit_status(status, &limits)).collect();
        assert_eq!(listed.len(), 14);
        for reason in &listed {
            assert_eq!(StopReason::of_exit_status(reason.exit_status(&limits).into(), &limits).as_ref(), Some(reason));
        }
        for reason in [StopReason::Crashed, StopReason::Ops { what: "requests".into(), limit: 1 }] {
            assert_eq!(reason.exit_status(&limits), UNREPORTED);
        }
        assert_eq!(StopReason::of_exit_status(UNREPORTED.into(), &limits), None);
    }

    #[test]
    fn load_has_its_own_time_limits() {
        let limits = Limits::default();
        assert_eq!(StopReason::of_exit_status(71, &limits.of_load()), Some(StopReason::CpuTime { limit_ms: limits.load_cpu_ms }));
        assert_eq!(StopReason::of_exit_status(72, &limits.of_load()), Some(StopReason::WallTime { limit_ms: limits.load_wall_ms }));
    }
}

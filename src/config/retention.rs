//! Settings of retention: how much history is kept, and how long.

use std::num::NonZeroU32;

use tollhouse_account::audit::AuditSettings;
use tollhouse_call::{HistorySettings, MetricsSettings};
use tollhouse_capability::LogSettings;
use tollhouse_event::EventSettings;
use tollhouse_money::receipt::FreeReceiptSettings;

use super::layered::flags;

flags! {
/// Flags for retention.
pub struct RetentionFlags {
    /// Events kept for each owner [default: 100000]
    pub events_kept: Option<u64> = "TOLLHOUSE_EVENTS_KEPT",
    /// Days that events are kept [default: 90]
    pub event_days: Option<u32> = "TOLLHOUSE_EVENT_DAYS",
    /// Log lines kept for each tool [default: 5000]
    pub log_lines_kept: Option<u64> = "TOLLHOUSE_LOG_LINES_KEPT",
    /// Bytes of log lines kept for each tool [default: 4194304]
    pub log_bytes_kept: Option<u64> = "TOLLHOUSE_LOG_BYTES_KEPT",
    /// Bytes of log lines per second for each tool; four times that for each builder [default: 262144]
    pub log_rate: Option<NonZeroU32> = "TOLLHOUSE_LOG_RATE",
    /// Days that log lines are kept [default: 7]
    pub log_days: Option<u32> = "TOLLHOUSE_LOG_DAYS",
    /// Receipts of free calls kept; receipts of paid calls are never removed [default: 5000000]
    pub free_receipts_kept: Option<u64> = "TOLLHOUSE_FREE_RECEIPTS_KEPT",
    /// Days that receipts of free calls are kept [default: 7]
    pub free_receipt_days: Option<u32> = "TOLLHOUSE_FREE_RECEIPT_DAYS",
    /// Calls kept for each tool, for its owner's list [default: 10000]
    pub calls_kept: Option<u64> = "TOLLHOUSE_CALLS_KEPT",
    /// Days that calls are kept [default: 30]
    pub call_days: Option<u32> = "TOLLHOUSE_CALL_DAYS",
    /// Days that hourly metrics of calls are kept; those per minute: 2 days [default: 90]
    pub metric_days: Option<u32> = "TOLLHOUSE_METRIC_DAYS",
    /// Entries of the audit trail kept; actors with the most entries lose their oldest first [default: 1000000]
    pub audit_kept: Option<u64> = "TOLLHOUSE_AUDIT_KEPT",
    /// Days that entries of the audit trail are kept [default: 400]
    pub audit_days: Option<u32> = "TOLLHOUSE_AUDIT_DAYS",
}
}

/// How much history of each kind is kept, and how long.
#[derive(Debug, Clone)]
pub struct RetentionSettings {
    /// Retention of events.
    pub events: EventSettings,
    /// Retention of log lines.
    pub logs: LogSettings,
    /// Retention of receipts of free calls.
    pub free_receipts: FreeReceiptSettings,
    /// Retention of records of calls.
    pub history: HistorySettings,
    /// Retention of metrics.
    pub metrics: MetricsSettings,
    /// Retention of the audit trail.
    pub audit: AuditSettings,
}

impl RetentionFlags {
    pub(super) fn resolve(self) -> RetentionSettings {
        let (events, logs, audit) = (EventSettings::default(), LogSettings::default(), AuditSettings::default());
        let (free_receipts, history, metrics) = (FreeReceiptSettings::default(), HistorySettings::default(), MetricsSettings::default());
        RetentionSettings {
            events: EventSettings {
                count: self.events_kept.unwrap_or(events.count),
                age_ms: self.event_days.map_or(events.age_ms, days_ms),
            },
            logs: LogSettings {
                lines: self.log_lines_kept.unwrap_or(logs.lines),
                age_ms: self.log_days.map_or(logs.age_ms, days_ms),
                bytes: self.log_bytes_kept.unwrap_or(logs.bytes),
                rate: self.log_rate.unwrap_or(logs.rate),
                ..logs
            },
            free_receipts: FreeReceiptSettings {
                count: self.free_receipts_kept.unwrap_or(free_receipts.count),
                age_ms: self.free_receipt_days.map_or(free_receipts.age_ms, days_ms),
            },
            history: HistorySettings {
                count: self.calls_kept.unwrap_or(history.count),
                age_ms: self.call_days.map_or(history.age_ms, days_ms),
            },
            metrics: MetricsSettings { hours_ms: self.metric_days.map_or(metrics.hours_ms, days_ms), ..metrics },
            audit: AuditSettings { count: self.audit_kept.unwrap_or(audit.count), age_ms: self.audit_days.map_or(audit.age_ms, days_ms) },
        }
    }
}

fn days_ms(days: u32) -> u64 {
    u64::from(days) * 24 * 3_600 * 1_000
}

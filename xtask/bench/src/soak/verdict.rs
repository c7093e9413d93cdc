//! Judges whether the measurements are flat.
//!
//! Only rows after the first round of retention count, and of each half of them the lowest value: a
//! leak raises the floor, but the store's file may shrink again after the disk was slow. In a long
//! run, memory must not creep either.

use super::samples::SampleRow;
use crate::Failure;

/// Settings of a run, and how much its floor may rise.
pub(super) struct RunScale {
    /// Retained receipts of free calls, the most frequent records.
    pub(super) receipts: u64,
    pub(super) others: u64,
    /// Tolerated rise of the floor, in percent.
    pub(super) tolerance: f64,
    /// Number of concurrent attackers.
    pub(super) attackers: usize,
    /// Tolerated growth of memory in megabytes per minute, if the run is long enough to measure it.
    pub(super) creep: Option<f64>,
    /// Whether measurements are far enough apart that a process which is just ending is not seen
    /// twice.
    pub(super) apart: bool,
}

/// Runs shorter than this, in seconds, have less retention and fewer attacks. In either form the
/// folder would double without retention.
const LONG: u64 = 300;
/// Runs shorter than this, in seconds, have more tolerance, because caches and the store grow to
/// their normal size during a good part of them.
const SAMPLES_NEEDED: u64 = 1_200;

/// Minimum tolerance for descriptors, because the store opens files as it grows.
const DESCRIPTORS: u64 = 8;

impl RunScale {
    pub(super) fn of(seconds: u64) -> Self {
        let short = Self { receipts: 5_000, others: 1_000, tolerance: 50.0, attackers: 1, creep: None, apart: false };
        let long = Self { receipts: 50_000, others: 10_000, attackers: 4, apart: true, ..short };
        match seconds {
            ..LONG => short,
            LONG..SAMPLES_NEEDED => long,
            SAMPLES_NEEDED.. => Self { tolerance: 15.0, creep: Some(1.0), ..long },
        }
    }
}

/// Checks that memory, disk and descriptors were flat, and all processes were reaped.
pub(super) fn judge(rows: &[SampleRow], scale: &RunScale) -> Result<(), Failure> {
    // With twice as many calls as retained receipts, each retained one has replaced an older one.
    let first = rows.iter().position(|row| row.calls >= 2 * scale.receipts).ok_or("too few calls: retention had no turn; take longer")?;
    // The store grows to its normal size during the first rounds.
    let judged = &rows[first.max(rows.len() / 3)..];
    if judged.len() < 5 {
        return Err("too few rows behind retention's first turn; take longer".into());
    }
    println!("\nfrom {:.0} s on, the floor can rise by {} %:", judged[0].seconds, scale.tolerance);
    let mut grew = Vec::new();
    for (what, of) in [("RSS", (|row| row.rss) as fn(&SampleRow) -> f64), ("disk", |row| row.disk)] {
        let percent = (1.0 / floors(judged, of).0 * floors(judged, of).1 - 1.0) * 100.0;
        println!("  {what:<5} {percent:>+6.1} %");
        if percent > scale.tolerance {
            grew.push(what);
        }
    }
    let creep = creep(judged);
    println!("  RSS   {creep:>+6.2} MB a minute, by its lowest in each row");
    if scale.creep.is_some_and(|max| creep >= max) {
        grew.push("RSS");
    }
    let (before, after) = floors(judged, |row| row.least_descriptors as f64);
    println!("  descriptors {before} → {after}");
    if after > before + DESCRIPTORS as f64 {
        grew.push("descriptors");
    }
    let max = judged.iter().map(|row| row.receipts).max().unwrap_or_default();
    // Records that the current round has not reached yet.
    let late = (judged[judged.len() - 1].calls / judged.len() as u64).max(scale.receipts);
    if max > scale.receipts + late {
        return Err(format!("{max} free receipts are there, {} were to be kept", scale.receipts).into());
    }
    if scale.apart && rows.iter().any(|row| row.forgotten > 0) {
        return Err("processes that have ended were not waited for".into());
    }
    if grew.is_empty() { Ok(()) } else { Err(format!("{} grew", grew.join(" and ")).into()) }
}

/// Returns the lowest value in each half of the rows.
fn floors(rows: &[SampleRow], of: fn(&SampleRow) -> f64) -> (f64, f64) {
    let (first, second) = rows.split_at(rows.len() / 2);
    let floor = |half: &[SampleRow]| half.iter().map(of).fold(f64::INFINITY, f64::min);
    (floor(first), floor(second))
}

/// Returns the growth of memory in megabytes per minute: the slope of the least-squares line
/// through all rows.
fn creep(rows: &[SampleRow]) -> f64 {
    let count = rows.len() as f64;
    let mean = |of: fn(&SampleRow) -> f64| rows.iter().map(of).sum::<f64>() / count;
    let (minutes, megabytes) = (|row: &SampleRow| row.seconds / 60.0, |row: &SampleRow| row.least_rss / 1e6);
    let (middle, usual) = (mean(minutes), mean(megabytes));
    let along: f64 = rows.iter().map(|row| (minutes(row) - middle) * (megabytes(row) - usual)).sum();
    along / rows.iter().map(|row| (minutes(row) - middle).powi(2)).sum::<f64>()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rows(disk: impl Fn(u32) -> f64) -> Vec<SampleRow> {
        let row = |n: u32| SampleRow {
            seconds: f64::from(n) * 60.0,
            calls: u64::from(n) * 1_000,
            rss: 100.0,
            disk: disk(n),
            receipts: 1_000,
            ..SampleRow::default()
        };
        (1..=30).map(row).collect()
    }

    const SCALE: RunScale = RunScale { receipts: 1_000, others: 10, tolerance: 5.0, attackers: 0, creep: Some(1.0), apart: true };

    #[test]
    fn oscillation_is_no_leak_and_slow_growth_is() {
        assert!(judge(&rows(|n| if n.is_multiple_of(2) { 90.0 } else { 110.0 }), &SCALE).is_ok());
        // Growth at the beginning is accepted.
        assert!(judge(&rows(|n| 100.0 * f64::from(n.min(10))), &SCALE).is_ok());
        let creeps = judge(&rows(|n| 100.0 + f64::from(n)), &SCALE).unwrap_err().to_string();
        assert_eq!(creeps, "disk grew");
    }

    #[test]
    fn memory_growth_counts_in_runs_of_at_least_twenty_minutes() {
        let scales = [25, 300, 1_199, 1_200, 3_600].map(RunScale::of);
        assert_eq!(scales.each_ref().map(|scale| scale.creep.is_some()), [false, false, false, true, true]);
        assert_eq!(scales.each_ref().map(|scale| scale.tolerance), [50.0, 50.0, 50.0, 15.0, 15.0]);
        assert_eq!(scales.each_ref().map(|scale| (scale.attackers, scale.apart)), [(1, false), (4, true), (4, true), (4, true), (4, true)]);
    }

    #[test]
    fn memory_growth_of_a_megabyte_per_minute_is_a_leak() {
        let mut rows = rows(|_| 1.0);
        for (minute, row) in rows.iter_mut().enumerate() {
            row.least_rss = 2e8 + minute as f64 * 0.9e6 + if minute % 2 == 0 { 1e6 } else { 0.0 };
        }
        assert!(judge(&rows, &SCALE).is_ok());
        rows.iter_mut().enumerate().for_each(|(minute, row)| row.least_rss += minute as f64 * 0.2e6);
        assert_eq!(judge(&rows, &SCALE).unwrap_err().to_string(), "RSS grew");
    }

    #[test]
    fn descriptors_that_stay_open_are_seen() {
        let mut rows = rows(|_| 1.0);
        rows.iter_mut().enumerate().for_each(|(row, seen)| seen.least_descriptors = 40 + row as u64);
        assert_eq!(judge(&rows, &SCALE).unwrap_err().to_string(), "descriptors grew");
    }

    #[test]
    fn unreaped_processes_are_detected() {
        let mut rows = rows(|_| 1.0);
        rows[3].forgotten = 1;
        assert!(judge(&rows, &SCALE).is_err());
    }

    #[test]
    fn receipts_that_are_never_removed_are_detected() {
        let mut rows = rows(|_| 1.0);
        rows.iter_mut().for_each(|row| row.receipts = row.calls);
        assert!(judge(&rows, &SCALE).is_err());
    }

    #[test]
    fn run_without_a_retention_cycle_proves_nothing() {
        assert!(judge(&rows(|_| 1.0), &RunScale { receipts: 1_000_000, ..SCALE }).is_err());
    }
}

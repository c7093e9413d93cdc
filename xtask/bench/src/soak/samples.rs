//! Measurements of the host from outside.

use std::{fs, path::Path};

use tollhouse::operate::disk::taken;

use crate::Failure;

/// One measurement.
#[derive(Debug, Clone, Default)]
pub(super) struct Sample {
    /// In bytes.
    rss: f64,
    disk: f64,
    descriptors: u64,
    workers: u64,
    /// Processes that have ended and are not reaped.
    dead: Vec<u32>,
    /// Number of them that were already there before.
    forgotten: u64,
}

/// Measurements of a period: the maximum of each, and the minimum of memory and descriptors.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct SampleRow {
    pub(super) seconds: f64,
    pub(super) calls: u64,
    pub(super) attacks: u64,
    pub(super) receipts: u64,
    pub(super) rss: f64,
    pub(super) least_rss: f64,
    pub(super) disk: f64,
    pub(super) least_descriptors: u64,
    pub(super) workers: u64,
    pub(super) forgotten: u64,
}

impl Sample {
    pub(super) fn at(host: u32, data: &Path, before: &Self) -> Result<Self, Failure> {
        let dead = dead(host)?;
        Ok(Self {
            rss: resident(host)?,
            disk: taken(data) as f64,
            descriptors: fs::read_dir(format!("/proc/{host}/fd"))?.count() as u64,
            workers: children(host)?.len() as u64 - dead.len() as u64,
            forgotten: dead.iter().filter(|process| before.dead.contains(process)).count() as u64,
            dead,
        })
    }
}

impl SampleRow {
    pub(super) const HEAD: &str = "       s       calls   calls/s   attacks    RSS MB   disk MB free receipts descriptors workers zombies";

    pub(super) fn of(looks: &[Sample]) -> Self {
        let max = |of: fn(&Sample) -> f64| looks.iter().map(of).fold(0.0, f64::max);
        let count = |of: fn(&Sample) -> u64| looks.iter().map(of);
        Self {
            rss: max(|look| look.rss),
            least_rss: looks.iter().map(|look| look.rss).fold(f64::INFINITY, f64::min),
            disk: max(|look| look.disk),
            least_descriptors: count(|look| look.descriptors).min().unwrap_or_default(),
            workers: count(|look| look.workers).max().unwrap_or_default(),
            forgotten: count(|look| look.forgotten).max().unwrap_or_default(),
            ..Self::default()
        }
    }

    /// Formats the row for the table.
    pub(super) fn line(&self, before: Self) -> String {
        let rate = (self.calls - before.calls) as f64 / (self.seconds - before.seconds);
        format!(
            "{:>8.0}{:>12}{rate:>10.0}{:>10}{:>10.1}{:>10.1}{:>14}{:>12}{:>8}{:>8}",
            self.seconds,
            self.calls,
            self.attacks,
            self.rss / 1e6,
            self.disk / 1e6,
            self.receipts,
            self.least_descriptors,
            self.workers,
            self.forgotten,
        )
    }
}

/// Returns the child processes that have ended and are not reaped.
pub(super) fn dead(process: u32) -> Result<Vec<u32>, Failure> {
    Ok(children(process)?.into_iter().filter(|(_, state)| state == "Z").map(|(child, _)| child).collect())
}

/// Returns the child processes with their states.
fn children(process: u32) -> Result<Vec<(u32, String)>, Failure> {
    let parent = process.to_string();
    let processes = fs::read_dir("/proc")?.flatten().filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    let stats = processes.filter_map(|child| Some((child, fs::read_to_string(format!("/proc/{child}/stat")).ok()?)));
    let of_it = stats.filter_map(|(child, stat)| {
        let mut fields = stat.rsplit_once(')')?.1.split_whitespace();
        let state = fields.next()?.to_owned();
        (fields.next()? == parent).then_some((child, state))
    });
    Ok(of_it.collect())
}

/// Returns the resident memory of a process, in bytes.
fn resident(process: u32) -> Result<f64, Failure> {
    let status = fs::read_to_string(format!("/proc/{process}/status"))?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).ok_or("the system does not say what memory the host has")?;
    Ok(line.trim().trim_end_matches(" kB").parse::<f64>()? * 1024.0)
}

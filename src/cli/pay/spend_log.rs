//! The amount spent today, and the open payments. They are in one file under a lock, so that concurrent calls cannot
//! exceed the limit together.
//!
//! A payment is counted before it is signed. It stays counted until the host reports that nothing was charged. Of a
//! payment that was signed for a maximum, the part that was not charged is given back.

use std::{
    collections::BTreeMap,
    fs::{File, OpenOptions, TryLockError},
    os::unix::fs::OpenOptionsExt as _,
    path::{Path, PathBuf},
    thread::sleep,
    time::{Duration, Instant},
};

use serde::{Deserialize, Serialize};
use tollhouse_base::{clock::Timestamp, fsync_dir::sync_entry};
use tollhouse_tool::MicroUsd;

use super::{PaymentLimits, usd};
use crate::base::{Error, Exit, Result, private_files};

/// Longest wait for the lock. Processes hold it for a write, not for a call.
const TIMEOUT: Duration = Duration::from_secs(10);

/// Maximum number of open payments. Beyond it, the oldest are dropped from the list but stay counted.
const MAX_OPEN: usize = 1_000;

/// Longest time that a payment without a known outcome stays open: no host keeps a result for that long.
const OPEN_MILLIS: u64 = 8 * 24 * 60 * 60 * 1_000;

/// The folder with the file.
#[derive(Debug, Clone)]
pub(crate) struct SpendLog {
    folder: PathBuf,
}

/// Contents of the file.
#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct SpendFile {
    /// Amount spent on a day, by profile.
    days: BTreeMap<String, Day>,
    /// Oldest first.
    open: Vec<OpenPayment>,
}

#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Day {
    /// Date in UTC.
    day: String,
    micros: u64,
}

/// A payment that is counted, and whose outcome is not known yet.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct OpenPayment {
    pub(crate) id: String,
    /// The profile whose daily limit it counts against.
    pub(crate) profile: String,
    pub(crate) micros: u64,
    /// Identifies the request: the same one is not paid for again while this payment is open.
    pub(crate) request: String,
    pub(crate) made_at: Timestamp,
}

impl SpendLog {
    pub(crate) fn at(folder: &Path) -> Self {
        Self { folder: folder.to_owned() }
    }

    fn file(&self) -> PathBuf {
        self.folder.join("spent.json")
    }

    /// Returns how much may still be spent today.
    ///
    /// # Errors
    ///
    /// The file cannot be read. The amount spent is unknown then, so nothing may be spent.
    pub(crate) fn remaining(&self, limits: &PaymentLimits, now: Timestamp) -> Result<MicroUsd> {
        let spending = self.read()?;
        Ok(MicroUsd(limits.daily.0.saturating_sub(spending.spent(&limits.profile, now))))
    }

    pub(crate) fn open_for(&self, request: &str) -> Result<Vec<OpenPayment>> {
        Ok(self.read()?.open.into_iter().filter(|open| open.request == request).collect())
    }

    /// Returns the IDs of all open payments.
    pub(crate) fn open(&self) -> Result<Vec<String>> {
        Ok(self.read()?.open.into_iter().map(|open| open.id).collect())
    }

    /// Counts a payment that is about to be signed. If several calls make the same request at once, only one of them
    /// pays, unless `again` is set.
    ///
    /// # Errors
    ///
    /// The payment would exceed the daily limit, which has the exit code of payments. Another payment for the same
    /// request is open. Nothing is counted in either case.
    pub(crate) fn count(&self, open: OpenPayment, limits: &PaymentLimits, name: &str, again: bool) -> Result {
        self.change(open.made_at, |spending, now| match spending.open.iter().find(|other| !again && other.request == open.request) {
            Some(other) => Err(open_payments(&other.id)),
            None => spending.count(open, limits, name, now),
        })
    }

    /// Closes a payment of which `taken` was charged, and gives the rest back to its day.
    pub(crate) fn close(&self, id: &str, taken: MicroUsd, now: Timestamp) -> Result {
        self.change(now, |spending, now| {
            let Some(position) = spending.open.iter().position(|open| open.id == id) else { return Ok(()) };
            let open = spending.open.remove(position);
            if day_of(open.made_at) == day_of(now) {
                let day = spending.day(&open.profile, now);
                day.micros = day.micros.saturating_sub(open.micros.saturating_sub(taken.0));
            }
            Ok(())
        })
    }

    fn read(&self) -> Result<SpendFile> {
        let file = self.file();
        let text = private_files::read_private(&file)?.unwrap_or_default();
        if text.is_empty() {
            return Ok(SpendFile::default());
        }
        serde_json::from_str(&text).map_err(|error| {
            let error = Error::refused(format!("the spending record `{}` is not valid: {error}", file.display()));
            error.hint("if you move it away, nothing counts as spent today")
        })
    }

    fn change(&self, now: Timestamp, change: impl FnOnce(&mut SpendFile, Timestamp) -> Result) -> Result {
        let _lock = self.lock()?;
        let mut spending = self.read()?;
        change(&mut spending, now)?;
        spending.forget(now);
        let text = serde_json::to_string(&spending).map_err(|error| Error::refused(error.to_string()))?;
        private_files::write_private(&self.file(), &text)?;
        Ok(sync_entry(&self.file())?)
    }

    /// Takes the lock. It is held until the returned file is dropped or the process ends.
    fn lock(&self) -> Result<File> {
        let path = self.folder.join("lock");
        let wrong = |error: std::io::Error| Error::refused(format!("`{}` cannot be locked: {error}", path.display()));
        private_files::make_folder(&self.folder).map_err(wrong)?;
        let file = OpenOptions::new().create(true).truncate(false).write(true).mode(0o600).open(&path).map_err(wrong)?;
        let started = Instant::now();
        loop {
            match file.try_lock() {
                Ok(()) => return Ok(file),
                Err(TryLockError::Error(error)) => return Err(wrong(error)),
                Err(TryLockError::WouldBlock) if started.elapsed() > TIMEOUT => {
                    return Err(Error::refused(format!("another process has locked `{}`", path.display())));
                }
                Err(TryLockError::WouldBlock) => sleep(Duration::from_millis(5)),
            }
        }
    }
}

impl SpendFile {
    fn count(&mut self, open: OpenPayment, limits: &PaymentLimits, name: &str, now: Timestamp) -> Result {
        let remaining = limits.daily.0.saturating_sub(self.spent(&limits.profile, now));
        if open.micros > remaining {
            let (price, remaining, daily) = (usd(MicroUsd(open.micros)), usd(MicroUsd(remaining)), usd(limits.daily));
            let message =
                format!("`{name}` costs {price}, but only {remaining} of today's {daily} (daily_usd) is left.  Nothing was signed");
            return Err(Error::new(Exit::Payment, message));
        }
        self.day(&limits.profile, now).micros += open.micros;
        self.open.push(open);
        Ok(())
    }

    fn spent(&self, profile: &str, now: Timestamp) -> u64 {
        self.days.get(profile).filter(|day| day.day == day_of(now)).map_or(0, |day| day.micros)
    }

    fn day(&mut self, profile: &str, now: Timestamp) -> &mut Day {
        let day = self.days.entry(profile.to_owned()).or_default();
        let today = day_of(now);
        if day.day != today {
            *day = Day { day: today, micros: 0 };
        }
        day
    }

    /// Removes past days, expired payments, and the oldest payments beyond the limit.
    fn forget(&mut self, now: Timestamp) {
        let today = day_of(now);
        self.days.retain(|_, day| day.day == today);
        self.open.retain(|open| open.made_at.0.saturating_add(OPEN_MILLIS) > now.0);
        let more = self.open.len().saturating_sub(MAX_OPEN);
        self.open.drain(..more);
    }
}

/// Returns the error for a request that another process is paying for with the payment `id`.
pub(crate) fn open_payments(id: &str) -> Error {
    let error = Error::refused(format!("another process is paying for the same request, with {id}.  Nothing was signed"));
    error.hint(format!("get its result later: tollhouse call --resume {id}   pay again: --again"))
}

/// Returns the UTC date of a moment.
fn day_of(at: Timestamp) -> String {
    at.to_string().chars().take(10).collect()
}

#[cfg(test)]
mod tests {
    use std::{fs, thread};

    use super::*;

    const NOON: Timestamp = Timestamp(1_800_014_400_000);
    const DAY: u64 = 86_400_000;

    fn limits(daily: u64) -> PaymentLimits {
        PaymentLimits { profile: "p".to_owned(), network: None, asset: None, max: MicroUsd(daily), daily: MicroUsd(daily) }
    }

    fn open(id: &str, micros: u64, made_at: Timestamp) -> OpenPayment {
        OpenPayment { id: id.to_owned(), profile: "p".to_owned(), micros, request: format!("of {id}"), made_at }
    }

    #[test]
    fn payment_stays_counted_until_it_is_closed() {
        let folder = tempfile::tempdir().unwrap();
        let (spend_log, limits) = (SpendLog::at(folder.path()), limits(100));
        let remaining = || spend_log.remaining(&limits, NOON).unwrap().0;
        spend_log.count(open("a", 60, NOON), &limits, "t", true).unwrap();
        let refused = spend_log.count(open("b", 41, NOON), &limits, "t", true).unwrap_err();
        assert_eq!(refused.exit, Exit::Payment);
        spend_log.count(open("c", 40, NOON), &limits, "t", true).unwrap();
        assert_eq!((remaining(), spend_log.open().unwrap()), (0, vec!["a".to_owned(), "c".to_owned()]));
        spend_log.close("a", MicroUsd(0), NOON).unwrap();
        assert_eq!(remaining(), 60);
        spend_log.close("a", MicroUsd(0), NOON).unwrap();
        assert_eq!(remaining(), 60, "it is given back once");
        spend_log.close("c", MicroUsd(15), NOON).unwrap();
        assert_eq!((remaining(), spend_log.open().unwrap().len()), (85, 0));
        assert_eq!(spend_log.open_for("of a").unwrap().len(), 0);
    }

    #[test]
    fn late_refund_does_not_count_for_the_new_day() {
        let folder = tempfile::tempdir().unwrap();
        let (spend_log, limits) = (SpendLog::at(folder.path()), limits(100));
        spend_log.count(open("a", 60, NOON), &limits, "t", true).unwrap();
        let next = NOON.plus_millis(DAY);
        assert_eq!(spend_log.remaining(&limits, next).unwrap().0, 100);
        spend_log.count(open("b", 70, next), &limits, "t", true).unwrap();
        spend_log.close("a", MicroUsd(0), next).unwrap();
        assert_eq!(spend_log.remaining(&limits, next).unwrap().0, 30);
        assert_eq!(
            spend_log.remaining(&PaymentLimits { profile: "q".to_owned(), ..limits }, next).unwrap().0,
            100,
            "each profile has its own"
        );
    }

    #[test]
    fn concurrent_payments_stay_within_the_limit() {
        let folder = tempfile::tempdir().unwrap();
        let (spend_log, limits) = (SpendLog::at(folder.path()), limits(100));
        let passed: usize = thread::scope(|scope| {
            let count = |id: usize| spend_log.count(open(&id.to_string(), 30, NOON), &limits, "t", true).is_ok();
            let all: Vec<_> = (0..16).map(|id| scope.spawn(move || usize::from(count(id)))).collect();
            all.into_iter().map(|one| one.join().unwrap()).sum()
        });
        assert_eq!((passed, spend_log.remaining(&limits, NOON).unwrap().0), (3, 10));
    }

    #[test]
    fn concurrent_payments_for_one_request_count_once() {
        let folder = tempfile::tempdir().unwrap();
        let (spend_log, limits) = (SpendLog::at(folder.path()), limits(100));
        let of_one = |id: usize| OpenPayment { request: "of one".to_owned(), ..open(&id.to_string(), 10, NOON) };
        let passed: usize = thread::scope(|scope| {
            let count = |id: usize| spend_log.count(of_one(id), &limits, "t", false).map_err(|error| assert_eq!(error.exit, Exit::Refused));
            let all: Vec<_> = (0..8).map(|id| scope.spawn(move || usize::from(count(id).is_ok()))).collect();
            all.into_iter().map(|one| one.join().unwrap()).sum()
        });
        assert_eq!((passed, spend_log.remaining(&limits, NOON).unwrap().0), (1, 90));
        spend_log.count(of_one(8), &limits, "t", true).unwrap();
        spend_log.count(open("other", 10, NOON), &limits, "t", false).unwrap();
    }

    #[test]
    fn malformed_file_blocks_spending() {
        let folder = tempfile::tempdir().unwrap();
        let (spend_log, limits) = (SpendLog::at(folder.path()), limits(100));
        spend_log.count(open("a", 60, NOON), &limits, "t", true).unwrap();
        let text = fs::read_to_string(spend_log.file()).unwrap();
        fs::write(spend_log.file(), &text[..text.len() / 2]).unwrap();
        assert!(spend_log.remaining(&limits, NOON).is_err());
        assert!(spend_log.count(open("b", 1, NOON), &limits, "t", true).is_err());
    }

    #[test]
    fn open_payments_are_limited_and_expire() {
        let folder = tempfile::tempdir().unwrap();
        let (spend_log, limits) = (SpendLog::at(folder.path()), limits(1_000_000));
        let mut spending = SpendFile { open: (0..1_500).map(|id| open(&id.to_string(), 1, NOON)).collect(), ..SpendFile::default() };
        spending.forget(NOON);
        assert_eq!((spending.open.len(), &*spending.open[0].id), (MAX_OPEN, "500"));
        private_files::write_private(&spend_log.file(), &serde_json::to_string(&spending).unwrap()).unwrap();
        let late = NOON.plus_millis(OPEN_MILLIS);
        spend_log.count(open("late", 1, late), &limits, "t", true).unwrap();
        assert_eq!(spend_log.open().unwrap(), ["late"]);
    }
}

//! Records of signed payments, written to disk before the payment is sent: one file for each payment, readable by its
//! owner only. The first line holds the request, which may be sent several times. The later lines note the outcome.
//!
//! The process that sends a payment holds the lock of its file. A file without a lock and without an outcome was left
//! behind by a process that died.

use std::{
    fs::{self, File, OpenOptions, TryLockError},
    io::{self, Read as _, Write as _},
    os::unix::fs::OpenOptionsExt as _,
    path::{Path, PathBuf},
    time::SystemTime,
};

use reqwest::{Method, Url};
use serde::{Deserialize, Serialize};
use tollhouse_api::PaymentState;
use tollhouse_base::{clock::Timestamp, fsync_dir::sync_entry};
use tollhouse_money::{IDEMPOTENCY_KEY_TTL, PaymentId};
use tollhouse_tool::MicroUsd;

use super::{PaymentTarget, Request, body_file::BodyFile};
use crate::base::{Error, Exit, Result, private_files};

/// Maximum number of records that are kept, and the days that they are kept.
const MAX: usize = 1_000;
const DAYS: u64 = 30;

/// Maximum number of bytes of a record.
const MAX_BYTES: u64 = 64 << 20;

/// A request with its payment.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct SentPayment {
    pub(crate) payment_id: PaymentId,
    /// The name of the tool shown to people.
    pub(crate) name: String,
    pub(crate) made_at: Timestamp,
    pub(crate) method: String,
    pub(crate) url: String,
    /// `None` if the request has no body.
    pub(crate) body: Option<String>,
    /// The body, if it is a file.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) file: Option<BodyFile>,
    pub(crate) stream: bool,
    /// The headers that pay. The token of a credit is not among them: it is kept in the credentials file only.
    pub(crate) headers: Vec<(String, String)>,
    /// Whether a developer credit pays.
    pub(crate) by_credit: bool,
    /// The host whose payments are looked up.
    pub(crate) host: String,
    /// Whether that is the profile's own host, whose report of the charge is trusted.
    pub(crate) own: bool,
    /// The amount that was signed: exact, or the maximum.
    pub(crate) usd: MicroUsd,
    /// Whether `usd` is the maximum.
    #[serde(rename = "most")]
    pub(crate) max: bool,
    /// The token of a payment on a network. Receipts are compared with it.
    pub(crate) token: Option<Token>,
    /// Longest wait for the response.
    pub(crate) timeout_secs: u64,
}

/// The token and the amount that move.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct Token {
    pub(crate) network: String,
    pub(crate) asset: String,
    /// In the token's smallest unit.
    pub(crate) amount: String,
    pub(crate) payer: String,
    /// In seconds since 1970: the payment is invalid from then on.
    pub(crate) until_secs: u64,
}

impl SentPayment {
    /// Returns a request with headers that pay, without a price yet.
    pub(crate) fn new(target: &PaymentTarget, payment_id: PaymentId, made_at: Timestamp, headers: Vec<(String, String)>) -> Self {
        Self {
            payment_id,
            name: target.name.clone(),
            made_at,
            method: target.request.method.to_string(),
            url: target.request.url.to_string(),
            body: target.request.body.clone(),
            file: target.request.file.clone(),
            stream: target.request.stream,
            headers,
            by_credit: false,
            host: target.host.to_string(),
            own: target.own,
            usd: MicroUsd::ZERO,
            max: false,
            token: None,
            timeout_secs: 0,
        }
    }

    /// Checks that the host still recognizes the payment if it is sent again. The key of a call on credit expires, and then
    /// the same key is charged again. A signed payment can be charged only once.
    ///
    /// # Errors
    ///
    /// The key has expired: nothing may be sent.
    pub(crate) fn check_key(&self, now: Timestamp) -> Result {
        if !self.by_credit || now < self.made_at.plus(IDEMPOTENCY_KEY_TTL) {
            return Ok(());
        }
        let days = IDEMPOTENCY_KEY_TTL.as_secs() / (24 * 60 * 60);
        let message =
            format!("payment {} is older than {days} days, so the host could charge it again.  Nothing was sent", self.payment_id);
        let hint = "look for the charge: tollhouse credits show   call and pay again: --again, without --resume";
        Err(Error::new(Exit::Unknown, message).hint(hint))
    }

    /// Returns the request to send it again.
    ///
    /// # Errors
    ///
    /// The record holds no valid request.
    pub(crate) fn request(&self) -> Result<(Request, Url)> {
        let wrong = || Error::refused(format!("the record of {} contains no valid request", self.payment_id));
        let method = Method::from_bytes(self.method.as_bytes()).map_err(|_| wrong())?;
        let (url, host) = (Url::parse(&self.url).map_err(|_| wrong())?, Url::parse(&self.host).map_err(|_| wrong())?);
        Ok((Request { method, url, body: self.body.clone(), file: self.file.clone(), stream: self.stream }, host))
    }
}

/// An outcome, as a later line of the file notes it.
#[derive(Debug, Serialize, Deserialize)]
struct RecordNote {
    state: PaymentState,
    at: Timestamp,
}

/// The folder of records.
#[derive(Debug, Clone)]
pub(crate) struct RecordStore {
    folder: PathBuf,
}

/// A record whose lock this process holds.
#[derive(Debug)]
pub(crate) struct LockedRecord {
    file: File,
    pub(crate) sent: SentPayment,
}

impl RecordStore {
    pub(crate) fn at(folder: &Path) -> Self {
        Self { folder: folder.to_owned() }
    }

    fn file(&self, id: &PaymentId) -> PathBuf {
        self.folder.join(format!("{id}.jsonl"))
    }

    /// Writes a record. It is on disk when this returns.
    ///
    /// # Errors
    ///
    /// The record cannot be written: nothing may be sent then.
    pub(crate) fn write(&self, sent: SentPayment) -> Result<LockedRecord> {
        let path = self.file(&sent.payment_id);
        let wrong = |error: io::Error| Error::refused(format!("`{}` cannot be written: {error}.  Nothing was sent", path.display()));
        private_files::make_folder(&self.folder).map_err(wrong)?;
        let opened = OpenOptions::new().read(true).append(true).create_new(true).mode(0o600).open(&path);
        let mut file = opened.map_err(wrong)?;
        let written = (|| {
            // Another process may be looking at the file right now, but holds its lock for a moment only.
            file.lock()?;
            file.write_all(format!("{}\n", serde_json::to_string(&sent)?).as_bytes())?;
            file.sync_all()?;
            sync_entry(&path)
        })();
        written.map_err(|error| {
            _ = fs::remove_file(&path);
            wrong(error)
        })?;
        Ok(LockedRecord { file, sent })
    }

    /// Opens an existing record.
    ///
    /// # Errors
    ///
    /// The record is missing, unreadable, or being sent by another process.
    pub(crate) fn find(&self, id: &PaymentId) -> Result<LockedRecord> {
        let path = self.file(id);
        let wrong = |error: &dyn std::fmt::Display| Error::refused(format!("`{}` is not valid: {error}", path.display()));
        let mut file = match OpenOptions::new().read(true).append(true).open(&path) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                return Err(Error::refused(format!("no record of payment {id}; it does not exist or has expired")));
            }
            Err(error) => return Err(wrong(&error)),
        };
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => return Err(Error::refused(format!("another process is sending {id}"))),
            Err(TryLockError::Error(error)) => return Err(wrong(&error)),
        }
        let mut text = String::new();
        (&mut file).take(MAX_BYTES).read_to_string(&mut text).map_err(|error| wrong(&error))?;
        let sent: SentPayment = serde_json::from_str(text.lines().next().unwrap_or_default()).map_err(|error| wrong(&error))?;
        if sent.payment_id != *id {
            return Err(wrong(&"it is for another payment"));
        }
        // The payment was released from the daily total. If it were sent again, it could be charged without being
        // counted.
        if text
            .lines()
            .filter_map(|line| serde_json::from_str::<RecordNote>(line).ok())
            .next_back()
            .is_some_and(|noted| noted.state == PaymentState::Released)
        {
            let reported = if sent.own { "nothing was charged" } else { "the seller reported no charge" };
            return Err(
                Error::refused(format!("{reported} for {id}, so it is not sent again")).hint("make the call again, without --resume")
            );
        }
        Ok(LockedRecord { file, sent })
    }

    /// Returns the payment of a record, also while another process sends it. Returns `None` without a valid record.
    pub(crate) fn read(&self, id: &PaymentId) -> Option<SentPayment> {
        let mut text = String::new();
        File::open(self.file(id)).ok()?.take(MAX_BYTES).read_to_string(&mut text).ok()?;
        let sent: SentPayment = serde_json::from_str(text.lines().next()?).ok()?;
        (sent.payment_id == *id).then_some(sent)
    }

    /// Returns whether a process holds the record's lock.
    pub(crate) fn is_held(&self, id: &str) -> bool {
        let held =
            |id: PaymentId| File::open(self.file(&id)).is_ok_and(|file| matches!(file.try_lock_shared(), Err(TryLockError::WouldBlock)));
        id.parse().is_ok_and(held)
    }

    /// Returns whether the record was written. A payment without a record was never sent. A process that begins to
    /// write a record holds its lock.
    pub(crate) fn is_there(&self, id: &PaymentId) -> bool {
        self.file(id).metadata().is_ok_and(|about| about.len() > 0)
    }

    /// Removes records that are too old or too many. Of too many, the oldest with a known outcome go first, and those
    /// in `open` last.
    pub(crate) fn prune(&self, open: &[String], now: Timestamp) {
        let Ok(entries) = fs::read_dir(&self.folder) else { return };
        let mut all: Vec<_> = entries.flatten().filter_map(|entry| found(&entry.path(), open)).collect();
        all.sort_unstable();
        let more = all.len().saturating_sub(MAX);
        for (position, (_, written, path)) in all.into_iter().enumerate() {
            let age_millis = now.0.saturating_sub(millis(written));
            if position < more || age_millis > DAYS * 24 * 60 * 60 * 1_000 {
                _ = fs::remove_file(path);
            }
        }
    }
}

fn millis(at: SystemTime) -> u64 {
    let since = at.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}

/// Returns whether a record is open, the time of its last write, and its path.
fn found(path: &Path, open: &[String]) -> Option<(bool, SystemTime, PathBuf)> {
    let id = path.file_name()?.to_str()?.strip_suffix(".jsonl")?;
    id.parse::<PaymentId>().ok()?;
    let written = path.metadata().ok()?.modified().ok()?;
    Some((open.iter().any(|open| open == id), written, path.to_owned()))
}

impl LockedRecord {
    /// Stores the outcome. If that fails, the next attempt queries the host again.
    pub(crate) fn note(&mut self, state: PaymentState, at: Timestamp) {
        if let Ok(line) = serde_json::to_string(&RecordNote { state, at }) {
            _ = self.file.write_all(format!("{line}\n").as_bytes());
        }
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    fn sent(id: u64) -> SentPayment {
        SentPayment {
            payment_id: format!("pmt_{id:032x}").parse().unwrap(),
            name: "tool".to_owned(),
            made_at: Timestamp(1),
            method: "POST".to_owned(),
            url: "http://127.0.0.1/tools/tool".to_owned(),
            body: Some("{}".to_owned()),
            file: None,
            stream: false,
            headers: vec![("PAYMENT-SIGNATURE".to_owned(), "e30=".to_owned())],
            by_credit: false,
            host: "http://127.0.0.1".to_owned(),
            own: true,
            usd: MicroUsd(1),
            max: false,
            token: None,
            timeout_secs: 1,
        }
    }

    #[test]
    fn record_is_private_and_read_back_unchanged() {
        let folder = tempfile::tempdir().unwrap();
        let records = RecordStore::at(&folder.path().join("payments"));
        let id = sent(1).payment_id;
        assert!(records.find(&id).is_err() && !records.is_there(&id));
        let mut record = records.write(sent(1)).unwrap();
        assert!(records.is_there(&id));
        assert_eq!(fs::metadata(records.file(&id)).unwrap().permissions().mode() & 0o777, 0o600);
        assert!(records.find(&id).is_err() && records.is_held(id.as_str()), "who sends it holds it");
        assert_eq!((records.read(&id), records.read(&sent(2).payment_id)), (Some(sent(1)), None));
        assert!(records.write(sent(1)).is_err(), "it is not written over");
        record.note(PaymentState::Settled, Timestamp(2));
        drop(record);
        let mut released = records.write(sent(2)).unwrap();
        released.note(PaymentState::Released, Timestamp(2));
        drop(released);
        assert!(records.find(&sent(2).payment_id).is_err(), "what was given back is not sent again");
        assert!(!records.is_held(id.as_str()));
        assert_eq!(records.find(&id).unwrap().sent, sent(1));
    }

    #[test]
    fn incomplete_record_is_invalid_but_an_incomplete_note_is_ignored() {
        let folder = tempfile::tempdir().unwrap();
        let records = RecordStore::at(folder.path());
        let id = sent(1).payment_id;
        drop(records.write(sent(1)).unwrap());
        let text = fs::read_to_string(records.file(&id)).unwrap();
        fs::write(records.file(&id), format!("{text}{{\"sta")).unwrap();
        assert_eq!(records.find(&id).unwrap().sent, sent(1));
        fs::write(records.file(&id), &text[..text.len() / 2]).unwrap();
        assert!(records.find(&id).is_err());
    }

    #[test]
    fn old_records_are_pruned() {
        let folder = tempfile::tempdir().unwrap();
        let records = RecordStore::at(folder.path());
        for id in 0..3 {
            drop(records.write(sent(id)).unwrap());
        }
        let count = || fs::read_dir(folder.path()).unwrap().count();
        fs::write(folder.path().join("other"), "").unwrap();
        records.prune(&[], Timestamp(1));
        assert_eq!(count(), 4);
        let written = fs::metadata(records.file(&sent(0).payment_id)).unwrap().modified().unwrap();
        records.prune(&[], Timestamp(millis(written) + (DAYS * 24 * 60 * 60 + 60) * 1_000));
        assert_eq!(count(), 1, "what is no record stays");
    }
}

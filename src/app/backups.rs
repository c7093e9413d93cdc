//! Implementation of the commands `backup` and `restore`, for hosts that run or do not.

use std::{
    fmt,
    path::{Path, PathBuf},
    sync::Arc,
};

use serde::Serialize;
use sha2::{Digest as _, Sha256};
use tokio::{
    io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader},
    net::UnixStream,
};
use tollhouse_backup::{
    BackupError, BackupFolder, CopyReport, FillMode, FillSource, Header, Ids, NamedObject, ReadBack, begin_fill,
    control::{self, ControlEvent, ControlRequest},
    copy_back, copy_in, newest, read_back, restore, write_dump,
};
use tollhouse_base::{boxed, clock::Clock, plural::plural};
use tollhouse_capability as capability;
use tollhouse_catalog as catalog;
use tollhouse_config::Home;
use tollhouse_money as money;
use tollhouse_objects::BucketLocation;
use tollhouse_store::{Store, WrittenRow, dump::DumpError};

use super::{
    error::StartError,
    keys,
    stores::{is_here, is_whole, make_folder, open_database, open_folder, store_of},
};

/// The result of a backup or restore.
#[derive(Debug, Clone, Serialize)]
pub struct BackupReport {
    pub dump: PathBuf,
    /// Approximate time of the dump, its version, and the keys it needs.
    pub header: Header,
    pub rows: u64,
    /// Size of all keys and values, in bytes.
    pub bytes: u64,
    /// The result for file contents.
    pub files: CopyReport,
}

impl fmt::Display for BackupReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let CopyReport { copied, there, remaining, missing } = &self.files;
        write!(
            f,
            "{}: {}, {}; contents of files: {copied} copied, {there} there already",
            self.dump.display(),
            plural(self.rows, "row"),
            plural(self.bytes, "byte")
        )?;
        if *remaining > 0 {
            write!(f, ", {remaining} left in the bucket")?;
        }
        if !missing.is_empty() {
            write!(f, ", {} missing", missing.len())?;
        }
        Ok(())
    }
}

/// Backs up a host to a folder. A running host with a store in its data folder is asked for a copy.
/// Otherwise the store is opened.
///
/// # Errors
///
/// The store cannot be copied, or the folder cannot be written. Partial output is removed.
#[boxed]
pub async fn back_up(home: &Home, to: &Path) -> Result<BackupReport, StartError> {
    let folder = BackupFolder::take(to)?;
    if let BucketLocation::Folder(objects) = &home.objects
        && (is_same(to, &home.data) || is_same(&folder.files(), objects))
    {
        return Err(BackupError::Own(to.to_owned()).into());
    }
    let (unfinished, file) = folder.begin(Clock::default().now())?;
    let running = if home.database.is_some() { None } else { ContentGuard::find(&home.data).await? };
    let read = match &running {
        Some(running) => {
            running.copy(file).await?;
            read_back(unfinished.path(), named).await.map_err(cut_off)?
        }
        None => {
            let store = open(home).await?;
            // A store that is incomplete, or was left behind by a migration, cannot be backed up.
            match home.database {
                Some(_) => _ = is_whole(&*store, home).await?,
                None => is_here(&*store, &home.data).await?,
            }
            let header = Header::of(&*store, Clock::default().now(), ids(home)?);
            write_dump(&*store, &header, std::io::BufWriter::new(file)).await?;
            read_back(unfinished.path(), named).await?
        }
    };
    let ReadBack { header, rows, bytes, named } = read;
    let files = copy_in(&home.objects, &folder.files(), named).await?;
    let dump = unfinished.finish()?;
    drop(running);
    Ok(BackupReport { dump, header, rows, bytes, files })
}

/// Restores a dump, or the newest in a folder, to a host without rows.
///
/// # Errors
///
/// The dump is damaged, the host has other keys, or its store is not empty: nothing was changed.
/// Later errors leave a store that no host serves.
#[boxed]
pub async fn restore_to(home: &Home, from: &Path) -> Result<BackupReport, StartError> {
    let (dump, files) = newest(from)?;
    let ReadBack { header, rows, bytes, named } = read_back(&dump, named).await?;
    make_folder(&home.data)?;
    holds_keys(home, &header.keys)?;
    let store: Arc<dyn Store> = match &home.database {
        Some(database) => open_database(database).await?,
        None => open_folder(&home.data, &home.store)?,
    };
    // After an interruption, the same dump can be restored again.
    let id = hex::encode(Sha256::digest(serde_json::to_vec(&header).expect("a header has text keys")));
    let filling = begin_fill(&*store, FillSource { id, how: FillMode::Restore, at: Clock::default().now() }).await?;
    let files = copy_back(&files, &home.objects, named).await?;
    restore(&dump, &store).await?;
    filling.ends(&*store).await.map_err(BackupError::from)?;
    Ok(BackupReport { dump, header, rows, bytes, files })
}

/// A running host. It keeps its file contents as long as this exists.
struct ContentGuard<'a> {
    data: &'a Path,
    _held: BufReader<UnixStream>,
}

impl<'a> ContentGuard<'a> {
    async fn find(data: &'a Path) -> Result<Option<Self>, BackupError> {
        let Some(mut held) = control::connect(data, &ControlRequest::Hold).await.map_err(of_control(data))? else { return Ok(None) };
        match control::read_event::<ControlEvent>(&mut held).await.map_err(of_control(data))? {
            Some(_) => Ok(Some(Self { data, _held: held })),
            None => Err(BackupError::Refused("only the user that runs the host can do this".to_owned())),
        }
    }

    /// Lets the host write a dump to `file`.
    async fn copy(&self, file: std::fs::File) -> Result<(), BackupError> {
        let mut from =
            control::connect(self.data, &ControlRequest::Copy).await.map_err(of_control(self.data))?.ok_or(BackupError::CutOff)?;
        let mut to = tokio::fs::File::from_std(file);
        loop {
            let some = from.fill_buf().await.map_err(of_control(self.data))?;
            if some.is_empty() {
                break;
            }
            to.write_all(some).await.map_err(unwritten)?;
            let taken = some.len();
            from.consume(taken);
        }
        to.sync_all().await.map_err(unwritten)
    }
}

fn unwritten(error: std::io::Error) -> BackupError {
    BackupError::Written(DumpError::Io(error))
}

fn is_same(one: &Path, other: &Path) -> bool {
    one.canonicalize().is_ok_and(|one| other.canonicalize().is_ok_and(|other| one == other))
}

fn of_control(data: &Path) -> impl FnOnce(std::io::Error) -> BackupError {
    let path = data.join("control");
    move |source| BackupError::Io { path, source }
}

/// Converts the error of a truncated dump: the host did not finish it.
fn cut_off(error: BackupError) -> BackupError {
    match error {
        BackupError::Dump { source: DumpError::Format | DumpError::Damaged { .. }, .. } => BackupError::CutOff,
        error => error,
    }
}

fn named(written: &WrittenRow) -> Option<NamedObject> {
    let object = capability::object_of(written).or_else(|| money::object_of(written)).or_else(|| catalog::object_of(written));
    object.map(|(name, sha256)| NamedObject { name, sha256 })
}

/// Opens the store of a host that does not run, or a shared store.
async fn open(home: &Home) -> Result<Arc<dyn Store>, StartError> {
    match &home.database {
        Some(database) => open_database(database).await,
        None => {
            store_of(&home.data)?;
            open_folder(&home.data, &home.store)
        }
    }
}

/// Returns the ids of the keys that a host has.
fn ids(home: &Home) -> Result<Ids, StartError> {
    let (signer, ring) = keys::known(&home.secrets, &home.data)?;
    Ok(Ids { receipt: signer.map(|signer| signer.kid().to_owned()), master: ring.map(|ring| ring.current().id().to_owned()) })
}

/// Refuses a host without the keys that a dump needs.
fn holds_keys(home: &Home, needed: &Ids) -> Result<(), StartError> {
    let other = |what, file, theirs: &str, own: Option<&str>| {
        let ours = own.map_or_else(|| "this host has none".to_owned(), |own| format!("this host has `{own}`"));
        BackupError::Key { what, file, theirs: theirs.to_owned(), ours }
    };
    let (signer, ring) = keys::known(&home.secrets, &home.data)?;
    let has_receipt_key = |id: &str| signer.as_ref().is_some_and(|signer| signer.kid() == id || signer.is_retired(id));
    if let Some(id) = needed.receipt.as_deref().filter(|id| !has_receipt_key(id)) {
        return Err(other("receipt", "receipt-key.pem", id, signer.as_ref().map(|signer| signer.kid())).into());
    }
    if let Some(id) = needed.master.as_deref().filter(|id| ring.as_ref().is_none_or(|ring| !ring.has(id))) {
        return Err(other("master", "master-key", id, ring.as_ref().map(|ring| ring.current().id())).into());
    }
    Ok(())
}

//! Storage of handler versions: in their row, or for long ones, as an object that the row names.
//!
//! An object is written before the commit with the row that names it, and is removed after the row. An existing row is never overwritten,
//! because its object would stay forever. Publishing the same content again relies on the existing row.

use std::{sync::Arc, time::Duration};

use bytes::Bytes;
use serde::{Deserialize, Serialize};
use tollhouse_base::{check_report::CheckReport, exact::numbers, log_gate::LogGate};
use tollhouse_money::receipt;
use tollhouse_objects as objects;
use tollhouse_objects::{Bucket as _, Objects, PendingObject};
use tollhouse_protocol::{Bundle, Language, Schemas};
use tollhouse_store as store;
use tollhouse_store::{Batch, Formatted, Store, StoreError, Table, Value as _, WrittenRow, read_postcard, schema, write_postcard};
use tollhouse_tool::{Slug, StaticResponse};

use super::{HandlerDraft, PublishError, bundle::bundle};

pub(super) const VERSIONS: Table<String, VersionRow> = schema::VERSIONS.holding();

/// Maximum size of a version in its row, in bytes. The first call of a host waits for it, and for one more request if it is an object.
/// For longer versions, the worker takes as long to read them, and a database would also write them to its log and to each standby.
pub(super) const MAX_ROW_BYTES: usize = 16 * 1024;

/// Maximum time to wait for an object.
const GET_TIMEOUT: Duration = Duration::from_secs(5);

/// Limits the lines about lost sources, because every call of such a tool looks for its source again.
static LOST: LogGate = LogGate::new();

/// The content of a version, whose name is its hash.
#[derive(Debug, PartialEq, Serialize, Deserialize)]
#[serde(untagged, try_from = "StoredFields")]
pub(super) enum StoredVersion {
    Js(StoredSource),
    Static { response: StaticResponse },
}
tollhouse_store::json_values!(StoredVersion);

#[derive(Debug, PartialEq, Serialize)]
pub(super) struct StoredSource {
    pub(super) language: Language,
    pub(super) source: String,
    /// JavaScript with types blanked out. Absent if `source` is JavaScript.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) stripped: Option<String>,
}

/// The fields of every kind of version. An untagged enum would read a response through a buffer, which rounds numbers.
#[derive(Deserialize)]
struct StoredFields {
    language: Option<Language>,
    source: Option<String>,
    stripped: Option<String>,
    response: Option<StaticResponse>,
}

impl TryFrom<StoredFields> for StoredVersion {
    type Error = &'static str;

    fn try_from(fields: StoredFields) -> Result<Self, &'static str> {
        match fields {
            StoredFields { language: Some(language), source: Some(source), stripped, .. } => {
                Ok(Self::Js(StoredSource { language, source, stripped }))
            }
            StoredFields { response: Some(response), .. } => Ok(Self::Static { response }),
            _ => Err("neither a source nor a response"),
        }
    }
}

#[derive(Debug, PartialEq)]
pub(super) enum VersionRow {
    Whole(StoredVersion),
    /// The object that contains it.
    Apart(VersionObject),
}

/// An object with a version. Its bytes are those that the row would have.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct VersionObject {
    name: String,
    sha256: String,
    bytes: u64,
}

impl VersionRow {
    /// Returns the name of the object that contains the version, if it is in one.
    pub(super) fn object_name(&self) -> Option<&str> {
        match self {
            Self::Whole(_) => None,
            Self::Apart(object) => Some(&object.name),
        }
    }
}

/// Returns the object that a row names, with its SHA-256 in hex. `None` if it names none.
pub fn object_of(written: &WrittenRow) -> Option<(String, String)> {
    match VERSIONS.read(written.of(&VERSIONS)?).ok()?.value {
        VersionRow::Whole(_) => None,
        VersionRow::Apart(VersionObject { name, sha256, .. }) => Some((name, sha256)),
    }
}

/// Returns the name of a source: its hash.
pub(super) fn hash_of(source: &str, language: Language) -> String {
    let tag = match language {
        Language::Js => "js",
        Language::Ts => "ts",
    };
    receipt::bytes_hash(format!("{tag}\0{source}").as_bytes())
}

/// Returns the name of a static response: the hash of its value, or of its text if a number is not written as in canonical JSON
/// (RFC 8785). Responses that differ only in such a number, such as `0.1` and `0.1000`, are different versions.
pub fn response_hash(response: &StaticResponse) -> String {
    if numbers(response.as_ref()).all(is_canonical) {
        receipt::json_hash(&response.value())
    } else {
        receipt::bytes_hash(format!("json\0{}", response.text()).as_bytes())
    }
}

fn is_canonical(number: &[u8]) -> bool {
    serde_json::from_slice::<serde_json::Value>(number).is_ok_and(|value| receipt::canonical(&value) == number)
}

impl StoredVersion {
    pub(super) fn hash(&self) -> String {
        match self {
            Self::Js(StoredSource { language, source, .. }) => hash_of(source, *language),
            Self::Static { response } => response_hash(response),
        }
    }

    pub(super) fn uploaded(&self) -> HandlerDraft {
        match self {
            Self::Js(StoredSource { language, source, .. }) => HandlerDraft::Source { source: source.clone(), language: *language },
            Self::Static { response } => HandlerDraft::Response { response: response.clone() },
        }
    }
}

impl StoredSource {
    pub(super) fn bundle(&self, slug: &Slug, version: &str) -> Bundle {
        match &self.stripped {
            Some(stripped) => bundle(slug, version, Some((stripped, Language::Js)), Schemas::default()),
            None => bundle(slug, version, Some((&self.source, self.language)), Schemas::default()),
        }
    }
}

impl store::Value for VersionRow {
    fn to_bytes(&self) -> Vec<u8> {
        match self {
            Self::Whole(version) => version.to_bytes(),
            Self::Apart(object) => object.to_bytes(),
        }
    }

    fn of_bytes(bytes: &[u8]) -> Option<Self> {
        VersionObject::of_bytes(bytes).map(Self::Apart).or_else(|| StoredVersion::of_bytes(bytes).map(Self::Whole))
    }
}

impl Formatted for VersionObject {
    const FORMAT: u8 = 2;

    fn write(&self, out: &mut Vec<u8>) {
        write_postcard(self, out);
    }

    fn read(bytes: &[u8]) -> Option<Self> {
        read_postcard(bytes)
    }
}

pub(super) struct Sources {
    pub(super) store: Arc<dyn Store>,
    pub(super) objects: Arc<Objects>,
}

pub(super) struct StagedVersion {
    version: String,
    row: VersionRow,
    promised: Option<PendingObject>,
    /// Whether the last commit created for it has a row that names the object.
    is_named: bool,
}

impl StagedVersion {
    /// Prepares a version for storage in its row.
    pub(super) fn in_row(version: &str, stored: StoredVersion) -> Self {
        Self { version: version.to_owned(), row: VersionRow::Whole(stored), promised: None, is_named: false }
    }

    pub(super) fn version(&self) -> &String {
        &self.version
    }
}

impl Sources {
    /// Returns a stored version.
    ///
    /// # Errors
    ///
    /// Those of the store; [`PublishError::Source`] if its object is currently unreadable,
    /// [`PublishError::Lost`] if it is permanently.
    pub(super) async fn get(&self, version: &str) -> Result<Option<StoredVersion>, PublishError> {
        let key = version.to_owned();
        let object = match VERSIONS.get(&*self.store, &key).await? {
            None => return Ok(None),
            Some(VersionRow::Whole(stored)) => return Ok(Some(stored)),
            Some(VersionRow::Apart(object)) => object,
        };
        let lost = |error: String| {
            match LOST.pass() {
                Some(skipped) => tracing::error!(version, object.name, error, skipped, "the source of a version is lost"),
                None => tracing::debug!(version, object.name, error, "the source of a version is lost"),
            }
            Err(PublishError::Lost(error))
        };
        match tokio::time::timeout(GET_TIMEOUT, self.objects.get(&object.name, Some(&object.sha256))).await {
            Ok(Ok(Some(content))) => match StoredVersion::of_bytes(&content) {
                Some(stored) => Ok(Some(stored)),
                None => lost("its object does not contain a version".to_owned()),
            },
            // The version was removed between the two reads.
            Ok(Ok(None)) if VERSIONS.found(&*self.store, &key).await?.is_none() => Ok(None),
            Ok(Ok(None)) => lost("its object is missing".to_owned()),
            Ok(Err(error)) if error.kind() == std::io::ErrorKind::InvalidData => lost(error.to_string()),
            Ok(Err(error)) => Err(PublishError::Source(format!("the bucket is unavailable: {error}"))),
            Err(_) => Err(PublishError::Source(format!("the bucket did not answer within {} s", GET_TIMEOUT.as_secs()))),
        }
    }

    /// Writes a long version to an object, unless it is already stored. If that is impossible now, or some hosts could not find it there,
    /// it will be stored in its row.
    pub(super) async fn stage(&self, version: &str, stored: StoredVersion) -> Result<StagedVersion, StoreError> {
        let content = Bytes::from(stored.to_bytes());
        let bytes = content.len();
        let is_apart = bytes > MAX_ROW_BYTES && VERSIONS.found(&*self.store, &version.to_owned()).await?.is_none();
        let promised = match is_apart {
            true => self.objects.put_apart("a long source", content).await,
            false => None,
        };
        let Some(promised) = promised else { return Ok(StagedVersion::in_row(version, stored)) };
        let object = VersionObject { name: promised.name.clone(), sha256: promised.sha256.clone(), bytes: bytes as u64 };
        Ok(StagedVersion { version: version.to_owned(), row: VersionRow::Apart(object), promised: Some(promised), is_named: false })
    }

    /// Returns the batch that stores the version, or that requires its existing row.
    pub(super) async fn store(&self, staged: &mut StagedVersion) -> Result<Batch, StoreError> {
        let found = VERSIONS.found(&*self.store, &staged.version).await?;
        let mut batch = Batch::new();
        staged.is_named = false;
        match found.map(|found| VERSIONS.read(found)) {
            Some(Ok(row)) => _ = batch.holds(&VERSIONS, &row),
            Some(Err(_)) => _ = batch.put(&VERSIONS, &staged.version, &staged.row),
            None => _ = batch.insert(&VERSIONS, &staged.version, &staged.row),
        }
        if !batch.writes.is_empty()
            && let Some(promised) = &staged.promised
        {
            promised.keep(&mut batch);
            staged.is_named = true;
        }
        Ok(batch)
    }

    /// Removes the object if no row names it, depending on the outcome of the change.
    pub(super) async fn settle<T>(&self, staged: Option<StagedVersion>, ended: &Result<T, PublishError>) {
        let Some(StagedVersion { promised: Some(promised), is_named, .. }) = staged else { return };
        let may_be_named = matches!(ended, Ok(_) | Err(PublishError::Store(StoreError::Unknown(_))));
        if !(is_named && may_be_named) {
            self.objects.withdraw(promised).await;
        }
    }

    /// Returns the batch that removes a version. Its object is collected later.
    pub(super) async fn remove(&self, version: &str) -> Result<Batch, StoreError> {
        let (key, mut batch) = (version.to_owned(), Batch::new());
        match VERSIONS.found(&*self.store, &key).await?.map(|found| VERSIONS.read(found)) {
            Some(Ok(row)) => {
                batch.remove(&VERSIONS, &row);
                if let VersionRow::Apart(object) = row.value {
                    _ = self.objects.ends(&mut batch, [object.name]);
                }
            }
            Some(Err(error)) => {
                tracing::error!(version, %error, "a version to remove is unreadable; its object stays");
                batch.delete(&VERSIONS, &key);
            }
            None => {}
        }
        Ok(batch)
    }
}

/// Checks each version, wherever it is stored, against its hash. For a store without concurrent writes.
pub(super) async fn check_versions(
    store: &dyn Store,
    objects: &objects::ObjectLayout,
    page: usize,
    flaws: &mut CheckReport,
) -> Result<(), StoreError> {
    let mut rows = VERSIONS.inspect(store, page);
    while let Some(row) = rows.next(flaws).await? {
        let (version, stored) = (row.key, row.value);
        let stored = match stored {
            VersionRow::Whole(stored) => Some(stored),
            VersionRow::Apart(VersionObject { name, sha256, .. }) => match objects.get(&name).await {
                Ok(Some(content)) if objects::digest(&content) == sha256 => StoredVersion::of_bytes(&content),
                Ok(Some(_)) => None,
                Ok(None) => {
                    flaws.add(format!("version {version} is missing (object {name})"));
                    continue;
                }
                Err(error) => {
                    flaws.add(format!("version {version} cannot be read (object {name}): {error}"));
                    continue;
                }
            },
        };
        flaws.unless(stored.as_ref().is_some_and(|stored| stored.hash() == version), || {
            let is = stored.as_ref().map_or_else(|| "unknown".to_owned(), StoredVersion::hash);
            format!("version {version} has changed: its hash is {is}")
        });
    }
    Ok(())
}

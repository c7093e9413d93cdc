//! Master keys, from which the keys of all tools are derived.
//!
//! One key is current and encrypts. Older ones only decrypt. A key's id is derived from the key, so that an id can
//! never refer to another key.
//!
//! The file contains one key per line in base64, the current one first, and is readable only by its owner. It is
//! replaced atomically: after a crash, either the old or the new file exists.

use std::{
    fmt,
    fs::{self, File, OpenOptions},
    io::{self, Write as _},
    os::unix::fs::{OpenOptionsExt as _, PermissionsExt as _},
    path::{Path, PathBuf},
};

use base64::{
    Engine as _,
    engine::general_purpose::{STANDARD, STANDARD_PAD_INDIFFERENT, URL_SAFE_PAD_INDIFFERENT},
};
use hkdf::Hkdf;
use sha2::Sha256;
use tollhouse_base::fsync_dir;
use zeroize::Zeroizing;

const KEY_BYTES: usize = 32;

/// The salt of every derivation. It is not secret, and separates these keys from other uses of the master key.
const SALT: &[u8] = b"tollhouse secrets v1";

/// A master key: 32 random bytes.
#[derive(Clone)]
pub struct MasterKey {
    id: String,
    bytes: Zeroizing<[u8; KEY_BYTES]>,
}

/// Names of the settings with keys, for errors that put them between backticks.
const CURRENT: &str = "TOLLHOUSE_MASTER_KEY_FILE` or `TOLLHOUSE_MASTER_KEY";
const OLD: &str = "TOLLHOUSE_MASTER_KEY_OLD";

/// The available keys, the current one first.
#[derive(Debug, Clone)]
pub struct Keyring {
    keys: Vec<MasterKey>,
    /// The file to which a rotation writes a new key. `None` if the keys come from settings.
    file: Option<PathBuf>,
}

/// Why there is no valid master key.
#[derive(Debug, thiserror::Error)]
pub enum KeyError {
    #[error("a master key must be 32 bytes in base64 or 64 hexadecimal digits; {0} is neither")]
    Malformed(String),
    #[error("`{}` can be read by other users (mode {mode:o}): set it to 600, and rotate the key if somebody could have read it", path.display())]
    Exposed { path: PathBuf, mode: u32 },
    #[error("`{}` cannot be read or written", path.display())]
    Io { path: PathBuf, source: io::Error },
    #[error("no random bytes are available: {0}")]
    Random(getrandom::Error),
}

impl MasterKey {
    pub fn generate() -> Result<Self, KeyError> {
        let mut bytes = Zeroizing::new([0; KEY_BYTES]);
        getrandom::fill(&mut *bytes).map_err(KeyError::Random)?;
        Ok(Self::new(bytes))
    }

    fn new(bytes: Zeroizing<[u8; KEY_BYTES]>) -> Self {
        let mut id = [0; 8];
        expand(&bytes, b"key id", &mut id);
        Self { id: hex::encode(id), bytes }
    }

    /// Parses a key: base64 of either alphabet, or hex digits. `what` names it in the error.
    fn parse(text: &str, what: &str) -> Result<Self, KeyError> {
        let text = text.trim();
        let decoded = if text.len() == 2 * KEY_BYTES { hex::decode(text).ok() } else { decode_base64(text) };
        let decoded = Zeroizing::new(decoded.ok_or_else(|| KeyError::Malformed(what.to_owned()))?);
        let bytes: [u8; KEY_BYTES] = decoded.as_slice().try_into().map_err(|_| KeyError::Malformed(what.to_owned()))?;
        Ok(Self::new(Zeroizing::new(bytes)))
    }

    /// Returns the key's id for records.
    pub fn id(&self) -> &str {
        &self.id
    }

    /// Derives a key for another purpose, which `what` names.
    pub(super) fn derived(&self, what: &str) -> Zeroizing<[u8; KEY_BYTES]> {
        let mut key = Zeroizing::new([0; KEY_BYTES]);
        expand(&self.bytes, format!("derived|{what}").as_bytes(), &mut *key);
        key
    }

    /// Derives the key for one tool of one owner.
    pub(super) fn of_endpoint(&self, owner: &str, endpoint: &str) -> Zeroizing<[u8; KEY_BYTES]> {
        let mut key = Zeroizing::new([0; KEY_BYTES]);
        expand(&self.bytes, format!("endpoint|{owner}|{endpoint}").as_bytes(), &mut *key);
        key
    }
}

/// Never shows the key.
impl fmt::Debug for MasterKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MasterKey").field("id", &self.id).finish_non_exhaustive()
    }
}

impl Keyring {
    /// Opens the keys from settings: `current`, possibly a comma-separated list with the current key first, then those
    /// in `old`. Keys in an existing file are added as old ones. Without `current`, uses the keys in `file`, which is
    /// created with a new key if it does not exist.
    ///
    /// # Errors
    ///
    /// A malformed key, or a file that cannot be read or created or is readable by others.
    pub fn open(current: Option<&str>, old: Option<&str>, file: &Path) -> Result<Self, KeyError> {
        let stored = match read(file) {
            Ok(keys) => Some(keys),
            Err(KeyError::Io { source, .. }) if source.kind() == io::ErrorKind::NotFound => None,
            Err(error) => return Err(error),
        };
        let old = old.map(|old| parse_list(old, OLD)).transpose()?.unwrap_or_default();
        let Some(current) = current else {
            let stored = match stored {
                Some(keys) => keys,
                None => {
                    let keys = vec![MasterKey::generate()?];
                    write(file, &keys)?;
                    keys
                }
            };
            return Ok(Self { keys: distinct(stored.into_iter().chain(old)), file: Some(file.to_owned()) });
        };
        let given = parse_list(current, CURRENT)?;
        Ok(Self { keys: distinct(given.into_iter().chain(old).chain(stored.unwrap_or_default())), file: None })
    }

    /// Checks keys from settings without opening a file.
    ///
    /// # Errors
    ///
    /// A malformed key.
    pub fn check(current: Option<&str>, old: Option<&str>) -> Result<(), KeyError> {
        old.map(|old| parse_list(old, OLD)).transpose()?;
        current.map(|current| parse_list(current, CURRENT)).transpose()?;
        Ok(())
    }

    /// Returns the key that encrypts.
    pub fn current(&self) -> &MasterKey {
        self.keys.first().expect("a ring is made with a key and never loses its first")
    }

    /// Returns whether there is a key with this id.
    pub fn has(&self, id: &str) -> bool {
        self.get(id).is_some()
    }

    /// Returns all keys, the current one first.
    pub(super) fn all(&self) -> impl Iterator<Item = &MasterKey> {
        self.keys.iter()
    }

    pub(super) fn get(&self, id: &str) -> Option<&MasterKey> {
        self.keys.iter().find(|key| key.id == id)
    }

    /// Returns the ids of the keys that only decrypt.
    pub(super) fn old(&self) -> impl Iterator<Item = &str> {
        self.keys.iter().skip(1).map(MasterKey::id)
    }

    /// Returns whether a rotation can write a new key.
    pub(super) fn in_file(&self) -> bool {
        self.file.is_some()
    }

    /// Returns this ring with a new current key, already saved.
    pub(super) fn with_new_key(&self) -> Result<Self, KeyError> {
        let mut next = self.clone();
        next.keys.insert(0, MasterKey::generate()?);
        next.save()?;
        Ok(next)
    }

    /// Returns this ring without old keys that `needed` rejects, already saved. Keys from settings stay.
    pub(super) fn without_unneeded(&self, needed: impl Fn(&str) -> bool) -> Result<Self, KeyError> {
        let mut next = self.clone();
        if self.file.is_some() {
            let current = self.current().id.clone();
            next.keys.retain(|key| key.id == current || needed(&key.id));
            next.save()?;
        }
        Ok(next)
    }

    fn save(&self) -> Result<(), KeyError> {
        self.file.as_ref().map_or(Ok(()), |file| write(file, &self.keys))
    }
}

fn distinct(keys: impl Iterator<Item = MasterKey>) -> Vec<MasterKey> {
    let mut all: Vec<MasterKey> = Vec::new();
    for key in keys {
        if !all.iter().any(|other| other.id == key.id) {
            all.push(key);
        }
    }
    all
}

fn expand(key: &[u8; KEY_BYTES], info: &[u8], into: &mut [u8]) {
    Hkdf::<Sha256>::new(Some(SALT), key).expand(info, into).expect("at most 32 bytes are asked for");
}

fn decode_base64(text: &str) -> Option<Vec<u8>> {
    let engine = if text.contains(['-', '_']) { URL_SAFE_PAD_INDIFFERENT } else { STANDARD_PAD_INDIFFERENT };
    engine.decode(text).ok()
}

fn parse_list(text: &str, name: &str) -> Result<Vec<MasterKey>, KeyError> {
    text.split(',').map(|one| MasterKey::parse(one, &format!("`{name}`"))).collect()
}

fn read(path: &Path) -> Result<Vec<MasterKey>, KeyError> {
    let io = |source| KeyError::Io { path: path.to_owned(), source };
    let file = File::open(path).map_err(io)?;
    let mode = file.metadata().map_err(io)?.permissions().mode() & 0o777;
    if mode & 0o077 != 0 {
        return Err(KeyError::Exposed { path: path.to_owned(), mode });
    }
    let text = Zeroizing::new(io::read_to_string(file).map_err(io)?);
    let what = format!("a line of `{}`", path.display());
    let keys: Vec<_> =
        text.lines().filter(|line| !line.trim().is_empty()).map(|line| MasterKey::parse(line, &what)).collect::<Result<_, _>>()?;
    if keys.is_empty() { Err(KeyError::Malformed(format!("the empty `{}`", path.display()))) } else { Ok(keys) }
}

/// Replaces the file atomically: writes and syncs another file, renames it, and syncs the folder.
fn write(path: &Path, keys: &[MasterKey]) -> Result<(), KeyError> {
    let io = |source| KeyError::Io { path: path.to_owned(), source };
    let aside = path.with_extension("new");
    match fs::remove_file(&aside) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(io(error)),
        Ok(()) | Err(_) => {}
    }
    let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&aside).map_err(io)?;
    for key in keys {
        let line = Zeroizing::new(format!("{}\n", STANDARD.encode(*key.bytes)));
        file.write_all(line.as_bytes()).map_err(io)?;
    }
    file.sync_all().map_err(io)?;
    fs::rename(&aside, path).map_err(io)?;
    fsync_dir::sync_entry(path).map_err(io)
}

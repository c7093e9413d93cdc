//! A file that is the body of a call.

use std::{fs, io, path::Path};

use serde::{Deserialize, Serialize};
use tollhouse_money::receipt::bytes_hash;

use crate::base::{Error, Result};

/// Maximum size, in bytes: the ceiling of the limit `bodyBytes`.
const MAX_BYTES: u64 = 100 << 20;

/// Types by the extension of a file's name.
const TYPES: &[(&str, &str)] = &[
    ("avif", "image/avif"),
    ("csv", "text/csv"),
    ("docx", "application/vnd.openxmlformats-officedocument.wordprocessingml.document"),
    ("gif", "image/gif"),
    ("htm", "text/html"),
    ("html", "text/html"),
    ("jpeg", "image/jpeg"),
    ("jpg", "image/jpeg"),
    ("md", "text/markdown"),
    ("mp3", "audio/mpeg"),
    ("mp4", "video/mp4"),
    ("parquet", "application/vnd.apache.parquet"),
    ("pdf", "application/pdf"),
    ("png", "image/png"),
    ("svg", "image/svg+xml"),
    ("tsv", "text/tab-separated-values"),
    ("txt", "text/plain"),
    ("wav", "audio/wav"),
    ("webp", "image/webp"),
    ("xlsx", "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet"),
    ("xml", "application/xml"),
    ("zip", "application/zip"),
];

/// A file that is the body of a call. It is read again for each try, and must not change, because the payment is bound to
/// its bytes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct BodyFile {
    /// The absolute path.
    path: String,
    pub(crate) content_type: String,
    /// Hash of the bytes.
    pub(crate) hash: String,
}

impl BodyFile {
    /// Describes the file at `path`. Without a type, its name decides.
    ///
    /// # Errors
    ///
    /// It cannot be read, or is too large.
    pub(crate) fn at(path: &Path, content_type: Option<&str>) -> Result<Self> {
        let content_type = content_type.unwrap_or_else(|| type_of(path)).to_owned();
        let whole = fs::canonicalize(path).map_err(|error| Error::usage(format!("`{}` cannot be read: {error}", path.display())))?;
        let path = whole.to_str().ok_or_else(|| Error::usage("the path of the file is not UTF-8"))?.to_owned();
        let mut file = Self { path, content_type, hash: String::new() };
        file.hash = bytes_hash(&file.content()?);
        Ok(file)
    }

    fn content(&self) -> Result<Vec<u8>> {
        let unread = |error: io::Error| Error::usage(format!("`{}` cannot be read: {error}", self.path));
        if fs::metadata(&self.path).map_err(unread)?.len() > MAX_BYTES {
            return Err(Error::usage(format!("`{}` has more than {MAX_BYTES} bytes", self.path)));
        }
        fs::read(&self.path).map_err(unread)
    }

    /// Returns the bytes of the file.
    ///
    /// # Errors
    ///
    /// It cannot be read, or has changed.
    pub(crate) fn read(&self) -> Result<Vec<u8>> {
        let content = self.content()?;
        if bytes_hash(&content) == self.hash {
            return Ok(content);
        }
        let changed = Error::usage(format!("`{}` has changed since its payment was signed.  Nothing was sent", self.path));
        Err(changed.hint("restore the file, and repeat the command"))
    }
}

/// Returns the media type that the name of a file suggests.
fn type_of(path: &Path) -> &'static str {
    let extension = path.extension().and_then(|extension| extension.to_str()).unwrap_or_default().to_ascii_lowercase();
    TYPES.iter().find(|(known, _)| *known == extension).map_or("application/octet-stream", |(_, media)| media)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_read_as_it_was_when_its_payment_was_signed() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.CSV");
        fs::write(&path, "a,b").unwrap();
        let file = BodyFile::at(&path, None).unwrap();
        assert_eq!((&*file.content_type, file.read().unwrap()), ("text/csv", b"a,b".to_vec()));
        assert_eq!(BodyFile::at(&path, Some("text/plain; charset=utf-8")).unwrap().content_type, "text/plain; charset=utf-8");
        fs::write(&path, "a;b").unwrap();
        assert!(file.read().unwrap_err().to_string().contains("has changed"));
        fs::remove_file(&path).unwrap();
        assert_eq!(file.read().unwrap_err().status(), 2);
        assert_eq!(BodyFile::at(&path, None).unwrap_err().status(), 2);
        assert_eq!(type_of(Path::new("x.unknown")), "application/octet-stream");
    }
}

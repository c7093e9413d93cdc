//! The files of a group, by which the system is told and tells.

use std::{fs::OpenOptions, io, io::Write as _, path::Path};

use rustix::io::Errno;

/// Writes to a file that the system has there, or not.
pub(super) fn write(group: &Path, file: &str, value: impl ToString) -> io::Result<()> {
    OpenOptions::new().write(true).open(group.join(file))?.write_all(value.to_string().as_bytes())
}

/// The error number. A file that is not there is that of a controller which is not.
pub(super) fn errno(error: &io::Error) -> Errno {
    match Errno::from_io_error(error) {
        Some(Errno::NOENT) => Errno::OPNOTSUPP,
        known => known.unwrap_or(Errno::IO),
    }
}

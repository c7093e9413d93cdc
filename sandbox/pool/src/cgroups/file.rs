//! Access to the control files of a group.

use std::{fs::OpenOptions, io, io::Write as _, path::Path};

use rustix::io::Errno;

/// Writes to a control file, which must exist.
pub(super) fn write(group: &Path, file: &str, value: impl ToString) -> io::Result<()> {
    OpenOptions::new().write(true).open(group.join(file))?.write_all(value.to_string().as_bytes())
}

/// Returns the error number. A missing file means that its controller is unavailable.
pub(super) fn errno(error: &io::Error) -> Errno {
    match Errno::from_io_error(error) {
        Some(Errno::NOENT) => Errno::OPNOTSUPP,
        known => known.unwrap_or(Errno::IO),
    }
}

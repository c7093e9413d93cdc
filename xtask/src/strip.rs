//! Strips release binaries. The debug information goes to a file next to the binary.

use std::{
    ffi::OsString,
    fs, io,
    path::{Path, PathBuf},
    process::Command,
};

use crate::{Failure, shell};

/// Programs that can strip an ELF file, in order of preference. Each comes with a compiler.
const TOOLS: &[&str] = &["objcopy", "llvm-objcopy"];

/// Copies `built` to `to` without symbols and debug information. These are in a file with the
/// additional extension `.debug`, which the binary names: debuggers, `perf`, valgrind and the
/// program's own backtraces look for it there. Without one of the [`TOOLS`], the binary is copied
/// unchanged.
pub(crate) fn strip(built: &Path, to: &Path) -> Result<(), Failure> {
    let failed = |reason: io::Error| format!("cannot put {} at {}: {reason}", built.display(), to.display());
    to.parent().map(fs::create_dir_all).transpose().map_err(failed)?;
    // Write a new file, then rename it: a running program keeps its own file, and Cargo has hard
    // links to its own.
    let fresh = with_suffix(to, ".new");
    match TOOLS.iter().find_map(|tool| shell::find(tool)) {
        Some(tool) => {
            let debug = debug_file(to);
            let fresh_debug = with_suffix(&debug, ".new");
            run(Command::new(&tool).arg("--only-keep-debug").arg(built).arg(&fresh_debug))?;
            fs::rename(&fresh_debug, &debug).map_err(failed)?;
            let mut link = OsString::from("--add-gnu-debuglink=");
            link.push(&debug);
            run(Command::new(&tool).arg("--strip-all").arg(link).arg(built).arg(&fresh))?;
        }
        None => {
            eprintln!("no objcopy: {} keeps its debug information", to.display());
            fs::copy(built, &fresh).map_err(failed)?;
        }
    }
    fs::rename(&fresh, to).map_err(failed)
}

/// Returns the path of a binary's debug information.
pub(crate) fn debug_file(binary: &Path) -> PathBuf {
    with_suffix(binary, ".debug")
}

fn with_suffix(file: &Path, suffix: &str) -> PathBuf {
    let mut name = file.as_os_str().to_owned();
    name.push(suffix);
    name.into()
}

fn run(command: &mut Command) -> Result<(), Failure> {
    let done = command.output().map_err(|reason| format!("cannot start {}: {reason}", command.get_program().display()))?;
    if done.status.success() { Ok(()) } else { Err(String::from_utf8_lossy(&done.stderr).into_owned()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stripped_binary_runs_and_is_smaller() {
        let folder = std::env::temp_dir().join(format!("xtask-strip-{}", std::process::id()));
        let (built, to) = (std::env::current_exe().unwrap(), folder.join("tests"));
        for _ in 0..2 {
            strip(&built, &to).unwrap();
        }
        assert!(shell::succeeds(Command::new(&to).arg("--list")));
        if TOOLS.iter().any(|tool| shell::find(tool).is_some()) {
            let size = |file: &Path| fs::metadata(file).unwrap().len();
            assert!(size(&to) < size(&built) && size(&to) < size(&debug_file(&to)));
            let named = fs::read(&to).unwrap().windows(b"tests.debug\0".len()).any(|bytes| bytes == b"tests.debug\0");
            assert!(named, "the binary names its debug file");
        }
        assert_eq!(
            fs::read_dir(&folder).unwrap().filter(|file| file.as_ref().unwrap().path().to_string_lossy().ends_with(".new")).count(),
            0
        );
        fs::remove_dir_all(folder).unwrap();
    }
}

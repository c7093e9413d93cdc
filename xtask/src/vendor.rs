//! `cargo xtask vendor`: bundles third-party packages into the editor of the pages, a module that is
//! part of the repository.

use std::{fs, path::Path, process::Command};

use crate::{Failure, args::Args, clients, paths, shell};

/// The resulting files: the module and the licenses of its sources.
const OUTPUTS: [&str; 2] = ["codemirror.js", "codemirror.LICENSES"];

/// Their folder in the repository.
const VENDORED: &str = "src/web/assets/vendor";

/// Maximum size of the module in bytes. Only one page loads it, after its first paint.
const MAX_BYTES: usize = 450_000;

/// Builds the files. With `--check`, only compares them with the ones in the repository.
///
/// # Errors
///
/// Fails if packages are not available, if the module is too large, or as [`check`] does.
pub(crate) fn run(args: &Args) -> Result<(), Failure> {
    if args.check {
        return check();
    }
    for (name, text) in build()? {
        let file = paths::root().join(VENDORED).join(name);
        fs::write(&file, text).map_err(|reason| format!("cannot write {}: {reason}", file.display()))?;
    }
    Ok(())
}

/// Compares the files in the repository with a new build, byte for byte.
pub(crate) fn check() -> Result<(), Failure> {
    for (name, text) in build()? {
        if fs::read(paths::root().join(VENDORED).join(name)).ok() != Some(text) {
            return Err(format!("{VENDORED}/{name} differs from a build of xtask/vendor: run `cargo xtask vendor`"));
        }
    }
    Ok(())
}

/// Builds the files, and returns them by name.
fn build() -> Result<Vec<(&'static str, Vec<u8>)>, Failure> {
    let folder = clients::prepare_vendor().join().map_err(|_| "the installation of the editor failed")??;
    let to = folder.join("made");
    fs::create_dir_all(&to).map_err(|reason| format!("cannot create {}: {reason}", to.display()))?;
    shell::run_silently(&folder.join("bundle.log"), Command::new("node").arg("bundle.mjs").arg(&to).current_dir(&folder))?;
    let read = |file: &Path| fs::read(file).map_err(|reason| format!("cannot read {}: {reason}", file.display()));
    let build = OUTPUTS.into_iter().map(|name| Ok((name, read(&to.join(name))?))).collect::<Result<Vec<_>, Failure>>()?;
    match build.iter().find(|(_, text)| text.len() > MAX_BYTES) {
        Some((name, text)) => Err(format!("{name} has {} bytes, and the maximum is {MAX_BYTES}", text.len())),
        None => Ok(build),
    }
}

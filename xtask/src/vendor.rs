//! `cargo xtask vendor`: bundles third-party packages into files that are part of the repository: the
//! editor of the pages, and the portable forms of Node's modules that `deploy` bundles with tools.

use std::{fs, path::Path, process::Command};

use crate::{Failure, args::Args, clients, paths, shell};

/// Files that are built from a folder with a `package.json` and a `bundle.mjs`.
struct Vendored {
    /// The folder, below `xtask`.
    from: &'static str,
    /// Their folder in the repository.
    to: &'static str,
    /// Their names: the result, and the licenses of its sources.
    outputs: [&'static str; 2],
    /// Maximum size of each in bytes.
    max_bytes: usize,
}

const ALL: [Vendored; 2] = [
    // Only one page loads the module, after its first paint.
    Vendored { from: "vendor", to: "src/web/assets/vendor", outputs: ["codemirror.js", "codemirror.LICENSES"], max_bytes: 450_000 },
    // Part of the program. A bundle contains only the modules that it uses.
    Vendored { from: "node", to: "src/cli/vendor", outputs: ["node.json", "node.LICENSES"], max_bytes: 450_000 },
];

/// Builds the files. With `--check`, only compares them with the ones in the repository.
///
/// # Errors
///
/// Fails if packages are not available, if the module is too large, or as [`check`] does.
pub(crate) fn run(args: &Args) -> Result<(), Failure> {
    if args.check {
        return check();
    }
    for vendored in &ALL {
        for (name, text) in vendored.build()? {
            let file = paths::root().join(vendored.to).join(name);
            fs::write(&file, text).map_err(|reason| format!("cannot write {}: {reason}", file.display()))?;
        }
    }
    Ok(())
}

/// Compares the files in the repository with a new build, byte for byte.
pub(crate) fn check() -> Result<(), Failure> {
    for vendored in &ALL {
        let Vendored { from, to, .. } = vendored;
        for (name, text) in vendored.build()? {
            if fs::read(paths::root().join(to).join(name)).ok() != Some(text) {
                return Err(format!("{to}/{name} differs from a build of xtask/{from}: run `cargo xtask vendor`"));
            }
        }
    }
    Ok(())
}

impl Vendored {
    /// Builds the files, and returns them by name.
    fn build(&self) -> Result<Vec<(&'static str, Vec<u8>)>, Failure> {
        let folder = clients::install_vendor(self.from)?;
        let to = folder.join("made");
        fs::create_dir_all(&to).map_err(|reason| format!("cannot create {}: {reason}", to.display()))?;
        shell::run_silently(&folder.join("bundle.log"), Command::new("node").arg("bundle.mjs").arg(&to).current_dir(&folder))?;
        let read = |file: &Path| fs::read(file).map_err(|reason| format!("cannot read {}: {reason}", file.display()));
        let build = self.outputs.into_iter().map(|name| Ok((name, read(&to.join(name))?))).collect::<Result<Vec<_>, Failure>>()?;
        match build.iter().find(|(_, text)| text.len() > self.max_bytes) {
            Some((name, text)) => Err(format!("{name} has {} bytes, and the maximum is {}", text.len(), self.max_bytes)),
            None => Ok(build),
        }
    }
}

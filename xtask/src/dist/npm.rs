//! Packages for npm: `tollhouse` with a script that starts the host's program, and one for the platform that has the
//! programs. npm installs the second as an optional dependency of the first, only where it fits.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use super::{
    release::Release,
    stage::{copy, write},
};
use crate::{Failure, paths, shell};

/// Debian's and Node.js' names of the architectures that have a package.
const ARCHITECTURES: [(&str, &str); 2] = [("amd64", "x64"), ("arm64", "arm64")];

/// Packs both packages, that of the platform first.
pub(crate) fn pack(release: &Release, tree: &Path) -> Result<[PathBuf; 2], Failure> {
    let arch = ARCHITECTURES.iter().find(|(debian, _)| *debian == release.arch);
    let (_, arch) = arch.ok_or_else(|| format!("there is no npm package for the architecture {}", release.arch))?;
    let (staged, sources) = (release.folder.join("npm"), paths::root().join("packaging/npm"));
    if staged.exists() {
        fs::remove_dir_all(&staged).map_err(|reason| format!("cannot remove {}: {reason}", staged.display()))?;
    }
    let (programs, main) = (staged.join("programs"), staged.join("main"));
    for program in ["tollhouse", "tollhouse-worker"] {
        copy(&tree.join("usr/bin").join(program), &programs.join("bin").join(program), 0o755)?;
    }
    copy(&sources.join("tollhouse.js"), &main.join("tollhouse.js"), 0o755)?;
    copy(&sources.join("README.md"), &main.join("README.md"), 0o644)?;
    let pack = |folder: &Path, manifest: &str| {
        let manifest = paths::read(&sources.join(manifest))?.replace("@VERSION@", &release.version).replace("@ARCH@", arch);
        write(&folder.join("package.json"), &manifest)?;
        copy(&paths::root().join("LICENSE"), &folder.join("LICENSE"), 0o644)?;
        let mut npm = Command::new("npm");
        npm.args(["pack", "--silent", "--pack-destination"]).arg(&release.folder).current_dir(folder);
        let name = shell::output(&mut npm).ok_or("`npm pack` failed")?;
        Ok::<_, Failure>(release.folder.join(name.trim()))
    };
    Ok([pack(&programs, "platform.json")?, pack(&main, "tollhouse.json")?])
}

/// Installs both packages globally below `prefix`, without the registry. Returns the installed command.
pub(crate) fn install(packages: &[PathBuf], prefix: &Path) -> Result<PathBuf, Failure> {
    let mut npm = Command::new("npm");
    npm.args(["install", "--global", "--offline", "--no-audit", "--no-fund", "--silent", "--prefix"]).arg(prefix).args(packages);
    shell::run(&mut npm)?;
    Ok(prefix.join("bin/tollhouse"))
}

//! The Debian package.

use std::{
    fs,
    os::unix::fs::PermissionsExt as _,
    path::{Path, PathBuf},
    process::Command,
};

use super::release::Release;
use crate::{Failure, paths, shell};

/// The scripts that dpkg runs at installation and removal.
const SCRIPTS: [&str; 3] = ["postinst", "prerm", "postrm"];

/// Packs the tree as this version.
pub(crate) fn pack(release: &Release, tree: &Path, version: &str) -> Result<PathBuf, Failure> {
    let staged = release.folder.join("deb");
    if staged.exists() {
        fs::remove_dir_all(&staged).map_err(|reason| format!("cannot remove {}: {reason}", staged.display()))?;
    }
    shell::run(Command::new("cp").arg("-a").arg(tree).arg(&staged))?;
    let control = staged.join("DEBIAN");
    fs::create_dir(&control).map_err(|reason| format!("cannot create {}: {reason}", control.display()))?;
    let write = |name: &str, text: &str, mode: u32| {
        let file = control.join(name);
        let written = fs::write(&file, text).and_then(|()| fs::set_permissions(&file, fs::Permissions::from_mode(mode)));
        written.map_err(|reason| format!("cannot write {}: {reason}", file.display()))
    };
    for name in SCRIPTS {
        write(name, &paths::read(&paths::root().join("packaging/debian").join(name))?, 0o755)?;
    }
    write("conffiles", "/etc/tollhouse/tollhouse.toml\n", 0o644)?;
    write("md5sums", &sums(&staged)?, 0o644)?;
    write("control", &control_file(release, tree, version)?, 0o644)?;
    let file = release.folder.join(format!("tollhouse_{version}_{}.deb", release.arch));
    let mut deb = Command::new("dpkg-deb");
    deb.args(["--root-owner-group", "-Zxz", if release.quick { "-z0" } else { "-z6" }, "--build"])
        .arg(&staged)
        .arg(&file)
        .env("SOURCE_DATE_EPOCH", release.epoch.to_string());
    shell::run_with_progress(&format!("packing {}", file.file_name().unwrap_or_default().display()), &mut deb)?;
    Ok(file)
}

fn control_file(release: &Release, tree: &Path, version: &str) -> Result<String, Failure> {
    let size = shell::output(Command::new("du").args(["-sk", "--apparent-size"]).arg(tree)).unwrap_or_default();
    let size = size.split_ascii_whitespace().next().unwrap_or("0").to_owned();
    let dependencies = dependencies(&release.folder, tree)?;
    Ok(format!(
        "Package: tollhouse\nVersion: {version}\nArchitecture: {}\nMaintainer: Tollhouse <packages@tollhouse.invalid>\nInstalled-Size: {size}\nDepends: adduser, {dependencies}\nRecommends: ca-certificates\nSuggests: postgresql-client\nSection: web\nPriority: optional\nDescription: host for paid JavaScript tools\n Builders upload handlers, agents call them over HTTP or MCP and pay per call with\n x402, admins decide what the handlers can touch. Handlers run in processes of\n their own that hold no secret, no file and no socket but the one to the host.\n",
        release.arch
    ))
}

/// Returns the packages of the libraries with which host and worker are linked.
fn dependencies(folder: &Path, tree: &Path) -> Result<String, Failure> {
    // The tool requires the layout of a source package.
    let source_package = folder.join("shlibs");
    fs::create_dir_all(source_package.join("debian")).map_err(|reason| reason.to_string())?;
    fs::write(source_package.join("debian/control"), "Source: tollhouse\n\nPackage: tollhouse\nArchitecture: any\n")
        .map_err(|reason| reason.to_string())?;
    let mut shlibdeps = Command::new("dpkg-shlibdeps");
    shlibdeps.arg("-O").args(["tollhouse", "tollhouse-worker"].map(|name| tree.join("usr/bin").join(name))).current_dir(&source_package);
    let output = shell::output(&mut shlibdeps).ok_or("`dpkg-shlibdeps` failed: install `dpkg-dev`")?;
    let depends = output.lines().find_map(|line| line.strip_prefix("shlibs:Depends="));
    depends.map(str::to_owned).ok_or_else(|| format!("`dpkg-shlibdeps` reports no packages: {output}"))
}

/// Returns the MD5 sums of all files except the configuration, for `dpkg --verify`.
fn sums(staged: &Path) -> Result<String, Failure> {
    let find = "find usr -type f -print0 | LC_ALL=C sort -z | xargs -0 md5sum";
    shell::output(Command::new("sh").args(["-c", find]).current_dir(staged)).ok_or_else(|| "md5sum failed".to_owned())
}

//! `cargo xtask dist`: builds the release. It is a tarball and a Debian package, each with host,
//! worker, unit, settings, manual pages, shell completions, a bill of materials and the licenses;
//! two npm packages with host and worker; and the checksums of all.
//!
//! The package is assembled here and packed by `dpkg-deb`, which every Debian has. cargo-deb would
//! require about two hundred crates to be built first, and it takes the binaries of one package
//! only; ours come from two packages with different features and profiles. The same sources, tools
//! and `SOURCE_DATE_EPOCH` (default: the time of the newest commit) give the same bytes.

mod check;
mod crates;
mod deb;
mod inside;
mod licenses;
mod npm;
mod release;
mod root;
mod sbom;
mod stage;

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use self::release::Release;
use crate::{
    Failure,
    args::{Args, from_env},
    engine::{self, Engine},
    paths, shell, strip, workers,
};

/// Builds the release. With `--check`, also installs, starts, upgrades and removes it.
pub(crate) fn run(args: &Args) -> Result<(), Failure> {
    let engine = engine::pick(args.engine)?;
    let folder = paths::target().join("dist");
    fs::create_dir_all(&folder).map_err(|reason| format!("cannot create {}: {reason}", folder.display()))?;
    let (host, worker) = match args.debug {
        true => debug_binaries(engine, &folder)?,
        false => release_binaries(engine, &folder)?,
    };
    let release = Release {
        version: version()?,
        arch: arch()?,
        epoch: epoch()?,
        host,
        worker,
        crates: crates::linked(engine)?,
        folder,
        quick: args.debug,
    };
    let tree = stage::stage(&release)?;
    let npm = npm::pack(&release, &tree)?;
    let mut files =
        vec![tarball(&release, &tree)?, deb::pack(&release, &tree, &release.version)?, attachment(&release, &tree, "sbom.cdx.json")?];
    files.extend_from_slice(&npm);
    let sums = checksums(&release.folder, &files)?;
    for file in files.iter().chain([&sums]) {
        println!("{}", file.display());
    }
    if args.check { check::run(&release, &tree, &npm, args) } else { Ok(()) }
}

/// Builds the host as tests do, and uses their worker. This is enough to check everything except
/// the bytes of a release.
fn debug_binaries(engine: Engine, folder: &Path) -> Result<(PathBuf, PathBuf), Failure> {
    shell::run_with_progress("building the host", &mut shell::cargo(&["build", "--package", "tollhouse", "--bin", "tollhouse"]))?;
    let worker = from_env("TOLLHOUSE_WORKER").map_or_else(|| workers::path(engine), PathBuf::from);
    if !worker.is_file() {
        return Err(
            "`--debug` uses the worker of `cargo xtask test` or of TOLLHOUSE_WORKER: run the tests first, or set the variable".to_owned()
        );
    }
    stripped(&paths::target().join("debug/tollhouse"), &worker, folder)
}

/// Builds host and worker in release mode, without paths of this machine in them.
fn release_binaries(engine: Engine, folder: &Path) -> Result<(PathBuf, PathBuf), Failure> {
    let root = paths::root();
    let flags = [(root.as_path(), "/tollhouse"), (&paths::cargo_home(), "/cargo")]
        .map(|(from, to)| format!("--remap-path-prefix={}={to}", from.display()));
    // The separator that cargo expects, because paths can contain spaces.
    let flags = flags.join("\u{1f}");
    let mut worker = workers::cargo(engine, &["build", "--release", "--locked", "--package", "tollhouse-worker"])?;
    shell::run_with_progress(&format!("building the worker ({engine})"), worker.env("CARGO_ENCODED_RUSTFLAGS", &flags))?;
    let mut host = shell::cargo(&["build", "--profile", "packaged", "--locked", "--package", "tollhouse", "--bin", "tollhouse"]);
    shell::run_with_progress("building the host", host.env("CARGO_ENCODED_RUSTFLAGS", &flags))?;
    let target = paths::target();
    stripped(&target.join("packaged/tollhouse"), &target.join("release/tollhouse-worker"), folder)
}

fn stripped(host: &Path, worker: &Path, folder: &Path) -> Result<(PathBuf, PathBuf), Failure> {
    let to = folder.join("stripped");
    let (to_host, to_worker) = (to.join("tollhouse"), to.join("tollhouse-worker"));
    strip::strip(host, &to_host)?;
    strip::strip(worker, &to_worker)?;
    Ok((to_host, to_worker))
}

/// Returns the version of the workspace.
fn version() -> Result<String, Failure> {
    let manifest = paths::read(&paths::root().join("Cargo.toml"))?;
    let package = manifest.split_once("[workspace.package]").ok_or("no version of the workspace")?.1;
    let line = package.lines().find_map(|line| line.strip_prefix("version = \"")?.strip_suffix('"'));
    line.map(str::to_owned).ok_or_else(|| "no version of the workspace".to_owned())
}

fn arch() -> Result<String, Failure> {
    let message =
        shell::output(Command::new("dpkg").arg("--print-architecture")).ok_or("`dpkg` is missing, which a Debian package requires")?;
    Ok(message.trim().to_owned())
}

fn epoch() -> Result<u64, Failure> {
    let configured = from_env("SOURCE_DATE_EPOCH");
    let of_commit = || shell::output(Command::new("git").args(["log", "-1", "--format=%ct"]).current_dir(paths::root()));
    let text = configured.or_else(of_commit).ok_or("set SOURCE_DATE_EPOCH to the time of the release")?;
    text.trim().parse().map_err(|_| format!("`{}` is not a number of seconds", text.trim()))
}

/// Packs the tree as a tarball, in a folder with the name of the release. The bytes are the same
/// each time.
fn tarball(release: &Release, tree: &Path) -> Result<PathBuf, Failure> {
    let (name, file) = (release.name(), release.tarball());
    let (mtime, prefix) = (format!("--mtime=@{}", release.epoch), format!("--transform=flags=r;s,^\\.,{name},"));
    let mut tar = Command::new("tar");
    tar.args(["--sort=name", "--owner=0", "--group=0", "--numeric-owner", "--format=ustar", "--xz", "-cf"]).arg(&file);
    tar.args([&mtime, &prefix]).arg("-C").arg(tree).arg(".").env("XZ_OPT", if release.quick { "-0 -T2" } else { "-6 -T2" });
    shell::run_with_progress("packing the tarball", &mut tar)?;
    Ok(file)
}

/// Copies a document from the tree to the folder of the packages.
fn attachment(release: &Release, tree: &Path, name: &str) -> Result<PathBuf, Failure> {
    let to = release.folder.join(format!("tollhouse-{}.{name}", release.version));
    fs::copy(tree.join(stage::DOC).join(name), &to).map_err(|reason| format!("cannot write {}: {reason}", to.display()))?;
    Ok(to)
}

fn checksums(folder: &Path, files: &[PathBuf]) -> Result<PathBuf, Failure> {
    let names: Vec<_> = files.iter().filter_map(|file| file.file_name()).collect();
    let sums = shell::output(Command::new("sha256sum").args(names).current_dir(folder)).ok_or("sha256sum failed")?;
    let to = folder.join("SHA256SUMS");
    fs::write(&to, sums).map_err(|reason| format!("cannot write {}: {reason}", to.display()))?;
    Ok(to)
}

//! The file tree of a release, relative to `/`.

use std::{
    fs,
    os::unix::fs::PermissionsExt as _,
    path::{Path, PathBuf},
    process::Command,
};

use super::{inside, licenses, release::Release, sbom};
use crate::{Failure, paths, shell};

/// The folder of the documents.
pub(crate) const DOC: &str = "usr/share/doc/tollhouse";

/// The path of the completions for each shell.
const COMPLETIONS: [(&str, &str); 3] = [
    ("bash", "usr/share/bash-completion/completions/tollhouse"),
    ("zsh", "usr/share/zsh/vendor-completions/_tollhouse"),
    ("fish", "usr/share/fish/vendor_completions.d/tollhouse.fish"),
];

/// Creates the tree and returns its folder.
pub(crate) fn stage(release: &Release) -> Result<PathBuf, Failure> {
    let tree = release.folder.join("tree");
    if tree.exists() {
        fs::remove_dir_all(&tree).map_err(|reason| format!("cannot remove {}: {reason}", tree.display()))?;
    }
    let (root, packaging) = (paths::root(), paths::root().join("packaging"));
    copy(&release.host, &tree.join("usr/bin/tollhouse"), 0o755)?;
    copy(&release.worker, &tree.join("usr/bin/tollhouse-worker"), 0o755)?;
    copy(&packaging.join("tollhouse.service"), &tree.join("usr/lib/systemd/system/tollhouse.service"), 0o644)?;
    copy(&packaging.join("tollhouse.toml"), &tree.join("etc/tollhouse/tollhouse.toml"), 0o644)?;
    for folder in ["", "tutorials", "how-to", "reference", "explanation", "examples"] {
        for document in fs::read_dir(root.join("docs").join(folder)).into_iter().flatten().flatten().filter(|entry| entry.path().is_file())
        {
            copy(&document.path(), &tree.join(DOC).join(folder).join(document.file_name()), 0o644)?;
        }
    }
    copy(&packaging.join("Containerfile"), &tree.join(DOC).join("examples/Containerfile"), 0o644)?;
    copy(&root.join("LICENSE"), &tree.join(DOC).join("copyright"), 0o644)?;
    write(&tree.join(DOC).join("changelog"), &paths::read(&root.join("CHANGELOG.md"))?)?;
    gzip(&tree.join(DOC).join("changelog"))?;
    write(&tree.join(DOC).join("sbom.cdx.json"), &sbom::write(release, &inside::all(&release.crates)?))?;
    write(&tree.join(DOC).join("licenses.txt"), &licenses::write(&release.crates)?)?;
    gzip(&tree.join(DOC).join("licenses.txt"))?;
    generate_documents(&release.host, &tree)?;
    normalize(&tree, release.epoch)?;
    Ok(tree)
}

/// Writes manual pages and completions, which the host generates.
fn generate_documents(host: &Path, tree: &Path) -> Result<(), Failure> {
    for (name, path) in COMPLETIONS {
        match shell::output(Command::new(host).args(["completions", name])) {
            Some(script) => write(&tree.join(path), &script)?,
            None => eprintln!("the host writes no completions for {name}, so they are missing"),
        }
    }
    let pages = tree.join("usr/share/man/man1");
    fs::create_dir_all(&pages).map_err(|reason| reason.to_string())?;
    if !shell::succeeds(Command::new(host).arg("man").arg(&pages)) {
        match shell::output(Command::new(host).arg("man")) {
            Some(page) => write(&pages.join("tollhouse.1"), &page)?,
            None => eprintln!("the host writes no manual pages, so they are missing"),
        }
    }
    for page in fs::read_dir(&pages).into_iter().flatten().flatten() {
        gzip(&page.path())?;
    }
    Ok(())
}

pub(super) fn copy(from: &Path, to: &Path, mode: u32) -> Result<(), Failure> {
    let failed = |reason: std::io::Error| format!("cannot put {} at {}: {reason}", from.display(), to.display());
    to.parent().map(fs::create_dir_all).transpose().map_err(failed)?;
    fs::copy(from, to).map_err(failed)?;
    fs::set_permissions(to, fs::Permissions::from_mode(mode)).map_err(failed)
}

pub(super) fn write(to: &Path, text: &str) -> Result<(), Failure> {
    let failed = |reason: std::io::Error| format!("cannot write {}: {reason}", to.display());
    to.parent().map(fs::create_dir_all).transpose().map_err(failed)?;
    fs::write(to, text).map_err(failed)?;
    fs::set_permissions(to, fs::Permissions::from_mode(0o644)).map_err(failed)
}

/// Compresses a file, without name and time in the result.
fn gzip(file: &Path) -> Result<(), Failure> {
    shell::run(Command::new("gzip").args(["-9", "-n", "-f"]).arg(file))
}

/// Gives every folder the same mode, and everything the same time.
fn normalize(path: &Path, epoch: u64) -> Result<(), Failure> {
    let failed = |reason: std::io::Error| format!("cannot normalize {}: {reason}", path.display());
    let about = fs::symlink_metadata(path).map_err(failed)?;
    if about.is_dir() {
        for entry in fs::read_dir(path).map_err(failed)? {
            normalize(&entry.map_err(failed)?.path(), epoch)?;
        }
        fs::set_permissions(path, fs::Permissions::from_mode(0o755)).map_err(failed)?;
    }
    let time = std::time::UNIX_EPOCH + std::time::Duration::from_secs(epoch);
    fs::File::open(path).and_then(|file| file.set_modified(time)).map_err(failed)
}

//! Watches the files of a tool. Notifications from the system are only hints: a change is detected by looking at the
//! files, which also happens periodically without a hint. Editors either write to a file or replace it.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    os::unix::fs::MetadataExt as _,
    path::{self, Path, PathBuf},
    time::Duration,
};

use notify::{EventKind, RecommendedWatcher, RecursiveMode, Watcher as _};
use tokio::{
    sync::mpsc::{self, error::TrySendError},
    time::{Instant, timeout},
};

use crate::tool::Problem;

/// How long files must be unchanged before they are read, because editors write more than once.
const QUIET: Duration = Duration::from_millis(50);
/// Maximum time to wait until the files are unchanged.
const TIMEOUT: Duration = Duration::from_millis(500);
/// How often to look without a hint.
const LOOK: Duration = Duration::from_secs(1);
/// How often to look if the system sends no notifications.
const LOOK_ALONE: Duration = Duration::from_millis(200);

/// The files in a folder that are watched, whether they exist or not.
const FILES: [&str; 9] =
    ["tool.json", "handler.ts", "handler.js", "response.json", "cases.jsonc", "tsconfig.json", "tool.d.ts", "globals.d.ts", ".env.dev"];

/// Files and folders that change when packages are installed: npm's, pnpm's, and common ones.
const INSTALLED: [&str; 4] = ["package.json", "node_modules/.package-lock.json", "node_modules/.modules.yaml", "node_modules"];

/// A file's state: inode, size, and modification time.
type FileStamp = (u64, u64, i64, i64);

/// Files to watch permanently, and files to watch temporarily.
type WatchChange = (Vec<PathBuf>, BTreeSet<PathBuf>);

/// A watched folder.
struct WatchState {
    files: BTreeSet<PathBuf>,
    /// Files and folders that are watched temporarily.
    meanwhile: BTreeSet<PathBuf>,
    folders: BTreeSet<PathBuf>,
    watcher: Option<RecommendedWatcher>,
    hints: mpsc::Receiver<()>,
    seen: BTreeMap<PathBuf, Option<FileStamp>>,
}

/// A folder watched by a separate task, so that no change is missed.
pub(super) struct FolderWatcher {
    more: mpsc::UnboundedSender<WatchChange>,
    changes: mpsc::Receiver<()>,
}

impl FolderWatcher {
    /// Watches a folder, and the file with its secrets if that is elsewhere.
    pub(super) fn of(folder: &Path, env: Option<&Path>) -> Self {
        let mut watch = WatchState::of(folder);
        watch.add(env.and_then(|env| path::absolute(env).ok()));
        let (more, mut files) = mpsc::unbounded_channel::<WatchChange>();
        let (change, changes) = mpsc::channel(1);
        tokio::spawn(async move {
            loop {
                tokio::select! {
                    more = files.recv() => match more {
                        Some((files, meanwhile)) => {
                            watch.add(files);
                            watch.ignore_own(meanwhile);
                        }
                        None => return,
                    },
                    () = watch.changed() => {
                        // A pending notification says the same.
                        if let Err(TrySendError::Closed(())) = change.try_send(()) {
                            return;
                        }
                    }
                }
            }
        });
        Self { more, changes }
    }

    /// Watches `files` permanently, and `meanwhile` until the next call. New ones count as changed, because they may
    /// have changed before they were watched.
    pub(super) fn add(&self, files: Vec<PathBuf>, meanwhile: BTreeSet<PathBuf>) {
        // The task may have ended.
        _ = self.more.send((files, meanwhile));
    }

    /// Waits for the next change.
    pub(super) async fn changed(&mut self) {
        if self.changes.recv().await.is_none() {
            std::future::pending().await
        }
    }
}

impl WatchState {
    fn of(folder: &Path) -> Self {
        let (hint, hints) = mpsc::channel(1);
        let watcher = notify::recommended_watcher(move |event: notify::Result<notify::Event>| {
            // Reading is not a change, and one hint is enough.
            if !matches!(event, Ok(notify::Event { kind: EventKind::Access(_), .. })) {
                _ = hint.try_send(());
            }
        });
        let (files, meanwhile, folders) = (BTreeSet::new(), BTreeSet::new(), BTreeSet::new());
        let mut watch = Self { files, meanwhile, folders, watcher: watcher.ok(), hints, seen: BTreeMap::new() };
        watch.add(FILES.iter().map(|name| folder.join(name)));
        watch
    }

    /// Watches more files.
    fn add(&mut self, files: impl IntoIterator<Item = PathBuf>) {
        for file in files {
            // The current state is the baseline of new files only. Files already watched may have changed meanwhile.
            self.seen.entry(file.clone()).or_insert_with(|| look(&file));
            self.files.insert(file);
        }
        for folder in self.files.iter().filter_map(|file| file.parent()) {
            if !self.folders.contains(folder) {
                self.folders.insert(folder.to_owned());
                let watched = self.watcher.as_mut().map(|watcher| watcher.watch(folder, RecursiveMode::NonRecursive));
                // The system cannot watch more, or the folder does not exist. Rely on looking.
                if matches!(watched, Some(Err(_))) {
                    self.watcher = None;
                }
            }
        }
    }

    /// Watches these paths temporarily, instead of the previous ones.
    fn ignore_own(&mut self, paths: BTreeSet<PathBuf>) {
        self.meanwhile = paths;
        self.seen.retain(|path, _| self.files.contains(path) || self.meanwhile.contains(path));
    }

    /// Waits until a file has changed and writing has finished.
    async fn changed(&mut self) {
        loop {
            let mut now = self.look();
            if now != self.seen {
                self.wait_until_quiet(&mut now).await;
                self.seen = now;
                return;
            }
            let wait = if self.watcher.is_some() { LOOK } else { LOOK_ALONE };
            let hinted = matches!(timeout(wait, self.hints.recv()).await, Ok(Some(())));
            if !hinted && self.watcher.is_none() {
                tokio::time::sleep(LOOK_ALONE).await;
            }
        }
    }

    /// Waits until writing has finished.
    async fn wait_until_quiet(&mut self, now: &mut BTreeMap<PathBuf, Option<FileStamp>>) {
        let (started, mut since) = (Instant::now(), Instant::now());
        while since.elapsed() < QUIET && started.elapsed() < TIMEOUT {
            _ = timeout(QUIET.saturating_sub(since.elapsed()), self.hints.recv()).await;
            let again = self.look();
            if again != *now {
                (*now, since) = (again, Instant::now());
            }
        }
    }

    fn look(&self) -> BTreeMap<PathBuf, Option<FileStamp>> {
        self.files.union(&self.meanwhile).map(|file| (file.clone(), look(file))).collect()
    }
}

/// Returns the files that a failed bundle depends on: where the errors are, what is missing, and installed packages.
/// Empty if the bundle did not fail.
pub(super) fn is_blocking(folder: &Path, problems: &[Problem]) -> BTreeSet<PathBuf> {
    let mut hindering: BTreeSet<_> = problems
        .iter()
        .filter(|problem| problem.by == "bundle")
        .flat_map(|problem| problem.continues.iter().map(PathBuf::as_path).chain([Path::new(&problem.position.file)]))
        .map(|path| folder.join(path))
        .collect();
    if !hindering.is_empty() {
        hindering.extend(folder.ancestors().flat_map(|above| INSTALLED.map(|name| above.join(name))));
    }
    hindering
}

fn look(file: &Path) -> Option<FileStamp> {
    fs::metadata(file).ok().map(|about| (about.ino(), about.len(), about.mtime(), about.mtime_nsec()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tool::position::FilePosition;

    /// Returns whether a change is noticed within some seconds.
    async fn seen(watch: &mut WatchState) -> bool {
        timeout(Duration::from_secs(10), watch.changed()).await.is_ok()
    }

    #[tokio::test]
    async fn change_is_noticed_for_each_way_of_saving() {
        let folder = tempfile::tempdir().unwrap();
        let handler = folder.path().join("handler.ts");
        fs::write(&handler, "1").unwrap();
        for is_reported in [true, false] {
            let mut watch = WatchState::of(folder.path());
            if !is_reported {
                watch.watcher = None;
            }
            fs::write(&handler, "22").unwrap();
            assert!(seen(&mut watch).await, "written");
            fs::write(folder.path().join("handler.ts~"), "33").unwrap();
            fs::rename(folder.path().join("handler.ts~"), &handler).unwrap();
            assert!(seen(&mut watch).await, "put in its place");
            fs::remove_file(&handler).unwrap();
            assert!(seen(&mut watch).await, "removed");
            fs::write(&handler, "1").unwrap();
            assert!(seen(&mut watch).await, "made");
        }
    }

    #[tokio::test]
    async fn unrelated_file_is_ignored() {
        let folder = tempfile::tempdir().unwrap();
        let mut watch = WatchState::of(folder.path());
        fs::write(folder.path().join("notes.md"), "1").unwrap();
        assert!(timeout(Duration::from_millis(300), watch.changed()).await.is_err());
        let lib = folder.path().join("lib");
        fs::create_dir(&lib).unwrap();
        fs::write(lib.join("x.ts"), "1").unwrap();
        watch.add([lib.join("x.ts")]);
        fs::write(lib.join("x.ts"), "22").unwrap();
        assert!(seen(&mut watch).await);
    }

    #[tokio::test]
    async fn blocking_files_are_watched_until_replaced() {
        let folder = tempfile::tempdir().unwrap();
        let problem = Problem::new("bundle", FilePosition::at("lib/a.ts", 1, 1), "no");
        assert!(is_blocking(folder.path(), &[Problem::new("host", FilePosition::file("lib/a.ts"), "no")]).is_empty());
        let hindering = is_blocking(folder.path(), &[problem]);
        let mut watch = WatchState::of(folder.path());
        watch.ignore_own(hindering.clone());
        assert!(seen(&mut watch).await, "it was possibly fixed before");
        watch.ignore_own(hindering);
        assert!(timeout(Duration::from_millis(300), watch.changed()).await.is_err());
        fs::create_dir_all(folder.path().join("lib")).unwrap();
        fs::write(folder.path().join("lib/a.ts"), "1").unwrap();
        assert!(seen(&mut watch).await, "mended");
        fs::create_dir(folder.path().join("node_modules")).unwrap();
        assert!(seen(&mut watch).await, "installed");
        watch.ignore_own(BTreeSet::new());
        fs::write(folder.path().join("lib/a.ts"), "22").unwrap();
        assert!(timeout(Duration::from_millis(300), watch.changed()).await.is_err());
    }
}

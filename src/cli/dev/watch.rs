//! Watches the files that a tool is made of. What the system tells is a hint to look: whether something has changed is seen by looking, which
//! is done now and then without a hint too. Editors write in the file, or put another one in its place.

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

/// How long nothing has to be written before it is read: editors write more than once.
const QUIET: Duration = Duration::from_millis(50);
/// How long one waits for that.
const PATIENCE: Duration = Duration::from_millis(500);
/// How often one looks without a hint.
const LOOK: Duration = Duration::from_secs(1);
/// The same where the system tells nothing.
const LOOK_ALONE: Duration = Duration::from_millis(200);

/// The files of a folder that are watched, whether they are there or not.
const FILES: [&str; 9] =
    ["tool.json", "handler.ts", "handler.js", "response.json", "cases.jsonc", "tsconfig.json", "tool.d.ts", "globals.d.ts", ".env.dev"];

/// What tells a file from what it was: where it is on the disk, how long it is, and when it was written.
type Look = (u64, u64, i64, i64);

/// A folder that is watched.
struct Watch {
    files: BTreeSet<PathBuf>,
    folders: BTreeSet<PathBuf>,
    watcher: Option<RecommendedWatcher>,
    hints: mpsc::Receiver<()>,
    seen: BTreeMap<PathBuf, Option<Look>>,
}

/// A folder that a task of its own watches: however much happens besides, a change is heard.
pub(super) struct Watched {
    pub(super) more: mpsc::UnboundedSender<Vec<PathBuf>>,
    changes: mpsc::Receiver<()>,
}

impl Watched {
    /// Those of a folder, and the file of its secrets, where that is another one.
    pub(super) fn of(folder: &Path, env: Option<&Path>) -> Self {
        let mut watch = Watch::of(folder);
        watch.add(env.and_then(|env| path::absolute(env).ok()));
        let (more, mut files) = mpsc::unbounded_channel::<Vec<PathBuf>>();
        let (change, changes) = mpsc::channel(1);
        tokio::spawn(async move {
            loop {
                tokio::select! {
                    more = files.recv() => match more {
                        Some(more) => watch.add(more),
                        None => return,
                    },
                    () = watch.changed() => {
                        // One that waits to be heard says as much.
                        if let Err(TrySendError::Closed(())) = change.try_send(()) {
                            return;
                        }
                    }
                }
            }
        });
        Self { more, changes }
    }

    /// Waits for the next change.
    pub(super) async fn changed(&mut self) {
        if self.changes.recv().await.is_none() {
            std::future::pending().await
        }
    }
}

impl Watch {
    fn of(folder: &Path) -> Self {
        let (hint, hints) = mpsc::channel(1);
        let watcher = notify::recommended_watcher(move |event: notify::Result<notify::Event>| {
            // Reading is no change, and one hint is as good as many.
            if !matches!(event, Ok(notify::Event { kind: EventKind::Access(_), .. })) {
                _ = hint.try_send(());
            }
        });
        let mut watch = Self { files: BTreeSet::new(), folders: BTreeSet::new(), watcher: watcher.ok(), hints, seen: BTreeMap::new() };
        watch.add(FILES.iter().map(|name| folder.join(name)));
        watch
    }

    /// Watches more files.
    fn add(&mut self, files: impl IntoIterator<Item = PathBuf>) {
        for file in files {
            // What is new is watched from here on; what is watched may have changed meanwhile.
            self.seen.entry(file.clone()).or_insert_with(|| look(&file));
            self.files.insert(file);
        }
        for folder in self.files.iter().filter_map(|file| file.parent()) {
            if !self.folders.contains(folder) {
                self.folders.insert(folder.to_owned());
                let watched = self.watcher.as_mut().map(|watcher| watcher.watch(folder, RecursiveMode::NonRecursive));
                // The system watches no more, or no such folder: looking has to do.
                if matches!(watched, Some(Err(_))) {
                    self.watcher = None;
                }
            }
        }
    }

    /// Waits until one of them has changed, and nothing is written any more.
    async fn changed(&mut self) {
        loop {
            let mut now = self.look();
            if now != self.seen {
                self.settled(&mut now).await;
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

    /// Waits until nothing is written any more.
    async fn settled(&mut self, now: &mut BTreeMap<PathBuf, Option<Look>>) {
        let (began, mut since) = (Instant::now(), Instant::now());
        while since.elapsed() < QUIET && began.elapsed() < PATIENCE {
            _ = timeout(QUIET.saturating_sub(since.elapsed()), self.hints.recv()).await;
            let again = self.look();
            if again != *now {
                (*now, since) = (again, Instant::now());
            }
        }
    }

    fn look(&self) -> BTreeMap<PathBuf, Option<Look>> {
        self.files.iter().map(|file| (file.clone(), look(file))).collect()
    }
}

fn look(file: &Path) -> Option<Look> {
    fs::metadata(file).ok().map(|about| (about.ino(), about.len(), about.mtime(), about.mtime_nsec()))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Whether a change is seen within some seconds.
    async fn seen(watch: &mut Watch) -> bool {
        timeout(Duration::from_secs(10), watch.changed()).await.is_ok()
    }

    #[tokio::test]
    async fn a_change_is_seen_however_an_editor_makes_it() {
        let folder = tempfile::tempdir().unwrap();
        let handler = folder.path().join("handler.ts");
        fs::write(&handler, "1").unwrap();
        for is_told in [true, false] {
            let mut watch = Watch::of(folder.path());
            if !is_told {
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
    async fn what_is_not_of_the_tool_is_no_change() {
        let folder = tempfile::tempdir().unwrap();
        let mut watch = Watch::of(folder.path());
        fs::write(folder.path().join("notes.md"), "1").unwrap();
        assert!(timeout(Duration::from_millis(300), watch.changed()).await.is_err());
        let lib = folder.path().join("lib");
        fs::create_dir(&lib).unwrap();
        fs::write(lib.join("x.ts"), "1").unwrap();
        watch.add([lib.join("x.ts")]);
        fs::write(lib.join("x.ts"), "22").unwrap();
        assert!(seen(&mut watch).await);
    }
}

//! `tollhouse store migrate`: moves the rows of a store in a folder to a database while its host
//! serves.
//!
//! Rows are copied, then the commits since, repeatedly, until few are left. Then all rows are
//! compared, and from then on each copied row is read back. Finally commits are paused, the last
//! ones are copied, the folder records where its rows have gone, and the host continues with the
//! database. Until then nothing has changed: if anything fails before, the host continues with the
//! folder, and the next attempt starts with an empty database.

use std::{
    io,
    pin::pin,
    sync::Arc,
    time::{Duration, Instant},
};

use tokio::sync::mpsc::{self, Sender};
use tollhouse_backup::{
    BackupError, Departure, FillMode, FillSource, begin_fill,
    control::{self, ControlEvent, ControlRequest},
    depart, departed,
};
use tollhouse_base::{boxed, clock::Clock, id::RequestId, plural::plural};
use tollhouse_config::Home;
use tollhouse_objects::{BucketLocation, ObjectLayout};
use tollhouse_store::{
    StoreError,
    live_migration::{MigratableStore, MigrationWalk},
    postgres::PostgresConfig,
};

use super::{
    error::StartError,
    stores::{is_here, open_database, open_movable, store_of},
};

/// Approximate number of rows that may be left when commits are paused.
const TARGET_REMAINING: u64 = 256;
/// Number of rows that may be left if commits arrive too fast to get below [`TARGET_REMAINING`].
const MAX_REMAINING: u64 = 4_096;
/// Maximum rounds of following commits.
const ROUNDS: u32 = 100;
/// Maximum pause of commits for the last changes. After that they continue in the folder.
const MAX_PAUSE: Duration = Duration::from_secs(2);
/// Maximum number of remaining objects to count.
const MAX_OBJECTS: usize = 1_000;
/// Interval of progress messages about copied rows.
const REPORT_INTERVAL: Duration = Duration::from_secs(1);

/// Moves the rows of the host with its data in `home`, which may run, to the database at `to`.
/// Calls `report` with progress. Returns a summary.
pub async fn migrate(home: &Home, to: &str, password: Option<&str>, mut report: impl FnMut(&str)) -> Result<String, StartError> {
    let request = ControlRequest::Migrate { to: to.to_owned(), password: password.map(str::to_owned) };
    let io = |source| BackupError::Io { path: home.data.join("control"), source };
    let Some(mut running) = control::connect(&home.data, &request).await.map_err(io)? else {
        store_of(&home.data)?;
        let store = open_movable(&home.data, &home.store)?;
        is_here(&store, &home.data).await?;
        let (hand, mut reported) = mpsc::channel::<String>(1);
        let telling = async {
            while let Some(step) = reported.recv().await {
                report(&step);
            }
        };
        return tokio::join!(run(&store, &home.objects, to, password, hand), telling).0;
    };
    loop {
        match control::read_event(&mut running).await.map_err(io)? {
            Some(ControlEvent::Step(step)) => report(&step),
            Some(ControlEvent::Done(done)) => return Ok(done),
            Some(ControlEvent::Failed(reason)) => return Err(BackupError::Refused(reason).into()),
            None => return Err(BackupError::CutOff.into()),
        }
    }
}

/// Makes a folder's store usable again after its rows have moved, with the rows that it had before the
/// move. Returns where the rows went.
#[boxed]
pub async fn stay(home: &Home) -> Result<Option<String>, StartError> {
    store_of(&home.data)?;
    let store = open_movable(&home.data, &home.store)?;
    let to = departed(&store).await.map_err(BackupError::from)?.filter(|departed| departed.at.is_some()).map(|departed| departed.to);
    tollhouse_backup::stay(&store).await.map_err(BackupError::from)?;
    Ok(to)
}

/// Moves a store that is open in this process. Its objects stay where they are.
pub(super) async fn run(
    store: &MigratableStore,
    objects: &BucketLocation,
    to: &str,
    password: Option<&str>,
    report: Sender<String>,
) -> Result<String, StartError> {
    let refused = |reason: &str| StartError::from(BackupError::Refused(reason.to_owned()));
    let one = store.moving().ok_or_else(|| refused("the store is already moving, or has moved"))?;
    let (shown, clock, started) = (shown(to), Clock::default(), Instant::now());
    let target = open_database(&PostgresConfig::new(to, password).map_err(StartError::Database)?).await?;
    let folder = store.folder();
    let before = departed(folder).await.map_err(BackupError::from)?;
    let id = match before {
        Some(before) => before.id,
        None => RequestId::generate().to_string(),
    };
    let here = Departure { id: id.clone(), to: shown.clone(), at: None };
    depart(folder, &here).await.map_err(BackupError::from)?;
    // The mark stays: only this host may use the database until it has restarted.
    begin_fill(&*target, FillSource { id, how: FillMode::Migration, at: clock.now() }).await?;

    let mut leaving = store.leave(Arc::clone(&target)).await;
    let (mut last, mut pages) = (Instant::now(), 0_u64);
    log_progress(&report, format!("copying to {shown}")).await?;
    while leaving.copy_some().await.map_err(BackupError::from)? {
        pages += 1;
        if last.elapsed() >= REPORT_INTERVAL {
            log_progress(&report, format!("{} in {}", plural(leaving.rows, "row"), plural(pages, "page"))).await?;
            last = Instant::now();
        }
    }
    log_progress(&report, format!("{} in {}; copying the latest commits", plural(leaving.rows, "row"), plural(pages, "page"))).await?;
    follow(&mut leaving, false, &report).await?;
    log_progress(&report, format!("{}; comparing all rows", plural(leaving.changes, "change"))).await?;
    leaving.compare().await.map_err(BackupError::from)?;
    follow(&mut leaving, true, &report).await?;
    log_progress(&report, "all spaces are equal; commits wait for the last changes".to_owned()).await?;

    let waits = Instant::now();
    let paused = store.pause().await.map_err(BackupError::from)?;
    let mut last = pin!(async move {
        let waited_for = leaving.follow(true).await.map_err(BackupError::from)?;
        leaving.sync().await.map_err(BackupError::from)?;
        Ok::<_, BackupError>((waited_for, leaving))
    });
    let Ok(done) = tokio::time::timeout(MAX_PAUSE, &mut last).await else {
        drop(paused);
        // Wait until pending writes there have ended, before the next attempt begins.
        _ = last.await;
        let late = format!("the database did not take the last changes within {} s", MAX_PAUSE.as_secs());
        return Err(BackupError::from(StoreError::Away(late)).into());
    };
    let (waited_for, leaving) = done?;
    depart(folder, &Departure { at: Some(clock.now()), ..here }).await.map_err(BackupError::from)?;
    store.switch(target, paused);
    let pause = waits.elapsed();
    drop(one);
    let (took, remaining) = (started.elapsed().as_secs_f64(), remaining_objects(objects).await);
    Ok(format!(
        "moved to {shown}: {} in {} and {}; commits waited for {waited_for} of them, and the pause was {} ms; \
         the move took {took:.1} s. \
         The host now uses the database, alone: set `TOLLHOUSE_STORE` before its next start; after that, other hosts can use the database \
         too. {remaining}",
        plural(leaving.rows, "row"),
        plural(pages, "page"),
        plural(leaving.changes, "change"),
        pause.as_millis(),
    ))
}

/// Describes where the objects stay, and what other hosts need to read them.
async fn remaining_objects(objects: &BucketLocation) -> String {
    let folder = match objects {
        BucketLocation::S3 { .. } => return "Objects stay in the bucket: set the same `TOLLHOUSE_OBJECTS` for all hosts".to_owned(),
        BucketLocation::Folder(folder) => folder,
    };
    let counted = match ObjectLayout::at_if_there(objects) {
        Ok(layout) => layout.count_up_to(MAX_OBJECTS).await,
        Err(error) => Err(io::Error::other(error)),
    };
    let count = match counted {
        Ok(0) => return format!("`{}` contains no objects, so nothing else has to be moved", folder.display()),
        Ok(MAX_OBJECTS) => format!("{MAX_OBJECTS} or more objects stay"),
        Ok(1) => "1 object stays".to_owned(),
        Ok(count) => format!("{count} objects stay"),
        Err(error) => format!("objects stay, which could not be counted ({error}),"),
    };
    format!(
        "{count} in `{}`: files of tools, long sources and large answers. Other hosts cannot read them there. Before you add hosts, \
         stop this host and copy the folder to a bucket for all (`TOLLHOUSE_OBJECTS`), or mount the folder as `files` in the data folder \
         of each host",
        folder.display()
    )
}

/// Copies new commits until few are left. `verify` says whether copied rows are read back.
async fn follow(leaving: &mut MigrationWalk, verify: bool, report: &Sender<String>) -> Result<(), StartError> {
    let mut followed = 0;
    for _ in 0..ROUNDS {
        followed = leaving.follow(verify).await.map_err(BackupError::from)?;
        if followed <= TARGET_REMAINING {
            return Ok(());
        }
        if report.is_closed() {
            return Err(departure_of());
        }
    }
    if followed <= MAX_REMAINING {
        return Ok(());
    }
    Err(BackupError::from(StoreError::Away("commits arrive faster than they are copied; retry when the load is lower".to_owned())).into())
}

async fn log_progress(report: &Sender<String>, step: String) -> Result<(), StartError> {
    tracing::info!("{step}");
    report.send(step).await.map_err(|_| departure_of())
}

fn departure_of() -> StartError {
    BackupError::Refused("the process that requested it has ended".to_owned()).into()
}

/// Returns an address without its password.
fn shown(to: &str) -> String {
    let Ok(mut url) = url::Url::parse(to) else { return "the database".to_owned() };
    // An address without a host has no password either.
    _ = url.set_password(None);
    url.set_query(None);
    url.to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn password_is_not_shown() {
        assert_eq!(shown("postgres://me:secret@db:1/tolls?password=other&sslmode=require"), "postgres://me@db:1/tolls");
        assert_eq!(shown("no address"), "the database");
    }
}

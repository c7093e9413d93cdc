//! `tollhouse store`: shows the contents of a stopped host's store, its damage, and what a repair would drop.

use std::{error::Error, path::PathBuf};

use serde_json::json;
use tollhouse_app as app;
use tollhouse_base::plural::plural;
use tollhouse_store::sled::{self, Repair, Repaired, SledConfig, StoreReport};

use crate::base::{ConfirmArgs, Output, error};
use crate::operator::backup_cmd::{HostLocation, note_ignored_database};

/// Maximum number of dropped frames that are listed. Their contents stay in the damaged files, which are kept.
const MAX_LISTED: usize = 100;

/// Arguments of `store check` and `store compact`.
#[derive(clap::Args)]
pub(crate) struct CheckArgs {
    #[command(flatten)]
    of: HostLocation,
}

/// Arguments of `store repair`.
#[derive(clap::Args)]
pub(crate) struct RepairArgs {
    /// Data folder of a stopped host
    #[arg(long, env = "TOLLHOUSE_DATA", default_value = "data")]
    data: PathBuf,
    #[command(flatten)]
    confirm: ConfirmArgs,
}

/// Checks the store in the folder or the database, whichever [`HostLocation::home`] names.
pub(crate) async fn check(args: CheckArgs, names_folder: bool, out: Output) -> Result<(), Box<dyn Error>> {
    let (home, ignores_database) = args.of.home(names_folder)?;
    let folder = home.data.join("store");
    let mut reported = CheckOutput { found: vec![], wrong: vec![], out };
    reported.found(match (&home.database, ignores_database) {
        (Some(_), _) => "checking the database".to_owned(),
        (None, true) => {
            format!("checking the store in `{}`; to check the database of the settings, leave out `--data`", folder.display())
        }
        (None, false) => format!("checking the store in `{}`", folder.display()),
    })?;
    if home.database.is_none() {
        let StoreReport { found, damages, archive, .. } = sled::check(&folder, &home.store)?;
        for sentence in found {
            reported.found(sentence)?;
        }
        for damage in damages.iter().chain(&archive) {
            reported.wrong("damaged", damage.to_string())?;
        }
        if !damages.is_empty() || archive.is_some() {
            // No host starts on a damaged log, and without the archive its money cannot be checked.
            return reported.end();
        }
    }
    let app::CheckedRows { flaws, ledger } = app::check_rows(&home).await?;
    reported.found(format!("compared {} and contents", plural(flaws.checked_count, "row")))?;
    let left_out = flaws.count.saturating_sub(flaws.listed.len() as u64);
    for flaw in flaws.listed {
        reported.wrong("wrong", flaw)?;
    }
    if left_out > 0 {
        reported.wrong("wrong", format!("and {left_out} more"))?;
    }
    match ledger {
        Some(ledger) => {
            reported.found(format!("ledger: {ledger}"))?;
            for wrong in &ledger.wrong {
                reported.wrong("wrong", wrong.to_string())?;
            }
            let more = ledger.disagreements.saturating_sub(ledger.wrong.len() as u64);
            if more > 0 {
                reported.wrong("wrong", format!("and {more} more"))?;
            }
        }
        None => reported.found("the store has no ledger yet; the first start creates it".to_owned())?,
    }
    reported.end()
}

/// The results of a check, printed as they are found or as one document at the end.
struct CheckOutput {
    found: Vec<String>,
    wrong: Vec<String>,
    out: Output,
}

impl CheckOutput {
    fn found(&mut self, sentence: String) -> error::Result {
        self.out.for_people(&format!("{sentence}\n"))?;
        self.found.push(sentence);
        Ok(())
    }

    fn wrong(&mut self, how: &str, sentence: String) -> error::Result {
        self.out.for_people(&format!("{how}: {sentence}\n"))?;
        self.wrong.push(sentence);
        Ok(())
    }

    fn end(self) -> Result<(), Box<dyn Error>> {
        if self.out.json {
            self.out.document(&json!({ "found": self.found, "wrong": self.wrong }))?;
        }
        if self.wrong.is_empty() { Ok(()) } else { Err("the store is damaged".into()) }
    }
}

pub(crate) async fn compact(args: CheckArgs, names_folder: bool, out: Output) -> Result<(), Box<dyn Error>> {
    let (home, ignores_database) = args.of.home(names_folder)?;
    note_ignored_database(ignores_database, out);
    if home.database.is_some() {
        return Err("the store is in a database, which reuses free space on its own (autovacuum); to return the space to the disk, \
                    run `VACUUM (FULL, ANALYZE) tollhouse_row`, which blocks every host until it is done"
            .into());
    }
    let (before, after) = app::compact(&home).await?;
    let body = json!({ "bytesBefore": before, "bytesAfter": after });
    Ok(out.print(&body, |_| format!("compacted the store from {before} to {}\n", plural(after, "byte")))?)
}

pub(crate) fn repair(args: &RepairArgs, out: Output) -> Result<(), Box<dyn Error>> {
    let repair = sled::repair(&args.data.join("store"), &SledConfig::default())?;
    let is_well = repair.damages.is_empty() && repair.archive.is_none();
    out.for_people(&repair_summary(&repair))?;
    let mut found = json!({
        "damaged": repair.damages.iter().chain(&repair.archive).map(ToString::to_string).collect::<Vec<_>>(),
        "keptFrame": repair.retained,
        "dropped": repair.dropped.iter().map(|(frame, rows)| json!({ "frame": frame, "rows": rows })).collect::<Vec<_>>(),
        "droppedFrames": repair.dropped_frames(),
        "archiveGaps": [],
        "damagedFiles": null,
    });
    let mut repaired = String::new();
    if !is_well {
        let question = if repair.damages.is_empty() { "record the gaps in the archive?" } else { "drop the damaged rows?" };
        args.confirm.require(question)?;
        let Repaired { aside, archive_gaps } = repair.perform()?;
        for gap in &archive_gaps {
            repaired += &format!("the archive lacks the money records of {gap}; `ledger check` cannot compare the rows of these frames\n");
        }
        repaired += &format!("repaired; the old files are in `{}`\n", aside.display());
        found["archiveGaps"] = archive_gaps.iter().map(|gap| json!({ "from": gap.first, "to": gap.last })).collect();
        found["damagedFiles"] = json!(aside.display().to_string());
    }
    out.print(&found, |_| repaired)?;
    Ok(())
}

/// Describes for people what a repair would do.
fn repair_summary(repair: &Repair) -> String {
    let mut text = String::new();
    if let Some(damage) = &repair.archive {
        text += &format!(
            "damaged: {damage}; to keep these records, restore the file from a copy of the data folder; a repair only records the gap\n"
        );
    }
    if repair.damages.is_empty() {
        return if repair.archive.is_none() { text + "nothing is damaged\n" } else { text };
    }
    repair.damages.iter().for_each(|damage| text += &format!("damaged: {damage}\n"));
    text += &format!("kept: everything up to frame {}\n", repair.retained);
    if repair.dropped.is_empty() {
        return text + "dropped: no written data\n";
    }
    text += &format!("dropped: {}\n", plural(repair.dropped_frames(), "frame"));
    for (frame, rows) in repair.dropped.iter().take(MAX_LISTED) {
        let rows = rows.as_ref().map_or_else(|| "unreadable".to_owned(), |rows| rows.join(", "));
        text += &format!("  frame {frame}: {rows}\n");
    }
    match repair.dropped_frames().checked_sub(MAX_LISTED as u64) {
        Some(more) if more > 0 => text + &format!("  and {more} more\n"),
        Some(_) | None => text,
    }
}

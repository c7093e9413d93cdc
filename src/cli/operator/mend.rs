//! `tollhouse store`: shows the contents of a stopped host's store, its damage, and what a repair would drop.

use std::{error::Error, path::PathBuf};

use serde_json::json;
use tollhouse_app as app;
use tollhouse_store::sled::{self, Checked, Repair, SledConfig};

use crate::base::{error, out::Out, prompt};
use crate::operator::save::Where;

/// Most dropped frames that are listed. Their contents stay in the damaged files, which are kept.
const TOLD: usize = 100;

/// Arguments of `store check` and `store compact`.
#[derive(clap::Args)]
pub(crate) struct CheckArgs {
    #[command(flatten)]
    of: Where,
}

/// Arguments of `store repair`.
#[derive(clap::Args)]
pub(crate) struct RepairArgs {
    /// Data folder of a stopped host
    #[arg(long, env = "TOLLHOUSE_DATA", default_value = "data")]
    data: PathBuf,
    /// Do it without asking
    #[arg(long)]
    yes: bool,
}

pub(crate) async fn check(args: CheckArgs, out: Out) -> Result<(), Box<dyn Error>> {
    let home = args.of.home()?;
    let mut told = Looked { found: vec![], wrong: vec![], out };
    if home.database.is_none() {
        let Checked { found, damages, archive, .. } = sled::check(&home.data.join("store"), &home.store)?;
        for sentence in found {
            told.found(sentence)?;
        }
        for damage in damages.iter().chain(&archive) {
            told.wrong("damaged", damage.to_string())?;
        }
        if !damages.is_empty() || archive.is_some() {
            // No host starts on a damaged log, and without the archive its money cannot be checked.
            return told.end();
        }
    }
    let app::CheckedRows { flaws, ledger } = app::check_rows(&home).await?;
    told.found(format!("{} rows and contents were held against each other", flaws.looked_at))?;
    let left_out = flaws.count.saturating_sub(flaws.told.len() as u64);
    for flaw in flaws.told {
        told.wrong("wrong", flaw)?;
    }
    if left_out > 0 {
        told.wrong("wrong", format!("and {left_out} more"))?;
    }
    match ledger {
        Some(ledger) => {
            told.found(format!("the ledger: {ledger}"))?;
            for wrong in &ledger.wrong {
                told.wrong("wrong", wrong.to_string())?;
            }
            let more = ledger.disagreements.saturating_sub(ledger.wrong.len() as u64);
            if more > 0 {
                told.wrong("wrong", format!("and {more} more"))?;
            }
        }
        None => told.found("the store has no ledger yet: the first start enters it".to_owned())?,
    }
    told.end()
}

/// The results of a check, printed as they are found or as one document at the end.
struct Looked {
    found: Vec<String>,
    wrong: Vec<String>,
    out: Out,
}

impl Looked {
    fn found(&mut self, sentence: String) -> error::Result {
        if !self.out.json {
            self.out.text(&format!("{sentence}\n"))?;
        }
        self.found.push(sentence);
        Ok(())
    }

    fn wrong(&mut self, how: &str, sentence: String) -> error::Result {
        if !self.out.json {
            self.out.text(&format!("{how}: {sentence}\n"))?;
        }
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

pub(crate) async fn compact(args: CheckArgs, out: Out) -> Result<(), Box<dyn Error>> {
    let home = args.of.home()?;
    if home.database.is_some() {
        return Err("the rows are in a database, which makes room for new ones by itself (autovacuum); `VACUUM (FULL, ANALYZE) tollhouse_row` gives it \
                    back to the disk, and keeps every host from its rows until it is done"
            .into());
    }
    let app::Compacted { before, after } = app::compact(&home).await?;
    let told = json!({ "bytesBefore": before, "bytesAfter": after });
    Ok(out.tell(&told, |_| format!("compacted: the store took {before} bytes of the disk, and takes {after}\n"))?)
}

pub(crate) fn repair(args: &RepairArgs, out: Out) -> Result<(), Box<dyn Error>> {
    let repair = sled::repair(&args.data.join("store"), &SledConfig::default())?;
    let (is_well, archive_is_well) = (repair.damages.is_empty(), repair.archive.is_none());
    if !out.json {
        out.text(&told(&repair))?;
    }
    let mut found = json!({
        "damaged": repair.damages.iter().chain(&repair.archive).map(ToString::to_string).collect::<Vec<_>>(),
        "keptFrame": repair.kept,
        "dropped": repair.dropped.iter().map(|(frame, rows)| json!({ "frame": frame, "rows": rows })).collect::<Vec<_>>(),
        "droppedFrames": repair.dropped_frames(),
        "damagedFiles": null,
    });
    let mut repaired = String::new();
    if !is_well {
        if !args.yes {
            prompt::insist("drop it?", "--yes")?;
        }
        let beside = repair.perform()?.display().to_string();
        repaired = format!("repaired; the damaged files are in `{beside}`\n");
        found["damagedFiles"] = json!(beside);
    }
    out.tell(&found, |_| repaired)?;
    if is_well && !archive_is_well {
        return Err("the archive is damaged, which cannot be repaired; nothing else is damaged, and nothing was changed".into());
    }
    Ok(())
}

/// Describes for people what a repair would do.
fn told(repair: &Repair) -> String {
    let mut text = String::new();
    if let Some(damage) = &repair.archive {
        text += &format!(
            "damaged: {damage}; the host runs without the archive, and no repair brings its money back: restore a backup that has it\n"
        );
    }
    if repair.damages.is_empty() {
        return if repair.archive.is_none() { text + "nothing is damaged\n" } else { text };
    }
    repair.damages.iter().for_each(|damage| text += &format!("damaged: {damage}\n"));
    text += &format!("what is kept: all up to frame {}\n", repair.kept);
    if repair.dropped.is_empty() {
        return text + "what is dropped: nothing that was written\n";
    }
    text += &format!("what is dropped: {} frames\n", repair.dropped_frames());
    for (frame, rows) in repair.dropped.iter().take(TOLD) {
        let rows = rows.as_ref().map_or_else(|| "it does not read".to_owned(), |rows| rows.join(", "));
        text += &format!("  frame {frame}: {rows}\n");
    }
    match repair.dropped_frames().checked_sub(TOLD as u64) {
        Some(more) if more > 0 => text + &format!("  and {more} more\n"),
        Some(_) | None => text,
    }
}

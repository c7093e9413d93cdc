//! `tollhouse store`: what a stopped host's store holds, what is damaged in it, and what a repair would drop.

use std::{
    error::Error,
    io::{BufRead as _, IsTerminal as _, Write as _},
    path::PathBuf,
};

use tollhouse::{
    app,
    store::sled::{self, Checked, Repair, SledConfig},
};

use crate::save::Where;

/// Dropped frames that are told; what they write is in the damaged files, which are kept.
const TOLD: usize = 100;

/// Arguments of `store check` and `store compact`.
#[derive(clap::Args)]
pub(crate) struct CheckArgs {
    #[command(flatten)]
    of: Where,
    /// Writes what was found as JSON
    #[arg(long)]
    json: bool,
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

pub(crate) async fn check(args: CheckArgs) -> Result<(), Box<dyn Error>> {
    let home = args.of.home()?;
    let mut told = Told { as_json: args.json, ..Told::default() };
    if home.database.is_none() {
        let Checked { found, damages, archive, .. } = sled::check(&home.data.join("store"), &home.store)?;
        for sentence in found {
            told.found(sentence)?;
        }
        for damage in damages.iter().chain(&archive) {
            told.wrong("damaged", damage.to_string())?;
        }
        if !damages.is_empty() || archive.is_some() {
            // No host starts on it, or its money is not told by the archive any more.
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

/// What a check found, told as it is found, or as one document at the end.
#[derive(Default, serde::Serialize)]
struct Told {
    found: Vec<String>,
    wrong: Vec<String>,
    #[serde(skip)]
    as_json: bool,
}

impl Told {
    fn found(&mut self, sentence: String) -> std::io::Result<()> {
        if !self.as_json {
            writeln!(std::io::stdout(), "{sentence}")?;
        }
        self.found.push(sentence);
        Ok(())
    }

    fn wrong(&mut self, how: &str, sentence: String) -> std::io::Result<()> {
        if !self.as_json {
            writeln!(std::io::stdout(), "{how}: {sentence}")?;
        }
        self.wrong.push(sentence);
        Ok(())
    }

    fn end(self) -> Result<(), Box<dyn Error>> {
        if self.as_json {
            writeln!(std::io::stdout(), "{}", serde_json::to_string(&self)?)?;
        }
        if self.wrong.is_empty() { Ok(()) } else { Err("the store is damaged".into()) }
    }
}

pub(crate) async fn compact(args: CheckArgs) -> Result<(), Box<dyn Error>> {
    let home = args.of.home()?;
    if home.database.is_some() {
        return Err("the rows are in a database, which makes room for new ones by itself (autovacuum); `VACUUM (FULL, ANALYZE) tollhouse_row` gives it \
                    back to the disk, and keeps every host from its rows until it is done"
            .into());
    }
    let app::Compacted { before, after } = app::compact(&home).await?;
    let mut stdout = std::io::stdout();
    match args.json {
        true => writeln!(stdout, "{}", serde_json::json!({ "bytesBefore": before, "bytesAfter": after }))?,
        false => writeln!(stdout, "compacted: the store took {before} bytes of the disk, and takes {after}")?,
    }
    Ok(())
}

pub(crate) fn repair(args: &RepairArgs) -> Result<(), Box<dyn Error>> {
    let repair = sled::repair(&args.data.join("store"), &SledConfig::default())?;
    let mut stdout = std::io::stdout();
    if let Some(damage) = &repair.archive {
        writeln!(
            stdout,
            "damaged: {damage}; the host runs without the archive, and no repair brings its money back: restore a backup that has it"
        )?;
    }
    if repair.damages.is_empty() && repair.archive.is_some() {
        return Err("the archive is damaged, which cannot be repaired; nothing else is damaged, and nothing was changed".into());
    }
    if repair.damages.is_empty() {
        writeln!(stdout, "nothing is damaged")?;
        return Ok(());
    }
    tell(&repair, &mut stdout)?;
    if !args.yes && !is_agreed(&mut stdout)? {
        return Err("nothing was changed; `--yes` does it without asking".into());
    }
    let beside = repair.perform()?;
    writeln!(stdout, "repaired; the damaged files are in `{}`", beside.display())?;
    Ok(())
}

fn tell(repair: &Repair, stdout: &mut impl std::io::Write) -> std::io::Result<()> {
    for damage in &repair.damages {
        writeln!(stdout, "damaged: {damage}")?;
    }
    writeln!(stdout, "what is kept: all up to frame {}", repair.kept)?;
    if repair.dropped.is_empty() {
        return writeln!(stdout, "what is dropped: nothing that was written");
    }
    writeln!(stdout, "what is dropped: {} frames", repair.dropped.len())?;
    for (frame, rows) in repair.dropped.iter().take(TOLD) {
        let rows = rows.as_ref().map_or_else(|| "it does not read".to_owned(), |rows| rows.join(", "));
        writeln!(stdout, "  frame {frame}: {rows}")?;
    }
    match repair.dropped.len().checked_sub(TOLD) {
        Some(more) if more > 0 => writeln!(stdout, "  and {more} more"),
        Some(_) | None => Ok(()),
    }
}

fn is_agreed(stdout: &mut impl std::io::Write) -> std::io::Result<bool> {
    let stdin = std::io::stdin();
    if !stdin.is_terminal() {
        return Ok(false);
    }
    write!(stdout, "drop it? [y/N] ")?;
    stdout.flush()?;
    let mut answer = String::new();
    stdin.lock().read_line(&mut answer)?;
    Ok(answer.trim().eq_ignore_ascii_case("y"))
}

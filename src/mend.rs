//! `tollhouse store`: what a stopped host's store holds, what is damaged in it, and what a repair would drop.

use std::{
    error::Error,
    io::{BufRead as _, IsTerminal as _, Write as _},
    path::PathBuf,
};

use tollhouse::store::sled::{self, Checked, Repair, SledConfig};

/// Dropped frames that are told; what they write is in the damaged files, which are kept.
const TOLD: usize = 100;

/// Arguments of `store check`.
#[derive(clap::Args)]
pub(crate) struct CheckArgs {
    /// Data folder of a stopped host
    #[arg(long, env = "TOLLHOUSE_DATA", default_value = "data")]
    data: PathBuf,
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

pub(crate) fn check(args: &CheckArgs) -> Result<(), Box<dyn Error>> {
    let checked = sled::check(&args.data.join("store"), &SledConfig::default())?;
    let Checked { found, damages, archive, .. } = &checked;
    let mut stdout = std::io::stdout();
    for sentence in found {
        writeln!(stdout, "{sentence}")?;
    }
    for damage in damages.iter().chain(archive) {
        writeln!(stdout, "damaged: {damage}")?;
    }
    if damages.is_empty() && archive.is_none() { Ok(()) } else { Err("the store is damaged".into()) }
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

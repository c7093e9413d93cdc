//! `tollhouse ledger check`: whether all that a stopped host's data say of money agrees.

use std::{error::Error, io::Write as _, path::PathBuf};

use tollhouse::app;

/// Arguments of `ledger check`.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Data folder of a stopped host
    #[arg(long, env = "TOLLHOUSE_DATA", default_value = "data")]
    data: PathBuf,
    /// Writes what was found as JSON
    #[arg(long)]
    json: bool,
}

pub(crate) async fn check(args: &Args) -> Result<(), Box<dyn Error>> {
    let found = app::check_ledger(&args.data).await?;
    let mut stdout = std::io::stdout();
    if args.json {
        writeln!(stdout, "{}", serde_json::to_string(&found)?)?;
    } else {
        writeln!(stdout, "{found}")?;
        for wrong in &found.wrong {
            writeln!(stdout, "wrong: {wrong}")?;
        }
    }
    match found.disagreements {
        0 => Ok(()),
        wrong => Err(format!("{wrong} things do not agree").into()),
    }
}

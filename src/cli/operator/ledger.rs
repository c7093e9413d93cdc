//! `tollhouse ledger check`: checks that all records of money in a stopped host's data agree.

use std::{error::Error, path::PathBuf};

use tollhouse_app as app;
use tollhouse_base::plural::plural;

use crate::base::Output;

/// Arguments of `ledger check`.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Data folder of a stopped host
    #[arg(long, env = "TOLLHOUSE_DATA", default_value = "data")]
    data: PathBuf,
}

pub(crate) async fn check(args: &Args, out: Output) -> Result<(), Box<dyn Error>> {
    let found = app::check_ledger(&args.data).await?;
    out.print(&found, |found| {
        let wrong = found.wrong.iter().map(|wrong| format!("wrong: {wrong}\n"));
        format!("{found}\n{}", wrong.collect::<String>())
    })?;
    match found.disagreements {
        0 => Ok(()),
        wrong => Err(format!("{} found", plural(wrong, "inconsistency")).into()),
    }
}

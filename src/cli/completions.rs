//! `tollhouse completions SHELL`: generates shell completions.

use super::base::{Output, Result};

/// Arguments of `completions`.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Shell to complete for
    shell: clap_complete::Shell,
}

pub(crate) fn run(args: &Args, mut whole: clap::Command) -> Result {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut whole, "tollhouse", &mut script);
    Output::new(false).text(&String::from_utf8_lossy(&script))
}

//! `tollhouse secrets rotate` on the data of a stopped host. For a running host it is an operation of its API,
//! implemented elsewhere in this crate.

use std::{error::Error, path::PathBuf};

use tollhouse_api::KeyRotation;
use tollhouse_app as app;
use tollhouse_base::plural::plural;
use tollhouse_capability::secret;
use tollhouse_config::{HiddenValue, SecretSettings};

use crate::base::{Output, line};

/// Arguments of `secrets rotate`.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Data folder of a stopped host [default: data]
    #[arg(long, env = "TOLLHOUSE_DATA")]
    data: Option<PathBuf>,
    /// Master key, if it is not in the data folder
    #[arg(long, env = "TOLLHOUSE_MASTER_KEY", hide_env_values = true)]
    master_key: Option<HiddenValue>,
    /// Old master keys
    #[arg(long, env = "TOLLHOUSE_MASTER_KEY_OLD", hide_env_values = true)]
    master_key_old: Option<HiddenValue>,
}

pub(crate) async fn run(args: Args, out: Output) -> Result<(), Box<dyn Error>> {
    secret::keep_private()?;
    let keys = SecretSettings { master_key: args.master_key, master_key_old: args.master_key_old, ..SecretSettings::default() };
    let data = args.data.unwrap_or_else(|| PathBuf::from("data"));
    let rotated = app::rotate_secrets(&data, &keys).await?;
    out.print(&rotated, summary)?;
    unopened(&rotated).map_or(Ok(()), |remaining| Err(remaining.into()))
}

/// Describes the result of a rotation.
pub(crate) fn summary(rotated: &KeyRotation) -> String {
    let key = line(&rotated.key_id);
    format!("re-encrypted {} with key {key}; retired keys: {}\n", plural(rotated.resealed, "secret"), ids(&rotated.retired))
}

/// Describes the secrets that the rotation could not open, if there are any.
pub(crate) fn unopened(rotated: &KeyRotation) -> Option<String> {
    let needed = || ids(&rotated.needed);
    (rotated.unopened != 0)
        .then(|| format!("cannot decrypt {}, and changed nothing there; old keys kept: {}", plural(rotated.unopened, "secret"), needed()))
}

fn ids(ids: &[String]) -> String {
    if ids.is_empty() { "none".to_owned() } else { line(&ids.join(", ")) }
}

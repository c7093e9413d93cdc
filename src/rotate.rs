//! `tollhouse secrets rotate`: on a running host through its API, or on the data of a stopped one.

use std::{error::Error, io::Write as _, path::PathBuf};

use serde_json::Value;
use tollhouse::{
    app,
    capability::secret,
    config::{Hidden, SecretSettings},
};

/// Arguments of `secrets rotate`.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// URL of a running host
    #[arg(long, conflicts_with = "data")]
    url: Option<reqwest::Url>,
    /// Admin token of the running host
    #[arg(long, env = "TOLLHOUSE_ADMIN_TOKEN", hide_env_values = true)]
    admin_token: Option<Hidden>,
    /// Data folder of a stopped host [default: data]
    #[arg(long, env = "TOLLHOUSE_DATA")]
    data: Option<PathBuf>,
    /// Master key, where it is not in the data folder
    #[arg(long, env = "TOLLHOUSE_MASTER_KEY", hide_env_values = true)]
    master_key: Option<Hidden>,
    /// Master keys before it
    #[arg(long, env = "TOLLHOUSE_MASTER_KEY_OLD", hide_env_values = true)]
    master_key_old: Option<Hidden>,
}

pub(crate) async fn run(args: Args) -> Result<(), Box<dyn Error>> {
    secret::keep_private()?;
    let rotated = match args.url {
        Some(url) => remote(url, args.admin_token.ok_or("set TOLLHOUSE_ADMIN_TOKEN")?).await?,
        None => {
            let keys = SecretSettings { master_key: args.master_key, master_key_old: args.master_key_old, ..SecretSettings::default() };
            let data = args.data.unwrap_or_else(|| PathBuf::from("data"));
            serde_json::to_value(app::rotate_secrets(&data, &keys).await?)?
        }
    };
    let list = |name: &str| {
        let ids: Vec<_> = rotated[name].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
        if ids.is_empty() { "none".to_owned() } else { ids.join(", ") }
    };
    let mut stdout = std::io::stdout();
    let key = rotated["keyId"].as_str().unwrap_or_default();
    writeln!(stdout, "{} secrets sealed anew under key {key}; retired keys: {}", rotated["resealed"], list("retired"))?;
    if rotated["unopened"] != 0 {
        let needed = list("needed");
        return Err(format!("{} secrets do not open and were left; old keys kept: {needed}", rotated["unopened"]).into());
    }
    Ok(())
}

async fn remote(url: reqwest::Url, token: Hidden) -> Result<Value, Box<dyn Error>> {
    let request = reqwest::Client::new().post(url.join("/ai/admin/secrets/rotate")?).header("x-admin-token", token.expose());
    let answer = request.send().await?;
    let status = answer.status();
    let body: Value = answer.json().await?;
    if !status.is_success() {
        return Err(body["error"]["message"].as_str().unwrap_or("the host refused").to_owned().into());
    }
    Ok(body["rotation"].clone())
}

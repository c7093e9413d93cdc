//! `tollhouse verify-receipt FILE|URL`.

use std::error::Error;

use serde_json::{Value, json};
use tollhouse::{base::causes::in_full, money::receipt};

use crate::cli::base::{
    error::{Error as Ended, Exit},
    out::Out,
};

/// Arguments of `verify-receipt`.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// A receipt, or an answer that has one under `receipt`: a file, an http(s) URL, or `-` for standard input
    receipt: String,
    /// The JWK set of the host that signed it: a file or URL [default: `/.well-known/jwks.json` beside a receipt's URL]
    #[arg(long)]
    keys: Option<String>,
}

pub(crate) async fn run(args: Args, out: Out) -> Result<(), Box<dyn Error>> {
    let document = read(&args.receipt).await?;
    let record = document.get("receipt").unwrap_or(&document);
    let keys = match args.keys {
        Some(keys) => keys,
        None => beside(&args.receipt)?,
    };
    let verified = receipt::verify(record, &read(&keys).await?)?;
    let record = &verified.record.draft;
    let told =
        json!({ "valid": true, "receiptId": record.receipt_id, "slug": record.slug, "priceUsd": record.price_usd, "keyId": verified.kid });
    out.tell(&told, |_| {
        format!("valid: {} of `{}`, {} USD, signed by {}\n", record.receipt_id, record.slug, record.price_usd, verified.kid)
    })?;
    Ok(())
}

/// The key set of the host at `receipt`.
fn beside(receipt: &str) -> Result<String, Box<dyn Error>> {
    let mut url = reqwest::Url::parse(receipt).map_err(|_| Ended::usage("name the host's key set with --keys FILE|URL"))?;
    url.set_path("/.well-known/jwks.json");
    url.set_query(None);
    Ok(url.into())
}

async fn read(from: &str) -> Result<Value, Box<dyn Error>> {
    let text = if from == "-" {
        std::io::read_to_string(std::io::stdin())?
    } else if from.starts_with("http://") || from.starts_with("https://") {
        let away = |error: reqwest::Error| Ended::new(Exit::Away, in_full(&error));
        reqwest::get(from).await.map_err(away)?.error_for_status()?.text().await.map_err(away)?
    } else {
        std::fs::read_to_string(from).map_err(|error| format!("`{from}`: {error}"))?
    };
    serde_json::from_str(&text).map_err(|error| format!("`{from}` is not JSON: {error}").into())
}

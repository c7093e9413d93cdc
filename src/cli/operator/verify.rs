//! `tollhouse verify-receipt FILE|URL`: verifies the signature of a receipt.

use std::error::Error;

use reqwest::Url;
use serde_json::{Value, json};
use tollhouse_money::receipt;

use crate::base::{
    answer::{Answer, is_unavailable, redirected},
    client::{ANSWER, connecting},
    error::Error as Ended,
    output::Output,
    private_files::without_mark,
};

/// Arguments of `verify-receipt`.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// File or URL with a receipt, or `-` for standard input
    receipt: String,
    /// File or URL of the host's keys [default: the receipt's host]
    #[arg(long)]
    keys: Option<String>,
}

pub(crate) async fn run(args: Args, out: Output) -> Result<(), Box<dyn Error>> {
    let document = read(&args.receipt).await?;
    let record = document.get("receipt").unwrap_or(&document);
    let keys = match args.keys {
        Some(keys) => keys,
        None => sibling(&args.receipt)?,
    };
    let verified = receipt::verify(record, &read(&keys).await?)?;
    let record = &verified.record.draft;
    let body =
        json!({ "valid": true, "receiptId": record.receipt_id, "slug": record.slug, "priceUsd": record.price_usd, "keyId": verified.kid });
    out.print(&body, |_| {
        format!("valid: {} of `{}`, {} USD, signed by {}\n", record.receipt_id, record.slug, record.price_usd, verified.kid)
    })?;
    Ok(())
}

/// Returns the URL of the key set on the host that `receipt` is on.
fn sibling(receipt: &str) -> Result<String, Box<dyn Error>> {
    let mut url = Url::parse(receipt).map_err(|_| Ended::usage("set the host's keys with --keys FILE|URL"))?;
    url.set_path("/.well-known/jwks.json");
    url.set_query(None);
    Ok(url.into())
}

async fn read(from: &str) -> Result<Value, Box<dyn Error>> {
    let text = if from == "-" {
        std::io::read_to_string(std::io::stdin())?
    } else if from.starts_with("http://") || from.starts_with("https://") {
        return Ok(fetch(from).await?);
    } else {
        std::fs::read_to_string(from).map_err(|error| format!("`{from}`: {error}"))?
    };
    let text = without_mark(text);
    serde_json::from_str(&text).map_err(|error| format!("`{from}` is not JSON: {error}").into())
}

/// Fetches a document within the limits that hold for all responses, without following redirects.
async fn fetch(from: &str) -> Result<Value, Ended> {
    let url = Url::parse(from).map_err(|error| Ended::usage(format!("`{from}` is not an address: {error}")))?;
    let request = connecting(&url, Some(ANSWER))?.get(url).timeout(ANSWER);
    let response = request.send().await.map_err(|error| is_unavailable(&error))?;
    if response.status().is_redirection() {
        return Err(redirected(response.headers()).hint("if it has moved there, use that address"));
    }
    Ok(Answer::of(response).await?.body)
}

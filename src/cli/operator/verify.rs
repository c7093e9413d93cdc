//! `tollhouse verify-receipt ID|FILE|URL`: verifies the signature of a receipt.

use std::{error::Error, path::Path};

use reqwest::Url;
use serde_json::{Value, json};
use tollhouse_base::id::ReceiptId;
use tollhouse_money::receipt;

use crate::base::{
    Answer, Error as Ended, GlobalArgs, Output, Session, client::ANSWER, connecting, is_unavailable, redirected, without_mark,
};

/// Arguments of `verify-receipt`.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Id, file or URL of a receipt, or `-` for standard input
    receipt: String,
    /// File or URL of the host's keys [default: the receipt's host]
    #[arg(long)]
    keys: Option<String>,
}

impl Args {
    /// Returns the id of the receipt if that is how it is named. A file with such a name takes precedence.
    fn id(&self) -> Option<ReceiptId> {
        self.receipt.parse::<ReceiptId>().ok().filter(|_| !Path::new(&self.receipt).exists())
    }
}

/// Verifies a receipt. Only one that is named by its id is fetched from the user's host.
pub(crate) async fn run(args: Args, global: &GlobalArgs) -> Result<(), Box<dyn Error>> {
    let (receipt, keys_of_host): (String, Option<String>) = match args.id() {
        Some(id) => {
            let client = Session::open(global)?.client;
            let at = |path: &[&str]| client.at(path).to_string();
            (at(&["ai", "receipts", id.as_str()]), Some(at(&[".well-known", "jwks.json"])))
        }
        None => {
            global.here()?;
            (args.receipt, None)
        }
    };
    let document = read(&receipt, "name a file, the URL of a receipt, or its id (rcpt_…)").await?;
    let record = document.get("receipt").unwrap_or(&document);
    let keys = match args.keys.or(keys_of_host) {
        Some(keys) => keys,
        None => sibling(&receipt)?,
    };
    let verified = receipt::verify(record, &read(&keys, "name a file or a URL").await?)?;
    let record = &verified.record.draft;
    let body =
        json!({ "valid": true, "receiptId": record.receipt_id, "slug": record.slug, "priceUsd": record.price_usd, "keyId": verified.kid });
    Output::new(global.json).print(&body, |_| {
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

/// Reads a JSON document. `hint` says how to name one, if there is no such file.
async fn read(from: &str, hint: &str) -> Result<Value, Box<dyn Error>> {
    let text = if from == "-" {
        std::io::read_to_string(std::io::stdin())?
    } else if from.starts_with("http://") || from.starts_with("https://") {
        return Ok(fetch(from).await?);
    } else {
        std::fs::read_to_string(from).map_err(|error| Ended::refused(format!("`{from}`: {error}")).hint(hint))?
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

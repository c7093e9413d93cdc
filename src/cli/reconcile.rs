//! `tollhouse reconcile`: compares the chain's transfers to the receiving address with the ledger.

use serde_json::{Value, json};

use super::base::{
    client::CredentialChoice,
    error::{Error, Result},
    session::Session,
    table::Table,
    text::{any, list, text},
};

/// Most pages that are requested, of 20,000 blocks each.
const MAX_PAGES: usize = 1_000;

/// Kinds of differences, as the response names them.
const KINDS: [&str; 3] = ["unknown", "missing", "doubled"];

/// Arguments of `reconcile`.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// From when on, such as `24h` ago or `2026-11-22` [default: 24h]
    #[arg(long, value_name = "WHEN")]
    since: Option<String>,
    /// Network, CAIP-2 or by name [default: the first that is paid on]
    #[arg(long)]
    network: Option<String>,
}

pub(crate) async fn run(session: &Session, args: Args) -> Result {
    let all = compare(session, &args).await?;
    if session.out.json {
        session.out.document(&all)?;
    } else {
        let mut table = Table::new(&["what", "transaction", ">block", "receipt", ">amount"]);
        for entry in list(&all, "unknown") {
            table.row(["unknown", text(entry, "transaction"), &any(entry, "block"), "", text(entry, "amount")]);
        }
        for entry in list(&all, "missing") {
            table.row(["missing", text(entry, "transaction"), "", text(entry, "receiptId"), text(entry, "amount")]);
        }
        for entry in list(&all, "doubled") {
            let receipts: Vec<_> = list(entry, "receiptIds").filter_map(Value::as_str).collect();
            table.row(["doubled", text(entry, "transaction"), "", &receipts.join(" "), ""]);
        }
        session.out.table(&table, "chain and ledger agree")?;
        session.out.note(&format!(
            "{} transfers and {} receipts on {}, blocks {} to {}",
            any(&all, "transfers"),
            any(&all, "receipts"),
            text(&all, "network"),
            any(&all, "fromBlock"),
            any(&all, "toBlock"),
        ));
    }
    match all["agrees"].as_bool() {
        Some(true) => Ok(()),
        _ if all["truncated"] == true => Err(Error::refused("more differs than one request lists: reconcile a shorter time".to_owned())),
        _ => Err(Error::refused("chain and ledger do not agree".to_owned())),
    }
}

/// Gets all pages and combines them into one document.
async fn compare(session: &Session, args: &Args) -> Result<Value> {
    let (mut all, mut cursor) = (Value::Null, None::<String>);
    for _ in 0..MAX_PAGES {
        let asking =
            session.client.get(&["ai", "admin", "reconciliation"]).by(CredentialChoice::Admin).query_opt("network", args.network.as_ref());
        let asking = match &cursor {
            Some(cursor) => asking.query("cursor", cursor),
            None => asking.query_opt("since", args.since.as_ref()),
        };
        let mut page = asking.send().await?.body;
        cursor = page["nextCursor"].as_str().map(str::to_owned);
        if let Some(page) = page.as_object_mut() {
            page.remove("nextCursor");
        }
        if all.is_null() {
            all = page;
        } else {
            for kind in KINDS {
                let more = page[kind].as_array().cloned().unwrap_or_default();
                if let Some(known) = all[kind].as_array_mut() {
                    known.extend(more);
                }
            }
            for count in ["transfers", "receipts"] {
                all[count] = json!(all[count].as_u64().unwrap_or(0) + page[count].as_u64().unwrap_or(0));
            }
            all["toBlock"] = page["toBlock"].clone();
            all["agrees"] = json!(all["agrees"] == true && page["agrees"] == true);
            all["truncated"] = json!(all["truncated"] == true || page["truncated"] == true);
        }
        if cursor.is_none() {
            return Ok(all);
        }
    }
    Err(Error::refused(format!("more than {MAX_PAGES} pages: reconcile a shorter time")))
}

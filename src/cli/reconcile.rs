//! `tollhouse reconcile`: compares the chain's transfers to the receiving address with the ledger.

use tollhouse_api::Reconciliation;
use tollhouse_base::plural::{plural, plural_range};

use super::base::{CredentialChoice, Error, Result, Session, Table};

/// Maximum number of pages that are requested, of 20,000 blocks each.
const MAX_PAGES: usize = 1_000;

/// Arguments of `reconcile`.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Start, as `24h` (ago) or `2026-11-22` [default: 24h]
    #[arg(long, value_name = "WHEN")]
    since: Option<String>,
    /// Network, as CAIP-2 or name [default: the host's first]
    #[arg(long)]
    network: Option<String>,
}

pub(crate) async fn run(session: &Session, args: Args) -> Result {
    let all = compare(session, &args).await?;
    if session.out.json {
        session.out.document(&all)?;
    } else {
        let mut table = Table::new(&["what", "transaction", ">block", "receipt", ">amount"]);
        for transfer in &all.unknown {
            table.row(["unknown", &transfer.transaction, &transfer.block.to_string(), "", &transfer.amount]);
        }
        for transfer in &all.missing {
            table.row(["missing", &transfer.transaction, "", transfer.receipt_id.as_str(), &transfer.amount]);
        }
        for transaction in &all.doubled {
            table.row(["doubled", &transaction.transaction, "", &transaction.receipt_ids.join(" "), ""]);
        }
        session.out.table(&table, "chain and ledger agree")?;
        let Reconciliation { transfers, receipts, network, from_block, to_block, .. } = &all;
        let (transfers, receipts) = (plural(transfers, "transfer"), plural(receipts, "receipt"));
        let blocks = plural_range("block", *from_block, *to_block);
        session.out.note(&format!("{transfers} and {receipts} on {network}, {blocks}"));
    }
    match all {
        Reconciliation { agrees: true, .. } => Ok(()),
        Reconciliation { truncated: true, .. } => Err(Error::refused("too many differences or events; reconcile a shorter period")),
        _ => Err(Error::refused("chain and ledger differ")),
    }
}

/// Gets all pages and combines them into one.
async fn compare(session: &Session, args: &Args) -> Result<Reconciliation> {
    let (mut all, mut cursor) = (None::<Reconciliation>, None);
    for _ in 0..MAX_PAGES {
        let asking = session.client.get(&["ai", "admin", "reconciliation"]).by(CredentialChoice::Admin);
        let asking = asking.query_opt("network", args.network.as_ref());
        let asking = match &cursor {
            Some(cursor) => asking.query("cursor", cursor),
            None => asking.query_opt("since", args.since.as_ref()),
        };
        let mut page: Reconciliation = asking.send().await?.body;
        cursor = page.next_cursor.take();
        let sum = match all.take() {
            None => page,
            Some(mut sum) => {
                sum.unknown.append(&mut page.unknown);
                sum.missing.append(&mut page.missing);
                sum.doubled.append(&mut page.doubled);
                sum.transfers += page.transfers;
                sum.receipts += page.receipts;
                sum.to_block = page.to_block;
                sum.agrees &= page.agrees;
                sum.truncated |= page.truncated;
                sum
            }
        };
        if cursor.is_none() {
            return Ok(sum);
        }
        all = Some(sum);
    }
    Err(Error::refused(format!("more than {MAX_PAGES} pages; reconcile a shorter period")))
}

//! `tollhouse key`: the key that pays. It is in a private file and is referred to by its address.

use std::path::{Path, PathBuf};

use alloy_primitives::U256;
use serde_json::json;
use tollhouse_api::{FaucetRequest, SimulatedBalance};
use tollhouse_money::Asset;
use tollhouse_tool::MicroUsd;

use super::{
    base::{CredentialChoice, Error, Profile, Result, Session, dollars},
    pay::{PaymentLimits, chain, key_file, usd},
};

/// Arguments of `key`.
#[derive(clap::Args)]
pub(crate) struct Args {
    #[command(subcommand)]
    action: KeyAction,
    /// File with the paying key [default: the profile's or pay.key]
    #[arg(long, value_name = "FILE", global = true)]
    key_file: Option<PathBuf>,
}

#[derive(clap::Subcommand)]
enum KeyAction {
    /// Create a key in a new file, and show its address
    New,
    /// Show the address and the file of the key
    Show,
    /// Show the balance of the key
    Balance,
    /// Get play money from the faucet of a simulated host
    Fund {
        /// Amount in US dollars
        #[arg(value_parser = dollars)]
        amount: MicroUsd,
    },
}

fn print_address(session: &Session, address: &str, file: &Path) -> Result {
    let body = json!({ "address": address, "file": file.display().to_string() });
    session.out.print(&body, |_| format!("{address}  in {}\n", file.display()))
}

pub(crate) async fn run(session: &Session, args: Args) -> Result {
    let path = key_file::path(args.key_file.as_deref(), session.profile.key_file.as_deref())?;
    if let KeyAction::New = args.action {
        let address = key_file::create(&path)?.address().to_string();
        return print_address(session, &address, &path);
    }
    let address = key_file::read(&path)?.address().to_string();
    let limits = PaymentLimits::of(session.spends_as(), &session.profile, None)?;
    match args.action {
        KeyAction::New => Ok(()),
        KeyAction::Show => print_address(session, &address, &path),
        KeyAction::Balance => {
            let token = limits.token()?;
            let (balance, simulated) = balance(session, token, &address).await?;
            let body = json!({
                "address": address, "balanceUsd": balance, "symbol": token.symbol, "network": token.network.caip2, "simulated": simulated,
            });
            let money = if simulated { " (simulated)" } else { "" };
            session.out.print(&body, |_| format!("{} {} on {}{money}  {address}\n", usd(balance), token.symbol, token.network.caip2))
        }
        KeyAction::Fund { amount } => {
            let token = limits.token()?;
            if !token.network.is_test {
                return Err(Error::refused(format!("{} does not use play money; send {} to {address}", token.network.caip2, token.symbol)));
            }
            let request = FaucetRequest {
                address: address.clone(),
                amount_usd: amount,
                network: Some(token.network.caip2.to_owned()),
                asset: Some(token.address.to_owned()),
            };
            let asking = session.client.post(&["dev", "faucet"]).by(CredentialChoice::Everyone).json(&request);
            let answer = asking.find("not_found").await?;
            let answer =
                answer.ok_or_else(|| Error::refused(format!("{} has no faucet, because its money is not simulated", session.host())))?;
            session.out.print(&answer.body, |SimulatedBalance { balance_usd, .. }| {
                format!("{address} got {} (simulated), balance {}\n", usd(amount), usd(*balance_usd))
            })
        }
    }
}

/// Returns the balance of an address, and whether it is on a simulated ledger.
async fn balance(session: &Session, token: &'static Asset, address: &str) -> Result<(MicroUsd, bool)> {
    if let Profile { rpc_url: Some(node), .. } = &session.profile {
        let atomic: U256 = chain::balance(node, token, address).await?;
        let worth = u128::try_from(atomic).ok().and_then(|atomic| token.worth(atomic));
        return worth.map(|worth| (worth, false)).ok_or_else(|| Error::refused("the amount is too large"));
    }
    let unreported = || {
        let error =
            Error::refused(format!("cannot read the balance of {address} on {}: no node of that chain is configured", token.network.caip2));
        error.hint("set `rpc_url` in the profile in config.toml")
    };
    if !token.network.is_test {
        return Err(unreported());
    }
    let request = session.client.get(&["dev", "faucet"]).by(CredentialChoice::Everyone).query("address", address);
    let request = request.query("network", token.network.caip2).query("asset", token.address);
    let answer = request.find::<SimulatedBalance>("not_found").await?;
    answer.map(|answer| (answer.body.balance_usd, true)).ok_or_else(unreported)
}

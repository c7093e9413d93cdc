//! `tollhouse key`: the key that pays. It is in a private file and is referred to by its address.

use std::path::{Path, PathBuf};

use alloy_primitives::U256;
use serde_json::json;
use tollhouse_money::Asset;
use tollhouse_tool::MicroUsd;

use super::{
    base::{
        client::CredentialChoice,
        error::{Error, Result},
        profile::Profile,
        session::Session,
    },
    pay::{
        chain, key_file,
        limits::PaymentLimits,
        money::{dollars, usd},
    },
};

/// What is done with it.
#[derive(clap::Args)]
pub(crate) struct Args {
    #[command(subcommand)]
    does: KeyAction,
    /// File of the key [default: TOLLHOUSE_PAY_KEY_FILE, the profile's, else `pay.key` beside `config.toml`]
    #[arg(long, value_name = "FILE", global = true)]
    key_file: Option<PathBuf>,
}

#[derive(clap::Subcommand)]
enum KeyAction {
    /// Makes a key, in a file that is not there yet, and tells its address.
    New,
    /// Tells its address, and where it is.
    Show,
    /// Tells what its address has, by the simulated ledger or by the profile's node.
    Balance,
    /// Has the faucet of a simulated host give it play money.
    Fund {
        /// Dollars
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
    if let KeyAction::New = args.does {
        let address = key_file::create(&path)?.address().to_string();
        return print_address(session, &address, &path);
    }
    let address = key_file::read(&path)?.address().to_string();
    let means = PaymentLimits::of(session.spends_as(), &session.profile, None)?;
    match args.does {
        KeyAction::New => Ok(()),
        KeyAction::Show => print_address(session, &address, &path),
        KeyAction::Balance => {
            let token = means.token()?;
            let (balance, simulated) = balance(session, token, &address).await?;
            let body = json!({
                "address": address, "balanceUsd": balance, "symbol": token.symbol, "network": token.network.caip2, "simulated": simulated,
            });
            let money = if simulated { " (simulated)" } else { "" };
            session.out.print(&body, |_| format!("{} {} on {}{money}  {address}\n", usd(balance), token.symbol, token.network.caip2))
        }
        KeyAction::Fund { amount } => {
            let token = means.token()?;
            if !token.network.is_test {
                return Err(Error::refused(format!(
                    "{} is no network of play money: send {} to {address}",
                    token.network.caip2, token.symbol
                )));
            }
            let requested = json!({ "address": address, "amountUsd": amount, "network": token.network.caip2, "asset": token.address });
            let request = session.client.post(&["dev", "faucet"]).by(CredentialChoice::Everyone).json(&requested).send().await;
            let answer = request.map_err(|error| without_faucet(session, error))?;
            session.out.print(&answer.body, |answer| {
                let has = answer["balanceUsd"].as_f64().and_then(|usd| MicroUsd::from_usd(usd).ok());
                let has = has.map(|has| format!(", has {}", usd(has))).unwrap_or_default();
                format!("{address} was given {} (simulated){has}\n", usd(amount))
            })
        }
    }
}

/// Returns the balance of an address, and whether it is on a simulated ledger.
async fn balance(session: &Session, token: &'static Asset, address: &str) -> Result<(MicroUsd, bool)> {
    if let Profile { rpc_url: Some(node), .. } = &session.profile {
        let atomic: U256 = chain::balance(node, token, address).await?;
        let worth = u128::try_from(atomic).ok().and_then(|atomic| token.worth(atomic));
        return worth.map(|worth| (worth, false)).ok_or_else(|| Error::refused("it is more than can be counted"));
    }
    let unreported = || {
        let error = Error::refused(format!("what {address} has on {} cannot be told: nobody here sees that chain", token.network.caip2));
        error.hint("name a node of it as `rpc_url` of the profile in config.toml")
    };
    if !token.network.is_test {
        return Err(unreported());
    }
    let request = session.client.get(&["dev", "faucet"]).by(CredentialChoice::Everyone).query("address", address);
    let request = request.query("network", token.network.caip2).query("asset", token.address).send().await;
    let answer = match request {
        Ok(answer) => answer,
        Err(error) if error.code() == "not_found" => return Err(unreported()),
        Err(error) => return Err(error),
    };
    let balance = answer.body["balanceUsd"].as_f64().and_then(|usd| MicroUsd::from_usd(usd).ok());
    balance.map(|balance| (balance, true)).ok_or_else(|| Error::refused("the host tells no balance that reads"))
}

fn without_faucet(session: &Session, error: Error) -> Error {
    match error.code() {
        "not_found" => Error::refused(format!("{} has no faucet: its money is not simulated", session.host())),
        _ => error,
    }
}

//! `tollhouse doctor`: checks this machine, its database and facilitators, and says what is missing and how to get it.
//! Also checks how the host looks to indexers.

mod engine;
mod findings;
mod nodes;
mod objects;
mod profile;
mod public;
mod unresolved;

use std::{collections::BTreeSet, error::Error, path::PathBuf};

use serde_json::json;
use tollhouse_app as app;
use tollhouse_config as config;
use tollhouse_config::{Flags, MoneyFlags, MoneySettings};
use tollhouse_front as front;
use tollhouse_money::{FacilitatorKind, Family, GasLimits, MoneyKind};
use tollhouse_operate::{
    clock, database,
    finding::{Finding, Level},
    machine, modes, volume,
};
use tollhouse_store::postgres::PostgresConfig;

use self::findings::Findings;
use crate::base::{Error as Ended, Output};

/// Arguments of `doctor`: those of the host to check.
#[derive(clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    flags: Flags,
    /// Settings file
    #[arg(long, default_value = config::FILE)]
    config: PathBuf,
    /// Check only how indexers see the host [default: its base URL]
    #[arg(long, num_args = 0..=1, value_name = "URL", default_missing_value = "")]
    public: Option<String>,
    /// Also check the host and the credential of this profile
    #[arg(long, value_name = "NAME", conflicts_with = "public")]
    profile: Option<String>,
}

pub(crate) async fn run(args: Args, out: Output) -> Result<(), Box<dyn Error>> {
    let flags = args.flags.over_file(&args.config)?;
    let mut reported = Findings::new(out);
    match args.public {
        Some(url) => {
            let base = Some(url).filter(|url| !url.is_empty()).or(flags.host.base_url);
            let base = base.ok_or_else(|| Ended::usage("set the public URL: `--public URL` or TOLLHOUSE_BASE_URL"))?;
            reported.add(public::examine(&base).await)?;
        }
        None => {
            // Report a missing profile immediately.
            let files = crate::private_files_of_profiles(args.profile.as_deref())?;
            machine_of(flags, &mut reported).await?;
            profile::examine(args.profile.as_deref(), files, &mut reported).await?;
        }
    }
    let count = |level| reported.found.iter().filter(|finding| finding.level == level).count();
    let (warns, fails) = (count(Level::Warn), count(Level::Fail));
    if out.json {
        out.document(&json!({ "findings": reported.found, "warns": warns, "fails": fails }))?;
    }
    let mut parts: Vec<_> = reported.found.iter().filter(|finding| finding.level == Level::Fail).map(|finding| finding.part).collect();
    parts.dedup();
    match fails {
        0 => Ok(()),
        _ => Err(format!("fix the failed checks before you run a host: {}", parts.join(", ")).into()),
    }
}

/// Checks everything that a host depends on here.
async fn machine_of(flags: Flags, reported: &mut Findings) -> Result<(), Box<dyn Error>> {
    let worker = "build it with `cargo xtask serve`, or set its path in TOLLHOUSE_WORKER";
    match flags.sandbox.clone().resolve() {
        Ok(sandbox) => engine::examine(&sandbox, reported).await?,
        Err(error) => reported.add([Finding::error("engine", &error, worker)])?,
    }
    reported.add([clock::examine()])?;
    let home = flags.clone().home();
    match &home {
        Ok(home) => {
            reported.add(volume::examine(&home.data, home.store.reserved_bytes))?;
            reported.add(modes::examine(&home.data, &named_keys(&flags)))?;
            reported.add(unresolved::examine(&home.data).await)?;
        }
        Err(error) => reported.add([Finding::error("settings", error, "`tollhouse serve --check` shows the source of each setting")])?,
    }
    reported.add(machine::examine())?;
    reported.add(reached(flags.clone()))?;
    if let Ok(home) = &home {
        let mut is_reachable = true;
        if let Some(config) = &home.database {
            let away = "check the address, the user, the password, and that this machine can reach the database";
            let examined = database::examine(config).await;
            is_reachable = examined.is_ok();
            match examined {
                Ok(examined) => reported.add(examined.findings())?,
                Err(error) => reported.add([Finding::error("database", &error, away)])?,
            }
            reported.add(store_money(config, &flags).await)?;
        }
        if is_reachable {
            reported.add(objects::examine(home).await)?;
        }
    }
    reported.add(facilitators(flags.money, flags.host.listen).await)?;
    Ok(())
}

/// Compares the money in a database, and the settings of its hosts, with the settings here. Errors of either are reported elsewhere.
async fn store_money(database: &PostgresConfig, flags: &Flags) -> Vec<Finding> {
    let Ok(settings) = flags.money.clone().settled(flags.host.listen) else { return Vec::new() };
    let Ok(Some(money)) = app::money_in(database, &settings).await else { return Vec::new() };
    let kind = money.kind.map(|theirs| kind_of_money(settings.kind(), theirs));
    let shared = match money.shared {
        Ok(false) => None,
        Ok(true) => Some(Finding::ok("database", "its hosts have the same settings for payments")),
        Err(error) => Some(Finding::error("database", &error, "compare the settings of the hosts: `tollhouse serve --check`")),
    };
    kind.into_iter().chain(shared).chain([unresolved::finding(money.unresolved)]).collect()
}

fn kind_of_money(ours: MoneyKind, theirs: MoneyKind) -> Finding {
    if ours == theirs {
        return Finding::ok("database", format!("the store contains {theirs}, as the settings say"));
    }
    let text = format!("the store contains {theirs}, and the settings are for {ours}, so the host does not start");
    Finding::fail("database", text, format!("set TOLLHOUSE_STORE to another database; or, for this store, {}", theirs.settings()))
}

/// Warns of an untrusted proxy, as far as the settings reveal one. Invalid settings are reported elsewhere.
fn reached(flags: Flags) -> Option<Finding> {
    let settings = flags.resolve().ok()?;
    let warning = front::before_a_proxy(&settings.http.proxies, settings.listen.ip(), settings.base_url.as_deref())?;
    Some(Finding::warn("proxy", warning.message, warning.remedy))
}

/// Returns key files that are not in the data folder.
fn named_keys(flags: &Flags) -> Vec<PathBuf> {
    let secret = &flags.secret;
    let telemetry = &flags.telemetry;
    let named = [&flags.account.admin_token_file, &secret.master_key_file, &secret.receipt_key_file, &telemetry.metrics_token_file];
    named.into_iter().chain([&flags.money.gas_key_file, &flags.host.store_password_file]).flatten().cloned().collect()
}

/// Warns about facilitators whose answers cannot be verified.
fn look_ups(settings: &MoneySettings) -> impl Iterator<Item = Finding> {
    settings.networks.iter().filter(|on| on.facilitator == FacilitatorKind::Http && on.rpc_url.is_none()).map(|on| {
        let (text, remedy) = match on.network.family {
            Family::Evm { .. } => (
                "no node is set, so the facilitator's answers cannot be verified; a settlement that it does not report stays open",
                "set a node of the network in TOLLHOUSE_RPC_URL or TOLLHOUSE_NETWORK_RPC_URLS".to_owned(),
            ),
            Family::Solana => (
                "the facilitator's answers cannot be verified on this network; a settlement that it does not report stays open",
                "resolve such settlements with `tollhouse settlements`".to_owned(),
            ),
        };
        Finding::warn("node", text, remedy).of(on.network.caip2)
    })
}

/// Warns if the host pays for gas and a limit on burned gas is off.
fn gas_bounds(settings: &MoneySettings) -> Option<Finding> {
    // The limit per address is off on loopback, where all callers share one.
    let GasLimits { of_payer, of_address: _, of_builder, of_all, reverts } = settings.gas;
    let off: Vec<_> = [
        (of_payer.is_none(), "--payer-burned-gas"),
        (of_builder.is_none(), "--builder-burned-gas"),
        (of_all.is_none(), "--burned-gas"),
        (reverts.is_none(), "--payer-reverts"),
    ]
    .into_iter()
    .filter_map(|(is_off, setting)| is_off.then_some(setting))
    .collect();
    if off.is_empty() || !settings.networks.iter().any(|on| on.facilitator.sends_transactions()) {
        return None;
    }
    let text = format!(
        "{} 0: settlements that do not pay can burn gas without limit",
        off.join(", ") + if off.len() == 1 { " is" } else { " are" }
    );
    Some(Finding::warn("gas", text, "remove the setting, or set the maximum gas that you accept to lose in an hour"))
}

/// Warns of real networks where the host pays the gas of settlements, however little they bring.
fn unweighed(settings: &MoneySettings) -> impl Iterator<Item = Finding> {
    let unweighed =
        settings.networks.iter().filter(|on| on.facilitator.sends_transactions() && !on.network.is_test && on.least_settlement.is_zero());
    unweighed.map(|on| {
        let text = "`--least-settlement-usd` is 0: payments below their gas cost are settled without limit";
        let remedy = "set it to the gas cost of a settlement there; for lower prices, use developer credit or an `http` facilitator";
        Finding::warn("gas", text, remedy).of(on.network.caip2)
    })
}

async fn facilitators(money: MoneyFlags, listen: Option<std::net::SocketAddr>) -> Vec<Finding> {
    let settings = match money.settled(listen) {
        Ok(settings) => settings,
        Err(error) => return vec![Finding::error("facilitator", &error, "`tollhouse serve --check` shows the source of each setting")],
    };
    let describe = |(network, reached): (&'static str, tollhouse_money::ReachReport)| {
        let finding = match reached.settles {
            true => Finding::ok("facilitator", reached.schemes),
            false => Finding::fail("facilitator", reached.schemes, reached.remedy),
        };
        finding.of(network)
    };
    let reached = app::reach(&settings).await;
    let mut found: Vec<_> = reached.iter().cloned().map(describe).collect();
    found.extend(reached.iter().flat_map(|(network, reached)| nodes::examine(network, reached)));
    found.extend(reached.into_iter().filter_map(|(network, reached)| {
        let text = format!("the node does not estimate gas, so payments cannot be simulated and are refused: {}", reached.no_estimate?);
        Some(Finding::warn("gas", text, "set another node in TOLLHOUSE_RPC_URL or TOLLHOUSE_NETWORK_RPC_URLS").of(network))
    }));
    found.extend(look_ups(&settings));
    found.extend(gas_bounds(&settings));
    found.extend(unweighed(&settings));
    let receivers: BTreeSet<_> = settings.networks.iter().flat_map(|network| &network.accepted).map(|accepted| &*accepted.pay_to).collect();
    // Nothing on a chain shows which stores accept payments at an address.
    found.extend(receivers.into_iter().map(|address| {
        Finding::ok(
            "payTo",
            format!("payments go to {address}; do not use this address in another store, or one payment is accepted by both"),
        )
    }));
    found
}

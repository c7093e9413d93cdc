//! Routes from the table: found forwards, computed backwards.

use async_trait::async_trait;
use tollhouse_tool::MicroUsd;

use super::{
    Cost, Due, Handoff, Holding, Route, RouteError, RouteProvider, Start, Step, Way,
    amount::decimal,
    table::{self, AS_OF, By, PLACES, Place, SWAP_PPM},
};

/// The asset that bridges deliver.
const BRIDGED: &str = "USDC";

/// Duration of a payment in seconds.
const PAY_SECONDS: u64 = 2;

/// Routes from the embedded table, without requests.
#[derive(Debug, Clone, Copy)]
pub struct TableRoutes;

#[async_trait]
impl RouteProvider for TableRoutes {
    async fn route(&self, start: &Start, due: &Due) -> Result<Route, RouteError> {
        found(start, due)
    }

    fn asks(&self) -> bool {
        false
    }
}

/// A conversion of the table, with its cost.
struct Hop {
    kind: &'static str,
    from: (&'static Place, &'static str),
    to: (&'static Place, &'static str),
    ppm: u64,
    fee: u64,
    seconds: u64,
}

fn found(start: &Start, due: &Due) -> Result<Route, RouteError> {
    let target = table::place(&due.network).filter(|_| due.symbol == BRIDGED);
    let target = target.ok_or_else(|| RouteError::NoRoute(format!("no way to {} on {} is in the table", due.symbol, due.network)))?;
    let from = from(start, target)?;
    let asset = held(start, from)?;
    let mut notes = vec!["Rates and fees are typical ones, and nobody has offered them: look before you move money.".to_owned()];
    let landing = landing(from, target, &mut notes)?;
    let hops = if due.value.is_zero() { vec![] } else { hops(from, asset, landing) };
    let (steps, needed) = priced(&hops, due.value);
    let cost = MicroUsd(needed.0 - due.value.0);
    if hops.is_empty() {
        notes.push("Nothing to convert: pay directly.".to_owned());
    } else if cost > due.value {
        let calls = (cost.0 * 20).div_ceil(due.value.0);
        notes.push(format!(
            "Getting there costs more than the call: bring enough for many calls at once. {calls} calls make the fixed costs about 5 % of the price."
        ));
    }
    let start = if hops.is_empty() { Holding::arrived(due, landing.name) } else { holding(from, asset, needed) };
    Ok(Route {
        provider: "table",
        indicative: true,
        rates_as_of: Some(AS_OF),
        handoff: handoff(from, &steps, due),
        start,
        settlement: due.into(),
        route: Way { seconds: steps.iter().map(|step| step.seconds).sum::<u64>() + PAY_SECONDS, steps },
        estimated_cost: Cost { cost_usd: cost, all_in_usd: needed },
        notes,
    })
}

fn from(start: &Start, target: &'static Place) -> Result<&'static Place, RouteError> {
    let Some(called) = &start.network else { return Ok(target) };
    table::place(called).ok_or_else(|| {
        let known: Vec<_> = PLACES.iter().map(|place| place.ids[0].to_owned()).collect();
        let message = format!("`startNetwork` is not in the table; use one of {}", known.join(", "));
        RouteError::Start { pointer: "/startNetwork", message, known }
    })
}

fn held(start: &Start, from: &'static Place) -> Result<&'static str, RouteError> {
    let called = start.asset.as_deref().unwrap_or(BRIDGED).trim().to_uppercase();
    from.assets.iter().copied().find(|symbol| *symbol == called).ok_or_else(|| {
        let message = format!("`startAsset` is not in the table for {}; use one of {}", from.name, from.assets.join(", "));
        RouteError::Start { pointer: "/startAsset", message, known: from.assets.iter().map(|&symbol| symbol.to_owned()).collect() }
    })
}

/// Returns where the route ends: the target, or the substitute for a test network.
fn landing(from: &'static Place, target: &'static Place, notes: &mut Vec<String>) -> Result<&'static Place, RouteError> {
    let same = std::ptr::eq(from, target);
    match (from.exit.by, target.exit.by) {
        (By::Nothing(_), _) if same => {
            notes.push(format!("{} is a test network: its money is worth nothing.", target.name));
            Ok(target)
        }
        (By::Nothing(_), _) => Err(RouteError::NoRoute(format!("{} is a test network: its money is worth nothing elsewhere", from.name))),
        (_, By::Nothing(main)) => {
            let main = table::place(main).unwrap_or(target);
            notes.push(format!(
                "{} is a test network, whose money comes from a faucet and not by this route: it leads to {}, as it would if payments settled there.",
                target.name, main.name
            ));
            Ok(main)
        }
        (By::Bridge | By::Withdraw | By::Buy, By::Bridge | By::Withdraw | By::Buy) => Ok(target),
    }
}

/// Returns the conversions of a route. A bank or exchange converts and moves in one step. Otherwise it is a swap, then
/// a bridge.
fn hops(from: &'static Place, asset: &'static str, to: &'static Place) -> Vec<Hop> {
    let (mut hops, exit) = (vec![], &from.exit);
    let custodial = matches!(exit.by, By::Withdraw | By::Buy);
    if asset != BRIDGED && !custodial {
        hops.push(Hop { kind: "swap", from: (from, asset), to: (from, BRIDGED), ppm: SWAP_PPM, fee: from.gas, seconds: from.seconds });
    }
    if !std::ptr::eq(from, to) {
        let kind = match exit.by {
            By::Bridge | By::Nothing(_) => "bridge",
            By::Withdraw => "withdraw",
            By::Buy => "buy",
        };
        let nothing_to_sell = exit.by == By::Withdraw && asset == BRIDGED;
        hops.push(Hop {
            kind,
            from: (from, if custodial { asset } else { BRIDGED }),
            to: (to, BRIDGED),
            ppm: if nothing_to_sell { 0 } else { exit.ppm },
            fee: exit.fee + from.gas,
            seconds: exit.seconds + from.seconds,
        });
    }
    hops
}

/// Returns the steps with their amounts, and the amount to spend. Each step must deliver what the next one spends.
fn priced(hops: &[Hop], due: MicroUsd) -> (Vec<Step>, MicroUsd) {
    let mut needed = due;
    let mut steps: Vec<_> = hops
        .iter()
        .enumerate()
        .rev()
        .map(|(place, hop)| {
            let receive = needed;
            needed = before(receive, hop);
            Step {
                step: place + 1,
                kind: hop.kind,
                by: None,
                spend: holding(hop.from.0, hop.from.1, needed),
                receive: holding(hop.to.0, hop.to.1, receive),
                cost_usd: MicroUsd(needed.0 - receive.0),
                seconds: hop.seconds,
            }
        })
        .collect();
    steps.reverse();
    (steps, needed)
}

/// Returns the input for an output of `out`, before a proportional and a fixed fee.
fn before(out: MicroUsd, hop: &Hop) -> MicroUsd {
    let whole = u128::from(out.0) + u128::from(hop.fee);
    let needed = (whole * 1_000_000).div_ceil(u128::from(1_000_000 - hop.ppm));
    MicroUsd(u64::try_from(needed).unwrap_or(u64::MAX))
}

/// Returns the amount of an asset worth `usd`, rounded up to its smallest unit.
fn holding(place: &Place, symbol: &str, usd: MicroUsd) -> Holding {
    let asset = table::known(symbol);
    let units = (u128::from(usd.0) * 10_u128.pow(asset.decimals)).div_ceil(u128::from(asset.price));
    let amount = decimal(units, asset.decimals);
    Holding { network: place.name.to_owned(), asset: symbol.to_owned(), amount, usd }
}

fn handoff(from: &Place, steps: &[Step], due: &Due) -> Handoff {
    let said = |Holding { network, asset, amount, .. }: &Holding| format!("{amount} {asset} on {network}");
    let mut actions: Vec<_> =
        steps.iter().map(|step| format!("{}: {} becomes {}.", step.kind, said(&step.spend), said(&step.receive))).collect();
    actions.push(due.last_action().to_owned());
    let kind = match (from.exit.by, steps) {
        (_, []) => "none",
        (By::Bridge | By::Nothing(_), _) => "wallet",
        (By::Withdraw, _) => "exchange",
        (By::Buy, _) => "bank",
    };
    Handoff { kind, actions, transaction_request: None }
}

//! Routes from the table: found forwards, computed backwards.

use async_trait::async_trait;
use tollhouse_tool::MicroUsd;

use super::{
    AmountDue, Handoff, Holding, Route, RouteCost, RouteError, RouteProvider, RouteStart, RouteStep, RouteSteps,
    amount::decimal,
    table::{self, AS_OF, Mover, PLACES, SWAP_PPM, Venue},
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
    async fn route(&self, start: &RouteStart, due: &AmountDue) -> Result<Route, RouteError> {
        found(start, due)
    }

    fn is_remote(&self) -> bool {
        false
    }
}

struct Hop {
    kind: &'static str,
    from: (&'static Venue, &'static str),
    to: (&'static Venue, &'static str),
    ppm: u64,
    fee: u64,
    seconds: u64,
}

fn found(start: &RouteStart, due: &AmountDue) -> Result<Route, RouteError> {
    let (symbol, network) = (due.asset.symbol, due.asset.network.caip2);
    let target = table::place(network).filter(|_| symbol == BRIDGED);
    let target = target.ok_or_else(|| RouteError::NoRoute(format!("the table has no route to {symbol} on {network}")))?;
    let from = from(start, target)?;
    let asset = held(start, from)?;
    let mut notes = vec!["Rates and fees are typical values, not offers: check them before you move money.".to_owned()];
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
        route: RouteSteps { seconds: steps.iter().map(|step| step.seconds).sum::<u64>() + PAY_SECONDS, steps },
        estimated_cost: RouteCost { cost_usd: cost, all_in_usd: needed },
        notes,
    })
}

fn from(start: &RouteStart, target: &'static Venue) -> Result<&'static Venue, RouteError> {
    let Some(called) = &start.network else { return Ok(target) };
    table::place(called).ok_or_else(|| {
        let known: Vec<_> = PLACES.iter().map(|position| position.ids[0].to_owned()).collect();
        let message = format!("`startNetwork` is not in the table; use one of {}", known.join(", "));
        RouteError::Start { pointer: "/startNetwork", message, known }
    })
}

fn held(start: &RouteStart, from: &'static Venue) -> Result<&'static str, RouteError> {
    let called = start.asset.as_deref().unwrap_or(BRIDGED).trim().to_uppercase();
    from.assets.iter().copied().find(|symbol| *symbol == called).ok_or_else(|| {
        let message = format!("`startAsset` is not in the table for {}; use one of {}", from.name, from.assets.join(", "));
        RouteError::Start { pointer: "/startAsset", message, known: from.assets.iter().map(|&symbol| symbol.to_owned()).collect() }
    })
}

/// Returns where the route ends: the target, or the substitute for a test network.
fn landing(from: &'static Venue, target: &'static Venue, notes: &mut Vec<String>) -> Result<&'static Venue, RouteError> {
    let same = std::ptr::eq(from, target);
    match (from.exit.by, target.exit.by) {
        (Mover::Nothing(_), _) if same => {
            notes.push(format!("{} is a test network: its money is worth nothing.", target.name));
            Ok(target)
        }
        (Mover::Nothing(_), _) => {
            Err(RouteError::NoRoute(format!("{} is a test network, so its money is worth nothing elsewhere", from.name)))
        }
        (_, Mover::Nothing(main)) => {
            let main = table::place(main).unwrap_or(target);
            notes.push(format!(
                "{} is a test network, whose money comes from a faucet and not by this route: it leads to {}, as it would if payments settled there.",
                target.name, main.name
            ));
            Ok(main)
        }
        (Mover::Bridge | Mover::Withdraw | Mover::Buy, Mover::Bridge | Mover::Withdraw | Mover::Buy) => Ok(target),
    }
}

/// Returns the conversions of a route. A bank or exchange converts and moves in one step. Otherwise it is a swap, then
/// a bridge.
fn hops(from: &'static Venue, asset: &'static str, to: &'static Venue) -> Vec<Hop> {
    let (mut hops, exit) = (vec![], &from.exit);
    let custodial = matches!(exit.by, Mover::Withdraw | Mover::Buy);
    if asset != BRIDGED && !custodial {
        hops.push(Hop { kind: "swap", from: (from, asset), to: (from, BRIDGED), ppm: SWAP_PPM, fee: from.gas, seconds: from.seconds });
    }
    if !std::ptr::eq(from, to) {
        let kind = match exit.by {
            Mover::Bridge | Mover::Nothing(_) => "bridge",
            Mover::Withdraw => "withdraw",
            Mover::Buy => "buy",
        };
        let nothing_to_sell = exit.by == Mover::Withdraw && asset == BRIDGED;
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
fn priced(hops: &[Hop], due: MicroUsd) -> (Vec<RouteStep>, MicroUsd) {
    let mut needed = due;
    let mut steps: Vec<_> = hops
        .iter()
        .enumerate()
        .rev()
        .map(|(position, hop)| {
            let receive = needed;
            needed = before(receive, hop);
            RouteStep {
                step: position + 1,
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
fn holding(position: &Venue, symbol: &str, usd: MicroUsd) -> Holding {
    let asset = table::known(symbol);
    let units = (u128::from(usd.0) * 10_u128.pow(asset.decimals)).div_ceil(u128::from(asset.price));
    let amount = decimal(units, asset.decimals);
    Holding { network: position.name.to_owned(), asset: symbol.to_owned(), amount, usd }
}

fn handoff(from: &Venue, steps: &[RouteStep], due: &AmountDue) -> Handoff {
    let describe = |Holding { network, asset, amount, .. }: &Holding| format!("{amount} {asset} on {network}");
    let mut actions: Vec<_> =
        steps.iter().map(|step| format!("{}: {} becomes {}.", step.kind, describe(&step.spend), describe(&step.receive))).collect();
    actions.push(due.last_action().to_owned());
    let kind = match (from.exit.by, steps) {
        (_, []) => "none",
        (Mover::Bridge | Mover::Nothing(_), _) => "wallet",
        (Mover::Withdraw, _) => "exchange",
        (Mover::Buy, _) => "bank",
    };
    Handoff { kind, actions, transaction_request: None }
}

//! Typical rates and fees of common routes on one day, without an offer.
//!
//! Gas is one transaction at usual load. A bridge takes a share and a fixed fee, like fast USDC bridges. A swap takes
//! the usual pool's 0.3 %. An exchange sells for 0.6 % and charges a withdrawal. A purchase by bank or card takes 1.5 %
//! and a fee. The demo tool `conversion-quote-demo` has the same numbers, which a test compares.

/// The date of these rates and fees.
pub(super) const AS_OF: &str = "2026-01-01";

/// Share taken by a swap, in millionths.
pub(super) const SWAP_PPM: u64 = 3_000;

#[derive(Debug)]
pub(super) struct RouteAsset {
    pub(super) symbol: &'static str,
    /// Price of one unit, in micro-dollars.
    pub(super) price: u64,
    pub(super) decimals: u32,
}

type Names = &'static [&'static str];

/// A place where funds are held.
#[derive(Debug)]
pub(super) struct Venue {
    /// Its ids. The first is the public one.
    pub(super) ids: Names,
    pub(super) name: &'static str,
    pub(super) assets: Names,
    /// Cost of a transaction, in micro-dollars.
    pub(super) gas: u64,
    /// Time until a transaction counts, in seconds.
    pub(super) seconds: u64,
    pub(super) exit: VenueExit,
}

/// How funds leave a place.
#[derive(Debug)]
pub(super) struct VenueExit {
    pub(super) by: Mover,
    /// Share taken, in millionths.
    pub(super) ppm: u64,
    /// Fixed fee in micro-dollars.
    pub(super) fee: u64,
    /// Duration in seconds.
    pub(super) seconds: u64,
}

/// The kind of service that moves funds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Mover {
    /// A bridge, which moves USDC between networks.
    Bridge,
    /// An exchange, which sells an asset and sends to any network.
    Withdraw,
    /// A service that sells tokens for money.
    Buy,
    /// None, because funds of a test network are worthless elsewhere. The place with this id is used instead.
    Nothing(&'static str),
}

const fn asset(symbol: &'static str, price: u64, decimals: u32) -> RouteAsset {
    RouteAsset { symbol, price, decimals }
}

const fn exit(by: Mover, ppm: u64, fee: u64, seconds: u64) -> VenueExit {
    VenueExit { by, ppm, fee, seconds }
}

/// Constructs a bridge with the usual share.
const fn bridge(fee: u64, seconds: u64) -> VenueExit {
    exit(Mover::Bridge, 500, fee, seconds)
}

const fn venue(ids: Names, name: &'static str, assets: Names, gas: u64, seconds: u64, exit: VenueExit) -> Venue {
    Venue { ids, name, assets, gas, seconds, exit }
}

/// The assets that most networks have.
const COMMON: Names = &["USDC", "ETH", "USDT", "DAI"];

pub(super) const ASSETS: &[RouteAsset] = &[
    asset("USDC", 1_000_000, 6),
    asset("USDT", 1_000_000, 6),
    asset("DAI", 1_000_000, 18),
    asset("ETH", 3_000_000_000, 18),
    asset("POL", 250_000, 18),
    asset("AVAX", 20_000_000, 18),
    asset("SOL", 150_000_000, 9),
    asset("BTC", 90_000_000_000, 8),
    asset("USD", 1_000_000, 2),
    asset("EUR", 1_100_000, 2),
    asset("GBP", 1_250_000, 2),
];

pub(super) const PLACES: &[Venue] = &[
    venue(&["base", "eip155:8453"], "Base", COMMON, 2_000, 4, bridge(10_000, 60)),
    venue(&["base-sepolia", "eip155:84532"], "Base Sepolia", &["USDC", "ETH"], 0, 4, exit(Mover::Nothing("base"), 0, 0, 0)),
    venue(&["ethereum", "mainnet", "eip155:1"], "Ethereum", COMMON, 900_000, 24, bridge(200_000, 60)),
    venue(&["arbitrum", "arbitrum one", "eip155:42161"], "Arbitrum One", COMMON, 5_000, 2, bridge(10_000, 30)),
    venue(&["optimism", "op", "eip155:10"], "OP Mainnet", COMMON, 4_000, 4, bridge(10_000, 30)),
    venue(&["polygon", "matic", "eip155:137"], "Polygon", &["USDC", "POL", "ETH", "USDT", "DAI"], 3_000, 6, bridge(10_000, 90)),
    venue(&["avalanche", "avax", "eip155:43114"], "Avalanche C-Chain", &["USDC", "AVAX", "USDT"], 4_000, 3, bridge(10_000, 60)),
    venue(
        &["solana", "solana:5eykt4usfv8p8njdtrepy1vzqkqzkvdp"],
        "Solana",
        &["USDC", "SOL", "USDT"],
        1_000,
        2,
        exit(Mover::Bridge, 1_000, 50_000, 60),
    ),
    venue(&["bitcoin", "btc"], "Bitcoin", &["BTC"], 1_500_000, 1_800, exit(Mover::Withdraw, 6_000, 500_000, 120)),
    venue(&["bank", "card", "fiat"], "Bank account", &["USD", "EUR", "GBP"], 0, 0, exit(Mover::Buy, 15_000, 250_000, 600)),
    venue(
        &["coinbase", "kraken", "binance", "exchange"],
        "Exchange account",
        &["USDC", "USDT", "ETH", "BTC", "SOL", "USD", "EUR", "GBP"],
        0,
        0,
        exit(Mover::Withdraw, 6_000, 100_000, 120),
    ),
];

/// Finds a place by name or id.
pub(super) fn place(called: &str) -> Option<&'static Venue> {
    let called = called.trim().to_lowercase();
    PLACES.iter().find(|position| position.ids.contains(&called.as_str()) || position.name.to_lowercase() == called)
}

/// Returns whether `called` names the network with this CAIP-2 id.
pub(super) fn is_called(network: &str, called: &str) -> bool {
    place(called).is_some_and(|position| position.ids.contains(&network.to_lowercase().as_str()))
}

/// Returns an asset of the table.
pub(super) fn known(symbol: &str) -> &'static RouteAsset {
    ASSETS.iter().find(|asset| asset.symbol == symbol).expect("every asset of a place is in the table")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_place_has_assets_that_are_known_and_a_name_of_its_own() {
        for row in PLACES {
            row.assets.iter().for_each(|symbol| _ = known(symbol));
            for id in row.ids {
                assert_eq!(place(id).map(|position| position.name), Some(row.name));
                assert_eq!(*id, id.to_lowercase());
            }
            assert!(row.exit.ppm < 1_000_000);
        }
    }
}

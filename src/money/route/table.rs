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

/// A place where funds are held.
#[derive(Debug)]
pub(super) struct Venue {
    /// Its ids. The first is the public one.
    pub(super) ids: &'static [&'static str],
    pub(super) name: &'static str,
    pub(super) assets: &'static [&'static str],
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
    Venue {
        ids: &["base", "eip155:8453"],
        name: "Base",
        assets: &["USDC", "ETH", "USDT", "DAI"],
        gas: 2_000,
        seconds: 4,
        exit: exit(Mover::Bridge, 500, 10_000, 60),
    },
    Venue {
        ids: &["base-sepolia", "eip155:84532"],
        name: "Base Sepolia",
        assets: &["USDC", "ETH"],
        gas: 0,
        seconds: 4,
        exit: exit(Mover::Nothing("base"), 0, 0, 0),
    },
    Venue {
        ids: &["ethereum", "mainnet", "eip155:1"],
        name: "Ethereum",
        assets: &["USDC", "ETH", "USDT", "DAI"],
        gas: 900_000,
        seconds: 24,
        exit: exit(Mover::Bridge, 500, 200_000, 60),
    },
    Venue {
        ids: &["arbitrum", "arbitrum one", "eip155:42161"],
        name: "Arbitrum One",
        assets: &["USDC", "ETH", "USDT", "DAI"],
        gas: 5_000,
        seconds: 2,
        exit: exit(Mover::Bridge, 500, 10_000, 30),
    },
    Venue {
        ids: &["optimism", "op", "eip155:10"],
        name: "OP Mainnet",
        assets: &["USDC", "ETH", "USDT", "DAI"],
        gas: 4_000,
        seconds: 4,
        exit: exit(Mover::Bridge, 500, 10_000, 30),
    },
    Venue {
        ids: &["polygon", "matic", "eip155:137"],
        name: "Polygon",
        assets: &["USDC", "POL", "ETH", "USDT", "DAI"],
        gas: 3_000,
        seconds: 6,
        exit: exit(Mover::Bridge, 500, 10_000, 90),
    },
    Venue {
        ids: &["avalanche", "avax", "eip155:43114"],
        name: "Avalanche C-Chain",
        assets: &["USDC", "AVAX", "USDT"],
        gas: 4_000,
        seconds: 3,
        exit: exit(Mover::Bridge, 500, 10_000, 60),
    },
    Venue {
        ids: &["solana", "solana:5eykt4usfv8p8njdtrepy1vzqkqzkvdp"],
        name: "Solana",
        assets: &["USDC", "SOL", "USDT"],
        gas: 1_000,
        seconds: 2,
        exit: exit(Mover::Bridge, 1_000, 50_000, 60),
    },
    Venue {
        ids: &["bitcoin", "btc"],
        name: "Bitcoin",
        assets: &["BTC"],
        gas: 1_500_000,
        seconds: 1_800,
        exit: exit(Mover::Withdraw, 6_000, 500_000, 120),
    },
    Venue {
        ids: &["bank", "card", "fiat"],
        name: "Bank account",
        assets: &["USD", "EUR", "GBP"],
        gas: 0,
        seconds: 0,
        exit: exit(Mover::Buy, 15_000, 250_000, 600),
    },
    Venue {
        ids: &["coinbase", "kraken", "binance", "exchange"],
        name: "Exchange account",
        assets: &["USDC", "USDT", "ETH", "BTC", "SOL", "USD", "EUR", "GBP"],
        gas: 0,
        seconds: 0,
        exit: exit(Mover::Withdraw, 6_000, 100_000, 120),
    },
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

//! What usual ways cost: rates and fees as they were on one day, typical and offered by nobody.
//!
//! Gas is one transaction at usual load; a bridge takes a share and a fixed fee, as fast bridges of USDC do; a swap takes the 0.3 %
//! of the usual pool; an exchange sells for 0.6 % and charges a withdrawal; a bank's or card's purchase takes 1.5 % and a fee.
//! The demonstration in the shipped catalogue, `conversion-quote-demo`, has the same numbers: a test holds one against the other.

/// The day of these rates and fees.
pub(super) const AS_OF: &str = "2026-01-01";

/// Share that a swap takes, in millionths.
pub(super) const SWAP_PPM: u64 = 3_000;

/// An asset.
#[derive(Debug)]
pub(super) struct Asset {
    pub(super) symbol: &'static str,
    /// Of one, in micro-dollars.
    pub(super) price: u64,
    pub(super) decimals: u32,
}

/// A place where money is.
#[derive(Debug)]
pub(super) struct Place {
    /// What it is called; the first is the one that is told.
    pub(super) ids: &'static [&'static str],
    pub(super) name: &'static str,
    pub(super) assets: &'static [&'static str],
    /// One transaction, in micro-dollars.
    pub(super) gas: u64,
    /// Until one counts, in seconds.
    pub(super) seconds: u64,
    pub(super) exit: Exit,
}

/// How money leaves a place.
#[derive(Debug)]
pub(super) struct Exit {
    pub(super) by: By,
    /// Share that it takes, in millionths.
    pub(super) ppm: u64,
    /// In micro-dollars.
    pub(super) fee: u64,
    /// In seconds.
    pub(super) seconds: u64,
}

/// Who moves it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum By {
    /// Takes USDC from one network to another.
    Bridge,
    /// An exchange sells, and sends to whatever network.
    Withdraw,
    /// Somebody sells tokens for money.
    Buy,
    /// Nobody: the money of a test network is worth nothing elsewhere. What stands for it is the place of this id.
    Nothing(&'static str),
}

const fn asset(symbol: &'static str, price: u64, decimals: u32) -> Asset {
    Asset { symbol, price, decimals }
}

const fn exit(by: By, ppm: u64, fee: u64, seconds: u64) -> Exit {
    Exit { by, ppm, fee, seconds }
}

pub(super) const ASSETS: &[Asset] = &[
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

pub(super) const PLACES: &[Place] = &[
    Place {
        ids: &["base", "eip155:8453"],
        name: "Base",
        assets: &["USDC", "ETH", "USDT", "DAI"],
        gas: 2_000,
        seconds: 4,
        exit: exit(By::Bridge, 500, 10_000, 60),
    },
    Place {
        ids: &["base-sepolia", "eip155:84532"],
        name: "Base Sepolia",
        assets: &["USDC", "ETH"],
        gas: 0,
        seconds: 4,
        exit: exit(By::Nothing("base"), 0, 0, 0),
    },
    Place {
        ids: &["ethereum", "mainnet", "eip155:1"],
        name: "Ethereum",
        assets: &["USDC", "ETH", "USDT", "DAI"],
        gas: 900_000,
        seconds: 24,
        exit: exit(By::Bridge, 500, 200_000, 60),
    },
    Place {
        ids: &["arbitrum", "arbitrum one", "eip155:42161"],
        name: "Arbitrum One",
        assets: &["USDC", "ETH", "USDT", "DAI"],
        gas: 5_000,
        seconds: 2,
        exit: exit(By::Bridge, 500, 10_000, 30),
    },
    Place {
        ids: &["optimism", "op", "eip155:10"],
        name: "OP Mainnet",
        assets: &["USDC", "ETH", "USDT", "DAI"],
        gas: 4_000,
        seconds: 4,
        exit: exit(By::Bridge, 500, 10_000, 30),
    },
    Place {
        ids: &["polygon", "matic", "eip155:137"],
        name: "Polygon",
        assets: &["USDC", "POL", "ETH", "USDT", "DAI"],
        gas: 3_000,
        seconds: 6,
        exit: exit(By::Bridge, 500, 10_000, 90),
    },
    Place {
        ids: &["avalanche", "avax", "eip155:43114"],
        name: "Avalanche C-Chain",
        assets: &["USDC", "AVAX", "USDT"],
        gas: 4_000,
        seconds: 3,
        exit: exit(By::Bridge, 500, 10_000, 60),
    },
    Place {
        ids: &["solana", "solana:5eykt4usfv8p8njdtrepy1vzqkqzkvdp"],
        name: "Solana",
        assets: &["USDC", "SOL", "USDT"],
        gas: 1_000,
        seconds: 2,
        exit: exit(By::Bridge, 1_000, 50_000, 60),
    },
    Place {
        ids: &["bitcoin", "btc"],
        name: "Bitcoin",
        assets: &["BTC"],
        gas: 1_500_000,
        seconds: 1_800,
        exit: exit(By::Withdraw, 6_000, 500_000, 120),
    },
    Place {
        ids: &["bank", "card", "fiat"],
        name: "Bank account",
        assets: &["USD", "EUR", "GBP"],
        gas: 0,
        seconds: 0,
        exit: exit(By::Buy, 15_000, 250_000, 600),
    },
    Place {
        ids: &["coinbase", "kraken", "binance", "exchange"],
        name: "Exchange account",
        assets: &["USDC", "USDT", "ETH", "BTC", "SOL", "USD", "EUR", "GBP"],
        gas: 0,
        seconds: 0,
        exit: exit(By::Withdraw, 6_000, 100_000, 120),
    },
];

/// The place that somebody calls so.
pub(super) fn place(called: &str) -> Option<&'static Place> {
    let called = called.trim().to_lowercase();
    PLACES.iter().find(|place| place.ids.contains(&called.as_str()) || place.name.to_lowercase() == called)
}

/// Whether `called` names the network of this CAIP-2 id.
pub(super) fn is_called(network: &str, called: &str) -> bool {
    place(called).is_some_and(|place| place.ids.contains(&network.to_lowercase().as_str()))
}

/// What is known of an asset of the table.
pub(super) fn known(symbol: &str) -> &'static Asset {
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
                assert_eq!(place(id).map(|place| place.name), Some(row.name));
                assert_eq!(*id, id.to_lowercase());
            }
            assert!(row.exit.ppm < 1_000_000);
        }
    }
}

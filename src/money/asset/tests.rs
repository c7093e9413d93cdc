use super::*;
use crate::network::NETWORKS;

/// Maximum decimals of a token, so that every price fits into 128 bits.
const MAX_DECIMALS: u32 = 24;

/// A token whose decimals differ from 6.
fn of_decimals(decimals: u32) -> Asset {
    Asset { decimals, ..ASSETS[0] }
}

/// Prices at all edges, and pseudo-random ones with a fixed seed.
fn prices() -> Vec<u64> {
    let mut random = fastrand::Rng::with_seed(1);
    let chance = (0..500).map(|n| random.u64(..) >> (n % 64));
    let edges = (0..20).flat_map(|power| [10_u64.pow(power) - 1, 10_u64.pow(power), 10_u64.pow(power) + 1]);
    [0, 1, u64::MAX - 1, u64::MAX].into_iter().chain(edges).chain(chance).collect()
}

#[test]
fn a_price_is_exact_in_every_asset_that_can_say_it() {
    for decimals in 6..=MAX_DECIMALS {
        let asset = of_decimals(decimals);
        for price in prices() {
            let atomic = asset.atomic(MicroUsd(price));
            assert_eq!((atomic / 10_u128.pow(decimals - 6), atomic % 10_u128.pow(decimals - 6)), (u128::from(price), 0), "{decimals}");
            assert_eq!(asset.worth(atomic), Some(MicroUsd(price)));
        }
    }
}

#[test]
fn a_price_is_rounded_up_to_the_next_unit_of_an_asset_that_cannot_say_it() {
    for decimals in 0..6 {
        let (asset, unit) = (of_decimals(decimals), 10_u128.pow(6 - decimals));
        for price in prices() {
            let worth = asset.atomic(MicroUsd(price)) * unit;
            assert!((u128::from(price)..u128::from(price) + unit).contains(&worth), "{price} in {decimals} decimals");
        }
    }
    let describe = |decimals, price| of_decimals(decimals).atomic(MicroUsd(price));
    assert_eq!([describe(2, 10_000), describe(2, 10_001), describe(2, 1), describe(0, 1)], [1, 2, 1, 1]);
    assert_eq!([describe(6, 10_000), describe(18, 10_000)], [10_000, 10_000_000_000_000_000]);
}

#[test]
fn units_convert_to_micro_dollars_without_overflow() {
    assert_eq!(of_decimals(6).worth(u128::from(u64::MAX) + 1), None);
    assert_eq!(of_decimals(2).worth(u128::MAX), None);
    assert_eq!(of_decimals(18).worth(u128::MAX), None);
    assert_eq!([of_decimals(0).worth(3), of_decimals(2).worth(3)], [Some(MicroUsd(3_000_000)), Some(MicroUsd(30_000))]);
    assert_eq!(of_decimals(18).worth(999_999_999_999), Some(MicroUsd(0)));
}

#[test]
fn every_token_has_the_form_of_its_network_and_a_name_of_its_own_there() {
    for (position, asset) in Asset::all().iter().enumerate() {
        assert!(asset.decimals <= MAX_DECIMALS, "{asset:?}: a price in it may not fit into 128 bits");
        assert_eq!(asset.network.checked_address(asset.address).as_deref(), Some(asset.address), "{asset:?}");
        assert_eq!(asset.name.is_empty(), asset.network.chain_id().is_none(), "{asset:?}");
        for name in [asset.address, asset.symbol] {
            assert_eq!(Asset::named(asset.network, name), Some(asset));
        }
        let twins = ASSETS[..position].iter().filter(|other| other.network == asset.network);
        assert!(twins.clone().all(|other| other.symbol != asset.symbol && other.address != asset.address), "{asset:?}");
    }
    assert_eq!(Asset::all().len(), ASSETS.len());
    assert!(NETWORKS.iter().all(|network| Asset::of(network).next().is_some()), "there is nothing to pay with");
}

//! Compares signatures with those of viem 2.57, and the domains of tokens with those of their contracts.

use super::*;
use crate::x402::eip3009::domain;

const PAYER: &str = "0x2c7536E3605D9C16a7a3D7b1898e529396a65c23";
const SEPOLIA: &str =
    "0x35b8ce854da048ada926f78294b84e416758a21eb271310d912d4b269e450e720c8b1b45ab0ac4d1cc2032f7995071037b2ac8d0159df99faac36f3476b8739c1c";
const BASE: &str =
    "0x05e4e2aa291ec2c2f5540113419d7775c8d9885fa4029097a9c64b8fca2a0b6a70932a5f08896ab4aec1e461f3e794e662aa46cb39f816f83338766ece7e50931b";

fn transfer() -> Transfer {
    Transfer::parse(&Authorization {
        from: PAYER.to_owned(),
        to: PAY_TO.to_owned(),
        value: "10000".to_owned(),
        valid_after: "1740672089".to_owned(),
        valid_before: "1740672154".to_owned(),
        nonce: "0xf3746613c2d920b5fdabc0856f2aeb2d4f88ee6037b8cc5d04a71a4462f13480".to_owned(),
    })
    .unwrap()
}

fn bytes(signature: &str) -> Vec<u8> {
    hex::decode(signature.trim_start_matches("0x")).unwrap()
}

fn holds(signature: &[u8]) -> bool {
    transfer().signed_by_payer(&format!("0x{}", hex::encode(signature)), &ASSETS[0])
}

#[test]
fn hashes_are_those_of_viem() {
    let hash = |asset: &Asset| transfer().signing_hash(asset).to_string();
    assert_eq!(hash(&ASSETS[0]), "0xde914abb9acfe2d7816b5e4555792b93b7dcb6ddcbf123cad912c84367cfb4b7");
    assert_eq!(hash(&ASSETS[1]), "0xa0f679e9b901633d4b65155d4bceadae0b954ae912f276c55a3ccdd44fe4b19a");
}

/// The values of `DOMAIN_SEPARATOR()`, as the contracts return them on their chains. For each one, at least two independent
/// public projects published the value that they read. The order is that of the table of tokens.
const SEPARATORS: &[(&str, &str, &str)] = &[
    ("base-sepolia", "USDC", "0x71f17a3b2ff373b803d70a5a07c046c1a2bc8e89c09ef722fcb047abe94c9818"),
    ("base", "USDC", "0x02fa7265e7c5d81118673727957699e4d68f74cd74b7db77da710fe8a2c7834f"),
    ("polygon", "USDC", "0xcaa2ce1a5703ccbe253a34eb3166df60a705c561b44b192061e28f2a985be2ca"),
    ("arbitrum", "USDC", "0x08d11903f8419e68b1b8721bcbe2e9fc68569122a77ef18c216f10b3b5112c78"),
    ("avalanche", "USDC", "0xbbea200329a938bc3438984a49cb0732e66d66d7bd59c127abacc1710e77f7b3"),
    ("ethereum", "USDC", "0x06c37168a7db5138defc7866392bb87a741f9b3d104deb5094588ce041cae335"),
    ("celo", "USDC", "0xb2ce31d2838445fa765a491f550e7c78ac7280ab0f3bc9d6063a86df9c3fb578"),
    ("celo", "USDT", "0xbcb4d62e4834b598d0eacecd84c0b397a0254e077c41cf2143e394d5701d1088"),
];

#[test]
fn domains_of_all_tokens_are_those_of_their_contracts() {
    let signed_for = ASSETS.iter().filter(|asset| asset.network.chain_id().is_some());
    let separators: Vec<_> = signed_for.map(|asset| (asset.network.name, asset.symbol, domain(asset).separator().to_string())).collect();
    let published: Vec<_> = SEPARATORS.iter().map(|(network, symbol, hash)| (*network, *symbol, (*hash).to_owned())).collect();
    assert_eq!(separators, published);
}

#[test]
fn signatures_of_viem_are_accepted_on_their_own_network_only() {
    assert!(transfer().signed_by_payer(SEPOLIA, &ASSETS[0]));
    assert!(transfer().signed_by_payer(BASE, &ASSETS[1]));
    assert!(!transfer().signed_by_payer(SEPOLIA, &ASSETS[1]));
    assert!(!transfer().signed_by_payer(BASE, &ASSETS[0]));
}

#[test]
fn every_token_of_the_table_is_paid_in_and_signed_for_alone() {
    let signed_for: Vec<_> = ASSETS.iter().filter(|asset| asset.network.chain_id().is_some()).collect();
    for (position, asset) in signed_for.iter().enumerate() {
        for network in [asset.network.caip2, asset.network.name] {
            let accepted = AcceptedToken::new(network, Some(asset.symbol), PAY_TO).unwrap();
            assert_eq!((accepted.asset, accepted.pay_to.as_str()), (*asset, PAY_TO));
        }
        let hash = transfer().signing_hash(asset);
        assert!(signed_for[..position].iter().all(|other| transfer().signing_hash(other) != hash), "{asset:?}");
    }
}

#[test]
fn a_signature_covers_every_field() {
    let one = |change: fn(&mut Transfer)| {
        let mut other = transfer();
        change(&mut other);
        assert!(!other.signed_by_payer(SEPOLIA, &ASSETS[0]));
    };
    one(|transfer| transfer.from = transfer.to);
    one(|transfer| transfer.to = transfer.from);
    one(|transfer| transfer.value += alloy_primitives::U256::ONE);
    one(|transfer| transfer.valid_after += alloy_primitives::U256::ONE);
    one(|transfer| transfer.valid_before += alloy_primitives::U256::ONE);
    one(|transfer| transfer.nonce.0[31] ^= 1);
}

#[test]
fn the_high_s_twin_of_a_signature_is_refused() {
    const ORDER: &str = "fffffffffffffffffffffffffffffffebaaedce6af48a03bbfd25e8cd0364141";
    let order = alloy_primitives::U256::from_str_radix(ORDER, 16).unwrap();
    let mut twin = bytes(SEPOLIA);
    let s = alloy_primitives::U256::from_be_slice(&twin[32..64]);
    twin[32..64].copy_from_slice(&(order - s).to_be_bytes::<32>());
    twin[64] = if twin[64] == 27 { 28 } else { 27 };
    // The twin signature recovers to the payer, so only the rule of EIP-2 rejects it.
    let raw = alloy_primitives::Signature::from_raw(&twin).unwrap();
    let signer = raw.recover_address_from_prehash(&transfer().signing_hash(&ASSETS[0])).unwrap();
    assert_eq!(signer.to_string(), PAYER);
    assert!(!holds(&twin));
}

#[test]
fn signatures_of_other_forms_are_refused() {
    let good = bytes(SEPOLIA);
    assert!(holds(&good));
    assert!(!holds(&good[..64]), "compact");
    assert!(!holds(&[]), "empty");
    assert!(!holds(&[&good[..], &[0]].concat()), "66 bytes");
    assert!(!holds(&[0; 65]), "zeros");
    // Some hardware wallets write 0 and 1.
    for v in 0..=255 {
        assert_eq!(holds(&[&good[..64], &[v]].concat()), v == good[64] || v == good[64] - 27, "v = {v}");
    }
    let without = SEPOLIA.trim_start_matches("0x");
    assert!(!transfer().signed_by_payer(without, &ASSETS[0]), "no 0x");
    assert!(!transfer().signed_by_payer("0xzz", &ASSETS[0]), "no hex");
}

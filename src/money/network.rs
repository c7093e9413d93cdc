//! Networks for payments, and their addresses.

use alloy_primitives::Address;

/// A network for payments.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Network {
    /// CAIP-2 id, the name in x402 v2.
    pub caip2: &'static str,
    /// Common name, which is also the name in x402 v1.
    pub name: &'static str,
    /// Whether v1 clients know it. They throw at a challenge that also names a network they do not know.
    pub in_v1: bool,
    /// Whether it is a test network, whose tokens are worthless.
    pub is_test: bool,
    /// The format of its addresses, signatures and transactions.
    pub family: Family,
}

/// The format of addresses, signatures and transactions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Family {
    /// Accounts of 20 bytes, EIP-3009 authorizations.
    Evm {
        /// The chain id (EIP-155).
        chain_id: u64,
    },
    /// Accounts of 32 bytes in base58, transactions that the payer signs and the facilitator completes.
    Solana,
}

/// Length of a Solana transaction id in characters: 64 bytes in base58.
const SIGNATURE_CHARS: std::ops::RangeInclusive<usize> = 64..=88;

impl Network {
    /// Finds a network by its CAIP-2 id or its v1 name.
    pub fn named(name: &str) -> Option<&'static Self> {
        NETWORKS.iter().copied().find(|known| known.caip2 == name || known.name == name)
    }

    /// Returns the EIP-155 chain id, or `None` for networks of another family.
    pub fn chain_id(&self) -> Option<u64> {
        match self.family {
            Family::Evm { chain_id } => Some(chain_id),
            Family::Solana => None,
        }
    }

    /// Returns the address in `text` in canonical form, or `None` if it is invalid.
    pub fn checked_address(&self, text: &str) -> Option<String> {
        match self.family {
            Family::Evm { .. } => checked_address(text),
            Family::Solana => solana_key(text).map(|_| text.to_owned()),
        }
    }

    /// Returns a description of the address format, for people.
    pub fn address_form(&self) -> &'static str {
        match self.family {
            Family::Evm { .. } => "`0x` and 40 hex digits, in one case or with the EIP-55 checksum",
            Family::Solana => "32 bytes in base58",
        }
    }

    /// Returns whether `address`, which is valid, belongs to nobody because all its bytes are zero.
    pub fn is_zero_address(&self, address: &str) -> bool {
        match self.family {
            Family::Evm { .. } => address.parse::<Address>().is_ok_and(|address| address == Address::ZERO),
            Family::Solana => solana_key(address) == Some([0; 32]),
        }
    }

    /// Returns the variable of the address that receives payments on this network.
    pub fn pay_to_setting(&self) -> &'static str {
        match self.family {
            Family::Evm { .. } => "TOLLHOUSE_PAY_TO",
            Family::Solana => "TOLLHOUSE_PAY_TO_SOLANA",
        }
    }

    /// Returns the transaction id in `text` in canonical form, or `None` if it is invalid.
    pub fn checked_transaction(&self, text: &str) -> Option<String> {
        match self.family {
            Family::Evm { .. } => {
                let digits = text.strip_prefix("0x").filter(|digits| digits.len() == 64)?;
                digits.bytes().all(|digit| digit.is_ascii_hexdigit()).then(|| text.to_ascii_lowercase())
            }
            Family::Solana => {
                let bytes = SIGNATURE_CHARS.contains(&text.len()).then(|| bs58::decode(text).into_vec().ok()).flatten()?;
                (bytes.len() == 64).then(|| text.to_owned())
            }
        }
    }
}

const fn evm(caip2: &'static str, name: &'static str, chain_id: u64) -> Network {
    Network { caip2, name, in_v1: true, is_test: false, family: Family::Evm { chain_id } }
}

const fn solana(caip2: &'static str, name: &'static str) -> Network {
    Network { caip2, name, in_v1: true, is_test: false, family: Family::Solana }
}

pub(super) static BASE_SEPOLIA: Network = Network { is_test: true, ..evm("eip155:84532", "base-sepolia", 84_532) };
pub(super) static BASE: Network = evm("eip155:8453", "base", 8_453);
pub(super) static POLYGON: Network = evm("eip155:137", "polygon", 137);
pub(super) static ARBITRUM: Network = Network { in_v1: false, ..evm("eip155:42161", "arbitrum", 42_161) };
pub(super) static AVALANCHE: Network = evm("eip155:43114", "avalanche", 43_114);
pub(super) static ETHEREUM: Network = Network { in_v1: false, ..evm("eip155:1", "ethereum", 1) };
pub(super) static CELO: Network = Network { in_v1: false, ..evm("eip155:42220", "celo", 42_220) };
pub(super) static SOLANA: Network = solana("solana:5eykt4UsFv8P8NJdTREpY1vzqKqZKvdp", "solana");
pub(super) static SOLANA_DEVNET: Network = Network { is_test: true, ..solana("solana:EtWTRABZaYq6iMfeYKouRu166VU2xqa1", "solana-devnet") };

pub(super) static NETWORKS: &[&Network] =
    &[&BASE_SEPOLIA, &BASE, &POLYGON, &ARBITRUM, &AVALANCHE, &ETHEREUM, &CELO, &SOLANA, &SOLANA_DEVNET];

/// Returns the address in `text` with its EIP-55 checksum. `None` if it is not `0x` and 40 hex digits, or if the digits
/// are in mixed case and do not match the checksum.
pub fn checked_address(text: &str) -> Option<String> {
    let digits = text.strip_prefix("0x").filter(|digits| digits.len() == 40)?;
    let checksum = text.parse::<Address>().ok()?.to_checksum(None);
    let one_case = digits == digits.to_ascii_lowercase() || digits == digits.to_ascii_uppercase();
    (one_case || checksum == text).then_some(checksum)
}

/// Decodes a Solana key: 32 bytes in base58.
pub(super) fn solana_key(text: &str) -> Option<[u8; 32]> {
    if !(32..=44).contains(&text.len()) {
        return None;
    }
    bs58::decode(text).into_vec().ok()?.try_into().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    const SOL: &str = "EPjFWdd5AufqSSqeM2qN1xzybapC8G4wEGGkZwyTDt1v";

    #[test]
    fn an_address_with_a_wrong_checksum_is_refused() {
        let right = "0x036CbD53842c5426634e7929541eC2318f3dCF7e";
        assert_eq!(BASE.checked_address(right).unwrap(), right);
        assert_eq!(BASE.checked_address(&right.to_lowercase()).unwrap(), right);
        assert_eq!(BASE.checked_address("0x036cbD53842c5426634e7929541eC2318f3dCF7e"), None);
        assert_eq!(BASE.checked_address("0x1234"), None);
    }

    #[test]
    fn an_address_is_one_of_its_networks_family() {
        assert_eq!(SOLANA.checked_address(SOL).unwrap(), SOL);
        for wrong in ["0x036CbD53842c5426634e7929541eC2318f3dCF7e", &SOL[4..], &SOL.replace('E', "0"), ""] {
            assert_eq!(SOLANA.checked_address(wrong), None, "{wrong}");
        }
        assert_eq!(BASE.checked_address(SOL), None);
    }

    #[test]
    fn a_transaction_is_named_as_its_network_names_it() {
        let (hash, signature) = (format!("0x{}", "AB".repeat(32)), bs58::encode([7_u8; 64]).into_string());
        assert_eq!(POLYGON.checked_transaction(&hash).unwrap(), hash.to_lowercase());
        assert_eq!(SOLANA.checked_transaction(&signature).unwrap(), signature);
        assert_eq!((POLYGON.checked_transaction(&signature), SOLANA.checked_transaction(&hash)), (None, None));
    }

    #[test]
    fn every_network_is_found_by_both_of_its_names_and_no_other() {
        for network in NETWORKS {
            assert_eq!((Network::named(network.caip2), Network::named(network.name)), (Some(*network), Some(*network)));
            match network.family {
                Family::Evm { chain_id } => assert_eq!(network.caip2, format!("eip155:{chain_id}")),
                Family::Solana => assert!(network.caip2.starts_with("solana:")),
            }
        }
        assert_eq!(Network::named("eip155:999999"), None);
    }

    #[test]
    fn two_networks_have_tokens_that_are_worth_nothing() {
        let of_tests: Vec<_> = NETWORKS.iter().filter(|network| network.is_test).map(|network| network.name).collect();
        assert_eq!(of_tests, ["base-sepolia", "solana-devnet"]);
    }

    /// V1 clients refuse a whole challenge with a network of unknown name.
    #[test]
    fn three_networks_have_no_name_that_clients_of_v1_know() {
        let unknown: Vec<_> = NETWORKS.iter().filter(|network| !network.in_v1).map(|network| network.name).collect();
        assert_eq!(unknown, ["arbitrum", "ethereum", "celo"]);
    }
}

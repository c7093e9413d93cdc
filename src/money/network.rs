//! Networks that payments can be made on, and the addresses on them.

use alloy_primitives::Address;

/// A network that payments can be made on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Network {
    /// CAIP-2, as v2 names it.
    pub caip2: &'static str,
    /// As v1 names it, and people do.
    pub name: &'static str,
    /// Whether the clients of v1 know it: they throw at a challenge that names another network beside theirs.
    pub in_v1: bool,
    /// Whether its tokens are worth nothing: those of a test network.
    pub is_test: bool,
    /// What addresses, signatures and transactions on it are like.
    pub family: Family,
}

/// What addresses, signatures and transactions on a network are like.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Family {
    /// Accounts of 20 bytes, authorisations of EIP-3009.
    Evm {
        /// As EIP-155 numbers it.
        chain_id: u64,
    },
    /// Accounts of 32 bytes in base58, transactions that the payer has signed and the facilitator completes.
    Solana,
}

/// Characters of a Solana transaction's name: 64 bytes in base58.
const SIGNATURE_CHARS: std::ops::RangeInclusive<usize> = 64..=88;

impl Network {
    /// The network that is called so: CAIP-2, or as v1 names it.
    #[must_use]
    pub fn named(name: &str) -> Option<&'static Self> {
        NETWORKS.iter().copied().find(|known| known.caip2 == name || known.name == name)
    }

    /// As EIP-155 numbers it; `None` where the network is of another family.
    #[must_use]
    pub fn chain_id(&self) -> Option<u64> {
        match self.family {
            Family::Evm { chain_id } => Some(chain_id),
            Family::Solana => None,
        }
    }

    /// The address in `text`, as it is written on this network; `None` when it is none.
    #[must_use]
    pub fn checked_address(&self, text: &str) -> Option<String> {
        match self.family {
            Family::Evm { .. } => checked_address(text),
            Family::Solana => solana_key(text).map(|_| text.to_owned()),
        }
    }

    /// What an address on this network looks like, for people.
    #[must_use]
    pub fn address_form(&self) -> &'static str {
        match self.family {
            Family::Evm { .. } => "`0x` and 40 hex digits, in one case or with the EIP-55 checksum",
            Family::Solana => "32 bytes in base58",
        }
    }

    /// The transaction that `text` names, as it is written on this network; `None` when it names none.
    #[must_use]
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

/// A row of [`NETWORKS`].
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

/// Every network there is.
pub(super) static NETWORKS: &[&Network] =
    &[&BASE_SEPOLIA, &BASE, &POLYGON, &ARBITRUM, &AVALANCHE, &ETHEREUM, &CELO, &SOLANA, &SOLANA_DEVNET];

/// The address in `text` with its EIP-55 checksum; `None` when it is none: not `0x` and 40 hex digits, or
/// digits of both cases that are not its checksum.
#[must_use]
pub fn checked_address(text: &str) -> Option<String> {
    let digits = text.strip_prefix("0x").filter(|digits| digits.len() == 40)?;
    let checksum = text.parse::<Address>().ok()?.to_checksum(None);
    let one_case = digits == digits.to_ascii_lowercase() || digits == digits.to_ascii_uppercase();
    (one_case || checksum == text).then_some(checksum)
}

/// The key in `text`: 32 bytes in base58.
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

    /// One of another name, and clients of v1 refuse the whole challenge.
    #[test]
    fn three_networks_have_no_name_that_clients_of_v1_know() {
        let unknown: Vec<_> = NETWORKS.iter().filter(|network| !network.in_v1).map(|network| network.name).collect();
        assert_eq!(unknown, ["arbitrum", "ethereum", "celo"]);
    }
}

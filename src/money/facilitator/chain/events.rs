//! What the token says that it did: its events, and what may be read from them.

use alloy_primitives::{Address, B256, Bytes, U64, b256};
use serde::Deserialize;

use crate::money::{Network, x402::eip3009::Transfer};

/// `AuthorizationUsed(address,bytes32)` and `AuthorizationCanceled(address,bytes32)` of EIP-3009: topic 0.
pub(in crate::money) const USED: B256 = b256!("98de503528ee59b575ef0c0a2576a82497bfc029a5685b209e9ec333479b10a5");
pub(in crate::money) const CANCELED: B256 = b256!("1cdd46ff242716cdaa72d159d339a485b3438398348d68f09d7c8c0a59353d81");
/// `Transfer(address,address,uint256)` of ERC-20: topic 0.
const MOVED: B256 = b256!("ddf252ad1be2c89b69c2b068fc378daa952ba7f163c4a11628f55a4df523b3ef");

/// An event.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(in crate::money) struct Log {
    address: Address,
    pub(in crate::money) topics: Vec<B256>,
    data: Bytes,
    log_index: U64,
    pub(in crate::money) transaction_hash: B256,
    /// Of a block that was replaced.
    #[serde(default)]
    removed: bool,
}

/// What became of a transaction.
#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(in crate::money) struct Receipt {
    pub(in crate::money) transaction_hash: B256,
    /// 1 when it was not reverted.
    pub(in crate::money) status: U64,
    pub(in crate::money) block_number: U64,
    pub(in crate::money) logs: Vec<Log>,
}

impl Log {
    /// Whether it says that the nonce of `transfer` is used or cancelled.
    pub(in crate::money) fn spends(&self, transfer: &Transfer, network: &Network) -> bool {
        let [topic, from, nonce] = self.topics[..] else { return false };
        let of_token = network.asset.parse() == Ok(self.address);
        of_token && !self.removed && [USED, CANCELED].contains(&topic) && from == transfer.from.into_word() && nonce == transfer.nonce
    }
}

impl Receipt {
    /// Whether the transaction made `transfer`: the token moves the money right after it marks the nonce. A payer can sign another
    /// transfer under the same nonce, and send that one: it uses the nonce and pays somebody else.
    pub(in crate::money) fn made(&self, transfer: &Transfer, network: &Network) -> bool {
        if self.status != U64::ONE {
            return false;
        }
        let marked = |log: &Log| log.spends(transfer, network) && log.topics[0] == USED;
        let Some(mark) = self.logs.iter().position(marked) else { return false };
        let topics = [MOVED, transfer.from.into_word(), transfer.to.into_word()];
        self.logs.get(mark + 1).is_some_and(|log| {
            let next = log.address == self.logs[mark].address && log.log_index == self.logs[mark].log_index + U64::ONE;
            next && log.topics[..] == topics && log.data[..] == transfer.value.to_be_bytes::<32>()
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_topics_are_those_of_eip_3009() {
        let topic = |signature: &str| alloy_primitives::keccak256(signature);
        assert_eq!(topic("AuthorizationUsed(address,bytes32)"), USED);
        assert_eq!(topic("AuthorizationCanceled(address,bytes32)"), CANCELED);
        assert_eq!(topic("Transfer(address,address,uint256)"), MOVED);
    }
}

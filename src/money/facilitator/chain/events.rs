//! Events of the token, and the facts that they prove.

use alloy_primitives::{Address, B256, Bytes, U64, U128, U256};
use alloy_sol_types::{SolEvent as _, sol};
use serde::Deserialize;

use crate::{Asset, x402::eip3009::Transfer};

sol! {
    /// The events of EIP-3009 and ERC-20 that are read.
    interface TokenEvents {
        event AuthorizationUsed(address indexed authorizer, bytes32 indexed nonce);
        event AuthorizationCanceled(address indexed authorizer, bytes32 indexed nonce);
        event Transfer(address indexed from, address indexed to, uint256 value);
    }
}

/// The first topics of these events.
pub(crate) const USED: B256 = TokenEvents::AuthorizationUsed::SIGNATURE_HASH;
pub(crate) const CANCELED: B256 = TokenEvents::AuthorizationCanceled::SIGNATURE_HASH;
pub(crate) const MOVED: B256 = TokenEvents::Transfer::SIGNATURE_HASH;

#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct EventLog {
    address: Address,
    pub(crate) topics: Vec<B256>,
    data: Bytes,
    log_index: U64,
    pub(crate) transaction_hash: B256,
    #[serde(default)]
    block_number: Option<U64>,
    /// Whether its block was replaced.
    #[serde(default)]
    removed: bool,
}

/// The receipt of a transaction.
#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct TxReceipt {
    pub(crate) transaction_hash: B256,
    /// 1 if it was not reverted.
    pub(crate) status: U64,
    pub(crate) block_number: U64,
    #[serde(default)]
    pub(crate) block_hash: Option<B256>,
    pub(crate) logs: Vec<EventLog>,
    /// Gas used, and the price per unit.
    #[serde(default)]
    pub(crate) gas_used: U64,
    #[serde(default)]
    pub(crate) effective_gas_price: U128,
}

impl EventLog {
    /// Returns whether it marks the nonce of `transfer` as used or canceled.
    pub(crate) fn spends(&self, transfer: &Transfer, asset: &Asset) -> bool {
        let [topic, from, nonce] = self.topics[..] else { return false };
        let of_token = asset.address.parse() == Ok(self.address);
        of_token && !self.removed && [USED, CANCELED].contains(&topic) && from == transfer.from.into_word() && nonce == transfer.nonce
    }

    /// Returns the sender and amount if it is a transfer of the token to `to`.
    pub(crate) fn moved_to(&self, to: Address, asset: &Asset) -> Option<(Address, U256)> {
        let [MOVED, from, receiver] = self.topics[..] else { return None };
        let is_transfer = asset.address.parse() == Ok(self.address) && !self.removed && receiver == to.into_word() && self.data.len() == 32;
        is_transfer.then(|| (Address::from_word(from), U256::from_be_slice(&self.data)))
    }

    pub(crate) fn block(&self) -> Option<u64> {
        self.block_number.map(|number| number.to())
    }

    /// Returns its index among the events of the block.
    pub(crate) fn index(&self) -> u64 {
        self.log_index.to()
    }

    /// Returns whether it is a transfer of `value` from `from` to `to`.
    pub(crate) fn moves(&self, from: Address, to: Address, value: U256, asset: &Asset) -> bool {
        self.topics.get(1) == Some(&from.into_word()) && self.moved_to(to, asset) == Some((from, value))
    }
}

impl TxReceipt {
    /// Returns whether the transaction transferred `value` of the token from `from` to `to`.
    pub(crate) fn paid(&self, from: Address, to: Address, value: U256, asset: &Asset) -> bool {
        self.status == U64::ONE && self.logs.iter().any(|log| log.moves(from, to, value, asset))
    }

    /// Returns whether the transaction made `transfer`: the token moves the money right after it marks the nonce. This
    /// matters because a payer can sign and send another transfer with the same nonce, which pays somebody else.
    pub(crate) fn made(&self, transfer: &Transfer, asset: &Asset) -> bool {
        if self.status != U64::ONE {
            return false;
        }
        let marked = |log: &EventLog| log.spends(transfer, asset) && log.topics[0] == USED;
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
    use serde_json::{Value, json};

    use super::*;
    use crate::asset::ASSETS;

    const PAYER: Address = Address::repeat_byte(1);
    const SELLER: Address = Address::repeat_byte(2);
    const NONCE: B256 = B256::repeat_byte(3);
    const VALUE: U256 = U256::from_limbs([5, 0, 0, 0]);

    fn transfer() -> Transfer {
        let (from, to, value) = (PAYER, SELLER, VALUE);
        Transfer { from, to, value, valid_after: U256::ZERO, valid_before: U256::ONE, nonce: NONCE }
    }

    fn log(index: u32, topics: [B256; 3], data: &str) -> Value {
        json!({ "address": ASSETS[0].address, "topics": topics, "data": data, "logIndex": format!("{index:#x}"), "transactionHash": B256::ZERO })
    }

    fn used(index: u32) -> Value {
        log(index, [USED, PAYER.into_word(), NONCE], "0x")
    }

    fn moved(index: u32) -> Value {
        log(index, [MOVED, PAYER.into_word(), SELLER.into_word()], &B256::from(VALUE).to_string())
    }

    fn with(mut log: Value, pointer: &str, value: Value) -> Value {
        match log.pointer_mut(pointer) {
            Some(position) => *position = value,
            None => log[pointer.trim_start_matches('/')] = value,
        }
        log
    }

    fn made(logs: Vec<Value>) -> bool {
        let receipt = json!({ "transactionHash": B256::ZERO, "status": "0x1", "blockNumber": "0x1", "logs": logs });
        serde_json::from_value::<TxReceipt>(receipt).unwrap().made(&transfer(), &ASSETS[0])
    }

    #[test]
    fn an_event_spends_a_nonce_if_all_fields_match() {
        let spends = |log: Value| serde_json::from_value::<EventLog>(log).unwrap().spends(&transfer(), &ASSETS[0]);
        assert!(spends(used(1)) && spends(with(used(1), "/topics/0", json!(CANCELED))));
        for (pointer, other) in [
            ("/address", json!(SELLER)),
            ("/removed", json!(true)),
            ("/topics/0", json!(MOVED)),
            ("/topics/1", json!(SELLER.into_word())),
            ("/topics/2", json!(B256::ZERO)),
            ("/topics", json!([USED])),
        ] {
            assert!(!spends(with(used(1), pointer, other.clone())), "{pointer} of {other}");
        }
    }

    #[test]
    fn an_event_moves_an_amount_if_all_fields_match() {
        let moves = |log: Value| serde_json::from_value::<EventLog>(log).unwrap().moves(PAYER, SELLER, VALUE, &ASSETS[0]);
        assert!(moves(moved(1)));
        for (pointer, other) in [
            ("/address", json!(SELLER)),
            ("/removed", json!(true)),
            ("/topics/0", json!(USED)),
            ("/topics/1", json!(SELLER.into_word())),
            ("/topics/2", json!(PAYER.into_word())),
            ("/data", json!(B256::ZERO)),
            ("/data", json!("0x05")),
        ] {
            assert!(!moves(with(moved(1), pointer, other.clone())), "{pointer} of {other}");
        }
    }

    #[test]
    fn a_transfer_directly_follows_its_mark() {
        assert!(made(vec![moved(3), used(4), moved(5)]));
        let of_another = with(used(1), "/topics/2", json!(B256::ZERO));
        let to_another = with(moved(4), "/topics/2", json!(PAYER.into_word()));
        assert!(!made(vec![of_another.clone(), moved(2), used(3), to_another]), "another authorization made the transfer");
        assert!(!made(vec![of_another, moved(2)]));
        assert!(!made(vec![used(4), with(moved(5), "/address", json!(SELLER))]), "another token moved");
        assert!(!made(vec![used(4), moved(6)]), "something stands between them");
    }
}

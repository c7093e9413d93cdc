//! Encodes and signs EIP-1559 transactions.

use std::time::Duration;

use alloy_primitives::{Address, B256, Bytes, U256, keccak256};
use alloy_rlp::Encodable;
use k256::ecdsa::SigningKey;
use tokio::time::Instant;

/// The transaction's type, which precedes its fields (EIP-2718).
const TYPE: u8 = 2;

/// Price per unit of gas, in the smallest unit of the network's native currency.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Fees {
    /// The tip for the block's producer.
    pub(super) tip: u128,
    /// The maximum in total.
    pub(super) max: u128,
}

/// How long fees are reused.
const FEE_SAMPLES: Duration = Duration::from_secs(10);

/// Fees from the node, and when they were read.
#[derive(Debug, Clone, Copy)]
pub(super) struct QuotedFees {
    pub(super) fees: Fees,
    pub(super) at: Instant,
}

/// A contract call, without nonce and fees.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct TxCall {
    pub(super) to: Address,
    pub(super) data: Bytes,
    /// The gas limit.
    pub(super) gas: u64,
}

/// An unsigned transaction of a chain.
#[derive(Debug)]
pub(super) struct Transaction<'a> {
    pub(super) chain: u64,
    pub(super) nonce: u64,
    pub(super) fees: Fees,
    pub(super) call: &'a TxCall,
}

/// A signed transaction and its hash.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct SignedTx {
    pub(super) raw: Bytes,
    pub(super) hash: B256,
}

impl Fees {
    /// Returns the fees raised by a quarter, as nodes require of a replacement.
    pub(super) fn raised(self) -> Self {
        let more = |fee: u128| fee.saturating_add(fee / 4).saturating_add(1);
        Self { tip: more(self.tip), max: more(self.max) }
    }
}

impl QuotedFees {
    /// Returns whether they are recent enough to be reused.
    pub(super) fn good(&self, now: Instant) -> bool {
        now.duration_since(self.at) < FEE_SAMPLES
    }
}

impl Transaction<'_> {
    /// Signs it. `None` only if the key cannot sign the hash.
    pub(super) fn sign(&self, key: &SigningKey) -> Option<SignedTx> {
        let TxCall { to, data, gas } = self.call;
        let (value, access_list) = (U256::ZERO, Vec::<U256>::new());
        let fields: [&dyn Encodable; 9] = [&self.chain, &self.nonce, &self.fees.tip, &self.fees.max, gas, to, &value, data, &access_list];
        let (signature, recovery) = key.sign_prehash_recoverable(keccak256(encode(&fields)).as_slice()).ok()?;
        let [r, s] = [signature.r().to_bytes(), signature.s().to_bytes()].map(|number| U256::from_be_slice(&number));
        let is_odd = recovery.is_y_odd();
        let raw = encode(&[&fields[..], &[&is_odd, &r, &s]].concat());
        Some(SignedTx { hash: keccak256(&raw), raw: raw.into() })
    }
}

/// Encodes fields as a list, after the type.
fn encode(fields: &[&dyn Encodable]) -> Vec<u8> {
    let mut out = vec![TYPE];
    alloy_rlp::encode_list::<_, dyn Encodable>(fields, &mut out);
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_replacement_pays_a_quarter_more() {
        let fees = Fees { tip: 0, max: 1_000 }.raised();
        assert_eq!(fees, Fees { tip: 1, max: 1_251 });
    }

    #[test]
    fn fees_are_reused_for_ten_seconds() {
        let quoted = QuotedFees { fees: Fees { tip: 0, max: 0 }, at: Instant::now() };
        let good = [0, 9_999, 10_000].map(|millis| quoted.good(quoted.at + Duration::from_millis(millis)));
        assert_eq!(good, [true, true, false]);
    }

    /// Compares with a transaction signed by viem 2.57.
    #[test]
    fn a_transaction_is_signed_as_viem_does() {
        let key = SigningKey::from_slice(&[7; 32]).unwrap();
        let call = TxCall { to: Address::repeat_byte(0x11), data: Bytes::from_static(&[1, 2, 3]), gas: 21_000 };
        let transaction = Transaction { chain: 84_532, nonce: 5, fees: Fees { tip: 1_000, max: 2_000_000_000 }, call: &call };
        let signed = transaction.sign(&key).unwrap();
        let raw = concat!(
            "0x02f86e83014a34058203e884773594008252089411111111111111111111111111111111111111118083010203c001a04c",
            "b2b4417efee64d4f0791f4d62add990094eec8019280c9dad276315ea335c5a010a2e6d59c3b65ddcbe8d4f4c26bb8547f73",
            "c40ec5e4aabe3d80f3fbde6d2ae7",
        );
        assert_eq!(signed.raw.to_string(), raw);
    }
}

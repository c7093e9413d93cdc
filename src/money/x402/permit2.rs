//! Permit2 for the scheme `upto`: an authorization of a maximum, from which one facilitator takes the charge.

use std::borrow::Cow;

use alloy_primitives::{Address, B256, Bytes, U256, address};
use alloy_sol_types::{Eip712Domain, SolCall as _, SolStruct, sol};
use serde::{Deserialize, Serialize};

use super::eip3009::{decimal, signed_by};
use crate::Network;

/// Uniswap's Permit2, at the same address on every network.
pub const PERMIT2: Address = address!("000000000022D473030F116dDEE9F6B43aC78BA3");
/// The proxy of the x402 scheme `upto`, which makes [`PERMIT2`] move the charge.
pub const UPTO_PROXY: Address = address!("4020A4f3b7b90ccA423B9fabCc0CE57C6C240002");

sol! {
    struct TokenPermissions {
        address token;
        uint256 amount;
    }

    struct Witness {
        address to;
        address facilitator;
        uint256 validAfter;
    }

    /// The typed data that a payer signs.
    struct PermitWitnessTransferFrom {
        TokenPermissions permitted;
        address spender;
        uint256 nonce;
        uint256 deadline;
        Witness witness;
    }

    /// A permit as Permit2 accepts it, without the witness, which follows.
    struct PermitTransferFrom {
        TokenPermissions permitted;
        uint256 nonce;
        uint256 deadline;
    }

    /// The payer's signed approval of Permit2 for tokens that support it (EIP-2612).
    struct Approval {
        uint256 value;
        uint256 deadline;
        bytes32 r;
        bytes32 s;
        uint8 v;
    }

    /// The proxy: moves the charge.
    function settle(PermitTransferFrom permit, uint256 amount, address owner, Witness witness, bytes signature);
    function settleWithPermit(
        Approval approval, PermitTransferFrom permit, uint256 amount, address owner, Witness witness, bytes signature
    );

    /// Permit2: the used nonces of an address, 256 per word.
    function nonceBitmap(address owner, uint256 word) returns (uint256);
}

pub(crate) struct ProxyCall {
    permit: PermitTransferFrom,
    owner: Address,
    witness: Witness,
    pub(crate) amount: U256,
}

impl ProxyCall {
    /// Decodes the input of a call. Data after the arguments is ignored.
    pub(crate) fn read(input: &[u8]) -> Option<Self> {
        if let Ok(settleCall { permit, amount, owner, witness, .. }) = settleCall::abi_decode(input) {
            return Some(Self { permit, owner, witness, amount });
        }
        let settleWithPermitCall { permit, amount, owner, witness, .. } = settleWithPermitCall::abi_decode(input).ok()?;
        Some(Self { permit, owner, witness, amount })
    }

    pub(crate) fn spends(&self, permit: &Permit) -> bool {
        (self.owner, self.permit.nonce) == (permit.from, permit.nonce)
    }

    pub(crate) fn takes(&self, permit: &Permit) -> bool {
        let Self { permit: PermitTransferFrom { permitted, deadline, .. }, witness, .. } = self;
        let bound = (witness.to, witness.facilitator, witness.validAfter) == (permit.to, permit.facilitator, permit.valid_after);
        self.spends(permit) && bound && (permitted.token, permitted.amount, *deadline) == (permit.token, permit.max, permit.deadline)
    }
}

/// A permit, with its fields as texts.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PermitAuthorization {
    /// The payer.
    pub from: String,
    /// The token and the maximum amount.
    pub permitted: Permitted,
    /// The contract that takes it.
    pub spender: String,
    /// Its nonce, decimal. It can be taken once.
    pub nonce: String,
    /// The last second of its validity, since 1970, decimal.
    pub deadline: String,
    /// The conditions that the contract enforces.
    pub witness: Bound,
}

/// The token and the maximum amount.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Permitted {
    /// Address of the token.
    pub token: String,
    /// The amount in the token's smallest unit, decimal.
    pub amount: String,
}

/// The conditions that the contract enforces.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Bound {
    /// The recipient.
    pub to: String,
    /// The only address that may set the amount.
    pub facilitator: String,
    /// The time from which it is valid, in seconds since 1970, decimal.
    pub valid_after: String,
}

/// Parses an address with `0x` only, because a permit whose payer could be written in two ways would have two ids.
fn address(text: &str) -> Option<Address> {
    text.strip_prefix("0x").filter(|digits| digits.len() == 40)?;
    text.parse().ok()
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Permit {
    pub(crate) from: Address,
    pub(crate) token: Address,
    pub(crate) max: U256,
    pub(crate) spender: Address,
    pub(crate) nonce: U256,
    pub(crate) deadline: U256,
    pub(crate) to: Address,
    pub(crate) facilitator: Address,
    pub(crate) valid_after: U256,
}

impl Permit {
    /// Parses a permit. `None` if a field is not a valid number or address.
    pub(crate) fn parse(authorization: &PermitAuthorization) -> Option<Self> {
        let PermitAuthorization { from, permitted, spender, nonce, deadline, witness } = authorization;
        Some(Self {
            from: address(from)?,
            token: address(&permitted.token)?,
            max: decimal(&permitted.amount)?,
            spender: address(spender)?,
            nonce: decimal(nonce)?,
            deadline: decimal(deadline)?,
            to: address(&witness.to)?,
            facilitator: address(&witness.facilitator)?,
            valid_after: decimal(&witness.valid_after)?,
        })
    }

    /// Returns the last second of its validity since 1970, capped at the maximum.
    pub(crate) fn deadline_secs(&self) -> u64 {
        u64::try_from(self.deadline).unwrap_or(u64::MAX)
    }

    pub(crate) fn signing_hash(&self, network: &Network) -> B256 {
        let domain = Eip712Domain::new(Some(Cow::Borrowed("Permit2")), None, network.chain_id().map(U256::from), Some(PERMIT2), None);
        let message = PermitWitnessTransferFrom {
            permitted: TokenPermissions { token: self.token, amount: self.max },
            spender: self.spender,
            nonce: self.nonce,
            deadline: self.deadline,
            witness: Witness { to: self.to, facilitator: self.facilitator, validAfter: self.valid_after },
        };
        message.eip712_signing_hash(&domain)
    }

    pub(crate) fn taking(&self, amount: U256, signature: Bytes) -> Bytes {
        let permitted = TokenPermissions { token: self.token, amount: self.max };
        let permit = PermitTransferFrom { permitted, nonce: self.nonce, deadline: self.deadline };
        let witness = Witness { to: self.to, facilitator: self.facilitator, validAfter: self.valid_after };
        settleCall { permit, amount, owner: self.from, witness, signature }.abi_encode().into()
    }

    pub(crate) fn signed_by_payer(&self, signature: &str, network: &Network) -> bool {
        signed_by(self.from, signature, self.signing_hash(network))
    }
}

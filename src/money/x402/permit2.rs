//! Permit2 as the scheme `upto` uses it: an authorisation of at most so much, of which one facilitator takes what was charged.

use std::borrow::Cow;

use alloy_primitives::{Address, B256, Bytes, U256, address};
use alloy_sol_types::{Eip712Domain, SolCall as _, SolStruct, sol};
use serde::{Deserialize, Serialize};

use super::eip3009::{decimal, signed_by};
use crate::Network;

/// Uniswap's Permit2, at the same address on every network.
pub const PERMIT2: Address = address!("000000000022D473030F116dDEE9F6B43aC78BA3");
/// The proxy of the x402 scheme `upto`, which has [`PERMIT2`] move the amount that was charged.
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

    /// A permit as Permit2 takes it: without what the payer is bound to, which follows.
    struct PermitTransferFrom {
        TokenPermissions permitted;
        uint256 nonce;
        uint256 deadline;
    }

    /// That Permit2 may move the token, as the payer has signed it for tokens that take that (EIP-2612).
    struct Approval {
        uint256 value;
        uint256 deadline;
        bytes32 r;
        bytes32 s;
        uint8 v;
    }

    /// Of the proxy: has what was charged moved.
    function settle(PermitTransferFrom permit, uint256 amount, address owner, Witness witness, bytes signature);
    function settleWithPermit(
        Approval approval, PermitTransferFrom permit, uint256 amount, address owner, Witness witness, bytes signature
    );

    /// Of Permit2: the nonces of an address that are used, 256 to a word.
    function nonceBitmap(address owner, uint256 word) returns (uint256);
}

/// What a call of the proxy takes.
pub(crate) struct Taking {
    permit: PermitTransferFrom,
    owner: Address,
    witness: Witness,
    pub(crate) amount: U256,
}

impl Taking {
    /// Out of what the proxy was called with; what follows its arguments says nothing.
    pub(crate) fn read(input: &[u8]) -> Option<Self> {
        if let Ok(settleCall { permit, amount, owner, witness, .. }) = settleCall::abi_decode(input) {
            return Some(Self { permit, owner, witness, amount });
        }
        let settleWithPermitCall { permit, amount, owner, witness, .. } = settleWithPermitCall::abi_decode(input).ok()?;
        Some(Self { permit, owner, witness, amount })
    }

    /// Whether it uses the nonce of a permit.
    pub(crate) fn spends(&self, permit: &Permit) -> bool {
        (self.owner, self.permit.nonce) == (permit.from, permit.nonce)
    }

    /// Whether it takes that very permit.
    pub(crate) fn takes(&self, permit: &Permit) -> bool {
        let Self { permit: PermitTransferFrom { permitted, deadline, .. }, witness, .. } = self;
        let bound = (witness.to, witness.facilitator, witness.validAfter) == (permit.to, permit.facilitator, permit.valid_after);
        self.spends(permit) && bound && (permitted.token, permitted.amount, *deadline) == (permit.token, permit.most, permit.deadline)
    }
}

/// The authorisation, as texts.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PermitAuthorization {
    /// Who pays.
    pub from: String,
    /// Of what, and how much at most.
    pub permitted: Permitted,
    /// The contract that takes it.
    pub spender: String,
    /// Decimal; taken once.
    pub nonce: String,
    /// In seconds since 1970, decimal; it is worth nothing after.
    pub deadline: String,
    /// What the contract holds itself to.
    pub witness: Bound,
}

/// Of what, and how much at most.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Permitted {
    /// The token.
    pub token: String,
    /// In its smallest unit, decimal.
    pub amount: String,
}

/// What the contract holds itself to.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Bound {
    /// Who is paid.
    pub to: String,
    /// Who alone says how much.
    pub facilitator: String,
    /// In seconds since 1970, decimal; it is worth nothing before.
    pub valid_after: String,
}

/// An address as every wire writes it, with `0x`: a permit whose payer is written in two ways would be known by two names.
fn address(text: &str) -> Option<Address> {
    text.strip_prefix("0x").filter(|digits| digits.len() == 40)?;
    text.parse().ok()
}

/// An authorisation with its fields as numbers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Permit {
    pub(crate) from: Address,
    pub(crate) token: Address,
    pub(crate) most: U256,
    pub(crate) spender: Address,
    pub(crate) nonce: U256,
    pub(crate) deadline: U256,
    pub(crate) to: Address,
    pub(crate) facilitator: Address,
    pub(crate) valid_after: U256,
}

impl Permit {
    /// The permit in `authorization`; `None` when a field is no number or address.
    pub(crate) fn parse(authorization: &PermitAuthorization) -> Option<Self> {
        let PermitAuthorization { from, permitted, spender, nonce, deadline, witness } = authorization;
        Some(Self {
            from: address(from)?,
            token: address(&permitted.token)?,
            most: decimal(&permitted.amount)?,
            spender: address(spender)?,
            nonce: decimal(nonce)?,
            deadline: decimal(deadline)?,
            to: address(&witness.to)?,
            facilitator: address(&witness.facilitator)?,
            valid_after: decimal(&witness.valid_after)?,
        })
    }

    /// When it ends, in seconds since 1970; the last moment there is where it says later.
    pub(crate) fn deadline_secs(&self) -> u64 {
        u64::try_from(self.deadline).unwrap_or(u64::MAX)
    }

    /// The hash that is signed, for a network.
    pub(crate) fn signing_hash(&self, network: &Network) -> B256 {
        let domain = Eip712Domain::new(Some(Cow::Borrowed("Permit2")), None, network.chain_id().map(U256::from), Some(PERMIT2), None);
        let message = PermitWitnessTransferFrom {
            permitted: TokenPermissions { token: self.token, amount: self.most },
            spender: self.spender,
            nonce: self.nonce,
            deadline: self.deadline,
            witness: Witness { to: self.to, facilitator: self.facilitator, validAfter: self.valid_after },
        };
        message.eip712_signing_hash(&domain)
    }

    /// What the proxy is called with to take so much of it.
    pub(crate) fn taking(&self, amount: U256, signature: Bytes) -> Bytes {
        let permitted = TokenPermissions { token: self.token, amount: self.most };
        let permit = PermitTransferFrom { permitted, nonce: self.nonce, deadline: self.deadline };
        let witness = Witness { to: self.to, facilitator: self.facilitator, validAfter: self.valid_after };
        settleCall { permit, amount, owner: self.from, witness, signature }.abi_encode().into()
    }

    /// True when the payer's key signed it.
    pub(crate) fn signed_by_payer(&self, signature: &str, network: &Network) -> bool {
        signed_by(self.from, signature, self.signing_hash(network))
    }
}

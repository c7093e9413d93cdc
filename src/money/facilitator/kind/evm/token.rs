//! Call data for contracts.

use alloy_primitives::{B256, Bytes};
use alloy_sol_types::{SolCall as _, sol};

use crate::x402::eip3009::Transfer;

sol! {
    /// The functions of the dollar token that are used.
    interface Token {
        function transferWithAuthorization(address from, address to, uint256 value, uint256 valid_after, uint256 valid_before, bytes32 nonce, uint8 v, bytes32 r, bytes32 s);
        function transferWithAuthorization(address from, address to, uint256 value, uint256 valid_after, uint256 valid_before, bytes32 nonce, bytes signature);
        function balanceOf(address account) returns (uint256);
        function allowance(address owner, address spender) returns (uint256);
    }

    /// A contract wallet (EIP-1271).
    function isValidSignature(bytes32 hash, bytes signature) returns (bytes4);
}

/// The kind of signer of a transfer.
pub(super) enum SignedBy {
    /// The payer's own key.
    Key,
    /// A contract, which confirms the signature.
    Contract,
}

/// Encodes the call of the token.
pub(super) fn data(transfer: &Transfer, signature: &str, by: &SignedBy) -> Bytes {
    let Transfer { from, to, value, valid_after, valid_before, nonce } = transfer.clone();
    let signature: Bytes = signature.parse().unwrap_or_default();
    match by {
        SignedBy::Key => {
            let (r, s, v) = (B256::from_slice(&signature[..32]), B256::from_slice(&signature[32..64]), signature[64]);
            Token::transferWithAuthorization_0Call { from, to, value, valid_after, valid_before, nonce, v, r, s }.abi_encode()
        }
        SignedBy::Contract => {
            Token::transferWithAuthorization_1Call { from, to, value, valid_after, valid_before, nonce, signature }.abi_encode()
        }
    }
    .into()
}

//! A payer that prepares payments before the measured calls.

use std::{borrow::Cow, net::SocketAddr, time::UNIX_EPOCH};

use alloy_primitives::{Address, B256, U256};
use alloy_sol_types::{Eip712Domain, SolStruct, sol};
use base64::{Engine as _, engine::general_purpose::STANDARD};
use k256::ecdsa::SigningKey;
use serde_json::{Value, json};

use crate::{
    Failure,
    client::{Client, Request},
};

/// Chain id of Base Sepolia, which every local chain uses.
const CHAIN: u64 = 84_532;

sol! {
    /// The typed data of EIP-3009.
    struct TransferWithAuthorization {
        address from;
        address to;
        uint256 value;
        uint256 validAfter;
        uint256 validBefore;
        bytes32 nonce;
    }
}

/// A key with its address.
pub(crate) struct Payer {
    key: SigningKey,
    pub(crate) address: Address,
}

/// A server's challenge for one call.
pub(crate) struct Challenge(Value);

impl Challenge {
    /// Returns the challenge of `request` without payment.
    pub(crate) fn of(address: SocketAddr, request: &Request) -> Result<Self, Failure> {
        let mut client = Client::connect(address)?;
        let status = client.ask(request)?;
        let query = client.header("payment-required").ok_or_else(|| format!("an answer {status} without a challenge"))?;
        Ok(Self(serde_json::from_slice(&STANDARD.decode(query)?)?))
    }
}

impl Payer {
    /// Creates a payer with a new key.
    pub(crate) fn new() -> Result<Self, Failure> {
        let mut secret = [0; 32];
        getrandom::fill(&mut secret)?;
        let key = SigningKey::from_slice(&secret)?;
        let address = Address::from_private_key(&key);
        Ok(Self { key, address })
    }

    /// Returns copies of `request`, each with its own payment that is valid for ten minutes.
    pub(crate) fn paid(&self, request: &Request, challenge: &Challenge, times: usize) -> Result<Vec<Request>, Failure> {
        (0..times).map(|_| Ok(request.clone().with("payment-signature", &self.payment(challenge)?))).collect()
    }

    fn payment(&self, Challenge(challenge): &Challenge) -> Result<String, Failure> {
        let accepted = &challenge["accepts"][0];
        let text = |value: &Value| value.as_str().map(str::to_owned).ok_or("a challenge that asks for nothing");
        let mut nonce = B256::ZERO;
        getrandom::fill(nonce.as_mut_slice())?;
        let valid_before = UNIX_EPOCH.elapsed()?.as_secs() + 600;
        let message = TransferWithAuthorization {
            from: self.address,
            to: text(&accepted["payTo"])?.parse()?,
            value: text(&accepted["amount"])?.parse()?,
            validAfter: U256::ZERO,
            validBefore: U256::from(valid_before),
            nonce,
        };
        let domain = Eip712Domain::new(
            Some(Cow::Owned(text(&accepted["extra"]["name"])?)),
            Some(Cow::Owned(text(&accepted["extra"]["version"])?)),
            Some(U256::from(CHAIN)),
            Some(text(&accepted["asset"])?.parse()?),
            None,
        );
        let (signature, recovery) = self.key.sign_prehash_recoverable(message.eip712_signing_hash(&domain).as_slice())?;
        let authorization = json!({
            "from": self.address.to_checksum(None),
            "to": accepted["payTo"],
            "value": accepted["amount"],
            "validAfter": "0",
            "validBefore": valid_before.to_string(),
            "nonce": nonce.to_string(),
        });
        let signature = format!("0x{}{:02x}", hex::encode(signature.to_bytes()), 27 + recovery.to_byte());
        let payload = json!({
            "x402Version": 2,
            "resource": challenge["resource"],
            "accepted": accepted,
            "payload": { "signature": signature, "authorization": authorization },
        });
        Ok(STANDARD.encode(payload.to_string()))
    }
}

//! A Solana transaction signed by its payer: the payer, the transfer and the id.
//!
//! Only the parts that determine its identity are parsed. The facilitator, which also signs it and pays the fee, checks
//! the recipient and that it contains only the transfer.

use base64::{Engine as _, engine::general_purpose::STANDARD};
use ed25519_dalek::{Signature, VerifyingKey};
use sha2::{Digest as _, Sha256};

const TOKEN_PROGRAMS: [&str; 2] = ["TokenkegQfeZyiNwAJbNbGKPFXCWuBvf9Ss623VQ5DA", "TokenzQdBNbLqP5VEhdkAS6EPFLC1PHnBqCXEpPxuEb"];

/// Code and length of their instruction that also names the token and its decimals.
const TRANSFER_CHECKED: u8 = 12;
const TRANSFER_BYTES: usize = 10;

/// Index of the token and of the authority among an instruction's accounts.
const MINT: usize = 1;
const AUTHORITY: usize = 3;

/// Maximum size of a transaction on the network, in bytes.
const MAX_BYTES: usize = 1_232;

const KEY_BYTES: usize = 32;
const SIGNATURE_BYTES: usize = 64;

/// A transfer signed by its payer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Transaction {
    /// The payer in base58.
    pub payer: String,
    /// The token's mint, in base58.
    pub mint: String,
    /// The amount in the token's smallest unit.
    pub amount: u64,
    /// SHA-256 of the signed message in hex. The network executes this transfer at most once, whichever fee payer signs it.
    pub message_hash: String,
    /// SHA-256 of the signed message and the payer's signature in hex, which proves possession of the payment.
    pub digest: String,
}

/// Why a transaction is not a payment.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Unreadable {
    #[error("`payload.transaction` must be a transaction of the network, in base64")]
    Form,
    #[error("`payload.transaction` must make exactly one `TransferChecked` of the token")]
    NoTransfer,
    #[error("`payload.transaction`: the payer's signature is missing or wrong")]
    Unsigned,
}

impl Transaction {
    /// Parses a payment from a base64 transaction.
    pub(crate) fn parse(text: &str) -> Result<Self, Unreadable> {
        let bytes = STANDARD.decode(text).ok().filter(|bytes| bytes.len() <= MAX_BYTES).ok_or(Unreadable::Form)?;
        let mut rest = Bytes(&bytes);
        let count = rest.length().ok_or(Unreadable::Form)?;
        let signatures = rest.take(count * SIGNATURE_BYTES).ok_or(Unreadable::Form)?;
        let message = rest.0;
        let Message { signers, keys, transfers } = Message::parse(message).ok_or(Unreadable::Form)?;
        let [Transfer { mint, authority, amount }] = transfers[..] else { return Err(Unreadable::NoTransfer) };
        if count != signers {
            return Err(Unreadable::Form);
        }
        let position = keys[..signers.min(keys.len())].iter().position(|key| *key == authority).ok_or(Unreadable::Unsigned)?;
        let signature = &signatures[position * SIGNATURE_BYTES..(position + 1) * SIGNATURE_BYTES];
        let key = VerifyingKey::from_bytes(authority).map_err(|_| Unreadable::Unsigned)?;
        let signed = Signature::from_slice(signature).and_then(|signature| key.verify_strict(message, &signature));
        signed.map_err(|_| Unreadable::Unsigned)?;
        let hash = Sha256::new().chain_update(message);
        Ok(Self {
            payer: bs58::encode(authority).into_string(),
            mint: bs58::encode(mint).into_string(),
            amount,
            message_hash: hex::encode(hash.clone().finalize()),
            digest: hex::encode(hash.chain_update(signature).finalize()),
        })
    }
}

type Key = [u8; KEY_BYTES];

struct Transfer<'a> {
    mint: &'a Key,
    authority: &'a Key,
    amount: u64,
}

/// The parsed parts of the signed message.
struct Message<'a> {
    /// The number of keys that sign, which come first.
    signers: usize,
    keys: Vec<&'a Key>,
    transfers: Vec<Transfer<'a>>,
}

impl<'a> Message<'a> {
    fn parse(bytes: &'a [u8]) -> Option<Self> {
        let mut rest = Bytes(bytes);
        let versioned = bytes.first()? & 0x80 != 0;
        if versioned && rest.byte()? != 0x80 {
            return None;
        }
        let signers = usize::from(rest.byte()?);
        rest.take(2)?;
        let keys = (0..rest.length()?).map(|_| rest.take(KEY_BYTES)?.try_into().ok()).collect::<Option<Vec<&Key>>>()?;
        rest.take(KEY_BYTES)?;
        let programs = TOKEN_PROGRAMS.map(|program| bs58::decode(program).into_vec().unwrap_or_default());
        let mut transfers = Vec::new();
        for _ in 0..rest.length()? {
            let program = keys.get(usize::from(rest.byte()?));
            let count = rest.length()?;
            let accounts = rest.take(count)?;
            let count = rest.length()?;
            let data = rest.take(count)?;
            let moves = program.is_some_and(|program| programs.iter().any(|known| known[..] == program[..]));
            if !moves || data.first() != Some(&TRANSFER_CHECKED) || data.len() != TRANSFER_BYTES {
                continue;
            }
            let account = |position: usize| keys.get(usize::from(*accounts.get(position)?)).copied();
            let amount = u64::from_le_bytes(data[1..9].try_into().ok()?);
            transfers.push(Transfer { mint: account(MINT)?, authority: account(AUTHORITY)?, amount });
        }
        // Accounts in address lookup tables, which are none of the above.
        let whole = if versioned { rest.tables() } else { rest.0.is_empty().then_some(()) };
        whole.map(|()| Self { signers, keys, transfers })
    }
}

struct Bytes<'a>(&'a [u8]);

impl<'a> Bytes<'a> {
    fn take(&mut self, count: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(count)?;
        self.0 = rest;
        Some(taken)
    }

    fn byte(&mut self) -> Option<u8> {
        self.take(1).map(|byte| byte[0])
    }

    /// Reads a compact length: seven bits per byte, lowest first, in the fewest bytes.
    fn length(&mut self) -> Option<usize> {
        let mut length = 0;
        for position in 0..3 {
            let byte = self.byte()?;
            length |= usize::from(byte & 0x7f) << (7 * position);
            if byte & 0x80 == 0 {
                return (position == 0 || byte != 0).then_some(length);
            }
        }
        None
    }

    /// Reads the lookup tables of version 0, which must be at the end.
    fn tables(&mut self) -> Option<()> {
        for _ in 0..self.length()? {
            self.take(KEY_BYTES)?;
            for _ in 0..2 {
                let count = self.length()?;
                self.take(count)?;
            }
        }
        self.0.is_empty().then_some(())
    }
}

#[cfg(test)]
pub(crate) mod tests;

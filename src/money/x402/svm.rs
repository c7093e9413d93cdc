//! A Solana transaction that its payer has signed: whose it is, what it moves, and what it is known by.
//!
//! Only as much of it is read as identity hangs on. That nothing but the transfer is in it, and that it goes to whom it should, is the
//! facilitator's to check, who signs it too and pays for it.

use std::fmt;

use base64::{Engine as _, engine::general_purpose::STANDARD};
use ed25519_dalek::{Signature, VerifyingKey};
use sha2::{Digest as _, Sha256};

/// The programs that move tokens.
const TOKEN_PROGRAMS: [&str; 2] = ["TokenkegQfeZyiNwAJbNbGKPFXCWuBvf9Ss623VQ5DA", "TokenzQdBNbLqP5VEhdkAS6EPFLC1PHnBqCXEpPxuEb"];

/// What an instruction of theirs begins with that says the token and its decimals too, and how long its data is.
const TRANSFER_CHECKED: u8 = 12;
const TRANSFER_BYTES: usize = 10;

/// The place among an instruction's accounts of the token, and of who lets it go.
const MINT: usize = 1;
const AUTHORITY: usize = 3;

/// Longest transaction that the network takes, in bytes.
const MAX_BYTES: usize = 1_232;

const KEY_BYTES: usize = 32;
const SIGNATURE_BYTES: usize = 64;

/// A transfer that its payer has signed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Transaction {
    /// Who pays, in base58.
    pub payer: String,
    /// The token's mint, in base58.
    pub mint: String,
    /// In the token's smallest unit.
    pub amount: u64,
    /// SHA-256 of what is signed, in hex: one transfer that the network makes once at most, whoever completes it.
    pub message_hash: String,
    /// SHA-256 of what is signed and the payer's signature, in hex: who shows it holds the payment.
    pub digest: String,
}

/// Why a transaction is no payment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Unreadable {
    /// It does not have the form of one.
    Form,
    /// It does not make one transfer of a token.
    NoTransfer,
    /// The payer did not sign it.
    Unsigned,
}

impl fmt::Display for Unreadable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Form => "payload.transaction: a transaction of the network, in base64",
            Self::NoTransfer => "payload.transaction: it makes one `TransferChecked` of the token",
            Self::Unsigned => "payload.transaction: the payer's signature is missing, or is not the payer's",
        })
    }
}

impl Transaction {
    /// The payment in a transaction, as base64.
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
        let place = keys[..signers.min(keys.len())].iter().position(|key| *key == authority).ok_or(Unreadable::Unsigned)?;
        let signature = &signatures[place * SIGNATURE_BYTES..(place + 1) * SIGNATURE_BYTES];
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

/// One transfer of a token.
struct Transfer<'a> {
    mint: &'a Key,
    authority: &'a Key,
    amount: u64,
}

/// What is signed, as far as it is read.
struct Message<'a> {
    /// The first so many keys sign.
    signers: usize,
    keys: Vec<&'a Key>,
    transfers: Vec<Transfer<'a>>,
}

impl<'a> Message<'a> {
    /// A message of the oldest form, or of version 0.
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
            let account = |place: usize| keys.get(usize::from(*accounts.get(place)?)).copied();
            let amount = u64::from_le_bytes(data[1..9].try_into().ok()?);
            transfers.push(Transfer { mint: account(MINT)?, authority: account(AUTHORITY)?, amount });
        }
        // Accounts that stand in tables elsewhere: none of the above is one.
        let whole = if versioned { rest.tables() } else { rest.0.is_empty().then_some(()) };
        whole.map(|()| Self { signers, keys, transfers })
    }
}

/// What is left to read.
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

    /// A length as Solana writes it: seven bits in a byte, the lowest first, in the fewest bytes.
    fn length(&mut self) -> Option<usize> {
        let mut length = 0;
        for place in 0..3 {
            let byte = self.byte()?;
            length |= usize::from(byte & 0x7f) << (7 * place);
            if byte & 0x80 == 0 {
                return (place == 0 || byte != 0).then_some(length);
            }
        }
        None
    }

    /// The tables of version 0, and nothing behind them.
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

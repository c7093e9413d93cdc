//! Sends a transaction through a node, and interprets the answer.
//!
//! Only a refusal on the list below, from a node that does not have the transaction, means that it was not sent. Any
//! other answer leaves open whether it is in some pool: a gateway that broadcasts and then answers 504, an internal
//! error, HTML.

use alloy_primitives::{B256, Bytes};
use reqwest::StatusCode;
use serde_json::{Value, json};

use super::node::{Node, RpcError};

/// State of a transaction after one attempt to send it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum SendOutcome {
    /// The node has it.
    Accepted,
    /// The node accepts it only after the transactions before it have arrived.
    Early(String),
    /// The node rejected it.
    Refused(String),
    /// The node has a transaction with this nonce, in its pool or in a block. It may be this one.
    Contested(String),
    /// It may be in a pool.
    Unclear(String),
}

/// How a refusal's message is matched, in lower case.
enum MessageMatch {
    Is(&'static str),
    Begins(&'static str),
}

/// Refusals that nodes return before they keep a transaction: JSON-RPC code and message. A used nonce and an
/// underpriced replacement are missing on purpose, because nodes also return them for a transaction that was accepted
/// before.
const REFUSALS: &[(i64, MessageMatch)] = &[
    // geth, op-geth, nitro; reth and erigon use the same code and most of the texts.
    (-32000, MessageMatch::Begins("insufficient funds for gas")),
    (-32000, MessageMatch::Begins("insufficient funds for transfer")),
    (-32000, MessageMatch::Begins("insufficient funds for l1")),
    (-32000, MessageMatch::Begins("intrinsic gas too low")),
    (-32000, MessageMatch::Begins("gas required exceeds allowance")),
    (-32000, MessageMatch::Begins("floor data gas cost")),
    (-32000, MessageMatch::Begins("insufficient gas for floor data gas cost")),
    (-32000, MessageMatch::Begins("transaction underpriced")),
    (-32000, MessageMatch::Begins("max fee per gas less than block base fee")),
    (-32000, MessageMatch::Begins("max priority fee per gas higher than max fee per gas")),
    (-32000, MessageMatch::Begins("gas tip cap")),
    (-32000, MessageMatch::Begins("exceeds block gas limit")),
    (-32000, MessageMatch::Begins("transaction gas limit too high")),
    (-32000, MessageMatch::Begins("tx fee (")),
    (-32000, MessageMatch::Begins("invalid sender")),
    (-32000, MessageMatch::Begins("invalid chain id")),
    (-32000, MessageMatch::Begins("only replay-protected (eip-155) transactions allowed")),
    (-32000, MessageMatch::Begins("transaction type not supported")),
    (-32000, MessageMatch::Is("txpool is full")),
    // erigon.
    (-32000, MessageMatch::Is("insufficient funds")),
    (-32000, MessageMatch::Is("internal_error: insufficient funds")),
    (-32000, MessageMatch::Is("rpc error response: internal_error: insufficient funds")),
    (-32000, MessageMatch::Is("underpriced")),
    (-32000, MessageMatch::Is("internal_error: underpriced")),
    (-32000, MessageMatch::Is("fee too low")),
    (-32000, MessageMatch::Is("internal_error: fee too low")),
    (-32000, MessageMatch::Is("internal_error: intrinsic gas too low")),
    // reth and anvil: the transaction was rejected (EIP-1474).
    (-32003, MessageMatch::Begins("insufficient funds for gas")),
    (-32003, MessageMatch::Begins("intrinsic gas too low")),
    (-32003, MessageMatch::Begins("gas too low")),
    (-32003, MessageMatch::Begins("gas required exceeds allowance")),
    (-32003, MessageMatch::Begins("out of gas: gas required exceeds allowance")),
    (-32003, MessageMatch::Begins("transaction underpriced")),
    (-32003, MessageMatch::Begins("max fee per gas less than block base fee")),
    (-32003, MessageMatch::Begins("exceeds block gas limit")),
    (-32003, MessageMatch::Begins("gas too high")),
    (-32003, MessageMatch::Begins("invalid chain id")),
    (-32003, MessageMatch::Is("txpool is full")),
    // nethermind.
    (-32010, MessageMatch::Begins("insufficientfunds")),
    (-32010, MessageMatch::Begins("feetoolow,")),
    (-32010, MessageMatch::Is("feetoolow")),
    (-32010, MessageMatch::Begins("gaslimitexceeded")),
    (-32010, MessageMatch::Begins("senderiscontract")),
    // besu.
    (-32004, MessageMatch::Begins("upfront cost exceeds account balance")),
    (-32003, MessageMatch::Begins("intrinsic gas exceeds gas limit")),
    (-32005, MessageMatch::Begins("transaction gas limit exceeds block gas limit")),
    (-32009, MessageMatch::Begins("gas price below configured minimum gas price")),
    (-32002, MessageMatch::Begins("invalid signature")),
];

/// Messages for a transaction that the node already has.
const KNOWN: &[&str] = &["already known", "already imported", "known transaction", "alreadyknown", "existing tx with same hash"];

/// Messages of nodes that do not queue early transactions.
const EARLY: &[&str] = &["nonce too high", "nonce gap", "noncegap", "nonce too far in", "nonce too distant", "nonce is too distant"];

/// Messages for a nonce that this or another transaction already uses.
const CONTESTED: &[&str] = &["nonce", "replacement", "replace existing"];

impl Node {
    /// Sends a transaction with the hash `hash`.
    pub(crate) async fn send(&self, raw: &Bytes, hash: B256) -> SendOutcome {
        if let Err(error) = self.proven().await {
            // Nothing was sent.
            return SendOutcome::Refused(error.to_string());
        }
        let error = match self.rpc::<B256>("eth_sendRawTransaction", json!([raw])).await {
            Ok(_) => return SendOutcome::Accepted,
            Err(error) => error,
        };
        let sending = read(&error);
        if !matches!((&sending, &error), (SendOutcome::Refused(_), RpcError::Answered { .. })) {
            return sending;
        }
        // A gateway may have asked a second node after the first one accepted it.
        match self.rpc::<Value>("eth_getTransactionByHash", json!([hash])).await {
            Ok(Value::Null) => sending,
            Ok(_) => SendOutcome::Accepted,
            Err(more) => SendOutcome::Unclear(format!("{error}; {more}")),
        }
    }
}

/// Interprets an error of `eth_sendRawTransaction`.
fn read(error: &RpcError) -> SendOutcome {
    let reason = error.to_string();
    let (status, code, message) = match error {
        RpcError::Unsent(_) | RpcError::WrongChain(..) => return SendOutcome::Refused(reason),
        RpcError::Silent(_) | RpcError::TooLarge { .. } | RpcError::Unclear { .. } => return SendOutcome::Unclear(reason),
        RpcError::Answered { status, code, message, .. } => (*status, *code, message.to_lowercase()),
    };
    // The error of a failing or overloaded server does not show what it did before.
    if !status.is_success() && status != StatusCode::BAD_REQUEST {
        return SendOutcome::Unclear(reason);
    }
    let wording = |texts: &[&str]| texts.iter().any(|text| message.contains(text));
    let refuses = REFUSALS.iter().any(|(of, text)| {
        *of == code
            && match text {
                MessageMatch::Is(text) => message == *text,
                MessageMatch::Begins(text) => message.starts_with(text),
            }
    });
    match () {
        () if refuses => SendOutcome::Refused(reason),
        // "unknown transaction type" does not count.
        () if wording(KNOWN) && !wording(&["unknown"]) => SendOutcome::Accepted,
        () if wording(EARLY) => SendOutcome::Early(reason),
        () if wording(CONTESTED) => SendOutcome::Contested(reason),
        () => SendOutcome::Unclear(reason),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn outcome_of(status: u16, code: i64, message: &str) -> SendOutcome {
        let status = StatusCode::from_u16(status).unwrap();
        read(&RpcError::Answered { method: "eth_sendRawTransaction", status, code, message: message.to_owned(), data: None })
    }

    #[test]
    fn a_refusal_needs_its_code_text_and_status() {
        let (code, text) = (-32000, "insufficient funds for gas * price + value: balance 1, tx cost 2");
        for status in [200, 400] {
            assert!(matches!(outcome_of(status, code, text), SendOutcome::Refused(_)), "{status}");
        }
        for status in [429, 500, 502, 503, 504] {
            assert!(matches!(outcome_of(status, code, text), SendOutcome::Unclear(_)), "{status}");
        }
        for code in [-32603, -32005, 0, 429] {
            assert!(matches!(outcome_of(200, code, text), SendOutcome::Unclear(_)), "{code}");
        }
        for text in ["insufficient funds on your plan", "you have insufficient funds for gas", "", "rate limit: transaction underpriced"] {
            assert!(matches!(outcome_of(200, code, text), SendOutcome::Unclear(_)), "{text}");
        }
    }

    #[test]
    fn an_answer_about_the_nonce_leaves_sending_open() {
        for text in ["nonce too low", "replacement transaction underpriced", "could not replace existing tx", "OldNonce, Current nonce: 9"]
        {
            assert!(matches!(outcome_of(200, -32000, text), SendOutcome::Contested(_)), "{text}");
        }
        for text in ["already known", "ALREADY_EXISTS: already known", "Known transaction", "AlreadyKnown"] {
            assert_eq!(outcome_of(200, -32000, text), SendOutcome::Accepted, "{text}");
        }
        for text in ["nonce too high: address 0x1, tx: 8 state: 7", "NonceGap, Future nonce. Expected nonce: 7"] {
            assert!(matches!(outcome_of(200, -32000, text), SendOutcome::Early(_)), "{text}");
        }
    }

    #[test]
    fn a_transaction_that_never_left_the_host_is_refused() {
        assert!(matches!(read(&RpcError::Unsent("connection refused".to_owned())), SendOutcome::Refused(_)));
        assert!(matches!(read(&RpcError::Silent("answered 502 without JSON".to_owned())), SendOutcome::Unclear(_)));
    }
}

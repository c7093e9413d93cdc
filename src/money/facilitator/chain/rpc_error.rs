//! Why a request to a node has no result, and whose fault that is.

use alloy_primitives::{Bytes, U256};
use reqwest::StatusCode;

/// If a node had less gas than this for a call, the signer's balance was too low for more.
/// It is half of the maximum of a settlement.
const LEAST_ALLOWANCE: u64 = 500_000;

/// Methods that run code of contracts.
const SIMULATING: &[&str] = &["eth_call", "eth_estimateGas"];

/// JSON-RPC error codes for too many requests (EIP-1474, and providers).
const RATE_CODES: &[i64] = &[-32005, 429];

/// Parts of nodes' messages for too many requests, in lower case.
const RATE_WORDS: &[&str] = &["rate limit", "rate-limit", "too many requests", "request limit", "compute units per second"];

/// JSON-RPC error codes that concern the request or the node: unknown method, invalid parameters, limits of the
/// provider.
const OF_THE_NODE: &[i64] = &[-32700, -32600, -32601, -32602, -32005, 429];

/// Parts of nodes' messages for code that failed before its end, in lower case with only letters and digits.
const STOPPED: &[&str] = &[
    "outofgas",
    "insufficientgas",
    "gasrequiredexceeds",
    "gasuint64overflow",
    "opcode",
    "badinstruction",
    "invalidinstruction",
    "invalidoperation",
    "invalidjump",
    "jumpdestination",
    "stackunderflow",
    "stackoverflow",
    "stacklimit",
    "writeprotection",
    "staticcall",
    "accessviolation",
    "returndataoutofbounds",
    "outofoffset",
    "calldepth",
    "calltoodeep",
    "memorylimit",
    "memoryoog",
    "precompileoog",
    "operandoog",
    "executionhalted",
    "executionerror",
    "executionaborted",
    "executiontimeout",
    "executiontimedout",
    "evmtimeout",
    "vmtimeout",
    "calltimedout",
    "responsetoolarge",
    "responsesizeexceeded",
    "vmerror",
];

/// Why a request has no result.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum RpcError {
    /// There was no connection.
    #[error("the node cannot be reached: {0}")]
    Unsent(String),
    /// The request may have arrived.
    #[error("the node did not answer: {0}")]
    Silent(String),
    /// The answer is too large to read.
    #[error("{method}: the node's {reason}")]
    TooLarge { method: &'static str, reason: String },
    /// The answer is a JSON-RPC error.
    #[error("{method}: {message}")]
    Answered { method: &'static str, status: StatusCode, code: i64, message: String, data: Option<Bytes> },
    /// The answer is JSON but neither an error nor a result of JSON-RPC. Gateways in front of a node do that.
    #[error("{method}: status {status}: {message}")]
    Unclear { method: &'static str, status: StatusCode, message: String },
    /// It is a node of another network.
    #[error("the node serves chain {0}, but payments are made on {1}")]
    WrongChain(U256, &'static str),
}

impl RpcError {
    /// Returns whether the contract failed, as opposed to the node: it reverted, or its code could not run to its end.
    pub(crate) fn reverted(&self) -> bool {
        if let Self::TooLarge { method, .. } = self {
            // Only a contract can make the result of such a request, or the data of its revert, so large.
            return SIMULATING.contains(method);
        }
        let Self::Answered { code, message, data, .. } = self else { return false };
        let message = message.to_lowercase();
        // This comes first, because the contract chooses the rest of the message.
        if data.is_some() || message.contains("revert") {
            return true;
        }
        if OF_THE_NODE.contains(code) || allowance(&message).is_some_and(|gas| gas < LEAST_ALLOWANCE) {
            return false;
        }
        let letters: String = message.chars().filter(char::is_ascii_alphanumeric).collect();
        STOPPED.iter().any(|words| letters.contains(words))
    }

    /// Returns whether the node refused the request because too many were sent.
    pub(crate) fn is_rate_refusal(&self) -> bool {
        let worded = |message: &str| RATE_WORDS.iter().any(|words| message.to_lowercase().contains(words));
        match self {
            // A search for events is also refused, with the same codes, for the number of its blocks.
            Self::Answered { method, status, code, message, .. } if *method != "eth_getLogs" && !self.reverted() => {
                *status == StatusCode::TOO_MANY_REQUESTS || RATE_CODES.contains(code) || worded(message)
            }
            Self::Unclear { status, .. } => *status == StatusCode::TOO_MANY_REQUESTS,
            Self::Silent(reason) => reason.starts_with("answered 429"),
            _ => false,
        }
    }

    /// Returns whether an error of a simulation that is not a [revert](Self::reverted) can be the doing of the contract
    /// that was called, which may make the node slow or fail.
    pub(crate) fn may_be_provoked(&self) -> bool {
        match self {
            Self::Unsent(_) | Self::WrongChain(..) => false,
            Self::Answered { code, message, .. } => {
                // The last two are about the signer's balance.
                let message = message.to_lowercase();
                let is_of_node = OF_THE_NODE.contains(code) || message.contains("insufficient funds") || allowance(&message).is_some();
                !is_of_node && !self.is_rate_refusal()
            }
            _ => !self.is_rate_refusal(),
        }
    }
}

/// Parses the gas that a node had for a call that needed more, if the message contains it.
fn allowance(message: &str) -> Option<u64> {
    let (_, rest) = message.split_once("exceeds allowance")?;
    let digits: String = rest.chars().skip_while(|c| !c.is_ascii_digit()).take_while(char::is_ascii_digit).collect();
    digits.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn error(code: i64, message: &str) -> RpcError {
        RpcError::Answered { method: "eth_call", status: StatusCode::OK, code, message: message.to_owned(), data: None }
    }

    #[test]
    fn code_that_cannot_complete_counts_as_reverted() {
        for (code, message) in [
            (3, "execution reverted: rate limit exceeded"),
            (-32000, "execution reverted: exceeds allowance (1)"),
            (-32000, "out of gas"),
            (-32000, "gas required exceeds allowance (50000000)"),
            (-32003, "Out of gas: gas required exceeds allowance: 1000000"),
            (-32000, "invalid opcode: INVALID"),
            (-32603, "EVM error InvalidFEOpcode"),
            (-32603, "EVM error OutOfGas"),
            (-32000, "invalid jump destination"),
            (-32000, "stack limit reached 1024 (1023)"),
            (-32000, "write protection"),
            (-32015, "VM execution error."),
            (-32603, "Execution halted"),
            (-32000, "execution aborted (timeout = 5s)"),
            (-32000, "execution timeout"),
            (-32003, "response too large"),
        ] {
            assert!(error(code, message).reverted(), "{code} {message}");
        }
    }

    #[test]
    fn errors_of_the_node_are_not_reverts() {
        for (code, message) in [
            (-32601, "the method eth_call does not exist"),
            (-32603, "Internal error"),
            (-32005, "rate limited: out of gas credits"),
            (429, "Too Many Requests"),
            (-32000, "header not found"),
            (-32000, "missing trie node"),
            (-32000, "insufficient funds for gas * price + value: balance 0"),
            (-32000, "gas required exceeds allowance (21000)"),
        ] {
            assert!(!error(code, message).reverted(), "{code} {message}");
        }
        assert!(!RpcError::Silent("out of gas".to_owned()).reverted());
    }

    /// Regression test: a payer's contract reverted with 140 kB of data, which counted as an outage of the node.
    #[test]
    fn answer_too_large_to_read_is_a_revert_where_a_contract_made_it() {
        let too_large = |method| RpcError::TooLarge { method, reason: "answer is larger than 262144 bytes".to_owned() };
        assert!(too_large("eth_call").reverted() && too_large("eth_estimateGas").reverted());
        assert!(!too_large("eth_getLogs").reverted());
    }

    #[test]
    fn refusals_for_too_many_requests_are_recognized() {
        let too_many = StatusCode::TOO_MANY_REQUESTS;
        for refusal in [
            error(-32005, "limit exceeded"),
            error(429, "Too Many Requests"),
            error(-32007, "100/second request limit reached"),
            RpcError::Unclear { method: "eth_call", status: too_many, message: "slow down".to_owned() },
            RpcError::Silent("answered 429 Too Many Requests without JSON".to_owned()),
        ] {
            assert!(refusal.is_rate_refusal() && !refusal.may_be_provoked(), "{refusal}");
        }
        let revert = error(3, "execution reverted: rate limit exceeded");
        let range = RpcError::Answered {
            method: "eth_getLogs",
            status: StatusCode::OK,
            code: -32005,
            message: "query exceeds max block range".to_owned(),
            data: None,
        };
        assert!(!revert.is_rate_refusal() && !range.is_rate_refusal() && !error(-32603, "Internal error").is_rate_refusal());
    }

    #[test]
    fn a_contract_can_provoke_failures_of_the_node_but_not_its_absence() {
        let no_answer = RpcError::Silent("no answer within 10 s".to_owned());
        assert!(no_answer.may_be_provoked() && error(-32603, "Internal error").may_be_provoked());
        for error in [
            RpcError::Unsent("connection refused".to_owned()),
            error(-32601, "the method eth_call does not exist"),
            error(-32000, "gas required exceeds allowance (21000)"),
        ] {
            assert!(!error.may_be_provoked(), "{error}");
        }
    }
}

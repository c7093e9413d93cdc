//! Errors in settings.

use std::{net::SocketAddr, path::PathBuf};

use tollhouse_account::token::TooShort;
use tollhouse_capability::secret;
use tollhouse_catalog::safety::ListError;
use tollhouse_money::{ConfigError, FacilitatorKind, receipt, sale::WHOLE_BPS};
use tollhouse_objects::BucketError;
use tollhouse_pool::InvalidUserRange;
use tollhouse_store::postgres::OpenError;

/// An error in the settings.
#[derive(Debug, thiserror::Error)]
#[expect(missing_docs, reason = "each says itself what it is")]
pub enum SettingsError {
    #[error("`{path}` cannot be read")]
    Read { path: PathBuf, source: std::io::Error },
    #[error("`{path}` is not a settings file")]
    Parse { path: PathBuf, source: ParseError },
    #[error("`{path}` has an unknown setting: `{key}`")]
    Key { path: PathBuf, key: String },
    #[error("the facilitator `{0}` needs an address: set `X402_FACILITATOR_URL`")]
    NoFacilitatorUrl(FacilitatorKind),
    #[error("the facilitator `{facilitator}` needs a node of `{network}`: set `TOLLHOUSE_RPC_URL`, or `TOLLHOUSE_NETWORK_RPC_URLS`")]
    NoNode { facilitator: FacilitatorKind, network: &'static str },
    #[error("the facilitator `{facilitator}` does not settle on `{network}`; name one that does in `TOLLHOUSE_NETWORK_FACILITATORS`")]
    NotSettledBy { facilitator: FacilitatorKind, network: &'static str },
    #[error("play money and real money cannot be mixed on one host: use `simulated` for all of its networks, or for none")]
    PlayAndRealMoney,
    #[error(
        "`{test}` is a test network, whose tokens are worthless, and `{main}` is not: payers on `{test}` would get tools for nothing, and their \
         builders would be owed real money. List networks of one kind in `TOLLHOUSE_NETWORK`, and use one host for each kind"
    )]
    TestAndMainNetworks { test: &'static str, main: &'static str },
    #[error("`{setting}`: {error}")]
    UnknownNetwork { setting: &'static str, error: ConfigError },
    #[error("an entry of `{setting}` must have the form `NETWORK=VALUE`")]
    NoPair { setting: &'static str },
    #[error("`{setting}` has an entry for `{network}`, which is not among the networks of `TOLLHOUSE_NETWORK`")]
    NotANetworkOfOurs { setting: &'static str, network: &'static str },
    #[error("`TOLLHOUSE_OBJECTS`: {0}")]
    Objects(BucketError),
    #[error("the address in `TOLLHOUSE_STORE` cannot be used")]
    Database(#[from] OpenError),
    #[error(transparent)]
    Payment(#[from] ConfigError),
    #[error("the facilitator `{0}` pays gas: set `TOLLHOUSE_GAS_KEY` or `TOLLHOUSE_GAS_KEY_FILE` to the key of an account that can pay it")]
    NoGasKey(FacilitatorKind),
    #[error("`CDP_API_KEY_ID` and `CDP_API_KEY_SECRET` must be set together")]
    HalfAKey,
    #[error("the facilitator `{facilitator}` takes real money: set `{setting}` to the address that receives it")]
    NoPayTo { facilitator: FacilitatorKind, setting: &'static str },
    #[error(
        "the simulated facilitator accepts play money, so the host can listen only on loopback, and `{0}` is not a loopback address. Set \
         `TOLLHOUSE_FACILITATOR=http`, or `--allow-simulated-public` if this is intended"
    )]
    SimulatedInPublic(SocketAddr),
    #[error(
        "`{0}` is not a base URL: set `TOLLHOUSE_BASE_URL` to a URL that begins with `http://` or `https://` and a host, and has no query"
    )]
    BaseUrl(String),
    #[error("`{0}` in `TOLLHOUSE_TRUSTED_PROXIES` is not an IP address or a network, for example `10.0.0.0/8`")]
    TrustedProxy(String),
    #[error("the fee in `TOLLHOUSE_FEE_BPS` is {0} basis points, and the maximum is {WHOLE_BPS}, the whole price")]
    Fee(u16),
    #[error(
        "`{text}` confirmations in `TOLLHOUSE_CONFIRMATIONS` or `TOLLHOUSE_NETWORK_CONFIRMATIONS` are not valid: set a number of blocks from 1 \
         to {max}"
    )]
    Confirmations { text: String, max: u64 },
    #[error("`{text}` in `TOLLHOUSE_NETWORK_LEAST_SETTLEMENTS_USD`: {reason}")]
    LeastSettlement { text: String, reason: String },
    #[error(
        "`TOLLHOUSE_NETWORK_CONFIRMATIONS` names `{0}`, but no node is set there to count blocks: set `TOLLHOUSE_NETWORK_RPC_URLS` for it"
    )]
    NoNodeForConfirmations(&'static str),
    #[error("`TOLLHOUSE_CONFIRMATIONS` is {0}, but no network has a node that counts blocks: set `TOLLHOUSE_RPC_URL`")]
    NoNodeForAnyConfirmations(u64),
    #[error(
        "the tools of the conformance suite are for tests, so the host can listen only on loopback, and `{0}` is not a loopback address"
    )]
    ConformanceInPublic(SocketAddr),
    #[error("`{flag}` is {given}, but must be from {least} to {max}")]
    Range { flag: &'static str, given: u64, least: u64, max: u64 },
    #[error("the content safety lists are invalid: {0}")]
    SafetyLists(#[from] ListError),
    #[error("`{name}` is not a layer of the jail; `--sandbox-strict` accepts {known}")]
    Layer { name: String, known: String },
    #[error("`{0}` is not a tier; `--sandbox-tier` must be `jit` or `jitless`")]
    Tier(String),
    #[error("`--sandbox-users` is invalid")]
    Users(#[from] InvalidUserRange),
    #[error("`TOLLHOUSE_ADMIN_TOKEN` or `TOLLHOUSE_ADMIN_TOKEN_FILE`: the admin token is invalid")]
    AdminToken(#[source] TooShort),
    #[error("`TOLLHOUSE_METRICS_TOKEN` or `TOLLHOUSE_METRICS_TOKEN_FILE`: the token for metrics is invalid")]
    MetricsToken(#[source] TooShort),
    #[error("the master key of the secrets cannot be read")]
    MasterKey(#[source] secret::KeyError),
    #[error("`TOLLHOUSE_RECEIPT_KEY` or `TOLLHOUSE_RECEIPT_KEY_FILE`: the receipt key cannot be read")]
    ReceiptKey(#[source] receipt::KeyError),
    #[error("`{0}` is not the address of a collector: write a complete URL that begins with `http://` or `https://` and has no query")]
    OtlpEndpoint(&'static str),
    #[error("`{0}` must be `name=value`, with commas between several pairs and percent-encoded values")]
    OtlpHeaders(&'static str),
    #[error("there is no worker at `{0}`: set `TOLLHOUSE_WORKER` to the path of `tollhouse-worker`, or build it with `cargo xtask serve`")]
    NoWorker(PathBuf),
}

/// The error of a settings file that cannot be parsed. It does not contain the faulty line, which may hold a secret.
#[derive(Debug, thiserror::Error)]
#[error("line {line}: {reason}")]
pub struct ParseError {
    /// Number of the line, from 1.
    pub line: usize,
    /// The parser's message, without the text of the line.
    pub reason: String,
}

impl ParseError {
    /// Converts a parser's error about `text`.
    #[must_use]
    pub fn of(text: &str, error: &toml::de::Error) -> Self {
        let start = error.span().unwrap_or_default().start;
        Self { line: line_of(text, start), reason: error.message().to_owned() }
    }
}

/// Returns the line of a byte offset, from 1.
pub(super) fn line_of(text: &str, at: usize) -> usize {
    1 + text.bytes().take(at).filter(|byte| *byte == b'\n').count()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn error_names_the_line_without_its_text() {
        let text = "a = 1\nmaster_key = \"SECRET\" b\n";
        let message = ParseError::of(text, &toml::from_str::<toml::Table>(text).unwrap_err()).to_string();
        assert!(message.starts_with("line 2: ") && !message.contains("SECRET"), "{message}");
    }
}

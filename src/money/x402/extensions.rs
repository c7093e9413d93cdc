//! Extensions of a challenge, and their echo in a payment.
//!
//! A client echoes the extensions, and may add to them. An echo is not signed and has no effect, except that it is
//! [compared](check_echo) with the challenge.

use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use serde_json::{Map, Value, json};

use super::bazaar::{self, BAZAAR, Detail};
use crate::{CallTerms, EntryMethod, Refusal};

pub(crate) const PAYMENT_IDENTIFIER: &str = "payment-identifier";
pub(crate) const OFFER_RECEIPT: &str = "offer-receipt";
pub(crate) const REPLAY_TOKEN: &str = "replay-token";

pub(crate) const ALL: [&str; 4] = [PAYMENT_IDENTIFIER, REPLAY_TOKEN, OFFER_RECEIPT, BAZAAR];

/// Whether a client must name its payment.
const NAME_REQUIRED: bool = false;

/// Maximum size of the directory entry that is sent to a facilitator with a payment, in bytes.
const MAX_ENTRY_BYTES: usize = 8 << 10;

/// The parts that are left out of a challenge, so that it fits into its header. Each level includes the previous ones.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum ChallengeDetail {
    None,
    /// The tool's output schema.
    Output,
    /// The schemas of the extensions, which are the same in every challenge.
    Forms,
    Schemas,
    Directories,
    Description,
    Offers,
}

impl ChallengeDetail {
    /// The part that is left out first.
    pub(super) const FIRST: Self = Self::Output;
    /// All parts in the order in which they are left out.
    pub(super) const MORE: [Self; 6] = [Self::FIRST, Self::Forms, Self::Schemas, Self::Directories, Self::Description, Self::Offers];
}

/// Builds the extensions of a challenge, with its signed offers, if any, and a unique token.
pub(super) fn extensions_json(
    terms: &CallTerms,
    method: EntryMethod,
    offers: &[Value],
    token: Option<&str>,
    cut: ChallengeDetail,
) -> Value {
    let mut body = Map::new();
    let form = |of: fn() -> Value| if cut < ChallengeDetail::Forms { of() } else { json!({ "type": "object" }) };
    body.insert(PAYMENT_IDENTIFIER.to_owned(), json!({ "info": { "required": NAME_REQUIRED }, "schema": form(name_schema) }));
    if let Some(token) = token {
        body.insert(REPLAY_TOKEN.to_owned(), json!({ "info": { "token": token }, "schema": form(token_schema) }));
    }
    if !offers.is_empty() && cut < ChallengeDetail::Offers {
        body.insert(OFFER_RECEIPT.to_owned(), json!({ "info": { "offers": offers }, "schema": form(offers_schema) }));
    }
    if cut < ChallengeDetail::Directories {
        let detail = match cut {
            ChallengeDetail::None => Detail::Full,
            ChallengeDetail::Output | ChallengeDetail::Forms => Detail::Input,
            ChallengeDetail::Schemas | ChallengeDetail::Directories | ChallengeDetail::Description | ChallengeDetail::Offers => {
                Detail::Short
            }
        };
        body.insert(BAZAAR.to_owned(), bazaar::entry(terms, method, detail));
    }
    Value::Object(body)
}

/// Generates a token for a challenge: 128 random bits in base64url. `None` if the system has no randomness.
pub(super) fn new_token() -> Option<String> {
    let mut random = [0_u8; 16];
    getrandom::fill(&mut random).ok()?;
    Some(URL_SAFE_NO_PAD.encode(random))
}

/// Returns the challenge's token in a payment. Only the payer has it, because it is not on the chain.
pub(super) fn token_of(payload: &Value) -> Option<&str> {
    let token = payload["extensions"][REPLAY_TOKEN]["info"]["token"].as_str()?;
    ((16..=128).contains(&token.len()) && token.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_".contains(&byte))).then_some(token)
}

/// Compares echoed extensions with those of this tool. Offers are not compared, because they are signed again all the
/// time. Descriptions, schemas and examples are not either, because an edit between a challenge and its payment does
/// not affect the purchase.
pub(super) fn check_echo(echoed: &Value, terms: &CallTerms) -> Result<(), Refusal> {
    let changed = |name: &str| {
        Refusal::invalid("extension_echo_mismatch", format!("the extension `{name}` was changed; echo it as the challenge has it"))
    };
    let required = &echoed[PAYMENT_IDENTIFIER]["info"]["required"];
    if !echoed[PAYMENT_IDENTIFIER].is_null() && *required != NAME_REQUIRED {
        return Err(changed(PAYMENT_IDENTIFIER));
    }
    if !echoed[REPLAY_TOKEN].is_null() && token_of(&json!({ "extensions": echoed })).is_none() {
        return Err(changed(REPLAY_TOKEN));
    }
    if !echoed[OFFER_RECEIPT].is_null() && !echoed[OFFER_RECEIPT]["info"]["offers"].is_array() {
        return Err(changed(OFFER_RECEIPT));
    }
    if !echoed[BAZAAR].is_null() && bazaar::entry_method_of(&echoed[BAZAAR]["info"]["input"], terms).is_none() {
        return Err(changed(BAZAAR));
    }
    Ok(())
}

/// Replaces the tool's directory entry in an echo with the current one, so that a payer cannot change what directories
/// list.
pub(super) fn renew_echo(echoed: &mut Value, terms: &CallTerms) {
    if let Some(method) = bazaar::entry_method_of(&echoed[BAZAAR]["info"]["input"], terms) {
        echoed[BAZAAR] = bazaar::entry_within(terms, method, MAX_ENTRY_BYTES);
    }
}

fn name_schema() -> Value {
    let id = json!({ "type": "string", "minLength": 16, "maxLength": 128, "pattern": "^[A-Za-z0-9_-]+$" });
    info_schema(json!({ "required": { "type": "boolean" }, "id": id }), "required")
}

fn token_schema() -> Value {
    info_schema(json!({ "token": { "type": "string" } }), "token")
}

fn offers_schema() -> Value {
    let offer = json!({
        "type": "object",
        "properties": {
            "format": { "type": "string" },
            "acceptIndex": { "type": "integer" },
            "payload": { "type": "object" },
            "signature": { "type": "string" },
        },
        "required": ["format", "signature"],
    });
    info_schema(json!({ "offers": { "type": "array", "items": offer } }), "offers")
}

/// Returns the schema of an extension's `info` with these properties, of which one is required.
fn info_schema(properties: Value, required: &str) -> Value {
    json!({
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "type": "object",
        "properties": properties,
        "required": [required],
    })
}

#[cfg(test)]
mod tests;

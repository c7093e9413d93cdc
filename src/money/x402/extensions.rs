//! What a challenge says beside its terms, and what of that comes back with a payment.
//!
//! A client echoes what it was told, and may add to it: nothing of an echo is signed, and nothing follows from it but that it is
//! [held](check_echo) against what was told.

use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use serde_json::{Map, Value, json};

use super::bazaar::{self, BAZAAR, Detail};
use crate::{Refusal, Terms, Way};

/// Names of the extensions.
pub(crate) const PAYMENT_IDENTIFIER: &str = "payment-identifier";
pub(crate) const OFFER_RECEIPT: &str = "offer-receipt";
pub(crate) const REPLAY_TOKEN: &str = "replay-token";

/// All extensions that a challenge has.
pub(crate) const ALL: [&str; 4] = [PAYMENT_IDENTIFIER, REPLAY_TOKEN, OFFER_RECEIPT, BAZAAR];

/// Whether a client has to name its payment.
const NAME_REQUIRED: bool = false;

/// Largest entry for directories that goes to a facilitator with a payment, in bytes.
const MAX_ENTRY_BYTES: usize = 8 << 10;

/// How much a challenge says: the most that fits in its header.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Cut {
    /// All of it.
    None,
    /// No schema of what the tool answers.
    Output,
    /// No schemas of what the extensions themselves look like, which are the same in every challenge.
    Forms,
    /// No schemas of the tool's.
    Schemas,
    /// Nothing for directories.
    Directories,
    /// The beginning of the description.
    Description,
    /// No signed offers.
    Offers,
}

impl Cut {
    /// What is left out first.
    pub(super) const FIRST: Self = Self::Output;
    /// What is left out, and what besides.
    pub(super) const MORE: [Self; 6] = [Self::FIRST, Self::Forms, Self::Schemas, Self::Directories, Self::Description, Self::Offers];
}

/// The extensions of a challenge, with its signed offers, if there are any, and a token that no other challenge has.
pub(super) fn told(terms: &Terms, way: Way, offers: &[Value], token: Option<&str>, cut: Cut) -> Value {
    let mut told = Map::new();
    let form = |of: fn() -> Value| if cut < Cut::Forms { of() } else { json!({ "type": "object" }) };
    told.insert(PAYMENT_IDENTIFIER.to_owned(), json!({ "info": { "required": NAME_REQUIRED }, "schema": form(name_schema) }));
    if let Some(token) = token {
        told.insert(REPLAY_TOKEN.to_owned(), json!({ "info": { "token": token }, "schema": form(token_schema) }));
    }
    if !offers.is_empty() && cut < Cut::Offers {
        told.insert(OFFER_RECEIPT.to_owned(), json!({ "info": { "offers": offers }, "schema": form(offers_schema) }));
    }
    if cut < Cut::Directories {
        let detail = match cut {
            Cut::None => Detail::Full,
            Cut::Output | Cut::Forms => Detail::Input,
            Cut::Schemas | Cut::Directories | Cut::Description | Cut::Offers => Detail::Short,
        };
        told.insert(BAZAAR.to_owned(), bazaar::entry(terms, way, detail));
    }
    Value::Object(told)
}

/// A token for a challenge: 128 random bits, in base64url. `None` where the system has no randomness.
pub(super) fn new_token() -> Option<String> {
    let mut random = [0_u8; 16];
    getrandom::fill(&mut random).ok()?;
    Some(URL_SAFE_NO_PAD.encode(random))
}

/// The token of a challenge that came back with a payment for it. Whoever paid has it, and no chain does.
pub(super) fn token_of(payload: &Value) -> Option<&str> {
    let token = payload["extensions"][REPLAY_TOKEN]["info"]["token"].as_str()?;
    ((16..=128).contains(&token.len()) && token.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_".contains(&byte))).then_some(token)
}

/// Holds what came back of the extensions against what they say of this tool. Offers are signed again all the time: which of them came
/// back says nothing. Nor do descriptions, schemas and examples: their edit between a challenge and its payment changes nothing that is
/// paid for.
pub(super) fn check_echo(echoed: &Value, terms: &Terms) -> Result<(), Refusal> {
    let changed = |name: &str| Refusal::invalid("extension_echo_mismatch", format!("extension `{name}` came back changed"));
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
    if !echoed[BAZAAR].is_null() && bazaar::way_of(&echoed[BAZAAR]["info"]["input"], terms).is_none() {
        return Err(changed(BAZAAR));
    }
    Ok(())
}

/// Replaces the tool's entry for directories in an echo by what is said of it now: who pays does not say what others list.
pub(super) fn renew_echo(echoed: &mut Value, terms: &Terms) {
    if let Some(way) = bazaar::way_of(&echoed[BAZAAR]["info"]["input"], terms) {
        echoed[BAZAAR] = bazaar::entry_within(terms, way, MAX_ENTRY_BYTES);
    }
}

fn name_schema() -> Value {
    json!({
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "type": "object",
        "properties": {
            "required": { "type": "boolean" },
            "id": { "type": "string", "minLength": 16, "maxLength": 128, "pattern": "^[A-Za-z0-9_-]+$" },
        },
        "required": ["required"],
    })
}

fn token_schema() -> Value {
    json!({
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "type": "object",
        "properties": { "token": { "type": "string" } },
        "required": ["token"],
    })
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
    json!({
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "type": "object",
        "properties": { "offers": { "type": "array", "items": offer } },
        "required": ["offers"],
    })
}

#[cfg(test)]
mod tests;

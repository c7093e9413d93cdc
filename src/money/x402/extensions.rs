//! What a challenge says beside its terms, and what of that comes back with a payment.
//!
//! A client echoes what it was told, and may add to it: nothing of an echo is signed, and nothing follows from it but that it is
//! [held](check_echo) against what was told.

use serde_json::{Map, Value, json};

use super::bazaar::{self, BAZAAR, Detail};
use crate::money::{Refusal, Terms, Way};

/// Names of the extensions.
pub(in crate::money) const PAYMENT_IDENTIFIER: &str = "payment-identifier";
pub(in crate::money) const OFFER_RECEIPT: &str = "offer-receipt";

/// All extensions that a challenge has.
pub(in crate::money) const ALL: [&str; 3] = [PAYMENT_IDENTIFIER, OFFER_RECEIPT, BAZAAR];

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

/// The extensions of a challenge, with its signed offers, if there are any.
pub(super) fn told(terms: &Terms, way: Way, offers: &[Value], cut: Cut) -> Value {
    let mut told = Map::new();
    let form = |of: fn() -> Value| if cut < Cut::Forms { of() } else { json!({ "type": "object" }) };
    told.insert(PAYMENT_IDENTIFIER.to_owned(), json!({ "info": { "required": NAME_REQUIRED }, "schema": form(name_schema) }));
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

/// Holds what came back of the extensions against what they say of this tool. Offers are signed again all the time: which of them came
/// back says nothing. Nor do descriptions, schemas and examples: their edit between a challenge and its payment changes nothing that is
/// paid for.
pub(super) fn check_echo(echoed: &Value, terms: &Terms) -> Result<(), Refusal> {
    let changed = |name: &str| Refusal::invalid("extension_echo_mismatch", format!("extension `{name}` came back changed"));
    let required = &echoed[PAYMENT_IDENTIFIER]["info"]["required"];
    if !echoed[PAYMENT_IDENTIFIER].is_null() && *required != NAME_REQUIRED {
        return Err(changed(PAYMENT_IDENTIFIER));
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

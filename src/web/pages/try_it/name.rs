//! The unique name of a form, from which its payment and its idempotency key are derived.

use std::{fmt, str::FromStr};

use maud::{Markup, html};
use sha2::{Digest as _, Sha256};
use tollhouse_base::clock::Timestamp;

use crate::{Fields, play_wallet::VALID_SECS};

/// Time for which a form is fresh, in seconds. Its payment stays valid some minutes longer.
const FRESH_SECS: u64 = VALID_SECS - 10 * 60;

/// Hex digits of the name after the time.
const DIGITS: usize = 32;

/// A form's name: its creation time and a random part.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct FormName {
    /// Creation time in seconds since 1970.
    pub(crate) made_secs: u64,
    pub(crate) name: String,
}

impl FormName {
    pub(crate) fn new(now: Timestamp) -> Self {
        let mut chance = [0; DIGITS / 2];
        // Without randomness, two forms of the same second share a name. A call with the same input
        // is then the same call.
        let _ = getrandom::fill(&mut chance);
        Self { made_secs: now.as_secs(), name: hex::encode(chance) }
    }

    /// Returns the name of the submitted form while it is valid, else a new one.
    pub(crate) fn from_fields(fields: &Fields, now: Timestamp) -> Self {
        fields.get("try").and_then(|sent| sent.parse::<Self>().ok()).filter(|name| name.is_good(now)).unwrap_or_else(|| Self::new(now))
    }

    pub(crate) fn is_good(&self, now: Timestamp) -> bool {
        now.as_secs().checked_sub(self.made_secs).is_some_and(|age| age < FRESH_SECS)
    }

    pub(crate) fn field(&self) -> Markup {
        html! { input type="hidden" name="try" value=(self); }
    }

    /// Returns the idempotency key of a call on credit with this input. If it is sent again, it is
    /// the same call.
    pub(crate) fn key(&self, slug: &str, input: &str) -> String {
        let hash = Sha256::digest(format!("{self}\n{slug}\n{input}"));
        format!("try-{}", &hex::encode(hash)[..DIGITS])
    }
}

impl fmt::Display for FormName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}", self.made_secs, self.name)
    }
}

impl FromStr for FormName {
    type Err = ();

    fn from_str(sent: &str) -> Result<Self, ()> {
        let (made, name) = sent.split_once('-').ok_or(())?;
        let is_name = name.len() == DIGITS && name.bytes().all(|b| b.is_ascii_hexdigit());
        let made_secs = made.parse().map_err(|_| ())?;
        is_name.then(|| Self { made_secs, name: name.to_owned() }).ok_or(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn form_keeps_its_name_while_it_is_fresh() {
        let now = Timestamp(1_800_000_000_000);
        let name = FormName::new(now);
        let sent = name.to_string();
        let of =
            |sent: &str, secs: u64| FormName::from_fields(&Fields::read(format!("try={sent}").as_bytes()), now.plus_millis(secs * 1_000));
        assert_eq!(of(&sent, 0), name);
        assert_eq!(of(&sent, FRESH_SECS - 1), name);
        assert_ne!(of(&sent, FRESH_SECS), name);
        for none in ["", "-", "1800000001-0123456789abcdef0123456789abcdef", "1800000000-0123", &format!("{sent}0"), &format!("x{sent}")] {
            let made = of(none, 0);
            assert!(made != name && made.to_string() != none && made.is_good(now), "{none}");
        }
        assert_ne!(FormName::new(now).name, name.name);
    }

    #[test]
    fn idempotency_key_depends_on_form_tool_and_input() {
        let name = FormName::new(Timestamp(0));
        assert_eq!(name.key("a", "{}"), name.key("a", "{}"));
        assert_ne!(name.key("a", "{}"), name.key("b", "{}"));
        assert_ne!(name.key("a", "{}"), name.key("a", "[]"));
        assert_ne!(name.key("a", "{}"), FormName::new(Timestamp(0)).key("a", "{}"));
    }
}

//! Cookie with the last forms of a browser, so that the same call from a reloaded page is
//! recognized as the same call.

use std::{fmt, str::FromStr};

use sha2::{Digest as _, Sha256};
use tollhouse_base::clock::Timestamp;

use super::name::FormName;
use crate::play_wallet::is_id;

const MAX: usize = 4;

/// Hex digits of a call's hash.
const DIGITS: usize = 16;

/// The remembered forms, latest last.
#[derive(Debug, Default)]
pub(super) struct FormMemory(Vec<UsedForm>);

/// A form that was shown for payment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct UsedForm {
    pub(super) name: FormName,
    /// Hash of the call that it is for.
    pub(super) call: String,
    /// Id of the payment in it, if any.
    pub(super) payment: Option<String>,
}

/// Returns the hash of a call of a tool with an input.
pub(super) fn call(slug: &str, input: &str) -> String {
    let mut digits = hex::encode(Sha256::digest(format!("{slug}\n{input}")));
    digits.truncate(DIGITS);
    digits
}

impl FormMemory {
    /// Returns the name of the latest form for a call, while it is valid.
    pub(super) fn name(&self, call: &str, now: Timestamp) -> Option<&FormName> {
        self.forms(call).map(|form| &form.name).find(|name| name.is_good(now))
    }

    /// Returns all forms for a call, latest first.
    pub(super) fn forms(&self, call: &str) -> impl Iterator<Item = &UsedForm> {
        self.0.iter().rev().filter(move |form| form.call == call)
    }

    pub(super) fn other_payments(&self, call: &str) -> impl Iterator<Item = &str> {
        self.0.iter().filter(move |form| form.call != call).filter_map(|form| form.payment.as_deref())
    }

    /// Remembers a form, and forgets the oldest beyond the maximum.
    pub(super) fn remember(&mut self, form: UsedForm) {
        self.0.retain(|known| known.name != form.name || known.call != form.call);
        self.0.push(form);
        let oldest = self.0.len().saturating_sub(MAX);
        self.0.drain(..oldest);
    }
}

impl fmt::Display for FormMemory {
    /// Formats the value of the cookie.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (position, UsedForm { name, call, payment }) in self.0.iter().enumerate() {
            write!(f, "{}{name}-{call}-{}", if position == 0 { "" } else { "." }, payment.as_deref().unwrap_or_default())?;
        }
        Ok(())
    }
}

impl FromStr for FormMemory {
    type Err = ();

    /// Parses the value of the cookie. Invalid parts are skipped.
    fn from_str(stored: &str) -> Result<Self, ()> {
        Ok(Self(stored.split('.').take(MAX).filter_map(form).collect()))
    }
}

fn form(stored: &str) -> Option<UsedForm> {
    let (rest, payment) = stored.rsplit_once('-')?;
    let (name, call) = rest.rsplit_once('-')?;
    let is_call = call.len() == DIGITS && call.bytes().all(|b| b.is_ascii_hexdigit());
    let payment = Some(payment).filter(|id| is_id(id)).map(str::to_owned);
    Some(UsedForm { name: name.parse().ok()?, call: Some(call).filter(|_| is_call)?.to_owned(), payment })
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Timestamp = Timestamp(1_800_000_000_000);

    fn form(tool: &str, payment: Option<char>) -> UsedForm {
        let payment = payment.map(|digit| format!("pmt_{}", digit.to_string().repeat(32)));
        UsedForm { name: FormName::new(NOW), call: call(tool, "{}"), payment }
    }

    #[test]
    fn repeated_call_has_the_name_of_its_latest_form() {
        let mut memory = FormMemory::default();
        let forms = [form("a", Some('1')), form("b", None), form("a", Some('2'))];
        forms.iter().for_each(|form| memory.remember(form.clone()));
        let stored: FormMemory = memory.to_string().parse().unwrap();
        assert_eq!(stored.0, forms);
        assert_eq!(stored.name(&call("a", "{}"), NOW), Some(&forms[2].name), "the last one");
        assert_eq!(stored.name(&call("a", "[]"), NOW), None);
        assert_eq!(stored.name(&call("a", "{}"), NOW.plus_millis(60 * 60 * 1_000)), None, "it is too old to pay with");
        assert_eq!(stored.forms(&call("a", "{}")).collect::<Vec<_>>(), [&forms[2], &forms[0]]);
        assert_eq!(stored.other_payments(&call("b", "{}")).count(), 2);
        assert_eq!(stored.other_payments(&call("a", "{}")).count(), 0);
    }

    #[test]
    fn latest_valid_forms_are_remembered() {
        let mut memory = FormMemory::default();
        let forms: Vec<_> = "abcdef".chars().map(|tool| form(&tool.to_string(), Some('3'))).collect();
        forms.iter().chain([&forms[4]]).for_each(|form| memory.remember(form.clone()));
        assert_eq!(memory.0, [2, 3, 5, 4].map(|position| forms[position].clone()));
        let broken: FormMemory = format!("x..-.{}-x.{memory}", forms[0].name).parse().unwrap();
        assert!(broken.0.len() < MAX && "".parse::<FormMemory>().unwrap().0.is_empty());
    }
}

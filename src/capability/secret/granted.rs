//! The secrets of a running call, and the placeholders that its handler gets.

use std::fmt;

use tollhouse_api::{SecretPlace, SecretVisibility as Visibility};
use zeroize::Zeroizing;

use crate::AllowedHosts;

/// The start of every placeholder.
pub(crate) const PREFIX: &str = "tollhouse_secret_";

/// Number of random bytes in a placeholder.
const RANDOM_BYTES: usize = 16;

/// Number of hexadecimal digits after the prefix.
pub(crate) const DIGITS: usize = 2 * RANDOM_BYTES;

/// A secret decrypted for a call.
#[derive(Clone)]
pub struct Secret {
    pub name: String,
    /// The plain value, wiped when the call ends.
    pub value: Zeroizing<String>,
    /// Whether the handler may read it.
    pub visibility: Visibility,
    /// The text that the handler gets instead, for [`Visibility::Hosts`].
    pub placeholder: Option<Placeholder>,
}

/// A random text that stands for the value of a secret during one call. Its characters are unchanged in URLs, in JSON
/// and in forms.
#[derive(Clone)]
pub struct Placeholder {
    pub(crate) text: String,
    /// The hosts that get the value.
    pub(crate) hosts: AllowedHosts,
    /// The places of a request where the value may be.
    pub(crate) places: Vec<SecretPlace>,
}

impl Placeholder {
    /// Creates a placeholder for one call. Returns `None` without randomness.
    pub fn generate(hosts: AllowedHosts, places: Vec<SecretPlace>) -> Option<Self> {
        let mut random = [0; RANDOM_BYTES];
        getrandom::fill(&mut random).ok()?;
        Some(Self { text: format!("{PREFIX}{}", hex::encode(random)), hosts, places })
    }
}

impl Secret {
    pub fn new(name: &str, value: &str, visibility: Visibility) -> Self {
        Self { name: name.to_owned(), value: Zeroizing::new(value.to_owned()), visibility, placeholder: None }
    }

    /// Returns the text in `ctx.env`, or `None` if the handler gets none.
    pub fn in_env(&self) -> Option<&str> {
        match self.visibility {
            Visibility::Env => Some(&self.value),
            Visibility::Hosts => self.placeholder.as_ref().map(|placeholder| placeholder.text.as_str()),
            Visibility::Auth => None,
        }
    }

    /// Returns the texts that logs and answers must not contain.
    pub(crate) fn redacted(&self) -> impl Iterator<Item = &str> {
        self.placeholder.iter().map(|placeholder| placeholder.text.as_str()).chain([self.value.as_str()])
    }
}

/// Never shows the value.
impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Secret").field("name", &self.name).field("visibility", &self.visibility).finish_non_exhaustive()
    }
}

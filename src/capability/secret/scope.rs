//! The parties that get a secret: the handler, requests with `auth`, or hosts.

use tollhouse_api::{SecretPlace, SecretVisibility as Visibility, SetSecretRequest};

use super::error::SecretError;
use crate::AllowedHosts;

/// Maximum number of hosts of a secret.
const MAX_HOSTS: usize = 16;

/// Minimum length of a value with hosts, in bytes. A shorter one could not be hidden in answers of its hosts.
pub(super) const MIN_VALUE_BYTES: usize = 8;

/// The parties that get a secret, and the places of a request where hosts get it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SecretScope {
    pub(super) visibility: Visibility,
    pub(super) hosts: Vec<String>,
    pub(super) places: Vec<SecretPlace>,
}

impl From<Visibility> for SecretScope {
    fn from(visibility: Visibility) -> Self {
        Self { visibility, hosts: vec![], places: vec![] }
    }
}

impl SecretScope {
    /// Returns the scope of a request. Hosts without a visibility are for a placeholder, by default in headers.
    ///
    /// # Errors
    ///
    /// [`SecretError::Field`] names the invalid field.
    pub fn of(request: &SetSecretRequest) -> Result<Self, SecretError> {
        let wrong = |pointer, message: &str| Err(SecretError::field(pointer, message.to_owned()));
        if request.hosts.is_empty() {
            if request.visibility == Visibility::Hosts {
                return wrong("/hosts", "list the hosts that get the value");
            }
            if !request.places.is_empty() {
                return wrong("/places", "only a secret with `hosts` has places");
            }
            return Ok(request.visibility.into());
        }
        if request.visibility == Visibility::Auth {
            return wrong("/visibility", "a secret has either `hosts` or the visibility `auth`");
        }
        Self::for_hosts(&request.hosts, &request.places)
    }

    fn for_hosts(named: &[String], places: &[SecretPlace]) -> Result<Self, SecretError> {
        if named.len() > MAX_HOSTS {
            return Err(SecretError::field("/hosts", format!("a secret can have at most {MAX_HOSTS} hosts")));
        }
        let parsed = AllowedHosts::parse(named).ok().filter(|hosts| !hosts.includes_any_public());
        let parsed = parsed.ok_or_else(|| {
            let message = "a host of a secret must be like `api.example.com`, `*.example.com` or `api.example.com:8443`";
            SecretError::field("/hosts", message.to_owned())
        })?;
        let mut hosts: Vec<_> = parsed.iter().map(str::to_owned).collect();
        hosts.sort_unstable();
        hosts.dedup();
        let mut places = if places.is_empty() { vec![SecretPlace::Header] } else { places.to_vec() };
        places.sort_unstable();
        places.dedup();
        Ok(Self { visibility: Visibility::Hosts, hosts, places })
    }

    /// Returns why a handler cannot get the new value of a secret with this scope, unless it is to be exposed.
    pub(super) fn keeps_from_handler(&self) -> Option<String> {
        let (known, repeated) = match self.visibility {
            Visibility::Env => return None,
            Visibility::Auth => ("only requests with `auth` get".to_owned(), "`visibility` (`--auth`)".to_owned()),
            Visibility::Hosts => {
                let flags: Vec<_> = self.hosts.iter().map(|host| format!("--host {host}")).collect();
                ("only hosts get".to_owned(), format!("`hosts` and `places` (`{}`)", flags.join(" ")))
            }
        };
        Some(format!(
            "{known} this secret, and the handler would get the new value. To keep that, repeat {repeated}. \
             To give the value to the handler, set `expose` (`--expose`)"
        ))
    }

    /// Returns the scope as a part of authenticated data. Neither hosts nor places can contain `|` or `,`.
    pub(super) fn authenticated(&self) -> String {
        let place = |place: &SecretPlace| match place {
            SecretPlace::Header => "header",
            SecretPlace::Url => "url",
            SecretPlace::Body => "body",
        };
        match self.visibility {
            Visibility::Env => "env".to_owned(),
            Visibility::Auth => "auth".to_owned(),
            Visibility::Hosts => {
                let places: Vec<_> = self.places.iter().map(place).collect();
                format!("hosts|{}|{}", places.join(","), self.hosts.join(","))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use zeroize::Zeroizing;

    use super::*;

    fn request(visibility: Visibility, hosts: &[&str], places: &[SecretPlace]) -> SetSecretRequest {
        SetSecretRequest {
            name: "KEY".to_owned(),
            value: Zeroizing::new("a value that is long".to_owned()),
            visibility,
            hosts: hosts.iter().map(|host| (*host).to_owned()).collect(),
            places: places.to_vec(),
            expose: false,
        }
    }

    #[test]
    fn hosts_make_a_placeholder_in_headers_by_default() {
        let scope = SecretScope::of(&request(Visibility::Env, &["B.example.com:443", "*.a.example.com", "b.example.com"], &[])).unwrap();
        assert_eq!(scope.visibility, Visibility::Hosts);
        assert_eq!(
            (scope.hosts, scope.places),
            (vec!["*.a.example.com".to_owned(), "b.example.com".to_owned()], vec![SecretPlace::Header])
        );
        let places = [SecretPlace::Body, SecretPlace::Url, SecretPlace::Url];
        let scope = SecretScope::of(&request(Visibility::Hosts, &["b.example.com"], &places)).unwrap();
        assert_eq!(scope.places, [SecretPlace::Url, SecretPlace::Body]);
        assert_eq!(scope.authenticated(), "hosts|url,body|b.example.com");
        for visibility in [Visibility::Env, Visibility::Auth] {
            assert_eq!(SecretScope::of(&request(visibility, &[], &[])).unwrap(), visibility.into());
        }
    }

    #[test]
    fn contradictions_and_invalid_hosts_are_refused() {
        let many = vec!["a.example.com"; MAX_HOSTS + 1];
        for (request, wrong) in [
            (request(Visibility::Hosts, &[], &[]), "/hosts"),
            (request(Visibility::Env, &[], &[SecretPlace::Url]), "/places"),
            (request(Visibility::Auth, &["a.example.com"], &[]), "/visibility"),
            (request(Visibility::Env, &many, &[]), "/hosts"),
            (request(Visibility::Env, &["*"], &[]), "/hosts"),
            (request(Visibility::Env, &["*.com"], &[]), "/hosts"),
            (request(Visibility::Env, &["https://a.example.com"], &[]), "/hosts"),
        ] {
            let refused = SecretScope::of(&request).unwrap_err();
            assert!(matches!(refused, SecretError::Field { pointer, .. } if pointer == wrong), "{request:?}");
        }
    }
}

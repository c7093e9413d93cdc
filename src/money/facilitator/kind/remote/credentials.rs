//! By what a facilitator knows the host: headers of the settings, and the tokens that Coinbase's wants, one for each question.

use std::fmt;

use base64::{
    Engine as _,
    engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD},
};
use ed25519_dalek::{Signer as _, SigningKey};
use reqwest::{
    Method, Url,
    header::{AUTHORIZATION, HeaderMap, HeaderName, HeaderValue},
};
use serde_json::json;

use crate::{base::clock::Clock, money::ConfigError};

/// How long a token is good for, in seconds: what Coinbase takes at most.
const TOKEN_SECS: u64 = 120;

/// By what a facilitator knows the host. Shown to nobody.
#[derive(Clone, Default)]
pub struct FacilitatorAccess {
    /// Headers, each as `Name: value`.
    pub headers: Vec<String>,
    /// Id and secret of a key of Coinbase's developer platform.
    pub cdp_key: Option<(String, String)>,
}

impl fmt::Debug for FacilitatorAccess {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("FacilitatorAccess")
    }
}

/// What is sent with every question.
pub(super) struct Credentials {
    headers: HeaderMap,
    key: Option<ApiKey>,
    clock: Clock,
}

/// A key of Coinbase's developer platform.
struct ApiKey {
    id: String,
    key: SigningKey,
}

impl fmt::Debug for Credentials {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Credentials")
    }
}

impl Credentials {
    pub(super) fn new(access: &FacilitatorAccess, clock: Clock) -> Result<Self, ConfigError> {
        let mut headers = HeaderMap::new();
        for line in &access.headers {
            let (name, value) = header(line).ok_or(ConfigError::FacilitatorHeader)?;
            headers.append(name, value);
        }
        let key = match &access.cdp_key {
            None => None,
            Some((id, secret)) => Some(ApiKey { id: id.clone(), key: signing_key(secret).ok_or(ConfigError::CdpKey)? }),
        };
        Ok(Self { headers, key, clock })
    }

    /// The headers of a question to `url`.
    pub(super) fn of(&self, method: &Method, url: &Url) -> HeaderMap {
        let mut headers = self.headers.clone();
        if let Some(key) = &self.key
            && let Ok(mut value) = HeaderValue::from_str(&format!("Bearer {}", key.token(method, url, self.clock.now().as_secs())))
        {
            value.set_sensitive(true);
            headers.insert(AUTHORIZATION, value);
        }
        headers
    }
}

impl ApiKey {
    /// A JWT for one question to `url`.
    fn token(&self, method: &Method, url: &Url, now: u64) -> String {
        let mut nonce = [0; 16];
        // It keeps tokens of one second apart, and no more hangs on it.
        _ = getrandom::fill(&mut nonce);
        let asked = format!("{method} {}{}", url.authority(), url.path());
        let header = json!({ "alg": "EdDSA", "kid": self.id, "typ": "JWT", "nonce": hex::encode(nonce) });
        let claims = json!({ "sub": self.id, "iss": "cdp", "iat": now, "nbf": now, "exp": now + TOKEN_SECS, "uris": [asked] });
        let signed = format!("{}.{}", URL_SAFE_NO_PAD.encode(header.to_string()), URL_SAFE_NO_PAD.encode(claims.to_string()));
        let signature = self.key.sign(signed.as_bytes()).to_bytes();
        format!("{signed}.{}", URL_SAFE_NO_PAD.encode(signature))
    }
}

fn header(line: &str) -> Option<(HeaderName, HeaderValue)> {
    let (name, value) = line.split_once(':')?;
    let mut value = HeaderValue::from_str(value.trim()).ok()?;
    value.set_sensitive(true);
    Some((name.trim().parse().ok()?, value))
}

/// A key as the platform shows it: base64 of the seed and the public key.
fn signing_key(secret: &str) -> Option<SigningKey> {
    let pair = STANDARD.decode(secret.trim()).ok()?;
    SigningKey::from_keypair_bytes(pair.as_slice().try_into().ok()?).ok()
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;
    use crate::base::clock::Timestamp;

    fn access(headers: &[&str], secret: Option<String>) -> FacilitatorAccess {
        FacilitatorAccess {
            headers: headers.iter().map(ToString::to_string).collect(),
            cdp_key: secret.map(|secret| ("organizations/o/apiKeys/k".to_owned(), secret)),
        }
    }

    fn credentials(access: &FacilitatorAccess) -> Result<Credentials, ConfigError> {
        Credentials::new(access, Clock::fixed(Timestamp(1_800_000_000_000)))
    }

    #[test]
    fn a_token_names_the_very_question_and_is_signed_with_the_key() {
        let key = SigningKey::from_bytes(&[7; 32]);
        let credentials = credentials(&access(&[], Some(STANDARD.encode(key.to_keypair_bytes())))).unwrap();
        let url = Url::parse("https://api.cdp.coinbase.com/platform/v2/x402/settle").unwrap();
        let headers = credentials.of(&Method::POST, &url);
        assert!(headers[AUTHORIZATION].is_sensitive());
        let token = headers[AUTHORIZATION].to_str().unwrap().strip_prefix("Bearer ").unwrap();
        let (signed, signature) = token.rsplit_once('.').unwrap();
        let (header, claims) = signed.split_once('.').unwrap();
        let json = |part: &str| serde_json::from_slice::<Value>(&URL_SAFE_NO_PAD.decode(part).unwrap()).unwrap();
        let (header, claims) = (json(header), json(claims));
        assert_eq!((&header["alg"], &header["kid"]), (&json!("EdDSA"), &json!("organizations/o/apiKeys/k")));
        assert_eq!((&claims["sub"], &claims["iss"]), (&header["kid"], &json!("cdp")));
        assert_eq!(claims["uris"], json!(["POST api.cdp.coinbase.com/platform/v2/x402/settle"]));
        assert_eq!((&claims["nbf"], &claims["exp"]), (&json!(1_800_000_000), &json!(1_800_000_120)));
        let signature = URL_SAFE_NO_PAD.decode(signature).unwrap();
        key.verify(signed.as_bytes(), &signature.as_slice().try_into().unwrap()).unwrap();
    }

    #[test]
    fn credentials_are_shown_to_nobody() {
        let credentials = credentials(&access(&["X-Api-Key: hush:hush"], None)).unwrap();
        let headers = credentials.of(&Method::POST, &Url::parse("http://127.0.0.1/settle").unwrap());
        assert_eq!(headers["x-api-key"], "hush:hush");
        assert!(!format!("{credentials:?} {headers:?}").contains("hush"));
        for wrong in ["hush", "a b: hush", "x: hu\u{7f}sh"] {
            let error = self::credentials(&access(&[wrong], None)).unwrap_err();
            assert!(!error.to_string().contains("hush"), "{error}");
        }
        let error = self::credentials(&access(&[], Some("hush".to_owned()))).unwrap_err();
        assert!(!error.to_string().contains("hush"), "{error}");
    }
}

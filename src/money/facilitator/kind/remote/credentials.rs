//! The host's credentials at a facilitator: headers from the settings, and the tokens that Coinbase's facilitator
//! requires, one per request. Sends requests with them.

use std::{fmt, time::Duration};

use aws_lc_rs::{
    rand::SystemRandom,
    signature::{ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair},
};
use base64::{
    Engine as _,
    engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD},
};
use ed25519_dalek::{Signer as _, SigningKey};
use reqwest::{
    Method, Url,
    header::{AUTHORIZATION, HeaderMap, HeaderName, HeaderValue},
};
use serde_json::{Value, json};
use tollhouse_base::clock::Clock;
use zeroize::Zeroizing;

use crate::{
    ConfigError,
    facilitator::json_client::{HttpAnswer, JsonClient, web_url},
};

/// Lifetime of a token in seconds: the maximum that Coinbase accepts.
const TOKEN_SECS: u64 = 120;

/// The host's credentials at a facilitator. They are secret.
#[derive(Clone, Default)]
pub struct FacilitatorAccess {
    /// Headers in the form `Name: value`.
    pub headers: Vec<String>,
    /// Id and secret of a Coinbase Developer Platform key.
    pub cdp_key: Option<(String, String)>,
}

impl FacilitatorAccess {
    /// Checks the form of the credentials, and of the `url` to which they are sent.
    pub(in crate::facilitator::kind) fn check(&self, url: &str) -> Result<(), ConfigError> {
        base_url(url)?;
        Credentials::new(self, Clock::default()).map(drop)
    }
}

impl fmt::Debug for FacilitatorAccess {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("FacilitatorAccess")
    }
}

/// The headers that are sent with every request.
pub(super) struct Credentials {
    headers: HeaderMap,
    key: Option<ApiKey>,
    clock: Clock,
}

/// A Coinbase Developer Platform key.
struct ApiKey {
    id: String,
    key: Key,
}

/// The kinds of keys that the platform issues.
enum Key {
    Ed25519(SigningKey),
    /// On the curve P-256.
    Es256(EcdsaKeyPair),
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
            Some((id, secret)) => Some(ApiKey { id: id.clone(), key: Key::read(secret).ok_or(ConfigError::CdpKey)? }),
        };
        Ok(Self { headers, key, clock })
    }

    /// Returns the headers of a request to `url`.
    pub(super) fn of(&self, method: &Method, url: &Url) -> HeaderMap {
        let mut headers = self.headers.clone();
        if let Some(key) = &self.key
            && let Some(token) = key.token(method, url, self.clock.now().as_secs())
            && let Ok(mut value) = HeaderValue::from_str(&format!("Bearer {token}"))
        {
            value.set_sensitive(true);
            headers.insert(AUTHORIZATION, value);
        }
        headers
    }
}

impl ApiKey {
    /// Creates the JWT for a request to `url`. `None` if no random numbers are available for signing.
    fn token(&self, method: &Method, url: &Url, now: u64) -> Option<String> {
        let mut nonce = [0; 16];
        // The nonce only distinguishes tokens of the same second. If it fails, nothing else is affected.
        _ = getrandom::fill(&mut nonce);
        let request = format!("{method} {}{}", url.authority(), url.path());
        let header = json!({ "alg": self.key.algorithm(), "kid": self.id, "typ": "JWT", "nonce": hex::encode(nonce) });
        let claims = json!({ "sub": self.id, "iss": "cdp", "iat": now, "nbf": now, "exp": now + TOKEN_SECS, "uris": [request] });
        let signed = format!("{}.{}", URL_SAFE_NO_PAD.encode(header.to_string()), URL_SAFE_NO_PAD.encode(claims.to_string()));
        let signature = self.key.sign(signed.as_bytes())?;
        Some(format!("{signed}.{}", URL_SAFE_NO_PAD.encode(signature)))
    }
}

impl Key {
    /// Parses a key as the platform shows it: for Ed25519 base64 of the seed and the public key, for P-256 a PEM. The
    /// PEM may contain `\n` as two characters instead of line breaks, as in the downloaded file.
    fn read(secret: &str) -> Option<Self> {
        let secret = secret.trim().replace("\\n", "\n");
        if !secret.starts_with("-----BEGIN") {
            let pair = STANDARD.decode(secret).ok()?;
            return SigningKey::from_keypair_bytes(pair.as_slice().try_into().ok()?).ok().map(Self::Ed25519);
        }
        let der: String = secret.lines().filter(|line| !line.starts_with("-----")).map(str::trim).collect();
        let der = Zeroizing::new(STANDARD.decode(der).ok()?);
        EcdsaKeyPair::from_private_key_der(&ECDSA_P256_SHA256_FIXED_SIGNING, &der).ok().map(Self::Es256)
    }

    /// Returns the algorithm's name in a JWT.
    fn algorithm(&self) -> &'static str {
        match self {
            Self::Ed25519(_) => "EdDSA",
            Self::Es256(_) => "ES256",
        }
    }

    fn sign(&self, message: &[u8]) -> Option<Vec<u8>> {
        match self {
            Self::Ed25519(key) => Some(key.sign(message).to_bytes().to_vec()),
            Self::Es256(key) => key.sign(&SystemRandom::new(), message).ok().map(|signature| signature.as_ref().to_vec()),
        }
    }
}

fn header(line: &str) -> Option<(HeaderName, HeaderValue)> {
    let (name, value) = line.split_once(':')?;
    let mut value = HeaderValue::from_str(value.trim()).ok()?;
    value.set_sensitive(true);
    Some((name.trim().parse().ok()?, value))
}

fn base_url(url: &str) -> Result<Url, ConfigError> {
    web_url(url).ok_or_else(|| ConfigError::FacilitatorUrl(url.to_owned()))
}

/// A facilitator's URL, and the credentials of every request.
pub(in crate::facilitator::kind) struct FacilitatorClient {
    poster: JsonClient,
    pub(super) base: Url,
    credentials: Credentials,
}

impl FacilitatorClient {
    pub(in crate::facilitator::kind) fn new(url: &str, access: &FacilitatorAccess, clock: Clock) -> Result<Self, ConfigError> {
        Ok(Self { poster: JsonClient::new()?, base: base_url(url)?, credentials: Credentials::new(access, clock)? })
    }

    pub(super) async fn post(&self, path: &str, body: &Value, timeout: Duration) -> HttpAnswer {
        let url = self.at(path);
        self.poster.post(url.as_str(), self.credentials.of(&Method::POST, &url), body, timeout).await
    }

    pub(in crate::facilitator::kind) async fn get(&self, path: &str, timeout: Duration) -> HttpAnswer {
        let url = self.at(path);
        self.poster.get(url.as_str(), self.credentials.of(&Method::GET, &url), timeout).await
    }

    fn at(&self, path: &str) -> Url {
        let mut url = self.base.clone();
        url.set_path(&format!("{}{path}", self.base.path().trim_end_matches('/')));
        url
    }
}

#[cfg(test)]
mod tests {
    use aws_lc_rs::{
        encoding::{AsDer as _, EcPrivateKeyRfc5915Der},
        signature::{ECDSA_P256_SHA256_FIXED, ECDSA_P384_SHA384_FIXED_SIGNING, KeyPair as _, UnparsedPublicKey},
    };
    use serde_json::Value;

    use super::*;
    use tollhouse_base::clock::Timestamp;

    fn access(headers: &[&str], secret: Option<String>) -> FacilitatorAccess {
        FacilitatorAccess {
            headers: headers.iter().map(ToString::to_string).collect(),
            cdp_key: secret.map(|secret| ("organizations/o/apiKeys/k".to_owned(), secret)),
        }
    }

    fn credentials(access: &FacilitatorAccess) -> Result<Credentials, ConfigError> {
        Credentials::new(access, Clock::fixed(Timestamp(1_800_000_000_000)))
    }

    /// Returns the algorithm of a token that a key signs, the signed text, and the signature.
    fn token(secret: String) -> (Value, String, Vec<u8>) {
        let credentials = credentials(&access(&[], Some(secret))).unwrap();
        let url = Url::parse("https://api.cdp.coinbase.com/platform/v2/x402/settle").unwrap();
        let headers = credentials.of(&Method::POST, &url);
        assert!(headers[AUTHORIZATION].is_sensitive());
        let token = headers[AUTHORIZATION].to_str().unwrap().strip_prefix("Bearer ").unwrap();
        let (signed, signature) = token.rsplit_once('.').unwrap();
        let (header, claims) = signed.split_once('.').unwrap();
        let json = |part: &str| serde_json::from_slice::<Value>(&URL_SAFE_NO_PAD.decode(part).unwrap()).unwrap();
        let (header, claims) = (json(header), json(claims));
        assert_eq!((&header["kid"], &claims["sub"]), (&json!("organizations/o/apiKeys/k"), &header["kid"]));
        assert_eq!((&claims["iss"], &claims["uris"]), (&json!("cdp"), &json!(["POST api.cdp.coinbase.com/platform/v2/x402/settle"])));
        assert_eq!((&claims["nbf"], &claims["exp"]), (&json!(1_800_000_000), &json!(1_800_000_120)));
        (header["alg"].clone(), signed.to_owned(), URL_SAFE_NO_PAD.decode(signature).unwrap())
    }

    #[test]
    fn a_token_names_the_request_and_is_signed() {
        let key = SigningKey::from_bytes(&[7; 32]);
        let (algorithm, signed, signature) = token(STANDARD.encode(key.to_keypair_bytes()));
        assert_eq!(algorithm, "EdDSA");
        key.verify(signed.as_bytes(), &signature.as_slice().try_into().unwrap()).unwrap();
    }

    /// The platform's older keys are of this kind.
    #[test]
    fn a_p256_key_is_read_with_any_line_breaks() {
        let key = EcdsaKeyPair::generate(&ECDSA_P256_SHA256_FIXED_SIGNING).unwrap();
        let verifier = UnparsedPublicKey::new(&ECDSA_P256_SHA256_FIXED, key.public_key().as_ref());
        let sec1: EcPrivateKeyRfc5915Der<'_> = key.private_key().as_der().unwrap();
        let pkcs8 = key.to_pkcs8v1().unwrap();
        for (label, der) in [("EC PRIVATE KEY", sec1.as_ref()), ("PRIVATE KEY", pkcs8.as_ref())] {
            for line in ["\n", "\\n", "\r\n"] {
                let base64 = STANDARD.encode(der);
                let lines: Vec<_> = base64.as_bytes().chunks(64).map(|line| std::str::from_utf8(line).unwrap()).collect();
                let (algorithm, signed, signature) =
                    token(format!("-----BEGIN {label}-----{line}{}{line}-----END {label}-----{line}", lines.join(line)));
                assert_eq!(algorithm, "ES256");
                verifier.verify(signed.as_bytes(), &signature).unwrap();
            }
        }
        let other = EcdsaKeyPair::generate(&ECDSA_P384_SHA384_FIXED_SIGNING).unwrap().to_pkcs8v1().unwrap();
        let pem = format!("-----BEGIN PRIVATE KEY-----\n{}\n-----END PRIVATE KEY-----", STANDARD.encode(other.as_ref()));
        assert!(credentials(&access(&[], Some(pem))).is_err(), "another curve");
    }

    #[test]
    fn credentials_are_never_displayed() {
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

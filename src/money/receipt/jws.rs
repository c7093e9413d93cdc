//! Compact JWS with Ed25519 (RFC 7515, 8037) and JWK public keys, as far as receipts need them.

use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use ed25519_dalek::{Signature, Signer as _, SigningKey, VerifyingKey};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

pub(super) const ALGORITHM: &str = "EdDSA";

/// The protected header. Unknown fields are ignored, except for `crit`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Header {
    pub(super) alg: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) kid: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) typ: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) crit: Option<Value>,
}

/// A parsed JWS whose signature is not verified yet.
#[derive(Debug)]
pub(super) struct Parts<'a> {
    pub(super) header: Header,
    pub(super) payload: Vec<u8>,
    signed: &'a [u8],
    signature: [u8; 64],
}

/// Why a text is not a JWS that can be verified.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[expect(missing_docs, reason = "the messages explain them")]
pub enum JwsError {
    #[error("it does not have three base64url parts with a JSON header")]
    Form,
    #[error("its algorithm is `{0}`, and only `EdDSA` is accepted")]
    Algorithm(String),
    #[error("it requires extensions in `crit`")]
    Critical,
}

/// Signs `payload` as a compact JWS.
pub(super) fn sign(key: &SigningKey, header: &Header, payload: &[u8]) -> String {
    let header = serde_json::to_vec(header).expect("a header has text keys");
    let mut jws = URL_SAFE_NO_PAD.encode(header);
    jws.push('.');
    URL_SAFE_NO_PAD.encode_string(payload, &mut jws);
    let signature = key.sign(jws.as_bytes()).to_bytes();
    jws.push('.');
    URL_SAFE_NO_PAD.encode_string(signature, &mut jws);
    jws
}

impl<'a> Parts<'a> {
    /// Parses a compact JWS. Any algorithm but EdDSA is rejected.
    pub(super) fn parse(jws: &'a str) -> Result<Self, JwsError> {
        let (signed, signature) = jws.rsplit_once('.').ok_or(JwsError::Form)?;
        let (header, payload) = signed.split_once('.').ok_or(JwsError::Form)?;
        let decode = |part: &str| URL_SAFE_NO_PAD.decode(part).map_err(|_| JwsError::Form);
        let header: Header = serde_json::from_slice(&decode(header)?).map_err(|_| JwsError::Form)?;
        if header.alg != ALGORITHM {
            return Err(JwsError::Algorithm(header.alg));
        }
        if header.crit.is_some() {
            return Err(JwsError::Critical);
        }
        let signature = decode(signature)?.try_into().map_err(|_| JwsError::Form)?;
        Ok(Self { header, payload: decode(payload)?, signed: signed.as_bytes(), signature })
    }

    pub(super) fn is_by(&self, key: &VerifyingKey) -> bool {
        key.verify_strict(self.signed, &Signature::from_bytes(&self.signature)).is_ok()
    }
}

/// Encodes a public Ed25519 key as a JWK with the fields of its thumbprint.
pub(super) fn jwk(key: &VerifyingKey) -> Value {
    json!({ "crv": "Ed25519", "kty": "OKP", "x": URL_SAFE_NO_PAD.encode(key.as_bytes()) })
}

/// Parses a JWK. `None` for other kinds of keys.
pub(super) fn from_jwk(jwk: &Value) -> Option<VerifyingKey> {
    if jwk["kty"] != "OKP" || jwk["crv"] != "Ed25519" {
        return None;
    }
    let bytes = URL_SAFE_NO_PAD.decode(jwk["x"].as_str()?).ok()?;
    VerifyingKey::from_bytes(&bytes.try_into().ok()?).ok()
}

/// Returns the RFC 7638 thumbprint of a key.
pub(super) fn thumbprint(key: &VerifyingKey) -> String {
    URL_SAFE_NO_PAD.encode(Sha256::digest(super::canonical(&jwk(key))))
}

/// Returns the key as a DID URL. `did:jwk` contains the key itself.
pub(super) fn did_url(key: &VerifyingKey) -> String {
    format!("did:jwk:{}#0", URL_SAFE_NO_PAD.encode(super::canonical(&jwk(key))))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// RFC 8037, appendix A.1.
    fn rfc_key() -> SigningKey {
        let secret = URL_SAFE_NO_PAD.decode("nWGxne_9WmC6hEr0kuwsxERJxWl7MmkZcDusAxyuf2A").unwrap();
        SigningKey::from_bytes(&secret.try_into().unwrap())
    }

    fn header() -> Header {
        Header { alg: ALGORITHM.to_owned(), kid: None, typ: None, crit: None }
    }

    /// RFC 8037, appendix A.4 and A.5.
    #[test]
    fn rfc_8037_signature() {
        let requested = "eyJhbGciOiJFZERTQSJ9.RXhhbXBsZSBvZiBFZDI1NTE5IHNpZ25pbmc.\
            hgyY0il_MGCjP0JzlnLWG1PPOt7-09PGcvMg3AIbQR6dWbhijcNR4ki4iylGjg5BhVsPt9g7sVvpAr_MuM0KAg";
        let jws = sign(&rfc_key(), &header(), b"Example of Ed25519 signing");
        assert_eq!(jws, requested);
        let parts = Parts::parse(&jws).unwrap();
        assert_eq!(parts.payload, b"Example of Ed25519 signing");
        assert!(parts.is_by(&rfc_key().verifying_key()));
        assert!(!parts.is_by(&SigningKey::from_bytes(&[7; 32]).verifying_key()));
    }

    /// RFC 8037, appendix A.2 and A.3.
    #[test]
    fn rfc_8037_key_and_thumbprint() {
        let key = rfc_key().verifying_key();
        assert_eq!(jwk(&key)["x"], "11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo");
        assert_eq!(thumbprint(&key), "kPrK_qmxVWaYVA9wwBF6Iuo3vVzz7TxHCTwXBygrS4k");
        assert_eq!(from_jwk(&jwk(&key)), Some(key));
    }

    #[test]
    fn other_algorithms_are_refused_before_any_check() {
        for alg in ["none", "HS256", "ES256", "eddsa", ""] {
            let jws = sign(&rfc_key(), &Header { alg: alg.to_owned(), ..header() }, b"{}");
            assert_eq!(Parts::parse(&jws).unwrap_err(), JwsError::Algorithm(alg.to_owned()));
        }
        let unsigned = "eyJhbGciOiJub25lIn0.e30.";
        assert_eq!(Parts::parse(unsigned).unwrap_err(), JwsError::Algorithm("none".to_owned()));
        let demanding = sign(&rfc_key(), &Header { crit: Some(json!(["b64"])), ..header() }, b"{}");
        assert_eq!(Parts::parse(&demanding).unwrap_err(), JwsError::Critical);
    }

    #[test]
    fn malformed_jws_is_refused() {
        let good = sign(&rfc_key(), &header(), b"{}");
        for bad in
            ["", ".", "..", "a.b.c", "e30.e30", &good[..good.len() - 4], &format!("{good}="), &format!("{good}.e30"), &format!(" {good}")]
        {
            assert!(Parts::parse(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn keys_of_other_kinds_are_no_keys() {
        let x = "11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo";
        for other in [
            json!({"kty": "EC", "crv": "Ed25519", "x": x}),
            json!({"kty": "OKP", "crv": "X25519", "x": x}),
            json!({"kty": "OKP", "crv": "Ed25519", "x": &x[1..]}),
            json!({"kty": "OKP", "crv": "Ed25519"}),
            json!(null),
        ] {
            assert_eq!(from_jwk(&other), None, "{other}");
        }
    }
}

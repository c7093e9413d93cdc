//! A signed payment, to be sent once, again, or altered.

use base64::{Engine as _, engine::general_purpose::STANDARD};
use serde_json::Value;
use sha2::{Digest as _, Sha256};

/// A signed payment. `Clone` is the same payment again.
#[derive(Debug, Clone)]
pub struct Payment {
    pub header: &'static str,
    pub payload: Value,
    pub(super) network: String,
    pub(super) asset: String,
}

impl Payment {
    /// The header's value.
    pub fn encoded(&self) -> String {
        STANDARD.encode(self.payload.to_string())
    }

    /// The payment's id at a host: computed by who signed it.
    pub fn id(&self) -> String {
        let (signed, lower) = (&self.payload["payload"], |text: &str| text.to_ascii_lowercase());
        let (authorization, space) = match &signed["permit2Authorization"] {
            Value::Null => (&signed["authorization"], ""),
            permit => (permit, "permit2:"),
        };
        let nonce = lower(authorization["nonce"].as_str().unwrap());
        let parts = [self.network.clone(), lower(&self.asset), lower(authorization["from"].as_str().unwrap()), format!("{space}{nonce}")];
        format!("pmt_{}", &hex::encode(Sha256::digest(parts.join("\n")))[..32])
    }

    /// The same payment with one place of it changed.
    pub fn altered(&self, pointer: &str, value: Value) -> Self {
        let mut altered = self.clone();
        *altered.payload.pointer_mut(pointer).unwrap() = value;
        altered
    }
}

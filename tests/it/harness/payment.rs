//! A signed payment, to be sent once, repeated, or altered.

use base64::{Engine as _, engine::general_purpose::STANDARD};
use serde_json::Value;
use sha2::{Digest as _, Sha256};

/// A signed payment. A clone is the same payment.
#[derive(Debug, Clone)]
pub struct Payment {
    pub header: &'static str,
    pub payload: Value,
    pub(super) network: String,
    pub(super) asset: String,
}

impl Payment {
    /// Returns the value of the header.
    pub fn encoded(&self) -> String {
        STANDARD.encode(self.payload.to_string())
    }

    /// Returns the payment's id, computed as the host does.
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

    /// Returns the payment with one value replaced.
    pub fn altered(&self, pointer: &str, value: Value) -> Self {
        let mut altered = self.clone();
        *altered.payload.pointer_mut(pointer).unwrap() = value;
        altered
    }
}

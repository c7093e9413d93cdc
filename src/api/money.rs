//! Amounts of US dollars, as the API writes them: JSON numbers with at most 6 decimals.

use std::{borrow::Cow, fmt};

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, Serialize, Serializer, de::Error as _};

/// The amount up to which a JSON number is exact to the micro-dollar: 2^52, or 4.5 billion dollars.
const EXACT: f64 = 4_503_599_627_370_496.0;

/// An amount of US dollars in millionths. Never a float.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct MicroUsd(pub u64);

/// An amount that can be negative, in millionths: a balance after more was refunded than received.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct UsdChange(pub i64);

impl MicroUsd {
    /// Returns whether it is zero.
    #[must_use]
    pub const fn is_zero(&self) -> bool {
        self.0 == 0
    }

    /// Converts to dollars for JSON.
    #[must_use]
    #[expect(clippy::cast_precision_loss, reason = "exact up to 4.5 billion dollars")]
    pub const fn to_usd(self) -> f64 {
        self.0 as f64 / 1e6
    }
}

impl fmt::Display for MicroUsd {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (whole, part) = (self.0 / 1_000_000, self.0 % 1_000_000);
        let part = format!("{part:06}");
        let part = part.trim_end_matches('0');
        if part.is_empty() { write!(f, "{whole}") } else { write!(f, "{whole}.{part}") }
    }
}

impl fmt::Display for UsdChange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let sign = if self.0 < 0 { "-" } else { "" };
        write!(f, "{sign}{}", MicroUsd(self.0.unsigned_abs()))
    }
}

/// Converts dollars that are not negative to millionths.
fn micros(usd: f64) -> Result<u64, &'static str> {
    let micros = (usd * 1e6).round();
    if !micros.is_finite() || micros >= 18_446_744_073_709_551_616.0 {
        return Err("an amount is a finite number of US dollars");
    }
    // If the rounded amount does not convert back to the given number, that number had more decimals.
    if micros < EXACT && micros / 1e6 != usd {
        return Err("an amount has at most 6 decimals");
    }
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "checked above: whole, 0 or more, below 2^64")]
    Ok(micros as u64)
}

impl Serialize for MicroUsd {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        if self.0.is_multiple_of(1_000_000) {
            serializer.serialize_u64(self.0 / 1_000_000)
        } else {
            serializer.serialize_f64(self.to_usd())
        }
    }
}

impl Serialize for UsdChange {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let amount = MicroUsd(self.0.unsigned_abs());
        match self.0 {
            0.. => amount.serialize(serializer),
            _ if amount.0.is_multiple_of(1_000_000) => serializer.serialize_i64(self.0 / 1_000_000),
            _ => serializer.serialize_f64(-amount.to_usd()),
        }
    }
}

impl<'de> Deserialize<'de> for MicroUsd {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let usd = f64::deserialize(deserializer)?;
        if usd < 0.0 {
            return Err(D::Error::custom("an amount is 0 or more"));
        }
        micros(usd).map(Self).map_err(D::Error::custom)
    }
}

impl<'de> Deserialize<'de> for UsdChange {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let usd = f64::deserialize(deserializer)?;
        let amount = micros(usd.abs()).map_err(D::Error::custom)?;
        let amount = i64::try_from(amount).unwrap_or(i64::MAX);
        Ok(Self(if usd < 0.0 { -amount } else { amount }))
    }
}

impl JsonSchema for MicroUsd {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        "MicroUsd".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "type": "number", "minimum": 0 })
    }
}

impl JsonSchema for UsdChange {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        "UsdChange".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "type": "number" })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn amount_is_read_as_it_was_written() {
        for amount in (0..2_000_000).step_by(7).chain([1, 999_999, 123_456_789_012, 4_500_000_000_000_001]) {
            let json = serde_json::to_string(&MicroUsd(amount)).unwrap();
            assert_eq!(serde_json::from_str::<MicroUsd>(&json).unwrap(), MicroUsd(amount), "{json}");
            let change = UsdChange(-i64::try_from(amount).unwrap());
            let json = serde_json::to_string(&change).unwrap();
            assert_eq!(serde_json::from_str::<UsdChange>(&json).unwrap(), change, "{json}");
        }
        let written = |micros| serde_json::to_string(&UsdChange(micros)).unwrap();
        assert_eq!([-1_500_000, -2_000_000, 0, 1_000_000, 10].map(written), ["-1.5", "-2", "0", "1", "0.00001"]);
        assert_eq!((MicroUsd(1_500_000).to_string(), UsdChange(-10).to_string()), ("1.5".to_owned(), "-0.00001".to_owned()));
    }

    #[test]
    fn number_that_is_not_an_amount_is_rejected() {
        for wrong in ["-0.01", "0.0000001", "0.1234567", "1e300", "\"1\"", "null"] {
            assert!(serde_json::from_str::<MicroUsd>(wrong).is_err(), "{wrong}");
        }
    }
}

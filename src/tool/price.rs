//! Money: an integer in micro-USD internally, and a JSON number in USD in the API.

use std::fmt;

use serde::{Deserialize, Deserializer, Serialize, Serializer, de::Error as _};

/// An amount of US dollars in millionths. Never a float.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, schemars::JsonSchema)]
#[schemars(inline)]
pub struct MicroUsd(#[schemars(with = "f64", range(min = 0))] pub u64);

/// An invalid amount: of a price, a credit, or a minimum payout.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PriceError {
    #[error("an amount must be a finite number of US dollars, 0 or more")]
    NotAPrice,
    #[error("an amount must be US dollars, 0 or more, with at most 6 decimals, and without sign or exponent")]
    NotDecimal,
    #[error("an amount must have at most 6 decimals")]
    TooFine,
    #[error("an amount must be at most {} USD", MicroUsd::MAX.to_usd())]
    TooLarge,
}

impl MicroUsd {
    pub const ZERO: Self = Self(0);
    /// The maximum price: 1,000,000 USD. Every smaller amount is exact as a JSON number.
    pub const MAX: Self = Self(1_000_000_000_000);

    /// Converts a JSON number in dollars.
    ///
    /// # Errors
    ///
    /// It is negative, not finite, above [`MicroUsd::MAX`], or finer than a micro-dollar.
    pub fn from_usd(usd: f64) -> Result<Self, PriceError> {
        if !usd.is_finite() || usd < 0.0 {
            return Err(PriceError::NotAPrice);
        }
        if usd > Self::MAX.to_usd() {
            return Err(PriceError::TooLarge);
        }
        let micros = (usd * 1e6).round();
        // If the rounded amount does not convert back to the given number, that number had more decimals.
        if micros / 1e6 != usd {
            return Err(PriceError::TooFine);
        }
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "checked above: whole, 0 or more, at most 10^12")]
        Ok(Self(micros as u64))
    }

    /// Parses dollars in exact decimal notation: digits, optionally a point followed by 1 to 6 digits.
    ///
    /// # Errors
    ///
    /// It is not such a text, finer than a micro-dollar, or above [`MicroUsd::MAX`].
    pub fn from_decimal(text: &str) -> Result<Self, PriceError> {
        let digits = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
        let (whole, part) = text.split_once('.').unwrap_or((text, "0"));
        if !digits(whole) || !digits(part) {
            return Err(PriceError::NotDecimal);
        }
        if part.len() > 6 {
            return Err(PriceError::TooFine);
        }
        let micros = || whole.parse::<u64>().ok()?.checked_mul(1_000_000)?.checked_add(format!("{part:0<6}").parse().ok()?);
        micros().map(Self).filter(|amount| *amount <= Self::MAX).ok_or(PriceError::TooLarge)
    }

    /// Converts to dollars for JSON. Exact to the micro-dollar up to [`MicroUsd::MAX`].
    #[expect(clippy::cast_precision_loss, reason = "below 2^53")]
    pub const fn to_usd(self) -> f64 {
        self.0 as f64 / 1e6
    }

    /// Returns whether it is zero, for fields that are then omitted from records.
    pub(super) fn is_nothing(&self) -> bool {
        self.is_zero()
    }

    pub const fn is_zero(self) -> bool {
        self.0 == 0
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

impl Serialize for MicroUsd {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        if self.0.is_multiple_of(1_000_000) {
            serializer.serialize_u64(self.0 / 1_000_000)
        } else {
            serializer.serialize_f64(self.to_usd())
        }
    }
}

/// An amount that can be negative, such as a balance after more was refunded than received. In millionths.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default, schemars::JsonSchema)]
#[schemars(inline)]
pub struct UsdChange(#[schemars(with = "f64")] pub i64);

impl UsdChange {
    /// Converts a sum, saturating at the limits of the type.
    pub fn of(sum: i128) -> Self {
        let end = if sum < 0 { i64::MIN } else { i64::MAX };
        Self(i64::try_from(sum).unwrap_or(end))
    }
}

impl fmt::Display for UsdChange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let sign = if self.0 < 0 { "-" } else { "" };
        write!(f, "{sign}{}", MicroUsd(self.0.unsigned_abs()))
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
        Self::from_usd(f64::deserialize(deserializer)?).map_err(D::Error::custom)
    }
}

impl<'de> Deserialize<'de> for UsdChange {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let usd = f64::deserialize(deserializer)?;
        let amount = MicroUsd::from_usd(usd.abs()).map_err(D::Error::custom)?;
        let amount = i64::try_from(amount.0).map_err(D::Error::custom)?;
        Ok(Self(if usd < 0.0 { -amount } else { amount }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn amounts_round_trip_through_json() {
        for micros in (0..2_000_000).step_by(7).chain([1, 999_999, 123_456_789_012, MicroUsd::MAX.0]) {
            let price = MicroUsd(micros);
            let json = serde_json::to_string(&price).unwrap();
            assert_eq!(serde_json::from_str::<MicroUsd>(&json).unwrap(), price, "{json}");
        }
    }

    #[test]
    fn decimal_text_is_read_to_the_micro_dollar() {
        for micros in (0..2_000_000).step_by(7).chain([1, 999_999, 123_456_789_012, MicroUsd::MAX.0]) {
            assert_eq!(MicroUsd::from_decimal(&MicroUsd(micros).to_string()), Ok(MicroUsd(micros)));
        }
        assert_eq!(MicroUsd::from_decimal("007.10"), Ok(MicroUsd(7_100_000)));
        assert_eq!(MicroUsd::from_decimal("0.0000000"), Err(PriceError::TooFine));
        assert_eq!(MicroUsd::from_decimal("1000000.000001"), Err(PriceError::TooLarge));
        assert_eq!(MicroUsd::from_decimal(&"9".repeat(400)), Err(PriceError::TooLarge));
        for wrong in ["", ".", "1.", ".5", "+1", "-0", "1,5", "1e2", " 1", "٣"] {
            assert_eq!(MicroUsd::from_decimal(wrong), Err(PriceError::NotDecimal), "{wrong}");
        }
    }

    #[test]
    fn negative_amounts_have_a_sign() {
        let describe = |micros| serde_json::to_string(&UsdChange(micros)).unwrap();
        assert_eq!([-1_500_000, -2_000_000, 0, 1_000_000, 10].map(describe), ["-1.5", "-2", "0", "1", "0.00001"]);
        for micros in [0, 7, -10, -123_456_789] {
            assert_eq!(serde_json::from_str::<UsdChange>(&describe(micros)).unwrap(), UsdChange(micros));
        }
        assert_eq!((UsdChange(-10).to_string(), UsdChange::of(i128::MIN)), ("-0.00001".to_owned(), UsdChange(i64::MIN)));
    }

    #[test]
    fn invalid_prices_are_refused() {
        assert_eq!(MicroUsd::from_usd(-0.01), Err(PriceError::NotAPrice));
        assert_eq!(MicroUsd::from_usd(f64::NAN), Err(PriceError::NotAPrice));
        assert_eq!(MicroUsd::from_usd(f64::INFINITY), Err(PriceError::NotAPrice));
        assert_eq!(MicroUsd::from_usd(0.000_000_1), Err(PriceError::TooFine));
        assert_eq!(MicroUsd::from_usd(0.123_456_7), Err(PriceError::TooFine));
        assert_eq!(MicroUsd::from_usd(2e6), Err(PriceError::TooLarge));
    }
}

//! `ctx.charge`: the charge that a handler sets for its call.

use tollhouse_base::lock::Lock;
use tollhouse_protocol::OpFailure;
use tollhouse_tool::MicroUsd;

use super::failure::{call_ended, invalid_argument};

/// The charge of one call, as set by its handler.
#[derive(Debug, Default)]
pub struct MeteredCharge {
    /// The maximum that the caller has agreed to pay. Zero if the price is fixed.
    max: MicroUsd,
    charged: Lock<Charged>,
}

/// The last amount that was set, and whether it is final.
#[derive(Debug, Default)]
struct Charged {
    amount: Option<MicroUsd>,
    is_final: bool,
}

impl MeteredCharge {
    /// Creates the charge of a call that costs at most `max`, or zero if the price is fixed.
    pub fn new(max: MicroUsd) -> Self {
        Self { max, charged: Lock::default() }
    }

    /// Returns the last amount that was set.
    pub fn charged(&self) -> Option<MicroUsd> {
        self.charged.lock().amount
    }

    /// Makes the amount final, because the handler has answered.
    pub fn close(&self) {
        self.charged.lock().is_final = true;
    }

    /// Sets the charge. An invalid amount changes nothing.
    pub(super) fn charge(&self, usd: &str) -> Result<(), OpFailure> {
        if self.max.is_zero() {
            return Err(invalid_argument("the price of this tool is fixed; only a tool with `maxPriceUsd` can charge by use"));
        }
        let amount = MicroUsd::from_decimal(usd).map_err(|error| invalid_argument(error.to_string()))?;
        if amount > self.max {
            return Err(invalid_argument(format!("{amount} USD is above the `maxPriceUsd` of {} USD", self.max)));
        }
        let mut charged = self.charged.lock();
        if charged.is_final {
            return Err(call_ended());
        }
        charged.amount = Some(amount);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_amount_counts_and_an_invalid_one_changes_nothing() {
        let charge = MeteredCharge::new(MicroUsd(50_000));
        assert_eq!(charge.charged(), None);
        for (usd, micros) in [("0.02", 20_000), ("0.05", 50_000), ("0", 0), ("0.000001", 1)] {
            charge.charge(usd).unwrap();
            assert_eq!(charge.charged(), Some(MicroUsd(micros)));
        }
        for usd in ["0.050001", "1", "-0.01", "0.0000001", "1e-3", "", ".", "0.01 ", "NaN", "Infinity", "0x1", "99999999999999999999"] {
            assert_eq!(charge.charge(usd).unwrap_err().code, "invalid_argument", "{usd}");
            assert_eq!(charge.charged(), Some(MicroUsd(1)), "{usd}");
        }
    }

    #[test]
    fn charge_is_final_once_the_handler_has_answered() {
        let charge = MeteredCharge::new(MicroUsd(50_000));
        charge.charge("0.02").unwrap();
        charge.close();
        assert_eq!(charge.charge("0.03").unwrap_err().code, "call_ended");
        assert_eq!(charge.charged(), Some(MicroUsd(20_000)));
    }

    #[test]
    fn a_fixed_price_is_not_charged_for() {
        let charge = MeteredCharge::new(MicroUsd::ZERO);
        assert!(charge.charge("0").is_err() && charge.charge("0.01").is_err());
        assert_eq!(charge.charged(), None);
    }
}

//! Amounts as people read them: to the micro-dollar, with at least two decimals.

use tollhouse_tool::MicroUsd;

/// Formats an amount, such as `$0.10`, `$0.003`, `$4.91`.
pub(crate) fn usd(amount: MicroUsd) -> String {
    let digits = format!("{:06}", amount.0 % 1_000_000);
    let part = digits.trim_end_matches('0');
    format!("${}.{part:0<2}", amount.0 / 1_000_000)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::dollars;

    #[test]
    fn amounts_have_all_digits_and_at_least_two_decimals() {
        for (micros, reported) in
            [(0, "$0.00"), (100_000, "$0.10"), (3_000, "$0.003"), (1, "$0.000001"), (4_910_000, "$4.91"), (12_000_000, "$12.00")]
        {
            assert_eq!(usd(MicroUsd(micros)), reported);
            assert_eq!(dollars(reported), Ok(MicroUsd(micros)));
        }
        for none in ["", "$", "-1", "1e3", "0.0000001", "$$1", "0,5"] {
            assert!(dollars(none).is_err(), "{none}");
        }
    }
}

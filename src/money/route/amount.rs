//! Integer amounts of assets.

use tollhouse_tool::MicroUsd;

/// Number of decimals of a dollar amount in micro-dollars.
pub(super) const USD_DECIMALS: u32 = 6;

/// Converts units of 10^-`from` to units of 10^-`to`, rounded up.
pub(super) fn rescaled(units: u128, from: u32, to: u32) -> u128 {
    match to.checked_sub(from) {
        Some(more) => units.saturating_mul(10_u128.saturating_pow(more)),
        None => units.div_ceil(10_u128.saturating_pow(from - to)),
    }
}

pub(super) fn decimal(units: u128, decimals: u32) -> String {
    let one = 10_u128.saturating_pow(decimals);
    let part = format!("{:0width$}", units % one, width = decimals as usize);
    let part = part.trim_end_matches('0');
    if part.is_empty() || decimals == 0 { (units / one).to_string() } else { format!("{}.{part}", units / one) }
}

/// Parses a decimal number of dollars to micro-dollars, rounded up. `None` if it is invalid.
pub(super) fn dollars(text: &str) -> Option<MicroUsd> {
    let (whole, part) = text.split_once('.').unwrap_or((text, ""));
    let digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    if whole.is_empty() || !digits(whole) || !digits(part) || whole.len() > 12 {
        return None;
    }
    let (fine, rest) = part.split_at(part.len().min(USD_DECIMALS as usize));
    let micros = format!("{whole}{fine:0<6}").parse::<u64>().ok()?;
    let up = u64::from(rest.bytes().any(|byte| byte != b'0'));
    Some(MicroUsd(micros + up)).filter(|usd| *usd <= MicroUsd::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn units_are_written_exactly_and_changed_upwards() {
        for (units, decimals, written) in
            [(0, 6, "0"), (2_000_000, 6, "2"), (1, 6, "0.000001"), (1_500_000, 6, "1.5"), (24, 2, "0.24"), (7, 0, "7"), (10, 0, "10")]
        {
            assert_eq!(decimal(units, decimals), written);
        }
        assert_eq!((rescaled(5, 6, 18), rescaled(5_000_000_000_001, 18, 6), rescaled(7, 6, 6)), (5_000_000_000_000, 6, 7));
    }

    #[test]
    fn foreign_dollar_amounts_are_rounded_up_and_invalid_numbers_are_none() {
        for (text, micros) in
            [("0", 0), ("1", 1_000_000), ("0.5", 500_000), ("0.0000001", 1), ("12.345678", 12_345_678), ("1.0000000", 1_000_000)]
        {
            assert_eq!(dollars(text), Some(MicroUsd(micros)), "{text}");
        }
        assert_eq!(dollars("000000000001"), Some(MicroUsd(1_000_000)));
        for text in ["", ".5", "-1", "+1", "1e3", "NaN", "1,5", "1.2.3", "1.000000e", "9999999999999", "0000000000001", "2000000", " 1"] {
            assert_eq!(dollars(text), None, "{text}");
        }
    }
}

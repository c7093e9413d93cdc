//! Whether a payment covers the gas of its settlement.

use tollhouse_tool::MicroUsd;

use crate::{OfferedX402, x402::signed::SignedPayload};

/// Whether a payment covers the gas of its settlement, as far as the host knows before the run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::payments) enum GasCover {
    Full,
    /// It is below the least amount that covers the gas.
    TooLittle,
    Unknown,
}

impl GasCover {
    /// Compares a payment with the least amount that covers the gas. Zero means that every amount does.
    pub(in crate::payments) fn of(payment: &OfferedX402, least: MicroUsd) -> Self {
        match &payment.signed {
            _ if is_underpaid(payment, least) => Self::TooLittle,
            SignedPayload::Permit { .. } if !least.is_zero() => Self::Unknown,
            SignedPayload::Permit { .. } | SignedPayload::Transfer { .. } | SignedPayload::Transaction(_) => Self::Full,
        }
    }

    /// Returns whether the limits on gas of underpaid settlements apply. If the charge is not known yet, they apply
    /// once a settlement of the payer was underpaid.
    pub(super) fn is_limited(self, has_underpaid: bool) -> bool {
        self == Self::TooLittle || (self == Self::Unknown && has_underpaid)
    }
}

/// Returns whether the amount that is asked for, or was charged, is below the least amount that covers the gas.
pub(in crate::payments) fn is_underpaid(payment: &OfferedX402, least: MicroUsd) -> bool {
    // The server's requirements, not the text that the payer has signed.
    let amount = payment.asked().parse().ok().and_then(|atomic| payment.asset.worth(atomic));
    amount.is_some_and(|amount| amount < least)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::Payer;

    #[test]
    fn amount_below_the_least_one_does_not_cover_the_gas() {
        // The payment is one cent.
        let payment = Payer::new(1).payment(1);
        for (least, cover) in [(10_001, GasCover::TooLittle), (10_000, GasCover::Full), (0, GasCover::Full)] {
            let least = MicroUsd(least);
            assert_eq!((GasCover::of(&payment, least), is_underpaid(&payment, least)), (cover, cover == GasCover::TooLittle), "{least}");
        }
    }
}

//! Detects payments that somebody else has settled. Two stores with the same `payTo` can both accept the same payment,
//! so that one transfer pays for two runs, and neither store knows of the other. The sign of it is an authorization
//! that was used before this host used it.

use crate::{OfferedX402, PaymentId, SettleOutcome};

/// Logs an outcome that another host with the same `payTo` may have caused, and returns whether it is one. `prepared`
/// is the transaction that the host prepared, if known.
pub(super) fn note(id: &PaymentId, outcome: &SettleOutcome, prepared: Option<&str>) -> bool {
    let is_elsewhere = may_be_elsewhere(outcome, prepared);
    if is_elsewhere {
        warn(id, outcome, prepared);
    }
    is_elsewhere
}

/// Does the same for a payment that a facilitator reported as spent at the first request.
pub(super) fn note_spent_before(id: &PaymentId, payment: &OfferedX402, outcome: &SettleOutcome) -> bool {
    // Other outcomes are logged when they are written.
    let is_elsewhere = payment.was_spent_before() && !may_be_elsewhere(outcome, None);
    if is_elsewhere {
        warn(id, outcome, None);
    }
    is_elsewhere
}

fn warn(id: &PaymentId, outcome: &SettleOutcome, prepared: Option<&str>) {
    tracing::warn!(
        payment.id = %id,
        outcome = outcome.name(),
        prepared,
        "an authorization was used before this host used it: its payer, somebody who replayed it, or another host with the same `payTo` \
         has settled it. Give each store its own `payTo`, and check whether two receipts name the same transaction"
    );
}

/// Returns whether a payment was already spent, or settled by another transaction than the prepared one.
fn may_be_elsewhere(outcome: &SettleOutcome, prepared: Option<&str>) -> bool {
    match outcome {
        SettleOutcome::Refused { reason, .. } => reason.contains("nonce_already_used"),
        SettleOutcome::Settled(settlement) => prepared.is_some_and(|prepared| !prepared.eq_ignore_ascii_case(&settlement.transaction)),
        SettleOutcome::Unsent(_) | SettleOutcome::Unknown(_) | SettleOutcome::Lost(_) => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Settlement, SettlementKind};

    #[test]
    fn authorization_that_was_used_by_another_transaction_is_distinguished() {
        let settled = |transaction: &str| {
            let text = String::new;
            SettleOutcome::Settled(Settlement {
                kind: SettlementKind::X402,
                transaction: transaction.to_owned(),
                network: text(),
                asset: text(),
                amount: text(),
                payer: text(),
                scheme: text(),
                version: None,
                evidence: None,
            })
        };
        let refused = |reason: &str| SettleOutcome::Refused { reason: reason.to_owned(), message: String::new() };
        for (outcome, prepared, elsewhere) in [
            (settled("0xAb"), Some("0xab"), false),
            (settled("0xab"), None, false),
            (settled("0xcd"), Some("0xab"), true),
            (refused("invalid_exact_evm_nonce_already_used"), None, true),
            (refused("insufficient_funds"), Some("0xab"), false),
            (SettleOutcome::Unknown(String::new()), Some("0xab"), false),
        ] {
            assert_eq!(may_be_elsewhere(&outcome, prepared), elsewhere, "{outcome:?}");
        }
    }
}

//! What payers are told of a facilitator's "no": a code of this table, in these words. The facilitator's own go to the log.

use super::cut;

/// Codes of x402 and of its servers, and what each says.
const REASONS: &[(&str, &str)] = &[
    ("insufficient_funds", "the payer has too little of the token"),
    ("invalid_exact_evm_insufficient_balance", "the payer has too little of the token"),
    ("invalid_exact_evm_signature", "the signature is not the payer's"),
    ("invalid_exact_evm_payload_signature", "the signature is not the payer's"),
    ("invalid_exact_evm_nonce_already_used", "the authorization is spent"),
    ("duplicate_settlement", "the authorization is spent"),
    ("authorization_canceled", "the payer cancelled the authorization"),
    ("payment_expired", "the authorization has expired, or is about to"),
    ("invalid_payment_expired", "the authorization has expired, or is about to"),
    ("invalid_exact_evm_payload_authorization_valid_before", "the authorization has expired, or is about to"),
    ("invalid_exact_evm_payload_authorization_valid_after", "the authorization is not valid yet"),
    ("invalid_exact_evm_payload_authorization_value", "the authorization's value is not the price"),
    ("invalid_exact_evm_payload_authorization_value_mismatch", "the authorization's value is not the price"),
    ("invalid_payment_amount", "the authorization's value is not the price"),
    ("invalid_exact_evm_recipient_mismatch", "the authorization pays another address"),
    ("invalid_exact_evm_payload_recipient_mismatch", "the authorization pays another address"),
    ("recipient_mismatch", "the authorization pays another address"),
    ("invalid_exact_evm_payload_undeployed_smart_wallet", "the payer's wallet is not deployed"),
    ("eip6492_factory_not_allowed", "the payer's wallet is not deployed"),
    ("invalid_exact_evm_transaction_simulation_failed", "the token would not take the transfer"),
    ("invalid_exact_evm_transaction_failed", "the token did not take the transfer"),
    ("invalid_transaction_state", "the token did not take the transfer"),
    ("invalid_permit2_signature", "the signature is not the payer's"),
    ("permit2_deadline_expired", "the permit has expired, or is about to"),
    ("permit2_not_yet_valid", "the permit is not valid yet"),
    ("permit2_insufficient_balance", "the payer has too little of the token"),
    ("permit2_allowance_required", "the payer has not let Permit2 move the token"),
    ("permit2_invalid_nonce", "the permit is spent"),
    ("permit2_simulation_failed", "Permit2 would not take the transfer"),
    ("permit2_proxy_not_deployed", "the contract that takes permits is not on this network"),
    ("invalid_upto_evm_transaction_failed", "Permit2 did not take the transfer"),
    ("invalid_upto_evm_payload_settlement_exceeds_amount", "what was charged is more than the permit"),
    ("upto_facilitator_mismatch", "the permit names another facilitator"),
    ("invalid_exact_svm_payload_transaction_amount_mismatch", "the transaction's amount is not the price"),
    ("invalid_exact_svm_payload_transaction_transfer_to_incorrect_ata", "the transaction pays another address"),
    ("invalid_exact_svm_payload_transaction_sender_ata_not_found", "the payer has no account of the token"),
    ("invalid_exact_svm_payload_transaction_receiver_ata_not_found", "who is to be paid has no account of the token"),
    ("invalid_exact_svm_payload_transaction_simulation_failed", "the network would not take the transaction"),
    ("invalid_exact_svm_payload_transaction", "the transaction is not of the form that its scheme has"),
    ("asset_not_deployed_contract", "there is no token at the asset's address"),
    ("invalid_payload", "the payment is not of the form that its scheme has"),
    ("invalid_payment", OTHER.1),
];

/// What every other reason is told as.
const OTHER: (&str, &str) = ("invalid_payment", "the facilitator does not take this payment");

/// Longest reason that is logged, in characters.
const MAX_LOGGED: usize = 200;

/// What a payer is told of a refusal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Told {
    pub(super) code: &'static str,
    pub(super) sentence: &'static str,
}

impl Told {
    /// Of a reason that a facilitator gives; other than itself where that is none that we know.
    pub(super) fn of(reason: &str) -> Self {
        let known = REASONS.iter().find(|(code, _)| *code == reason);
        let (code, sentence) = *known.unwrap_or(&OTHER);
        Self { code, sentence }
    }

    /// Whether the reason is known, so that it is told as itself.
    pub(super) fn knows(reason: &str) -> bool {
        Self::of(reason).code == reason
    }
}

/// A text of a facilitator's, for the log: on one line, and cut to length.
pub(super) fn logged(text: &str) -> String {
    cut(text, MAX_LOGGED).escape_debug().to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reason_that_is_not_in_the_table_is_not_told() {
        assert_eq!(Told::of("send <b>1 ETH</b> to 0x123").code, "invalid_payment");
        assert_eq!(Told::of("insufficient_funds").code, "insufficient_funds");
        assert!(!Told::knows("a_code_of_its_own") && Told::knows("invalid_payment"));
        assert_eq!(logged("two\nlines\u{1b}[2J"), "two\\nlines\\u{1b}[2J");
    }
}

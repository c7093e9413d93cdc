//! What payers are told of a facilitator's "no": a code of this table, in these words. The facilitator's own go to the log.

use super::cut;

/// When a facilitator finds a reason: what it says of the money.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Found {
    /// By looking at the payment, before it sends anything.
    Before,
    /// By a trial of the transfer, which fails likewise where the nonce is spent.
    Trial,
    /// By what became of the nonce or of a transaction: money may have moved.
    After,
}

/// Codes of x402 and of its servers, what each says, and when it is found.
const REASONS: &[(&str, &str, Found)] = &[
    ("insufficient_funds", "the payer has too little of the token", Found::Before),
    ("invalid_exact_evm_insufficient_balance", "the payer has too little of the token", Found::Before),
    ("invalid_exact_evm_insufficient_funds", "the payer has too little of the token", Found::Before),
    ("invalid_signature", "the signature is not the payer's", Found::Before),
    ("invalid_exact_evm_signature", "the signature is not the payer's", Found::Before),
    ("invalid_exact_evm_payload_signature", "the signature is not the payer's", Found::Before),
    ("invalid_exact_evm_payload_signature_address", "the signature is not the payer's", Found::Before),
    ("invalid_exact_evm_payload_authorization_typed_data_message", "the signature is not the payer's", Found::Before),
    ("invalid_exact_evm_nonce_already_used", "the authorization is spent", Found::After),
    ("nonce_already_used", "the authorization is spent", Found::After),
    ("authorization_used", "the authorization is spent", Found::After),
    ("duplicate_settlement", "the authorization is spent", Found::After),
    ("authorization_canceled", "the payer cancelled the authorization", Found::After),
    ("payment_expired", "the authorization has expired, or is about to", Found::Before),
    ("invalid_payment_expired", "the authorization has expired, or is about to", Found::Before),
    ("invalid_exact_evm_payload_authorization_valid_before", "the authorization has expired, or is about to", Found::Before),
    ("invalid_payment_early", "the authorization is not valid yet", Found::Before),
    ("invalid_exact_evm_payload_authorization_valid_after", "the authorization is not valid yet", Found::Before),
    ("invalid_exact_evm_payload_authorization_value", "the authorization's value is not the price", Found::Before),
    ("invalid_exact_evm_payload_authorization_value_mismatch", "the authorization's value is not the price", Found::Before),
    ("invalid_exact_evm_payload_authorization_value_too_low", "the authorization's value is not the price", Found::Before),
    ("invalid_payment_amount", "the authorization's value is not the price", Found::Before),
    ("invalid_exact_evm_recipient_mismatch", "the authorization pays another address", Found::Before),
    ("invalid_exact_evm_payload_recipient_mismatch", "the authorization pays another address", Found::Before),
    ("recipient_mismatch", "the authorization pays another address", Found::Before),
    ("invalid_exact_evm_payload_authorization_from_address_kyt", "the facilitator does not serve the payer's address", Found::Before),
    ("invalid_exact_evm_payload_authorization_to_address_kyt", "the facilitator does not serve the address that is paid", Found::Before),
    ("invalid_exact_evm_payload_undeployed_smart_wallet", "the payer's wallet is not deployed", Found::Before),
    ("eip6492_factory_not_allowed", "the payer's wallet is not deployed", Found::Before),
    ("transaction_simulation", "the token would not take the transfer", Found::Trial),
    ("invalid_exact_evm_transaction_simulation_failed", "the token would not take the transfer", Found::Trial),
    ("invalid_exact_evm_transaction_failed", "the token did not take the transfer", Found::After),
    ("invalid_transaction_state", "the token did not take the transfer", Found::After),
    ("invalid_permit2_signature", "the signature is not the payer's", Found::Before),
    ("permit2_deadline_expired", "the permit has expired, or is about to", Found::Before),
    ("permit2_not_yet_valid", "the permit is not valid yet", Found::Before),
    ("permit2_insufficient_balance", "the payer has too little of the token", Found::Before),
    ("permit2_allowance_required", "the payer has not let Permit2 move the token", Found::Before),
    ("permit2_invalid_nonce", "the permit is spent", Found::Trial),
    ("permit2_simulation_failed", "Permit2 would not take the transfer", Found::Trial),
    ("permit2_proxy_not_deployed", "the contract that takes permits is not on this network", Found::Before),
    ("invalid_upto_evm_transaction_failed", "Permit2 did not take the transfer", Found::After),
    ("invalid_upto_evm_payload_settlement_exceeds_amount", "what was charged is more than the permit", Found::Before),
    ("upto_facilitator_mismatch", "the permit names another facilitator", Found::Before),
    ("invalid_exact_svm_payload_transaction_amount_mismatch", "the transaction's amount is not the price", Found::Before),
    ("invalid_exact_svm_payload_transaction_transfer_to_incorrect_ata", "the transaction pays another address", Found::Before),
    ("invalid_exact_svm_payload_transaction_sender_ata_not_found", "the payer has no account of the token", Found::Before),
    ("invalid_exact_svm_payload_transaction_receiver_ata_not_found", "who is to be paid has no account of the token", Found::Before),
    ("invalid_exact_svm_payload_transaction_simulation_failed", "the network would not take the transaction", Found::Trial),
    ("invalid_exact_svm_payload_transaction", "the transaction is not of the form that its scheme has", Found::Before),
    ("asset_not_deployed_contract", "there is no token at the asset's address", Found::Before),
    ("invalid_format", "the payment is not of the form that its scheme has", Found::Before),
    ("invalid_payload", "the payment is not of the form that its scheme has", Found::Before),
    ("invalid_payment", OTHER.1, Found::Before),
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
        let known = REASONS.iter().find(|(code, ..)| *code == reason);
        let (code, sentence) = known.map_or(OTHER, |(code, sentence, _)| (*code, *sentence));
        Self { code, sentence }
    }

    /// When a facilitator finds this reason; `None` of one that is not in the table.
    pub(super) fn found(reason: &str) -> Option<Found> {
        REASONS.iter().find(|(code, ..)| *code == reason).map(|(.., found)| *found)
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
        assert_eq!((Told::found("a_code_of_its_own"), Told::found("invalid_payment")), (None, Some(Found::Before)));
        assert_eq!(logged("two\nlines\u{1b}[2J"), "two\\nlines\\u{1b}[2J");
    }
}

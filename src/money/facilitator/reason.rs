//! Refusals as payers see them: a code and message from this table. The facilitator's own message is only logged.

/// The stage at which a facilitator finds a reason, which shows whether money may have moved.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum MoneyEffect {
    /// While checking the payment, before it sends anything.
    Before,
    /// In a simulation of the transfer, which also fails if the nonce is spent.
    Trial,
    /// From the state of the nonce or a transaction: money may have moved.
    After,
}

/// Message for a signature in an ERC-6492 envelope, whose wallet does not exist yet.
const UNDEPLOYED: &str = "the payer's wallet is not deployed; deploy it, and sign again without the ERC-6492 envelope";

/// Codes of x402 and of its servers, their messages, and when they are found.
const REASONS: &[(&str, &str, MoneyEffect)] = &[
    ("insufficient_funds", "the payer does not have enough of the token", MoneyEffect::Before),
    ("invalid_exact_evm_insufficient_balance", "the payer does not have enough of the token", MoneyEffect::Before),
    ("invalid_exact_evm_insufficient_funds", "the payer does not have enough of the token", MoneyEffect::Before),
    ("invalid_signature", "the signature is not the payer's", MoneyEffect::Before),
    ("invalid_exact_evm_signature", "the signature is not the payer's", MoneyEffect::Before),
    ("invalid_exact_evm_payload_signature", "the signature is not the payer's", MoneyEffect::Before),
    ("invalid_exact_evm_payload_signature_address", "the signature is not the payer's", MoneyEffect::Before),
    ("invalid_exact_evm_payload_authorization_typed_data_message", "the signature is not the payer's", MoneyEffect::Before),
    ("invalid_exact_evm_nonce_already_used", "the authorization was already used", MoneyEffect::After),
    ("nonce_already_used", "the authorization was already used", MoneyEffect::After),
    ("authorization_used", "the authorization was already used", MoneyEffect::After),
    ("duplicate_settlement", "the authorization was already used", MoneyEffect::After),
    ("authorization_canceled", "the payer canceled the authorization", MoneyEffect::After),
    ("payment_expired", "the authorization has expired, or is about to", MoneyEffect::Before),
    ("invalid_payment_expired", "the authorization has expired, or is about to", MoneyEffect::Before),
    ("invalid_exact_evm_payload_authorization_valid_before", "the authorization has expired, or is about to", MoneyEffect::Before),
    ("invalid_payment_early", "the authorization is not valid yet", MoneyEffect::Before),
    ("invalid_exact_evm_payload_authorization_valid_after", "the authorization is not valid yet", MoneyEffect::Before),
    ("invalid_exact_evm_payload_authorization_value", "the authorized amount does not equal the price", MoneyEffect::Before),
    ("invalid_exact_evm_payload_authorization_value_mismatch", "the authorized amount does not equal the price", MoneyEffect::Before),
    ("invalid_exact_evm_payload_authorization_value_too_low", "the authorized amount does not equal the price", MoneyEffect::Before),
    ("invalid_payment_amount", "the authorized amount does not equal the price", MoneyEffect::Before),
    ("invalid_exact_evm_recipient_mismatch", "the authorization pays another address", MoneyEffect::Before),
    ("invalid_exact_evm_payload_recipient_mismatch", "the authorization pays another address", MoneyEffect::Before),
    ("recipient_mismatch", "the authorization pays another address", MoneyEffect::Before),
    ("invalid_exact_evm_payload_authorization_from_address_kyt", "the facilitator does not serve the payer's address", MoneyEffect::Before),
    (
        "invalid_exact_evm_payload_authorization_to_address_kyt",
        "the facilitator does not serve the recipient's address",
        MoneyEffect::Before,
    ),
    ("invalid_exact_evm_payload_undeployed_smart_wallet", UNDEPLOYED, MoneyEffect::Before),
    ("eip6492_factory_not_allowed", UNDEPLOYED, MoneyEffect::Before),
    ("transaction_simulation", "the token would reject the transfer", MoneyEffect::Trial),
    ("invalid_exact_evm_transaction_simulation_failed", "the token would reject the transfer", MoneyEffect::Trial),
    ("invalid_exact_evm_transaction_failed", "the token rejected the transfer", MoneyEffect::After),
    ("invalid_transaction_state", "the token rejected the transfer", MoneyEffect::After),
    ("invalid_permit2_signature", "the signature is not the payer's", MoneyEffect::Before),
    ("permit2_deadline_expired", "the permit has expired, or is about to", MoneyEffect::Before),
    ("permit2_not_yet_valid", "the permit is not valid yet", MoneyEffect::Before),
    ("permit2_insufficient_balance", "the payer does not have enough of the token", MoneyEffect::Before),
    ("permit2_allowance_required", "the payer has not allowed Permit2 to move the token", MoneyEffect::Before),
    ("permit2_invalid_nonce", "the permit was already used", MoneyEffect::Trial),
    ("permit2_simulation_failed", "Permit2 would reject the transfer", MoneyEffect::Trial),
    ("permit2_proxy_not_deployed", "this network does not have the contract that accepts permits", MoneyEffect::Before),
    ("invalid_upto_evm_transaction_failed", "Permit2 rejected the transfer", MoneyEffect::After),
    ("invalid_upto_evm_payload_settlement_exceeds_amount", "the charge is above the amount of the permit", MoneyEffect::Before),
    ("upto_facilitator_mismatch", "the permit names another facilitator", MoneyEffect::Before),
    ("invalid_exact_svm_payload_transaction_amount_mismatch", "the transaction's amount does not equal the price", MoneyEffect::Before),
    ("invalid_exact_svm_payload_transaction_transfer_to_incorrect_ata", "the transaction pays another address", MoneyEffect::Before),
    ("invalid_exact_svm_payload_transaction_sender_ata_not_found", "the payer has no account for the token", MoneyEffect::Before),
    ("invalid_exact_svm_payload_transaction_receiver_ata_not_found", "the recipient has no account for the token", MoneyEffect::Before),
    ("invalid_exact_svm_payload_transaction_simulation_failed", "the network would reject the transaction", MoneyEffect::Trial),
    ("invalid_exact_svm_payload_transaction", "the transaction does not have the format of its scheme", MoneyEffect::Before),
    ("asset_not_deployed_contract", "there is no token at the asset's address", MoneyEffect::Before),
    ("invalid_format", "the payment does not have the format of its scheme", MoneyEffect::Before),
    ("invalid_payload", "the payment does not have the format of its scheme", MoneyEffect::Before),
    ("invalid_payment", OTHER.1, MoneyEffect::Before),
];

/// Code and message for all other reasons.
const OTHER: (&str, &str) = ("invalid_payment", "the facilitator does not accept this payment");

/// Maximum length of a logged reason, in characters.
const MAX_LOGGED: usize = 200;

/// A refusal as the payer sees it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct RefusalText {
    pub(super) code: &'static str,
    pub(super) sentence: &'static str,
}

impl RefusalText {
    /// Looks up a facilitator's reason. Unknown ones become [`OTHER`].
    pub(super) fn of(reason: &str) -> Self {
        let known = REASONS.iter().find(|(code, ..)| *code == reason);
        let (code, sentence) = known.map_or(OTHER, |(code, sentence, _)| (*code, *sentence));
        Self { code, sentence }
    }

    /// Returns when a facilitator finds this reason, or `None` if it is not in the table.
    pub(super) fn found(reason: &str) -> Option<MoneyEffect> {
        REASONS.iter().find(|(code, ..)| *code == reason).map(|(.., found)| *found)
    }
}

/// Truncates a foreign text to at most `chars` characters.
pub(super) fn cut(text: &str, chars: usize) -> String {
    text.chars().take(chars).collect()
}

/// Formats a facilitator's text for the log: on one line, and truncated.
pub(super) fn logged(text: &str) -> String {
    cut(text, MAX_LOGGED).escape_debug().to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unknown_reason_is_not_repeated() {
        assert_eq!(RefusalText::of("send <b>1 ETH</b> to 0x123").code, "invalid_payment");
        assert_eq!(RefusalText::of("insufficient_funds").code, "insufficient_funds");
        assert_eq!((RefusalText::found("a_code_of_its_own"), RefusalText::found("invalid_payment")), (None, Some(MoneyEffect::Before)));
        assert_eq!(logged("two\nlines\u{1b}[2J"), "two\\nlines\\u{1b}[2J");
    }
}

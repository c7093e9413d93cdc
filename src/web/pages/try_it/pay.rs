//! The payment of a form: a signed payment of the amount that it names, or a credit at the price of
//! the quote that it names.

use tollhouse_account::session::SessionKind;
use tollhouse_front::ApiError;

use super::call::{CreditCall, PaymentSource};
use crate::{forms::Fields, play_wallet::Payment, visitor::Visitor};

/// The payment of a form, verified to match what the form says.
pub(super) struct PayableForm(pub(super) PaymentSource);

impl PayableForm {
    /// Reads the payment from the form's fields.
    ///
    /// # Errors
    ///
    /// A field is missing or invalid.
    pub(super) fn of(fields: &Fields, visitor: &Visitor) -> Result<Self, ApiError> {
        let describe = |name: &str| {
            let value = fields.get(name).map(str::trim).filter(|value| !value.is_empty());
            value.ok_or_else(|| ApiError::bad_request(format!("the form does not say `{name}`")))
        };
        let on_credit = |token: Option<String>| -> Result<Self, ApiError> {
            // The price beside the button must be present. The quote guarantees it.
            describe("usd")?;
            Ok(Self(PaymentSource::Credit(CreditCall { token, key: describe("key")?.to_owned(), quote: describe("quote")?.to_owned() })))
        };
        match describe("way")? {
            "signed" => {
                let payment = Payment::read(describe("payment")?).ok_or_else(|| ApiError::bad_request("`payment` is no signed payment"))?;
                if !payment.pays(describe("amount")?, describe("asset")?, describe("network")?) {
                    return Err(ApiError::bad_request("the payment is not what the form says: nothing was sent"));
                }
                Ok(Self(PaymentSource::Signed(payment)))
            }
            "credit" => on_credit(Some(describe("credit")?.to_owned())),
            "own" if visitor.kind() == Some(SessionKind::Holder) => on_credit(None),
            _ => Err(ApiError::bad_request("there is no such way to pay")),
        }
    }
}

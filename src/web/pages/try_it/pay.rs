//! The payment of a form: a signed payment of the amount that it names, or a credit at the price of
//! the quote that it names.

use tollhouse_account::session::Kind;
use tollhouse_front::Fault;

use super::call::{OnCredit, Pays};
use crate::{forms::Fields, play::Payment, visitor::Visitor};

/// The payment of a form, verified to match what the form says.
pub(super) struct Payable(pub(super) Pays);

impl Payable {
    /// Reads the payment from the form's fields.
    ///
    /// # Errors
    ///
    /// A field is missing or invalid.
    pub(super) fn of(fields: &Fields, visitor: &Visitor) -> Result<Self, Fault> {
        let said = |name: &str| {
            let value = fields.get(name).map(str::trim).filter(|value| !value.is_empty());
            value.ok_or_else(|| Fault::bad_request(format!("the form does not say `{name}`")))
        };
        let on_credit = |token: Option<String>| -> Result<Self, Fault> {
            // The price beside the button must be present. The quote guarantees it.
            said("usd")?;
            Ok(Self(Pays::Credit(OnCredit { token, key: said("key")?.to_owned(), quote: said("quote")?.to_owned() })))
        };
        match said("way")? {
            "signed" => {
                let payment = Payment::read(said("payment")?).ok_or_else(|| Fault::bad_request("`payment` is no signed payment"))?;
                if !payment.pays(said("amount")?, said("asset")?, said("network")?) {
                    return Err(Fault::bad_request("the payment is not what the form says: nothing was sent"));
                }
                Ok(Self(Pays::Signed(payment)))
            }
            "credit" => on_credit(Some(said("credit")?.to_owned())),
            "own" if visitor.kind() == Some(Kind::Holder) => on_credit(None),
            _ => Err(Fault::bad_request("there is no such way to pay")),
        }
    }
}

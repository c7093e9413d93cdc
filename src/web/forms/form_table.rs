//! The operations that forms can request, and their confirmations.

use sha2::{Digest as _, Sha256};
use tollhouse_account::session::OpenSession;

/// Number of hex digits of a session's mark.
const MARK_DIGITS: usize = 16;

/// An operation that a form can request.
pub(super) struct FormRow {
    /// The operation id.
    pub(super) id: &'static str,
    /// The confirmation after it was done.
    pub(super) notices: &'static str,
    /// Whether its answer contains something that is shown only once.
    pub(super) once: bool,
}

/// All operations of forms.
const FORMS: &[FormRow] = &[
    done("makePayout", "All that waited is in a packet now."),
    done("setPayoutSettings", "Payouts go there from now on."),
    done("setBudget", "The budget is set."),
    once("rotateBuilderKey", "This is the new key. It is shown this once; the old one opens nothing any more."),
    once("mintCredit", "This is the credit. The token of a new one is shown this once: hand it to who is to spend it."),
    done("decideReview", "It is decided."),
    done("setPolicy", "The policy is in force."),
    done("judgeBuilder", "It is decided."),
    done("judgeCredit", "It is decided."),
    done("decidePayout", "The packet's state is set."),
    done("giveRefund", "It is given back."),
    done("rescan", "All was scanned by the rules in force."),
    once("registerBuilder", "You are registered. The key is shown this once: sign in with it."),
    done("createEndpoint", "It is published. Run it here, or call it as its page says."),
    done("updateEndpoint", "It is changed, for calls that start from now on."),
    done("deleteEndpoint", "It is deleted. Its receipts stay, and its name stays its owner's."),
    done("setSecret", "The secret is set, for calls that start from now on."),
    done("removeSecret", "The secret is removed."),
];

const fn done(id: &'static str, message: &'static str) -> FormRow {
    FormRow { id, notices: message, once: false }
}

const fn once(id: &'static str, message: &'static str) -> FormRow {
    FormRow { id, notices: message, once: true }
}

pub(super) fn form(id: &str) -> Option<&'static FormRow> {
    FORMS.iter().find(|form| form.id == id)
}

/// Returns whether the answer of an operation is shown once, on a page of its own.
pub(crate) fn is_once(id: &str) -> bool {
    form(id).is_some_and(|form| form.once)
}

/// Returns the mark for a page's address that confirms an operation. Only the session's owner can
/// make it.
pub(super) fn mark(session: &OpenSession, id: &str) -> String {
    let hash = hex::encode(Sha256::digest(format!("{}\n{id}", session.form_token)));
    format!("{id}.{}", &hash[..MARK_DIGITS])
}

/// Returns the operation and its confirmation for the page that a form leads back to.
pub(crate) fn notice(session: &OpenSession, request: &str) -> Option<(&'static str, &'static str)> {
    let (_, query) = request.split_once('?')?;
    let done = form_urlencoded::parse(query.as_bytes()).find(|(name, _)| name == "done")?.1;
    let form = form(done.split('.').next()?).filter(|form| done == mark(session, form.id))?;
    Some((form.id, form.notices))
}

#[cfg(test)]
mod tests {
    use super::*;
    use tollhouse_account::session::SessionKind;

    #[test]
    fn forms_ask_for_operations_that_are_in_the_table_once() {
        let ids: std::collections::BTreeSet<_> = FORMS.iter().map(|form| form.id).collect();
        assert_eq!(ids.len(), FORMS.len());
        let session = |form_token: &str| OpenSession {
            owner: "admin".to_owned(),
            name: String::new(),
            kind: SessionKind::Admin,
            credential: String::new().into(),
            form_token: form_token.to_owned(),
        };
        let (own, other) = (session("a"), session("b"));
        let page = |id: &str| format!("/dashboard?done={}", mark(&own, id));
        assert_eq!(notice(&own, &page(FORMS[0].id)), Some((FORMS[0].id, FORMS[0].notices)));
        assert_eq!(notice(&other, &page(FORMS[0].id)), None, "a link of another session's");
        assert_eq!((notice(&own, &page("getHealth")), notice(&own, &format!("/dashboard?done={}", FORMS[0].id))), (None, None));
    }
}

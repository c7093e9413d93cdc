//! The operations that forms can request, and their confirmations.

use sha2::{Digest as _, Sha256};
use tollhouse_account::session::OpenSession;

/// Number of hex digits of a session's mark.
const MARK_DIGITS: usize = 16;

/// An operation that a form can request.
pub(super) struct FormRow {
    pub(super) id: &'static str,
    /// The confirmation after it was done.
    pub(super) notice: &'static str,
    /// Whether its answer contains something that is shown only once.
    pub(super) once: bool,
}

const FORMS: &[FormRow] = &[
    done("makePayout", "Payout created."),
    done("setPayoutSettings", "Payout settings saved."),
    done("setBudget", "Budget saved."),
    once("rotateBuilderKey", "This is the new key. It is shown only once. The old key no longer works."),
    once("mintCredit", "Credit saved. The token of a new credit is shown only once. Give it to the holder."),
    done("decideReview", "Decision saved."),
    done("setPolicy", "Policy saved."),
    done("judgeBuilder", "Decision saved."),
    done("judgeCredit", "Decision saved."),
    done("decidePayout", "Payout updated."),
    done("giveRefund", "Refund recorded. A payment by credit is returned to the credit. For an x402 payment, the host sends no money."),
    done("rescan", "All tools were scanned with the current rules."),
    once("registerBuilder", "You are registered. The key is shown only once. Save it, then sign in with it."),
    done("createEndpoint", "Tool published. Try it here, or call it as its page shows."),
    done("updateEndpoint", "Change published. It applies to calls that start from now on."),
    done("deleteEndpoint", "Tool deleted. Its receipts stay, and nobody else can take its name."),
    done("setSecret", "Secret set. It applies to calls that start from now on."),
    done("removeSecret", "Secret removed."),
];

const fn done(id: &'static str, message: &'static str) -> FormRow {
    FormRow { id, notice: message, once: false }
}

const fn once(id: &'static str, message: &'static str) -> FormRow {
    FormRow { id, notice: message, once: true }
}

pub(super) fn form(id: &str) -> Option<&'static FormRow> {
    FORMS.iter().find(|form| form.id == id)
}

/// Returns whether the answer of an operation is shown once, on a page of its own.
pub(super) fn is_once(id: &str) -> bool {
    form(id).is_some_and(|form| form.once)
}

/// Returns the mark for a page's address that confirms an operation. Only the session's owner can
/// make it.
pub(super) fn mark(session: &OpenSession, id: &str) -> String {
    let hash = hex::encode(Sha256::digest(format!("{}\n{id}", session.form_token)));
    format!("{id}.{}", &hash[..MARK_DIGITS])
}

/// Returns the operation and its confirmation for the page that a form leads back to.
pub(super) fn notice(session: &OpenSession, request: &str) -> Option<(&'static str, &'static str)> {
    let (_, query) = request.split_once('?')?;
    let done = form_urlencoded::parse(query.as_bytes()).find(|(name, _)| name == "done")?.1;
    let form = form(done.split('.').next()?).filter(|form| done == mark(session, form.id))?;
    Some((form.id, form.notice))
}

#[cfg(test)]
mod tests {
    use super::*;
    use tollhouse_account::session::SessionKind;

    #[test]
    fn each_operation_is_listed_once_and_confirmed_only_to_its_session() {
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
        assert_eq!(notice(&own, &page(FORMS[0].id)), Some((FORMS[0].id, FORMS[0].notice)));
        assert_eq!(notice(&other, &page(FORMS[0].id)), None, "a link of another session");
        assert_eq!((notice(&own, &page("getHealth")), notice(&own, &format!("/dashboard?done={}", FORMS[0].id))), (None, None));
    }
}

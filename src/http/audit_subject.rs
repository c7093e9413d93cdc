//! The subject of each recorded change: the slug or id of a tool, a builder, a credit, a payout, a payment or a receipt.

use tollhouse_account::audit::Actor;
use tollhouse_base::id::{BuilderId, CreditId, PaymentId, PayoutId, ReceiptId};
use tollhouse_tool::Slug;

use crate::Response;

/// Where a change names its subject.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum SubjectSource {
    /// `{slug}` in the path, or `slug` in the body.
    Tool,
    /// `{id}` in the path.
    PathId,
    /// `creditId` in the query or the body. A new credit is in the response.
    Credit,
    /// `receiptId` in the body.
    Receipt,
    /// `builderId` in the query, for admins. Otherwise the caller.
    Builder,
    /// The party that makes the request.
    Caller,
    /// The response, because the change creates it.
    Response,
    /// Nothing: the change is about the host.
    Host,
}

/// The source for each recorded operation, by method and path.
pub(super) const SOURCES: &[(&str, &str, SubjectSource)] = &[
    ("POST", "/ai/admin/builders/{id}", SubjectSource::PathId),
    ("POST", "/ai/admin/credits/{id}", SubjectSource::PathId),
    ("POST", "/ai/admin/payouts/{id}", SubjectSource::PathId),
    ("PUT", "/ai/admin/policy", SubjectSource::Host),
    ("POST", "/ai/admin/refunds", SubjectSource::Receipt),
    ("POST", "/ai/admin/rescan", SubjectSource::Host),
    ("POST", "/ai/admin/reviews/{slug}", SubjectSource::Tool),
    ("POST", "/ai/admin/secrets/rotate", SubjectSource::Host),
    ("POST", "/ai/admin/unresolved/{id}", SubjectSource::PathId),
    ("POST", "/ai/builders/keys", SubjectSource::Builder),
    ("POST", "/ai/builders/payout-settings", SubjectSource::Builder),
    ("POST", "/ai/builders/payouts", SubjectSource::Builder),
    ("POST", "/ai/builders/register", SubjectSource::Response),
    ("POST", "/ai/builders/sign-in-links", SubjectSource::Caller),
    ("POST", "/ai/credits", SubjectSource::Credit),
    ("PUT", "/ai/credits/budget", SubjectSource::Credit),
    ("POST", "/ai/endpoints/create", SubjectSource::Tool),
    ("DELETE", "/ai/endpoints/{slug}", SubjectSource::Tool),
    ("PATCH", "/ai/endpoints/{slug}", SubjectSource::Tool),
    ("POST", "/ai/endpoints/{slug}/run", SubjectSource::Tool),
    ("DELETE", "/ai/endpoints/{slug}/secrets", SubjectSource::Tool),
    ("POST", "/ai/endpoints/{slug}/secrets", SubjectSource::Tool),
];

/// The items that a request names. Texts that are no ids are not among them, because they could contain a credential.
#[derive(Debug, Clone, Copy)]
pub(super) struct NamedItems<'a> {
    pub(super) actor: &'a Actor,
    pub(super) slug: Option<&'a Slug>,
    /// `{id}` in the path.
    pub(super) id: Option<&'a str>,
    /// `builderId` in the query.
    pub(super) builder: Option<&'a BuilderId>,
    pub(super) credit: Option<&'a CreditId>,
    pub(super) receipt: Option<&'a ReceiptId>,
}

/// Returns what a request to change something is about, as far as the request shows it.
pub(super) fn of_request(method: &str, template: &str, named: NamedItems<'_>) -> Option<String> {
    let (.., source) = SOURCES.iter().find(|(of, path, _)| (*of, *path) == (method, template))?;
    match source {
        SubjectSource::Tool => named.slug.map(ToString::to_string),
        SubjectSource::PathId => named.id.filter(|id| is_id(id)).map(ToOwned::to_owned),
        SubjectSource::Credit => named.credit.map(ToString::to_string),
        SubjectSource::Receipt => named.receipt.map(ToString::to_string),
        SubjectSource::Builder => Some(named.builder.map_or_else(|| caller(named.actor), ToString::to_string)),
        SubjectSource::Caller => Some(caller(named.actor)),
        SubjectSource::Response | SubjectSource::Host => None,
    }
}

fn caller(actor: &Actor) -> String {
    match actor {
        Actor::Admin => "admin".to_owned(),
        Actor::Builder { builder_id } => builder_id.to_string(),
    }
}

fn is_id(text: &str) -> bool {
    text.parse::<BuilderId>().is_ok()
        || text.parse::<CreditId>().is_ok()
        || text.parse::<PayoutId>().is_ok()
        || text.parse::<PaymentId>().is_ok()
}

/// The subject of a change that only its response shows.
#[derive(Debug, Clone)]
pub(super) struct ChangedItem(pub(super) String);

/// Returns the subject that a handler has put into its response.
pub(super) fn of_response(response: &Response) -> Option<String> {
    response.extensions().get::<ChangedItem>().map(|ChangedItem(id)| id.clone())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_change_names_its_subject_unless_it_is_about_the_host() {
        let (actor, slug, builder) = (Actor::Admin, "a-tool".parse().unwrap(), BuilderId::generate());
        let (credit, receipt) = (CreditId::generate(), ReceiptId::generate());
        for id in [builder.as_str(), credit.as_str(), PayoutId::generate().as_str(), PaymentId::of(&["a"]).as_str()] {
            let named = NamedItems {
                actor: &actor,
                slug: Some(&slug),
                id: Some(id),
                builder: Some(&builder),
                credit: Some(&credit),
                receipt: Some(&receipt),
            };
            for (method, path, source) in SOURCES {
                let expected = match source {
                    SubjectSource::Tool => Some("a-tool"),
                    SubjectSource::PathId => Some(id),
                    SubjectSource::Credit => Some(credit.as_str()),
                    SubjectSource::Receipt => Some(receipt.as_str()),
                    SubjectSource::Builder => Some(builder.as_str()),
                    SubjectSource::Caller => Some("admin"),
                    SubjectSource::Response | SubjectSource::Host => None,
                };
                assert_eq!(of_request(method, path, named).as_deref(), expected, "{method} {path}");
            }
        }
    }

    #[test]
    fn caller_is_the_subject_where_no_builder_is_named() {
        let builder = BuilderId::generate();
        let actor = Actor::Builder { builder_id: builder.clone() };
        let named = NamedItems { actor: &actor, slug: None, id: Some("bk_a_secret"), builder: None, credit: None, receipt: None };
        assert_eq!(of_request("POST", "/ai/builders/payouts", named), Some(builder.to_string()));
        assert_eq!(of_request("POST", "/ai/admin/payouts/{id}", named), None, "it is no id");
    }
}

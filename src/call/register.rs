//! Registers builders. It is paid through the same gate as a call, with the same invariant.
//!
//! The builder is written in the commit of the receipt. The key is not in a stored answer. It is
//! [derived](tollhouse_account::first_key) for the request that registered, and for later ones that send the payment
//! with data that only its payer knows, until the key is first used.

use std::{net::IpAddr, sync::Arc, time::Duration};

use serde_json::{Value, json};
use tollhouse_account::{
    builder::{Builder, BuilderError},
    registration::{Applicant, Registrant},
};
use tollhouse_base::{
    clock::Timestamp,
    id::{CallId, EndpointId, ReceiptId, RequestId},
};
use tollhouse_money::{
    Admit, CallTerms, EntryMethod, OfferedPayment, QuotedTerms, ReceiptContext, ReceiptFinisher, SeenPayment, SignedOffers, StoredAnswer,
    binding,
    receipt::{self, request_hash},
};
use tollhouse_store::StoreError;
use tollhouse_tool::{MicroUsd, Mismatch, Owner, Problem, SettleTime, Slug};

use super::{CallError, Calls, CompletedCall, completed::SharedResult, json_bytes};

/// Placeholder for the id of a tool.
const ENDPOINT: &str = "ep_00000000000000000000000000";

/// How long an authorization must be valid, in seconds, as x402 v2 clients expect.
const TIMEOUT_SECS: u64 = 300;

/// A request to register.
#[derive(Debug)]
pub struct Registration {
    /// The price and recipient.
    pub terms: Arc<CallTerms>,
    /// The builder's name.
    pub name: String,
    /// Contact for admins.
    pub contact: Option<String>,
    /// The query as in the URL.
    pub query: Option<String>,
    /// The offered payment.
    pub offered: OfferedPayment,
    /// The named quote.
    pub quote: Option<String>,
    /// The request's id in the audit trail.
    pub request: RequestId,
    /// The caller's address.
    pub from: IpAddr,
}

/// Returns the terms of registration, with the texts of its challenge.
#[must_use]
pub fn registration_terms(price: MicroUsd, base_url: &str) -> CallTerms {
    let input = json!({
        "type": "object",
        "properties": { "name": { "type": "string" }, "contact": { "type": "string" } },
        "required": ["name"],
        "additionalProperties": false,
    });
    CallTerms {
        slug: Slug::builder_registration(),
        endpoint_id: ENDPOINT.parse().expect("it has the form of an id"),
        owner: Owner::Platform,
        version: receipt::bytes_hash(b"builder-registration@1"),
        resource_url: format!("{base_url}/ai/builders/register"),
        description: "Registers a builder, who may publish tools and earn with them.".to_owned(),
        price,
        metered: false,
        accepts: Vec::new(),
        settle: SettleTime::After,
        input_schema: Arc::new(input),
        output_schema: Arc::new(json!({ "type": "object" })),
        tags: vec!["builder".to_owned()],
        wall: Duration::ZERO,
        timeout_secs: TIMEOUT_SECS,
        offers: SignedOffers::default(),
    }
}

impl Calls {
    /// Registers a builder. Dropping the future does not stop it.
    ///
    /// # Errors
    ///
    /// See [`Calls::perform`]; [`CallError::Input`] for an invalid name or contact.
    pub async fn register(self: &Arc<Self>, registration: Registration) -> SharedResult {
        let this = Arc::clone(self);
        self.detached(async move { this.register_builder(registration).await }).await
    }

    async fn register_builder(&self, registration: Registration) -> SharedResult {
        self.is_callable()?;
        let Registration { terms, name, contact, query, offered, quote, request, from } = registration;
        let applicant = Applicant { name, contact, request };
        let body = json!({ "name": applicant.name, "contact": applicant.contact });
        let body = receipt::canonical(&body);
        let hash = request_hash(terms.endpoint_id.as_str(), &body);
        let binding = binding(terms.slug.as_str(), "POST", query.as_deref(), Some(&body));
        let quoted = match self.under(&terms, quote.as_deref()) {
            Ok(quoted) => quoted,
            Err(refused) => {
                let seen = self.earlier(&offered, &binding).await?.ok_or_else(|| Arc::new(refused))?;
                return self.replay(seen, 0).await;
            }
        };
        let terms = &quoted.terms;
        if terms.price.is_zero() {
            let joining = self.make(&quoted, &applicant, hash).map_err(Arc::new)?;
            return self.register_free(joining).await.map_err(|error| Arc::new(error.into()));
        }
        if matches!(offered, OfferedPayment::Nothing) {
            return Err(Arc::new(self.unpaid(terms, EntryMethod::Post)));
        }
        match self.admit(terms, EntryMethod::Post, offered, &binding, from).await? {
            Admit::Stored(payment, answer) => Ok(CompletedCall::paid(payment, answer)),
            Admit::InFlight(payment) => self.replay(SeenPayment::InFlight(payment), 0).await,
            // Registrations are never charged before the builder is created.
            Admit::Owed(owed) => self.replay(SeenPayment::Owed(owed), 0).await,
            Admit::Run(admission) => {
                let tracked = self.in_flight.track(admission.id());
                let payment = admission.id().clone();
                let registered = match self.make(&quoted, &applicant, hash) {
                    Ok(Joining { closing, answer }) => {
                        let settled = self.payments.settle(admission, answer, &ReceiptFinisher::encode(&closing)).await;
                        settled
                            .map(|answer| CompletedCall::paid(payment, answer))
                            .map_err(|error| self.unsettled(terms, EntryMethod::Post, error))
                    }
                    Err(error) => {
                        admission.release().await;
                        Err(error)
                    }
                };
                let registered = registered.map_err(Arc::new);
                tracked.end(registered.clone());
                registered.map(|done| CompletedCall { first: true, ..done })
            }
        }
    }

    async fn register_free(&self, joining: Joining) -> Result<CompletedCall, StoreError> {
        let Joining { closing, mut answer } = joining;
        answer.receipt_id = closing.receipt.receipt_id.to_string();
        self.write_behind.durably(closing.registered.as_ref().map(Registrant::stored).unwrap_or_default()).await?;
        if let Err(error) = self.write_behind.succeeded(closing).await {
            tracing::error!(%error, "a builder was registered, and the receipt of it is lost");
        }
        Ok(CompletedCall { answer: Arc::new(answer), payment: None, success: true, first: true })
    }

    /// Creates a builder who is not stored yet, with the data of the commit that stores the builder.
    fn make(&self, quoted: &QuotedTerms, applicant: &Applicant, request_hash: String) -> Result<Joining, CallError> {
        let terms = &quoted.terms;
        let now = self.clock.now();
        let keys = self.builders.first_keys();
        let (builder, _) = Builder::new(&applicant.name, applicant.contact.as_deref(), now, keys).map_err(refused)?;
        let body = builder_json(&builder);
        let closing = ReceiptContext {
            receipt: draft(quoted, request_hash, &body, now),
            call: CallId::generate(),
            owner: Owner::Platform,
            fee: self.fee.of(terms.price, &Owner::Platform),
            registered: Some(applicant.registrant(builder, now)),
        };
        let answer = StoredAnswer { status: 200, headers: vec![], body: json_bytes(&body), receipt_id: String::new(), settlement: None };
        Ok(Joining { closing, answer })
    }
}

/// A builder to be stored.
struct Joining {
    closing: ReceiptContext,
    answer: StoredAnswer,
}

/// Returns the answer about a new builder, which does not contain the key.
fn builder_json(builder: &Builder) -> Value {
    json!({
        "ok": true,
        "builderId": builder.id,
        "builder": builder.own(),
        "note": "Only a hash of the key is kept. Until the key is first used, the same request gets it again if its payment carries what no chain shows: x402's `payment-identifier`, the `replay-token` of the challenge, or a credit's `Idempotency-Key`. Later, an admin makes a new one: POST /ai/builders/keys?builderId=…",
    })
}

fn draft(QuotedTerms { terms, id }: &QuotedTerms, request_hash: String, body: &Value, now: Timestamp) -> receipt::ReceiptDraft {
    receipt::ReceiptDraft {
        receipt_id: ReceiptId::generate(),
        slug: terms.slug.clone(),
        endpoint_id: EndpointId::clone(&terms.endpoint_id),
        version: terms.version.clone(),
        price_usd: terms.price,
        quote_id: id.clone(),
        max_price_usd: None,
        owner: false,
        resource_url: terms.resource_url.clone(),
        request_hash,
        result_hash: receipt::json_hash(body),
        settle: SettleTime::After,
        started_at: now,
        issued_at: now,
    }
}

fn refused(error: BuilderError) -> CallError {
    match error {
        BuilderError::Field { pointer, message } => {
            CallError::Input(Mismatch { problems: vec![Problem { pointer: pointer.to_owned(), message }] })
        }
        BuilderError::Store(store) => CallError::Store(store),
        error @ (BuilderError::Unknown | BuilderError::WrongState(_) | BuilderError::Random(_)) => {
            tracing::error!(%error, "a builder could not be made");
            CallError::Internal
        }
    }
}

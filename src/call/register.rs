//! Registers builders. A registration is paid like a call, with the same invariant.
//!
//! The builder is written in the commit of the receipt. The key is not in a stored answer. It is
//! [derived](tollhouse_account::first_key) for the request that registered, and for later ones that send the payment
//! with data that only its payer knows, until the key is first used.

use futures_util::future::BoxFuture;
use std::{net::IpAddr, sync::Arc, time::Duration};

use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;
use tollhouse_account::{
    builder::{Builder, BuilderError},
    registration::{Applicant, Registrant},
};
use tollhouse_base::id::{CallId, ReceiptId, RequestId};
use tollhouse_money::{
    Admission, Admit, CallTerms, EntryMethod, OfferedPayment, QuotedTerms, ReceiptContext, ReceiptFinisher, SignedOffers, StoredAnswer,
    binding,
    receipt::{self, request_hash},
};
use tollhouse_tool::{MicroUsd, Mismatch, Owner, Problem, SettleTime, Slug};

use super::{CallError, Calls, CompletedCall, completed::SharedResult, joins::Waiter, json_bytes};

/// Placeholder for the id of a tool.
const ENDPOINT: &str = "ep_00000000000000000000000000";

/// How long an authorization must be valid, in seconds, as x402 v2 clients expect.
const TIMEOUT_SECS: u64 = 300;

#[derive(Debug)]
pub struct Registration {
    /// The price and recipient.
    pub terms: Arc<CallTerms>,
    pub name: String,
    /// Contact for admins.
    pub contact: Option<String>,
    pub query: Option<String>,
    pub offered: OfferedPayment,
    pub quote: Option<String>,
    /// The request's id in the audit trail.
    pub request: RequestId,
    pub from: IpAddr,
}

/// Returns the terms of registration, with the texts of its challenge.
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
        description: "Registers a builder, who can publish tools and earn with them.".to_owned(),
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
    pub fn register<'a>(self: &'a Arc<Self>, registration: Registration) -> BoxFuture<'a, SharedResult> {
        Box::pin(async move {
            let this = Arc::clone(self);
            self.detached(|gone| async move { this.register_builder(registration, gone).await }).await
        })
    }

    async fn register_builder(&self, registration: Registration, gone: CancellationToken) -> SharedResult {
        self.check_callable().map_err(|error| error.before_lookup(&registration.offered))?;
        let Registration { terms, name, contact, query, offered, quote, request, from } = registration;
        let (applicant, waiter) = (Applicant { name, contact, request }, Waiter { from, gone });
        let body = receipt::canonical(&json!({ "name": applicant.name, "contact": applicant.contact }));
        let hash = request_hash(terms.endpoint_id.as_str(), &body);
        let binding = binding(terms.slug.as_str(), "POST", query.as_deref(), Some(&body));
        let quoted = match self.under(&terms, quote.as_deref()) {
            Ok(quoted) => quoted,
            Err(refused) => {
                let seen = self.earlier(&offered, &binding).await?.ok_or(refused)?;
                return self.replay(seen, 0, &waiter).await;
            }
        };
        let terms = &quoted.terms;
        if terms.price.is_zero() {
            return Ok(self.register_free(self.make(&quoted, &applicant, hash)?).await?);
        }
        if matches!(offered, OfferedPayment::Nothing) {
            return Err(self.unpaid(terms, EntryMethod::Post).into());
        }
        let admission = match self.admit(terms, EntryMethod::Post, offered, &binding, from).await? {
            Admit::Run(admission) => admission,
            // Registrations are never charged before the builder is created, so none is owed.
            Admit::Seen(seen) => return self.replay(seen, 0, &waiter).await,
        };
        let tracked = self.in_flight.track(admission.id());
        let registered = self.register_paid(&quoted, &applicant, hash, admission).await.map_err(Arc::new);
        tracked.end(registered).map(|done| CompletedCall { first: true, ..done })
    }

    async fn register_paid(
        &self,
        quoted: &QuotedTerms,
        applicant: &Applicant,
        hash: String,
        admission: Admission,
    ) -> Result<CompletedCall, CallError> {
        let (payment, kind) = (admission.id().clone(), admission.kind());
        match self.make(quoted, applicant, hash) {
            Ok(NewBuilder { closing, answer }) => {
                let settled = self.parts.payments.settle(admission, answer, &ReceiptFinisher::encode(&closing)).await;
                let answer = settled.map_err(|error| self.unsettled(&quoted.terms, EntryMethod::Post, kind, error))?;
                Ok(CompletedCall::paid(payment, answer))
            }
            Err(error) => {
                admission.unused().await;
                Err(error)
            }
        }
    }

    async fn register_free(&self, builder: NewBuilder) -> Result<CompletedCall, CallError> {
        let NewBuilder { closing, mut answer } = builder;
        answer.receipt_id = closing.receipt.receipt_id.to_string();
        let write_behind = &self.parts.write_behind;
        write_behind.durably(closing.registered.as_ref().map(Registrant::stored).unwrap_or_default()).await?;
        if let Err(error) = write_behind.succeeded(closing).await {
            tracing::error!(%error, "a builder was registered, but its receipt was lost");
        }
        Ok(CompletedCall { answer: Arc::new(answer), payment: None, success: true, first: true })
    }

    /// Creates a builder who is not stored yet, with the data of the commit that stores the builder.
    fn make(&self, QuotedTerms { terms, id }: &QuotedTerms, applicant: &Applicant, request_hash: String) -> Result<NewBuilder, CallError> {
        let now = self.parts.clock.now();
        let keys = self.parts.builders.first_keys();
        let (builder, _) = Builder::new(&applicant.name, applicant.contact.as_deref(), now, keys).map_err(refused)?;
        let body = builder_json(&builder);
        let receipt = receipt::ReceiptDraft {
            receipt_id: ReceiptId::generate(),
            slug: terms.slug.clone(),
            endpoint_id: terms.endpoint_id.clone(),
            version: terms.version.clone(),
            price_usd: terms.price,
            quote_id: id.clone(),
            max_price_usd: None,
            owner: false,
            resource_url: terms.resource_url.clone(),
            request_hash,
            result_hash: receipt::json_hash(&body),
            streamed: false,
            settle: SettleTime::After,
            started_at: now,
            issued_at: now,
        };
        let closing = ReceiptContext {
            receipt,
            call: CallId::generate(),
            owner: Owner::Platform,
            fee: self.parts.fee.of(terms.price, &Owner::Platform),
            registered: Some(applicant.registrant(builder, now)),
        };
        let answer = StoredAnswer { status: 200, headers: vec![], body: json_bytes(&body), receipt_id: String::new(), settlement: None };
        Ok(NewBuilder { closing, answer })
    }
}

/// A builder to be stored.
struct NewBuilder {
    closing: ReceiptContext,
    answer: StoredAnswer,
}

/// Returns the answer about a new builder, which does not contain the key.
fn builder_json(builder: &Builder) -> Value {
    json!({
        "ok": true,
        "builderId": builder.id,
        "builder": builder.own(),
        "note": "The host stores only a hash of the key. Until the key is first used, the same request returns it again. For that, the payment must contain x402's `payment-identifier`, the `replay-token` of the challenge, or a credit's `Idempotency-Key`. If you lose the key, an admin makes a new one: POST /ai/builders/keys?builderId=…",
    })
}

fn refused(error: BuilderError) -> CallError {
    match error {
        BuilderError::Field { pointer, message } => {
            CallError::Input(Mismatch { problems: vec![Problem { pointer: pointer.to_owned(), message }] })
        }
        BuilderError::Store(store) => CallError::Store(store),
        error @ (BuilderError::Unknown | BuilderError::WrongState(_) | BuilderError::Random(_)) => {
            tracing::error!(%error, "a builder could not be created");
            CallError::Internal
        }
    }
}

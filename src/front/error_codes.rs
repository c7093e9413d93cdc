//! The table of API errors: each error of a front end has one of these codes, and each code has one row.
//!
//! Both front ends and the documentation read the table. `tests/tidy.rs` checks that each code is returned somewhere
//! and tested.

use axum::http::StatusCode;

/// The party that can fix an error.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Party {
    /// The caller.
    Caller,
    /// The builder of the called tool.
    Tool,
    /// The operator of the host.
    Host,
}

impl Party {
    /// Returns its name in the envelope.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Caller => "caller",
            Self::Tool => "tool",
            Self::Host => "host",
        }
    }
}

/// Whether the caller was charged.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Charged {
    /// Not charged.
    No,
    /// Charged once, when the call that the payment was for ended.
    Earlier,
    /// Unknown until the open settlement is resolved.
    Unknown,
}

impl Charged {
    /// Returns its name in logs and documentation.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::No => "no",
            Self::Earlier => "yes",
            Self::Unknown => "unknown",
        }
    }
}

/// The fixed properties of a code.
#[derive(Debug)]
pub struct CodeRow {
    /// The name for programs. Two codes share a name if a program can treat them alike.
    pub name: &'static str,
    /// The HTTP status.
    pub status: StatusCode,
    /// The party that can fix it.
    pub fault: Party,
    /// Whether the caller was charged.
    pub charged: Charged,
    /// The meaning. It is also the message unless there is a more specific one.
    pub sentence: &'static str,
    /// The next step for the caller.
    pub hint: Option<&'static str>,
}

macro_rules! codes {
    ($($code:ident $name:literal $status:ident $fault:ident $charged:ident $sentence:literal $($hint:literal)?;)*) => {
        /// The code of an API error.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        pub enum Code { $(#[doc = $sentence] $code,)* }

        impl Code {
            /// All codes, in the order of the table.
            pub const ALL: &[Self] = &[$(Self::$code,)*];

            /// Returns the row of the code.
            #[must_use]
            pub const fn row(self) -> &'static CodeRow {
                match self {
                    $(Self::$code => &CodeRow {
                        name: $name,
                        status: StatusCode::$status,
                        fault: Party::$fault,
                        charged: Charged::$charged,
                        sentence: $sentence,
                        hint: codes!(@hint $($hint)?),
                    },)*
                }
            }
        }
    };
    (@hint) => { None };
    (@hint $hint:literal) => { Some($hint) };
}

codes! {
    InvalidJson "invalid_json" BAD_REQUEST Caller No "the body is not JSON";
    InvalidRequest "invalid_request" BAD_REQUEST Caller No "the request does not read";
    InvalidPaymentIdentifier "invalid_payment_identifier" BAD_REQUEST Caller No "the payment's own id is not of its form"
        "send 16 to 128 of A-Z, a-z, 0-9, `_` and `-` as `info.id` of x402's payment-identifier, or none";
    KeyRequired "idempotency_key_required" BAD_REQUEST Caller No "this tool is charged before it runs, and the call has no name to repeat it by"
        "send an `Idempotency-Key`, over MCP also as `tollhouse/idempotencyKey` in `_meta`: repeating the call with it charges nothing more";
    PaymentRequired "payment_required" PAYMENT_REQUIRED Caller No "payment required"
        "pay as the challenge asks, or show a developer credit";
    Unauthorized "unauthorized" UNAUTHORIZED Caller No "credential missing or wrong" "send `X-Admin-Token` or `X-Builder-Key`";
    BuilderSuspended "builder_suspended" FORBIDDEN Caller No "the builder is suspended"
        "an admin restores a builder; revenue and payouts can be read meanwhile";
    NotOwner "not_owner" FORBIDDEN Caller No "this belongs to another builder";
    Forbidden "forbidden" FORBIDDEN Caller No "who asks this way is not let in";
    BudgetExceeded "budget_exceeded" FORBIDDEN Caller No "the call would pass a budget of the credit"
        "it says in `budget` which one, what of it is spent, and when it is whole again; its holder or an admin sets it: PUT /ai/credits/budget";
    CreditFrozen "credit_frozen" FORBIDDEN Caller No "the credit is frozen"
        "whoever froze it lifts that: PUT /ai/credits/budget, with the rest of its budget and without `frozen`";
    NotFound "not_found" NOT_FOUND Caller No "nothing is at this path";
    UnknownEndpoint "unknown_endpoint" NOT_FOUND Caller No "no endpoint has this name";
    UnknownVersion "unknown_version" NOT_FOUND Caller No "the endpoint keeps no such version";
    UnknownReceipt "unknown_receipt" NOT_FOUND Caller No "no receipt has this id";
    UnknownBuilder "unknown_builder" NOT_FOUND Caller No "no builder has this id";
    UnknownCredit "unknown_credit" NOT_FOUND Caller No "no credit has this id";
    UnknownPayment "unknown_payment" NOT_FOUND Caller No
        "no payment with this id has reached a handler here: nothing was taken for it";
    UnknownPayout "unknown_payout" NOT_FOUND Caller No "no payout has this id";
    UnknownSecret "unknown_secret" NOT_FOUND Caller No "the endpoint has no secret of this name";
    MethodNotAllowed "method_not_allowed" METHOD_NOT_ALLOWED Caller No "the path does not take this method; see `Allow`";
    NotAcceptable "not_acceptable" NOT_ACCEPTABLE Caller No "no form of an answer that `Accept` names is there";
    BodyTooSlow "body_too_slow" REQUEST_TIMEOUT Caller No "the body took too long to come"
        "send it in one go; nothing was done with what came of it";
    Cancelled "cancelled" CONFLICT Caller No "the caller took the call back";
    EndpointPaused "endpoint_paused" CONFLICT Tool No "the endpoint takes no calls";
    PaymentReused "payment_reused" CONFLICT Caller No "this payment was made for another request";
    PaymentInProgress "payment_in_progress" CONFLICT Caller No "another request uses this payment"
        "ask GET /ai/payments/{paymentId} what became of it; do not pay again before it says so";
    AnswerExpired "answer_expired" GONE Caller Earlier "the call was charged, and its answer is no longer kept"
        "an answer is kept for 24 hours; its receipt stands, and nothing is run again under this `Idempotency-Key`: send a new one for another call";
    AnswerOwed "answer_owed" CONFLICT Tool Earlier "the call was charged before its run, and the tool takes no calls now"
        "repeat the request with the same payment once the tool takes calls: it runs then, and nothing more is charged";
    NoMoreRuns "no_more_runs" GONE Caller Earlier "the call was charged before its run, and the tool is not run for it any more"
        "its receipt stands: ask the tool's builder, or whoever runs the host, for a refund of it";
    QuoteExpired "quote_expired" CONFLICT Caller No "the quote has expired"
        "call with the quote in `error.quote`, or with none, at the price of the moment; a payment for another amount has to be signed again";
    QuoteInvalid "quote_invalid" CONFLICT Caller No "this is no quote for this tool"
        "call with the quote in `error.quote`, or with none, at the price of the moment";
    StreamingRequired "streaming_required" CONFLICT Caller No "the service is long-running: its answer is streamed"
        "send `\"stream\": true` or `Accept: text/event-stream`";
    CreditRevoked "credit_revoked" CONFLICT Caller No "the credit is revoked"
        "restore it: POST /ai/admin/credits/{id} {\"decision\": \"restore\"}";
    SlugTaken "slug_taken" CONFLICT Caller No "another endpoint has the slug, or had it";
    UnderReview "under_review" CONFLICT Caller No "the endpoint is under review: it resumes when an admin approves it";
    TakenDown "taken_down" CONFLICT Caller No "the endpoint was taken down by an admin";
    TooManyEndpoints "too_many_endpoints" CONFLICT Caller No "the builder has as many endpoints as one may have";
    NothingToReview "nothing_to_review" CONFLICT Caller No "nothing of this endpoint waits for this decision";
    WrongState "wrong_state" CONFLICT Caller No "it is in a state that does not allow this";
    PayoutSettingsMissing "payout_settings_missing" CONFLICT Caller No "it is not said yet where payouts go";
    NotRefundable "not_refundable" CONFLICT Caller No "nothing was paid that could be given back";
    RefundTooLarge "refund_too_large" CONFLICT Caller No "more than is left of what the receipt paid"
        "what was paid, and what of it was given back, stands in `refund`";
    BelowMinimum "below_minimum" CONFLICT Caller No "less waits to be paid out than the minimum";
    MasterKeyGiven "master_key_given" CONFLICT Caller No "the master key is given in the settings: it is rotated there";
    ChangedMeanwhile "revision_changed" CONFLICT Caller No "it was changed at the same time; ask again";
    RevisionChanged "revision_changed" PRECONDITION_FAILED Caller No "it has changed since the revision in `If-Match`";
    BodyTooLarge "body_too_large" PAYLOAD_TOO_LARGE Caller No "the body is larger than it may be";
    UnsupportedMediaType "unsupported_media_type" UNSUPPORTED_MEDIA_TYPE Caller No "the body is of another media type; send `application/json`";
    InvalidInput "invalid_input" UNPROCESSABLE_ENTITY Caller No "input does not fit the tool's inputSchema";
    InvalidMember "invalid_request" UNPROCESSABLE_ENTITY Caller No "a member of the body cannot be what it is";
    InvalidEndpoint "invalid_endpoint" UNPROCESSABLE_ENTITY Caller No "a member of the endpoint cannot be what it is";
    InvalidHandler "invalid_handler" UNPROCESSABLE_ENTITY Caller No "the handler does not load";
    AttestationRequired "attestation_required" UNPROCESSABLE_ENTITY Caller No
        "a builder vouches for what they upload: send `safetyAttestation.accepted` as `true`";
    ContentBlocked "content_blocked" UNPROCESSABLE_ENTITY Caller No "the upload contains what this host does not publish";
    NoRoute "no_route" UNPROCESSABLE_ENTITY Caller No "no way is known from what is held to what is to be paid in"
        "name another `startNetwork` or `startAsset`, or none";
    NotPaid "no_payment_asked" UNPROCESSABLE_ENTITY Caller No "the URL asks for no payment"
        "name the URL of a paid endpoint, and its method";
    InvalidPolicy "invalid_policy" UNPROCESSABLE_ENTITY Caller No "a member of the policy cannot be what it is";
    InvalidDecision "invalid_decision" UNPROCESSABLE_ENTITY Caller No "a member of the decision cannot be what it is";
    InvalidRegistration "invalid_registration" UNPROCESSABLE_ENTITY Caller No "a member of the registration cannot be what it is";
    InvalidSecret "invalid_secret" UNPROCESSABLE_ENTITY Caller No "a member of the secret cannot be what it is";
    InvalidCredit "invalid_credit" UNPROCESSABLE_ENTITY Caller No "a member of the credit cannot be what it is";
    InvalidRefund "invalid_refund" UNPROCESSABLE_ENTITY Caller No "a member of the refund cannot be what it is";
    InvalidPayout "invalid_payout" UNPROCESSABLE_ENTITY Caller No "a member of the payout's settings cannot be what it is";
    RateLimited "rate_limited" TOO_MANY_REQUESTS Caller No "more is asked at once than one may ask";
    HandlerFailed "handler_failed" BAD_GATEWAY Tool No "handler failed";
    PaidRunFailed "paid_run_failed" BAD_GATEWAY Tool Earlier "the call was charged before its run, and the run failed"
        "repeat the request with the same payment: the tool runs again, and nothing more is charged";
    InvalidOutput "invalid_output" BAD_GATEWAY Tool No "result does not fit the tool's outputSchema";
    WallTimeExceeded "wall_time_exceeded" GATEWAY_TIMEOUT Tool No "handler ran for longer than it may";
    CpuTimeExceeded "cpu_time_exceeded" GATEWAY_TIMEOUT Tool No "handler used more processor time than it may";
    MemoryExceeded "memory_exceeded" BAD_GATEWAY Tool No "handler used more memory than it may";
    OutputTooLarge "output_too_large" BAD_GATEWAY Tool No "result is larger or deeper than it may be";
    OpLimitExceeded "op_limit_exceeded" BAD_GATEWAY Tool No "handler asked for more than it may";
    SchemaTooCostly "schema_too_costly" BAD_GATEWAY Tool No "checking against the tool's schema took more than it may"
        "a smaller input may pass; a simpler schema is for the tool's builder to write";
    SandboxCrashed "sandbox_crashed" BAD_GATEWAY Tool No "the handler's sandbox ended";
    SellerUnreachable "seller_unreachable" BAD_GATEWAY Tool No "the seller did not answer as it should";
    SellerUnreadable "seller_unreadable" BAD_GATEWAY Tool No "the seller asks for payment in a way that cannot be read";
    RoutesUnavailable "routes_unavailable" BAD_GATEWAY Host No "whoever knows the routes did not answer"
        "a quote without `startNetwork` and `startAsset` needs none";
    FacilitatorUnavailable "facilitator_unavailable" BAD_GATEWAY Host No "the facilitator could not verify the payment";
    SettlementUnknown "settlement_unknown" BAD_GATEWAY Host Unknown "settlement was not confirmed"
        "ask GET /ai/payments/{paymentId} what became of it; do not pay again before it says so";
    Busy "busy" SERVICE_UNAVAILABLE Host No "the host has no room for this now";
    GasSpent "gas_spent" SERVICE_UNAVAILABLE Host No "settlements have burned as much gas without paying as the host allows in an hour"
        "pay with developer credit, or on another network, or ask again later";
    StoreUnavailable "store_unavailable" SERVICE_UNAVAILABLE Host No "the store is away";
    NotReady "not_ready" SERVICE_UNAVAILABLE Host No "the host takes no calls at the moment"
        "ask another host, or again in a moment; `/health/ready` says what is wrong";
    OlderHosts "older_hosts" SERVICE_UNAVAILABLE Host No "a host of an earlier version may serve the store"
        "retry once all hosts run this version; if one of them crashed, a host that starts needs a few seconds to see that";
    SecretsUnavailable "secrets_unavailable" SERVICE_UNAVAILABLE Host No
        "a secret of the tool cannot be opened; its host has to see to that";
    AnswerLost "answer_lost" INTERNAL_SERVER_ERROR Host Earlier "the payment was charged, and the answer that it bought is lost"
        "its receipt stands, and nothing is run or charged again: ask whoever runs the host for a refund of it";
    Internal "internal" INTERNAL_SERVER_ERROR Host No "the host failed";
    CallLost "internal" INTERNAL_SERVER_ERROR Host Unknown "the host failed during a call";
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_status_of_5xx_is_never_the_callers_fault_and_one_of_4xx_never_the_hosts() {
        for code in Code::ALL {
            let CodeRow { name, status, fault, .. } = code.row();
            let fits = if status.is_server_error() { *fault != Party::Caller } else { *fault != Party::Host };
            assert!(status.is_client_error() || status.is_server_error(), "{name}");
            assert!(fits, "{name} is {status} and the {}'s", fault.as_str());
        }
    }

    #[test]
    fn no_two_rows_say_the_same_of_one_name() {
        for (position, code) in Code::ALL.iter().enumerate() {
            let describe = |code: &Code| (code.row().name, code.row().status, code.row().charged.as_str());
            assert!(Code::ALL[..position].iter().all(|other| describe(other) != describe(code)), "{code:?}");
        }
    }

    #[test]
    fn texts_are_in_the_form_of_messages() {
        for code in Code::ALL {
            for text in [Some(code.row().sentence), code.row().hint].into_iter().flatten() {
                assert!(!text.ends_with('.') && text.starts_with(|first: char| first.is_lowercase()), "{code:?}: {text}");
            }
            let name = code.row().name;
            assert!(name.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'_'), "{name}");
        }
    }
}

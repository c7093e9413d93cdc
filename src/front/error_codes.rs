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
    InvalidRequest "invalid_request" BAD_REQUEST Caller No "the request is malformed";
    InvalidPaymentIdentifier "invalid_payment_identifier" BAD_REQUEST Caller No "the payment identifier is malformed"
        "send 16 to 128 characters of A-Z, a-z, 0-9, `_` and `-` as `info.id` of the x402 extension payment-identifier, or omit it";
    KeyRequired "idempotency_key_required" BAD_REQUEST Caller No "this tool is charged before it runs, so calls need an idempotency key"
        "send an `Idempotency-Key`, or `tollhouse/idempotencyKey` in `_meta` over MCP: a retry with the same key is not charged again";
    PaymentRequired "payment_required" PAYMENT_REQUIRED Caller No "payment required"
        "pay as the challenge describes, or send a developer credit";
    Unauthorized "unauthorized" UNAUTHORIZED Caller No "credential missing or wrong" "send `X-Admin-Token` or `X-Builder-Key`";
    BuilderSuspended "builder_suspended" FORBIDDEN Caller No "the builder is suspended"
        "only an admin can restore the builder; revenue and payouts can still be read";
    NotOwner "not_owner" FORBIDDEN Caller No "this belongs to another builder";
    Forbidden "forbidden" FORBIDDEN Caller No "the host or origin of the request is not allowed";
    BudgetExceeded "budget_exceeded" FORBIDDEN Caller No "the call would exceed a budget of the credit"
        "see `budget` for the exceeded budget, the amount spent and the time of its reset; its holder or an admin can change it: PUT /ai/credits/budget";
    CreditFrozen "credit_frozen" FORBIDDEN Caller No "the credit is frozen"
        "the party that froze it can unfreeze it: PUT /ai/credits/budget, with the same budget and without `frozen`";
    NotFound "not_found" NOT_FOUND Caller No "nothing is at this path";
    UnknownEndpoint "unknown_endpoint" NOT_FOUND Caller No "no endpoint has this name";
    UnknownVersion "unknown_version" NOT_FOUND Caller No "the endpoint has no such version";
    UnknownReceipt "unknown_receipt" NOT_FOUND Caller No "no receipt has this id";
    UnknownBuilder "unknown_builder" NOT_FOUND Caller No "no builder has this id";
    UnknownCredit "unknown_credit" NOT_FOUND Caller No "no credit has this id";
    UnknownPayment "unknown_payment" NOT_FOUND Caller No
        "no payment with this id has reached a handler on this host: it was not charged";
    UnknownPayout "unknown_payout" NOT_FOUND Caller No "no payout has this id";
    UnknownSecret "unknown_secret" NOT_FOUND Caller No "the endpoint has no secret with this name";
    MethodNotAllowed "method_not_allowed" METHOD_NOT_ALLOWED Caller No "the path does not allow this method; see `Allow`";
    NotAcceptable "not_acceptable" NOT_ACCEPTABLE Caller No "the response is not available in a media type that `Accept` lists";
    BodyTooSlow "body_too_slow" REQUEST_TIMEOUT Caller No "the body arrived too slowly"
        "send it again without pauses; the part that arrived was discarded";
    Cancelled "cancelled" CONFLICT Caller No "the caller cancelled the call";
    EndpointPaused "endpoint_paused" CONFLICT Tool No "the endpoint does not accept calls";
    PaymentReused "payment_reused" CONFLICT Caller No "this payment was made for another request";
    PaymentInProgress "payment_in_progress" CONFLICT Caller No "another request uses this payment"
        "check GET /ai/payments/{paymentId} for the result; do not pay again before that";
    AnswerExpired "answer_expired" GONE Caller Earlier "the call was charged, and its stored answer has expired"
        "answers are stored for 24 hours; the receipt stays valid, and this `Idempotency-Key` does not run the tool again: send a new key for another call";
    AnswerOwed "answer_owed" CONFLICT Tool Earlier "the call was charged before its run, and the tool does not accept calls now"
        "retry with the same payment once the tool accepts calls: it runs then without another charge";
    NoMoreRuns "no_more_runs" GONE Caller Earlier "the call was charged before its run, and has no runs left"
        "its receipt stays valid: ask the tool's builder or the operator of the host for a refund";
    QuoteExpired "quote_expired" CONFLICT Caller No "the quote has expired"
        "call with the quote in `error.quote`, or without a quote at the current price; sign a new payment if the amount differs";
    QuoteInvalid "quote_invalid" CONFLICT Caller No "the quote is not valid for this tool"
        "call with the quote in `error.quote`, or without a quote at the current price";
    StreamingRequired "streaming_required" CONFLICT Caller No "the service is long-running: its answer is streamed"
        "send `\"stream\": true` or `Accept: text/event-stream`";
    CreditRevoked "credit_revoked" CONFLICT Caller No "the credit is revoked"
        "restore it: POST /ai/admin/credits/{id} {\"decision\": \"restore\"}";
    SlugTaken "slug_taken" CONFLICT Caller No "another endpoint has the slug, or had it";
    UnderReview "under_review" CONFLICT Caller No "the endpoint is under review: it resumes when an admin approves it";
    TakenDown "taken_down" CONFLICT Caller No "the endpoint was taken down by an admin";
    TooManyEndpoints "too_many_endpoints" CONFLICT Caller No "the builder has reached the maximum number of endpoints";
    NothingToReview "nothing_to_review" CONFLICT Caller No "the endpoint has nothing that needs this decision";
    WrongState "wrong_state" CONFLICT Caller No "its state does not allow this";
    PayoutSettingsMissing "payout_settings_missing" CONFLICT Caller No "no payout address is set";
    NotRefundable "not_refundable" CONFLICT Caller No "the receipt has no payment that can be refunded";
    RefundTooLarge "refund_too_large" CONFLICT Caller No "the amount exceeds what is left of the receipt's payment"
        "see `refund` for the amounts paid and refunded so far";
    BelowMinimum "below_minimum" CONFLICT Caller No "the amount to pay out is below the minimum";
    MasterKeyGiven "master_key_given" CONFLICT Caller No "the master key comes from the settings: rotate it there";
    ChangedMeanwhile "revision_changed" CONFLICT Caller No "it was changed at the same time; retry";
    RevisionChanged "revision_changed" PRECONDITION_FAILED Caller No "it has changed since the revision in `If-Match`";
    BodyTooLarge "body_too_large" PAYLOAD_TOO_LARGE Caller No "the body is too large";
    UnsupportedMediaType "unsupported_media_type" UNSUPPORTED_MEDIA_TYPE Caller No "the body has an unsupported media type; send `application/json`";
    InvalidInput "invalid_input" UNPROCESSABLE_ENTITY Caller No "input does not match the tool's inputSchema";
    InvalidMember "invalid_request" UNPROCESSABLE_ENTITY Caller No "a member of the body is invalid";
    InvalidEndpoint "invalid_endpoint" UNPROCESSABLE_ENTITY Caller No "a member of the endpoint is invalid";
    InvalidHandler "invalid_handler" UNPROCESSABLE_ENTITY Caller No "the handler does not load";
    AttestationRequired "attestation_required" UNPROCESSABLE_ENTITY Caller No
        "builders must attest to their uploads: send `safetyAttestation.accepted` as `true`";
    ContentBlocked "content_blocked" UNPROCESSABLE_ENTITY Caller No "the upload has content that this host does not publish";
    NoRoute "no_route" UNPROCESSABLE_ENTITY Caller No "no route leads from the start asset to the payment asset"
        "send another `startNetwork` or `startAsset`, or omit them";
    NotPaid "no_payment_asked" UNPROCESSABLE_ENTITY Caller No "the URL does not require payment"
        "send the URL of a paid endpoint, and its method";
    InvalidPolicy "invalid_policy" UNPROCESSABLE_ENTITY Caller No "a member of the policy is invalid";
    InvalidDecision "invalid_decision" UNPROCESSABLE_ENTITY Caller No "a member of the decision is invalid";
    InvalidRegistration "invalid_registration" UNPROCESSABLE_ENTITY Caller No "a member of the registration is invalid";
    InvalidSecret "invalid_secret" UNPROCESSABLE_ENTITY Caller No "a member of the secret is invalid";
    InvalidCredit "invalid_credit" UNPROCESSABLE_ENTITY Caller No "a member of the credit is invalid";
    InvalidRefund "invalid_refund" UNPROCESSABLE_ENTITY Caller No "a member of the refund is invalid";
    InvalidPayout "invalid_payout" UNPROCESSABLE_ENTITY Caller No "a member of the payout settings is invalid";
    RateLimited "rate_limited" TOO_MANY_REQUESTS Caller No "too many requests";
    HandlerFailed "handler_failed" BAD_GATEWAY Tool No "handler failed";
    PaidRunFailed "paid_run_failed" BAD_GATEWAY Tool Earlier "the call was charged before its run, and the run failed"
        "retry with the same payment: the tool runs again without another charge";
    InvalidOutput "invalid_output" BAD_GATEWAY Tool No "result does not match the tool's outputSchema";
    WallTimeExceeded "wall_time_exceeded" GATEWAY_TIMEOUT Tool No "handler exceeded its time limit";
    CpuTimeExceeded "cpu_time_exceeded" GATEWAY_TIMEOUT Tool No "handler exceeded its CPU time limit";
    MemoryExceeded "memory_exceeded" BAD_GATEWAY Tool No "handler exceeded its memory limit";
    OutputTooLarge "output_too_large" BAD_GATEWAY Tool No "result exceeds the size or depth limit";
    OpLimitExceeded "op_limit_exceeded" BAD_GATEWAY Tool No "handler exceeded a limit of its capabilities";
    SchemaTooCostly "schema_too_costly" BAD_GATEWAY Tool No "validation against the tool's schema exceeded its limit"
        "send a smaller input; the tool's builder can simplify the schema";
    SandboxCrashed "sandbox_crashed" BAD_GATEWAY Tool No "the handler's sandbox crashed";
    SellerUnreachable "seller_unreachable" BAD_GATEWAY Tool No "the seller did not answer as expected";
    SellerUnreadable "seller_unreadable" BAD_GATEWAY Tool No "the seller's payment challenge cannot be parsed";
    RoutesUnavailable "routes_unavailable" BAD_GATEWAY Host No "the route provider did not answer"
        "a quote without `startNetwork` and `startAsset` does not need it";
    FacilitatorUnavailable "facilitator_unavailable" BAD_GATEWAY Host No "the facilitator could not verify the payment";
    SettlementUnknown "settlement_unknown" BAD_GATEWAY Host Unknown "settlement was not confirmed"
        "check GET /ai/payments/{paymentId} for the result; do not pay again before that";
    Busy "busy" SERVICE_UNAVAILABLE Host No "the host is busy";
    GasSpent "gas_spent" SERVICE_UNAVAILABLE Host No "unpaid settlements used up the host's gas allowance for this hour"
        "pay with developer credit or on another network, or retry later";
    StoreUnavailable "store_unavailable" SERVICE_UNAVAILABLE Host No "the store is unavailable";
    NotReady "not_ready" SERVICE_UNAVAILABLE Host No "the host does not accept calls at the moment"
        "use another host, or retry in a moment; `/health/ready` has the reason";
    SecretsUnavailable "secrets_unavailable" SERVICE_UNAVAILABLE Host No
        "a secret of the tool cannot be decrypted; the operator of the host must fix that";
    AnswerLost "answer_lost" INTERNAL_SERVER_ERROR Host Earlier "the payment was charged, and its answer is lost"
        "its receipt stays valid, and nothing runs or is charged again: ask the operator of the host for a refund";
    Internal "internal" INTERNAL_SERVER_ERROR Host No "the host failed";
    CallLost "internal" INTERNAL_SERVER_ERROR Host Unknown "the host failed during a call";
}

#[cfg(test)]
mod tests;

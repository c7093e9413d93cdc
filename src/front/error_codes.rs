//! The table of API errors: each error of a front end has one of these codes, and each code has one row.
//!
//! Both front ends and the documentation read the table. `tests/tidy.rs` checks that each code is returned somewhere
//! and tested.

use axum::http::StatusCode;

pub use tollhouse_api::{Charged, FaultParty as Party};

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
    InvalidJson "invalid_json" BAD_REQUEST Caller No "The body is not valid JSON";
    InvalidRequest "invalid_request" BAD_REQUEST Caller No "The request is malformed";
    InvalidPaymentIdentifier "invalid_payment_identifier" BAD_REQUEST Caller No "The payment identifier is malformed"
        "Send 16 to 128 characters of A-Z, a-z, 0-9, `_` and `-` as `info.id` of the x402 extension payment-identifier, or omit it";
    KeyRequired "idempotency_key_required" BAD_REQUEST Caller No "This tool charges before it runs, so the call needs an idempotency key"
        "Send an `Idempotency-Key`, or `tollhouse/idempotencyKey` in `_meta` over MCP. A retry with the same key is not charged again";
    PaymentRequired "payment_required" PAYMENT_REQUIRED Caller No "Payment required"
        "Pay as the challenge describes, or send a developer credit";
    Unauthorized "unauthorized" UNAUTHORIZED Caller No "The credential is missing or wrong"
        "Send `X-Admin-Token` or `X-Builder-Key`";
    WrongCredit "wrong_credit" UNAUTHORIZED Caller No "No developer credit has this token"
        "Send the token of a credit, or none to pay with x402";
    BuilderSuspended "builder_suspended" FORBIDDEN Caller No "The builder is suspended"
        "Only an admin can restore the builder. Revenue and payouts can still be read";
    NotOwner "not_owner" FORBIDDEN Caller No "This belongs to another builder"
        "Use the key of the builder who owns it, or the admin token";
    Forbidden "forbidden" FORBIDDEN Caller No "Requests from this origin, or to this host name, are not allowed";
    BudgetExceeded "budget_exceeded" FORBIDDEN Caller No "The call would exceed a budget of the credit"
        "`budget` has the limit, the amount spent and the time of its reset. The holder of the credit or an admin can raise it: PUT /ai/credits/budget";
    CreditTooLow "insufficient_credit" FORBIDDEN Caller No "The developer credit does not cover the call"
        "Use another credit, ask an admin to top it up, or send none to pay with x402";
    CreditFrozen "credit_frozen" FORBIDDEN Caller No "The credit is frozen"
        "The holder or the admin who froze the credit can unfreeze it: PUT /ai/credits/budget, with the same budget and without `frozen`";
    NotFound "not_found" NOT_FOUND Caller No "Nothing is at this path";
    UnknownEndpoint "unknown_endpoint" NOT_FOUND Caller No "No tool has this name"
        "Check the name. GET /ai/endpoints?near=NAME lists similar ones";
    UnknownVersion "unknown_version" NOT_FOUND Caller No "The tool has no such version";
    UnknownReceipt "unknown_receipt" NOT_FOUND Caller No "No receipt has this id";
    UnknownBuilder "unknown_builder" NOT_FOUND Caller No "No builder has this id";
    UnknownCredit "unknown_credit" NOT_FOUND Caller No "No credit has this id";
    UnknownPayment "unknown_payment" NOT_FOUND Caller Unknown
        "The host has no record of a payment with this id, so it is not known whether it was charged";
    UnknownPayout "unknown_payout" NOT_FOUND Caller No "No payout has this id";
    UnknownSecret "unknown_secret" NOT_FOUND Caller No "The tool has no secret with this name";
    MethodNotAllowed "method_not_allowed" METHOD_NOT_ALLOWED Caller No
        "This path does not allow the method; `Allow` lists the methods that it allows";
    NotAcceptable "not_acceptable" NOT_ACCEPTABLE Caller No "The response is not available in a media type that `Accept` lists";
    BodyTooSlow "body_too_slow" REQUEST_TIMEOUT Caller No "The body arrived too slowly"
        "Send it again without pauses. The part that arrived was discarded";
    Cancelled "cancelled" CONFLICT Caller No "The caller canceled the call";
    EndpointPaused "endpoint_paused" CONFLICT Tool No "The tool does not accept calls"
        "Retry when the tool is active again";
    PaymentReused "payment_reused" CONFLICT Caller No "This payment was made for another request"
        "Send the request that the payment was made for, or sign a new payment";
    PaymentInProgress "payment_in_progress" CONFLICT Caller No "Another request is using this payment"
        "Check GET /ai/payments/{paymentId} for the result. Do not pay again before that";
    AnswerExpired "answer_expired" GONE Caller Yes "The call was charged, and its answer is not stored, or no longer"
        "Answers are stored for 24 hours, and the receipt stays valid. This `Idempotency-Key` does not run the tool again, so send a new key for another call";
    AnswerOwed "answer_owed" CONFLICT Tool Yes "The call was charged before its run, and the tool does not accept calls now"
        "Retry with the same payment once the tool accepts calls. It then runs without another charge";
    NoMoreRuns "no_more_runs" GONE Caller Yes "The call was charged before its run, and no runs are left"
        "The receipt stays valid. Ask the tool's builder or the operator of the host for a refund";
    QuoteExpired "quote_expired" CONFLICT Caller No "The quote has expired"
        "Call with the quote in `error.quote`, or without a quote at the current price. Sign a new payment if the amount differs";
    QuoteInvalid "quote_invalid" CONFLICT Caller No "The quote is not valid for this tool"
        "Call with the quote in `error.quote`, or without a quote at the current price";
    StreamingRequired "streaming_required" CONFLICT Caller No "The tool runs for a long time, so its answer is streamed"
        "Send `\"stream\": true` or `Accept: text/event-stream`";
    CreditRevoked "credit_revoked" CONFLICT Caller No "The credit is revoked"
        "An admin can restore it: POST /ai/admin/credits/{id} {\"decision\": \"restore\"}";
    SlugTaken "slug_taken" CONFLICT Caller No "Another tool has this slug, or had it before it was deleted"
        "Choose another slug";
    UnderReview "under_review" CONFLICT Caller No "The tool is under review"
        "The tool resumes when an admin approves it";
    TakenDown "taken_down" CONFLICT Caller No "An admin has taken the tool down";
    TooManyEndpoints "too_many_endpoints" CONFLICT Caller No "The maximum number of tools is reached";
    NothingToReview "nothing_to_review" CONFLICT Caller No "The tool has nothing that needs this decision";
    WrongState "wrong_state" CONFLICT Caller No "The current state does not allow this";
    PayoutSettingsMissing "payout_settings_missing" CONFLICT Caller No "No payout address is set"
        "Set one: POST /ai/builders/payout-settings";
    NotRefundable "not_refundable" CONFLICT Caller No "The receipt has no payment that can be refunded";
    RefundTooLarge "refund_too_large" CONFLICT Caller No "The amount exceeds what is left of the receipt's payment"
        "No refund was made. `refund` has the amounts paid and refunded so far";
    BelowMinimum "below_minimum" CONFLICT Caller No "The amount to pay out is below the minimum"
        "The amount stays in the builder's balance until it reaches the minimum";
    MasterKeyGiven "master_key_given" CONFLICT Caller No "The master key comes from the settings"
        "Rotate the key in the settings";
    ChangedMeanwhile "revision_changed" CONFLICT Caller No "Another request changed the record at the same time"
        "Nothing was changed by this request. Retry";
    RevisionChanged "revision_changed" PRECONDITION_FAILED Caller No "The record has changed since the revision in `If-Match`"
        "Nothing was changed by this request. Read the record again, and retry with its new `ETag`";
    BodyTooLarge "body_too_large" PAYLOAD_TOO_LARGE Caller No "The body is too large";
    UnsupportedMediaType "unsupported_media_type" UNSUPPORTED_MEDIA_TYPE Caller No
        "The body has an unsupported media type; send `application/json`";
    InvalidInput "invalid_input" UNPROCESSABLE_ENTITY Caller No
        "The input does not match the tool's `inputSchema`; `problems` lists the differences";
    InvalidMember "invalid_request" UNPROCESSABLE_ENTITY Caller No "A field of the body is invalid; `pointer` names it";
    InvalidEndpoint "invalid_endpoint" UNPROCESSABLE_ENTITY Caller No "A field of the tool is invalid; `pointer` names it";
    InvalidHandler "invalid_handler" UNPROCESSABLE_ENTITY Caller No "The handler does not load";
    AttestationRequired "attestation_required" UNPROCESSABLE_ENTITY Caller No
        "Builders must attest to their uploads; send `safetyAttestation.accepted` as `true`";
    ContentBlocked "content_blocked" UNPROCESSABLE_ENTITY Caller No "The upload has content that this host does not publish"
        "Nothing was published. Remove what `findings` lists";
    NoRoute "no_route" UNPROCESSABLE_ENTITY Caller No "No route leads from the start asset to the payment asset"
        "Send another `startNetwork` or `startAsset`, or omit them";
    NotPaid "no_payment_asked" UNPROCESSABLE_ENTITY Caller No "The URL does not require payment"
        "Send the URL of a paid endpoint, and its method";
    InvalidPolicy "invalid_policy" UNPROCESSABLE_ENTITY Caller No "A field of the policy is invalid; `pointer` names it";
    InvalidDecision "invalid_decision" UNPROCESSABLE_ENTITY Caller No "A field of the decision is invalid; `pointer` names it";
    InvalidRegistration "invalid_registration" UNPROCESSABLE_ENTITY Caller No "A field of the registration is invalid; `pointer` names it";
    InvalidSecret "invalid_secret" UNPROCESSABLE_ENTITY Caller No "A field of the secret is invalid; `pointer` names it";
    InvalidCredit "invalid_credit" UNPROCESSABLE_ENTITY Caller No "A field of the credit is invalid; `pointer` names it";
    InvalidRefund "invalid_refund" UNPROCESSABLE_ENTITY Caller No "A field of the refund is invalid; `pointer` names it";
    InvalidPayout "invalid_payout" UNPROCESSABLE_ENTITY Caller No "A field of the payout settings is invalid; `pointer` names it";
    RateLimited "rate_limited" TOO_MANY_REQUESTS Caller No "Too many requests; `retryAfterSeconds` has the seconds to wait, like `Retry-After`";
    HandlerFailed "handler_failed" BAD_GATEWAY Tool No "The handler failed"
        "Retry, or report it to the tool's builder";
    PaidRunFailed "paid_run_failed" BAD_GATEWAY Tool Yes "The call was charged before its run, and the run failed"
        "Retry with the same payment. The tool runs again without another charge";
    InvalidOutput "invalid_output" BAD_GATEWAY Tool No "The result does not match the tool's `outputSchema`"
        "Retry, or report it to the tool's builder";
    WallTimeExceeded "wall_time_exceeded" GATEWAY_TIMEOUT Tool No "The handler exceeded its time limit"
        "Retry, or send a smaller input";
    CpuTimeExceeded "cpu_time_exceeded" GATEWAY_TIMEOUT Tool No "The handler exceeded its CPU time limit"
        "Retry, or send a smaller input";
    MemoryExceeded "memory_exceeded" BAD_GATEWAY Tool No "The handler exceeded its memory limit"
        "Retry, or send a smaller input";
    OutputTooLarge "output_too_large" BAD_GATEWAY Tool No "The result exceeds the size or depth limit"
        "Send a smaller input, or report it to the tool's builder";
    OpLimitExceeded "op_limit_exceeded" BAD_GATEWAY Tool No "The handler exceeded a limit of its capabilities"
        "Send a smaller input, or report it to the tool's builder";
    SchemaTooCostly "schema_too_costly" BAD_GATEWAY Tool No "Validation against the tool's schema exceeded its limit"
        "Send a smaller input. The tool's builder can simplify the schema";
    SandboxCrashed "sandbox_crashed" BAD_GATEWAY Tool No "The handler's sandbox crashed"
        "Retry, or report it to the tool's builder";
    SellerUnreachable "seller_unreachable" BAD_GATEWAY Tool No "The seller did not answer as expected"
        "Check the URL, or retry later";
    SellerUnreadable "seller_unreadable" BAD_GATEWAY Tool No "The seller's payment challenge cannot be parsed";
    RoutesUnavailable "routes_unavailable" BAD_GATEWAY Host No "The route provider did not answer"
        "Retry later, or omit `startNetwork` and `startAsset`: such a quote needs no route";
    FacilitatorUnavailable "facilitator_unavailable" BAD_GATEWAY Host No
        "The facilitator, or the node of the network, could not verify the payment"
        "Retry with the same payment";
    SettlementUnknown "settlement_unknown" BAD_GATEWAY Host Unknown
        "The settlement was not confirmed, so it is not known yet whether the payment was charged"
        "Check GET /ai/payments/{paymentId} for the result. Do not pay again before that";
    Busy "busy" SERVICE_UNAVAILABLE Host No "The host is busy"
        "Retry in a moment";
    GasSpent "gas_spent" SERVICE_UNAVAILABLE Host No "Unpaid settlements have used up the host's gas allowance for this hour"
        "Pay with developer credit or on another network, or retry later";
    StoreUnavailable "store_unavailable" SERVICE_UNAVAILABLE Host No "The store is temporarily unavailable"
        "Retry";
    NotReady "not_ready" SERVICE_UNAVAILABLE Host No "The host does not accept calls at the moment"
        "Use another host, or retry in a moment. `/health/ready` has the reason";
    SourceUnavailable "source_unavailable" SERVICE_UNAVAILABLE Host No "The tool's source cannot be read on this host"
        "A retry on this host does not help. The operator of the host must restore the source";
    SecretsUnavailable "secrets_unavailable" SERVICE_UNAVAILABLE Host No "A secret of the tool cannot be decrypted"
        "The operator of the host must fix this";
    AnswerLost "answer_lost" INTERNAL_SERVER_ERROR Host Yes "The payment was charged, and its answer is lost"
        "The receipt stays valid, and nothing runs or is charged again. Ask the operator of the host for a refund";
    Internal "internal" INTERNAL_SERVER_ERROR Host No "The host failed"
        "Retry, or report the `requestId` to the operator of the host";
    CallLost "internal" INTERNAL_SERVER_ERROR Host Unknown "The host failed during the call, so it is not known yet whether it was charged"
        "Retry with the same payment or key: a call is charged at most once";
}

#[cfg(test)]
mod tests;

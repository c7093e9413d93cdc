//! `GET /ai/content-safety/policy`: the rules for scanning uploads, their outcomes and their limits.

use std::borrow::Cow;

use tollhouse_api::{AbuseReports, Attestation, ReviewProcess, SafetyPolicy, SafetyPolicyResponse, ScanOutcomes, True};

use crate::{Http, Json, Route, State, open};

/// The statement that a builder accepts with `safetyAttestation.accepted`.
const STATEMENT: &str = "I have the right to publish this content. It contains no illegal material, no secrets, no private data of other people, and nothing that I use without permission. I am responsible for what the tool returns.";

/// The limits of the scan, in plain words.
const LIMITS: &[&str] = &[
    "The rules read text. They cannot judge pictures, sound, video or intentions.",
    "No hash set of known child abuse material is shipped; a host knows only the hashes its operator has listed.",
    "The host does not scan data that a handler creates, fetches or receives while it runs.",
    "The rules cannot see text that is encoded more than once, encrypted, or put together while the handler runs.",
    "The term lists cover only a few languages. Passing the scan does not mean that the operator approves the upload.",
];

pub(super) fn routes() -> Vec<Route> {
    let policy = open::get("/ai/content-safety/policy", "getContentSafetyPolicy", "content that is not published here", policy);
    vec![policy.answers("SafetyPolicyResponse").for_agents()]
}

/// Returns the policy in force.
async fn policy(State(http): State<Http>) -> Json<SafetyPolicyResponse> {
    let policy = SafetyPolicy {
        version: http.scanner.policy_version().to_owned(),
        attestation: Attestation { field: "safetyAttestation.accepted".into(), statement: STATEMENT.into() },
        scanned: ["title", "description", "tags", "handler.source", "handler.response", "inputSchema", "outputSchema"].map(Cow::from).into(),
        outcomes: ScanOutcomes {
            pass: "Stored and callable. Findings of severity `note` are reported to the builder.".into(),
            review: "Stored, and paused until an admin has decided.".into(),
            block: "Refused with 422 `content_blocked` and the ids of the rules, never the matched text. Nothing is stored.".into(),
        },
        rules: http.scanner.rules().collect(),
        review: ReviewProcess {
            process: "An admin sees the rule, the field, the line and the first two characters of what was found, and approves or rejects with a reason. The builder sees the decision, the rule, the field and the line.".into(),
            rescan: "Endpoints scanned under another version of the rules are scanned again when the host starts.".into(),
            takedown: "An admin can take a tool down at any time. It then accepts no calls, and its receipts stay.".into(),
        },
        abuse: AbuseReports {
            contact: http.abuse_contact.clone(),
            report: "Name the tool's slug, describe the problem, and say how to reach you.".into(),
        },
        limits: LIMITS.iter().copied().map(Cow::from).collect(),
    };
    Json(SafetyPolicyResponse { ok: True, policy })
}

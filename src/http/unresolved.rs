//! `/ai/admin/unresolved`: settlements with an unknown result, and decisions of admins about them.

use std::sync::Arc;

use axum::{Json, extract::State};
use serde::Deserialize;
use serde_json::{Value, json};
use tollhouse_base::id::PaymentId;
use tollhouse_front::{ApiError, Code};
use tollhouse_money::{Resolution, ResolutionError};

use super::{
    auth::Admin,
    endpoints::{Body, Subject},
    page::{PageLimit, PathParams, bad_cursor, paged},
    route::{Route, get, post},
    services::MoneyServices,
};

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Pages {
    #[serde(default)]
    limit: PageLimit,
    cursor: Option<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Decision {
    decision: Decided,
    /// The transaction, for the decision `paid`.
    transaction: Option<String>,
}

#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Decided {
    LookUp,
    Paid,
    Unpaid,
}

impl Subject for Decision {
    const CODE: Code = Code::InvalidDecision;
}

pub(super) fn routes() -> Vec<Route> {
    let what = "settlements of which nobody said how they ended until the host stopped asking";
    vec![
        get("/ai/admin/unresolved", "listUnresolved", what, list).answers("UnresolvedPage"),
        post("/ai/admin/unresolved/{id}", "resolveSettlement", "says how such a settlement ended, or asks the chain", resolve)
            .takes("SettlementVerdict")
            .answers("PaymentResponse")
            .fails(&[Code::InvalidDecision, Code::UnknownPayment, Code::WrongState, Code::FacilitatorUnavailable]),
    ]
}

async fn list(Admin(pages): Admin<Pages>, State(earning): State<Arc<MoneyServices>>) -> Result<Json<Value>, ApiError> {
    let after = pages.cursor.map(|cursor| cursor.parse::<PaymentId>()).transpose().map_err(|_| bad_cursor())?;
    let settlements = earning.payments.unresolved(after.as_ref(), pages.limit.0).await?;
    let next = settlements.last().filter(|_| settlements.len() == pages.limit.0).map(|last| last.payment_id.to_string());
    Ok(paged("settlements", &settlements, next))
}

async fn resolve(
    _: Admin,
    State(earning): State<Arc<MoneyServices>>,
    PathParams(id): PathParams<String>,
    Body(Decision { decision, transaction }): Body<Decision>,
) -> Result<Json<Value>, ApiError> {
    let id: PaymentId = id.parse().map_err(|_| ApiError::from(Code::UnknownPayment))?;
    let resolution = match (decision, transaction) {
        (Decided::LookUp, None) => Resolution::LookUp,
        (Decided::Unpaid, None) => Resolution::Unpaid,
        (Decided::Paid, Some(transaction)) => Resolution::Paid { transaction },
        (Decided::Paid, None) => {
            return Err(ApiError::invalid(Decision::CODE, "name the transaction that made the transfer", "/transaction"));
        }
        (Decided::LookUp | Decided::Unpaid, Some(_)) => {
            return Err(ApiError::invalid(Decision::CODE, "only a paid settlement has a transaction", "/transaction"));
        }
    };
    let state = earning.payments.resolve_unresolved(&id, &resolution).await.map_err(fault)?;
    Ok(Json(json!({ "ok": true, "payment": state })))
}

fn fault(error: ResolutionError) -> ApiError {
    let message = error.to_string();
    match error {
        ResolutionError::Unknown => Code::UnknownPayment.into(),
        ResolutionError::WrongState(state) | ResolutionError::Overtaken(state) => {
            ApiError::new(Code::WrongState, message).with("state", json!(state))
        }
        ResolutionError::Transaction(_) | ResolutionError::NotPaid => ApiError::invalid(Decision::CODE, &message, "/transaction"),
        ResolutionError::Undecided(reason) => {
            ApiError::new(Code::FacilitatorUnavailable, "nobody can say how the settlement ended").hint(reason)
        }
        ResolutionError::Store(error) => error.into(),
    }
}

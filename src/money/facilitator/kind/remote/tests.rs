//! Interpretation of a facilitator's answers.

use super::*;

impl HttpFacilitator {
    pub(crate) fn with_timeout(self, timeout: FacilitatorTimeouts) -> Self {
        Self { timeout, ..self }
    }
}

mod fuzz {
    use reqwest::StatusCode;
    use serde_json::Value;

    use super::*;
    use crate::asset::ASSETS;

    const STATUSES: [u16; 8] = [200, 400, 401, 402, 404, 429, 500, 503];

    fn answered(bytes: &[u8]) -> Option<(StatusCode, Value)> {
        let (status, body) = bytes.split_first()?;
        let status = StatusCode::from_u16(STATUSES[usize::from(*status) % STATUSES.len()]).ok()?;
        Some((status, serde_json::from_slice(body).ok()?))
    }

    #[test]
    fn money_moved_only_if_the_answer_reports_it_or_names_a_transaction() {
        tollhouse_fuzz::check("settled", |bytes| {
            let Some((status, body)) = answered(bytes) else { return };
            let transaction = body["transaction"].as_str().unwrap_or_default().to_owned();
            let message = parse_settle(plain(HttpAnswer::Json(status, body.clone())), ASSETS[0].network);
            match message {
                SettleResponse::Settled(settled) => {
                    assert!(status.is_success() && body["success"] == true && settled == transaction.to_lowercase() && settled.len() == 66);
                }
                SettleResponse::Refused(_) | SettleResponse::NotServed(_) | SettleResponse::Spent(_) => {
                    assert!(body["success"] == false && transaction.is_empty() && !status.is_server_error());
                }
                SettleResponse::Unsent(reason) => panic!("it was asked: {reason}"),
                SettleResponse::Doubtful(_) => {}
            }
        });
    }

    #[test]
    fn only_an_explicit_answer_makes_a_payment_valid() {
        tollhouse_fuzz::check("verified", |bytes| {
            let Some((status, body)) = answered(bytes) else { return };
            match verdict(plain(HttpAnswer::Json(status, body.clone()))) {
                VerifyResult::Valid => assert!(status.is_success() && body["isValid"] == true),
                VerifyResult::Invalid { reason, message } => {
                    assert!(
                        body["isValid"] == false && RefusalText::of(&reason).code == reason && RefusalText::of(&reason).sentence == message
                    );
                }
                VerifyResult::Unavailable(cause) => assert!(cause.chars().all(|c| !c.is_control()) && cause.len() < 4_096, "{cause}"),
            }
        });
    }
}

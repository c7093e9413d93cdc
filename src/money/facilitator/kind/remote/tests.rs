//! Interpretation of a facilitator's answers.

use super::*;

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
    fn money_has_moved_only_where_an_answer_says_so_and_has_not_only_where_it_names_no_transaction() {
        tollhouse_fuzz::check("settled", |bytes| {
            let Some((status, body)) = answered(bytes) else { return };
            let transaction = body["transaction"].as_str().unwrap_or_default().to_owned();
            let said = settle_said(plain(Answer::Json(status, body.clone())), ASSETS[0].network);
            match said {
                Said::Settled(settled) => {
                    assert!(status.is_success() && body["success"] == true && settled == transaction.to_lowercase() && settled.len() == 66);
                }
                Said::Refused(_) | Said::NotServed(_) | Said::Spent(_) => {
                    assert!(body["success"] == false && transaction.is_empty() && !status.is_server_error());
                }
                Said::Unsent(why) => panic!("it was asked: {why}"),
                Said::Doubtful(_) => {}
            }
        });
    }

    #[test]
    fn payment_is_valid_only_where_an_answer_says_so_and_its_words_are_not_repeated() {
        tollhouse_fuzz::check("verified", |bytes| {
            let Some((status, body)) = answered(bytes) else { return };
            match verdict(plain(Answer::Json(status, body.clone()))) {
                Verdict::Valid => assert!(status.is_success() && body["isValid"] == true),
                Verdict::Invalid { reason, message } => {
                    assert!(body["isValid"] == false && Told::of(&reason).code == reason && Told::of(&reason).sentence == message);
                }
                Verdict::Unavailable(why) => assert!(why.chars().all(|c| !c.is_control()) && why.len() < 4_096, "{why}"),
            }
        });
    }
}

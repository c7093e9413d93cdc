//! A proxy between a host and its facilitator that loses messages about settlements.

use axum::{
    Router,
    body::Bytes,
    extract::State,
    http::{Method, StatusCode, Uri, header::CONTENT_TYPE},
    response::{IntoResponse, Response},
};

use super::serve;

/// The messages to `/settle` that are lost.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LossMode {
    /// The request is dropped.
    Questions,
    /// The request is processed, but its answer is dropped.
    Answers,
}

/// The proxy.
pub struct LossyFacilitator {
    pub url: String,
}

impl LossyFacilitator {
    pub async fn before(facilitator: &str, loses: LossMode) -> Self {
        let router = Router::new().fallback(forward).with_state((facilitator.to_owned(), loses));
        Self { url: serve(router).await }
    }
}

async fn forward(State((to, loses)): State<(String, LossMode)>, method: Method, uri: Uri, body: Bytes) -> Response {
    let lost = (uri.path() == "/settle").then_some(loses);
    let broken = (StatusCode::BAD_GATEWAY, "upstream broke").into_response();
    if lost == Some(LossMode::Questions) {
        return broken;
    }
    let client = reqwest::Client::builder().no_proxy().build().unwrap();
    let question = client.request(method, format!("{to}{}", uri.path())).header(CONTENT_TYPE, "application/json").body(body);
    let answer = question.send().await.unwrap();
    let (status, body) = (answer.status(), answer.bytes().await.unwrap());
    match lost {
        Some(_) => broken,
        None => (status, [(CONTENT_TYPE, "application/json")], body).into_response(),
    }
}

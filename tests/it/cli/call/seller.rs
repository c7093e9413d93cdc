//! Sellers: a proxy that loses the host's answers, and sellers that behave as a test says.

use std::sync::{
    Arc, Mutex,
    atomic::{AtomicBool, AtomicU8, Ordering},
};

use axum::{
    Router,
    body::{Body, Bytes},
    extract::State,
    http::{HeaderMap, Method, Uri},
    response::{IntoResponse as _, Response},
};
use base64::{Engine as _, engine::general_purpose::STANDARD};
use serde_json::{Value, json};

use crate::harness::serve;

const HEADERS: [&str; 3] = ["payment-signature", "x-payment", "idempotency-key"];

/// A proxy between a shell and a host. It drops answers to payments after the host has sent them.
pub struct LossyProxy {
    pub url: String,
    shared: Arc<Shared>,
}

#[derive(Default)]
struct Shared {
    host: String,
    /// 1: drops answers to payments; 2: also answers to questions about payments; 0: drops nothing.
    loses: AtomicU8,
    paid: Mutex<Vec<String>>,
    forged: Mutex<Option<String>>,
}

impl LossyProxy {
    pub async fn before(host: &str) -> Self {
        let shared = Arc::new(Shared { host: host.to_owned(), ..Shared::default() });
        let url = serve(Router::new().fallback(forward).with_state(Arc::clone(&shared))).await;
        Self { url, shared }
    }

    pub fn lose(&self, loses: bool) {
        self.shared.loses.store(u8::from(loses), Ordering::SeqCst);
    }

    /// Also drops the answers to questions about payments.
    pub fn lose_all(&self, loses: bool) {
        self.shared.loses.store(2 * u8::from(loses), Ordering::SeqCst);
    }

    /// Puts this receipt into each answer to a payment.
    pub fn forge(&self, receipt: &str) {
        *self.shared.forged.lock().unwrap() = Some(receipt.to_owned());
    }

    /// Returns the payments in the order of their arrival.
    pub fn paid(&self) -> Vec<String> {
        self.shared.paid.lock().unwrap().clone()
    }
}

/// Returns the payment of a request.
fn payment(headers: &HeaderMap) -> Option<String> {
    HEADERS.iter().find_map(|name| Some(headers.get(*name)?.to_str().unwrap().to_owned()))
}

/// Returns an answer that breaks off.
pub fn broken() -> Response {
    let pieces = [Ok(Bytes::from_static(b"{")), Err(std::io::Error::other("cut"))];
    Body::from_stream(futures_util::stream::iter(pieces)).into_response()
}

async fn forward(State(shared): State<Arc<Shared>>, method: Method, uri: Uri, mut headers: HeaderMap, body: Bytes) -> Response {
    let loses = shared.loses.load(Ordering::SeqCst);
    let payment = payment(&headers);
    if loses == 2 && uri.path().starts_with("/ai/payments/") {
        return broken();
    }
    headers.remove("host");
    headers.remove("content-length");
    let client = reqwest::Client::builder().no_proxy().build().unwrap();
    let request = client.request(method, format!("{}{uri}", shared.host)).headers(headers).body(body);
    let answer = request.send().await.unwrap();
    let (status, headers, body) = (answer.status(), answer.headers().clone(), answer.bytes().await.unwrap());
    if let Some(payment) = payment {
        shared.paid.lock().unwrap().push(payment);
        if loses > 0 {
            return broken();
        }
    }
    let forged = shared.forged.lock().unwrap().clone().filter(|_| headers.contains_key("x-receipt-id"));
    let mut response = (status, body).into_response();
    for (name, value) in headers.iter().filter(|(name, _)| !["content-length", "transfer-encoding", "connection"].contains(&name.as_str()))
    {
        response.headers_mut().insert(name, value.clone());
    }
    if let Some(forged) = forged {
        response.headers_mut().insert("x-receipt-id", forged.try_into().unwrap());
    }
    response
}

/// A seller without Tollhouse that behaves as a test says.
pub struct Seller {
    pub url: String,
    books: Arc<Books>,
}

struct Books {
    /// Whether it claims not to know any payment.
    lost: AtomicBool,
    paid: Mutex<Vec<Value>>,
    challenge: Box<dyn Fn() -> Response + Send + Sync>,
    answer: Box<dyn Fn(&Value) -> Response + Send + Sync>,
}

impl Seller {
    pub async fn new(
        challenge: impl Fn() -> Response + Send + Sync + 'static,
        answer: impl Fn(&Value) -> Response + Send + Sync + 'static,
    ) -> Self {
        let books =
            Arc::new(Books { lost: false.into(), paid: Mutex::default(), challenge: Box::new(challenge), answer: Box::new(answer) });
        let url = serve(Router::new().fallback(sell).with_state(Arc::clone(&books))).await;
        Self { url, books }
    }

    /// From now on, claims not to know any payment.
    pub fn loses_answers(&self) {
        self.books.lost.store(true, Ordering::SeqCst);
    }

    /// Returns the payments that arrived, decoded.
    pub fn paid(&self) -> Vec<Value> {
        self.books.paid.lock().unwrap().clone()
    }
}

async fn sell(State(books): State<Arc<Books>>, uri: Uri, headers: HeaderMap) -> Response {
    if uri.path().starts_with("/ai/payments/") && books.lost.load(Ordering::SeqCst) {
        let unknown = json!({ "ok": false, "error": { "code": "unknown_payment", "message": "never heard of" } });
        return (axum::http::StatusCode::NOT_FOUND, unknown.to_string()).into_response();
    }
    if !uri.path().starts_with("/weather") {
        return axum::http::StatusCode::NOT_FOUND.into_response();
    }
    let Some(payment) = payment(&headers) else { return (books.challenge)() };
    let payment: Value = serde_json::from_slice(&STANDARD.decode(payment).unwrap()).unwrap();
    books.paid.lock().unwrap().push(payment.clone());
    (books.answer)(&payment)
}

/// Returns an entry of `accepts` for a simulated payment of $0.01.
pub fn term() -> Value {
    json!({
        "scheme": "exact", "network": "eip155:84532", "amount": "10000", "asset": "0x036CbD53842c5426634e7929541eC2318f3dCF7e",
        "payTo": "0x209693Bc6afc0C5328bA36FaF03C514EF312287C", "maxTimeoutSeconds": 60, "extra": { "name": "USDC", "version": "2" },
    })
}

/// Returns a v2 challenge.
pub fn asks(options: &[Value]) -> Response {
    let challenge = json!({ "x402Version": 2, "error": "payment required", "resource": { "url": "http://x/weather" }, "accepts": options });
    (axum::http::StatusCode::PAYMENT_REQUIRED, [("payment-required", STANDARD.encode(challenge.to_string()))], "{}").into_response()
}

/// Returns the value of a header with a settlement.
pub fn settled(amount: &str) -> String {
    STANDARD.encode(json!({ "success": true, "transaction": "0xabc", "network": "eip155:84532", "amount": amount }).to_string())
}

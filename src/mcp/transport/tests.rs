use super::*;

#[tokio::test]
async fn a_failure_of_the_transport_is_not_an_invalid_request() {
    for (status, code) in [(500, -32603), (503, -32603), (413, -32600)] {
        let response = in_json_rpc(StatusCode::from_u16(status).unwrap(), b"in words", &Bytes::from_static(b"{}"), None);
        assert_eq!(response.status(), status);
        let answer: Value = serde_json::from_slice(&axum::body::to_bytes(response.into_body(), usize::MAX).await.unwrap()).unwrap();
        assert_eq!(answer["error"]["code"], code, "{answer}");
    }
}

//! Responses whose bodies are read in pieces.

use std::io::{self, Write as _};

use axum::{body::Body as Stream, http::header::CONTENT_ENCODING, response::Response};
use flate2::{Compression, write::GzEncoder};
use futures_util::{StreamExt as _, stream};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::{TcpListener, TcpStream},
    sync::mpsc,
};
use tollhouse_protocol::limits::FETCH_CHUNK_BYTES;

use super::*;

/// Sends a GET with the number `id`. Returns the head, the beginning of the body, and whether the body goes on.
async fn open(caller: &Caller, url: &str, id: u32) -> Result<(Value, Bytes, bool), OpFailure> {
    let sent = caller.outgoing().send("GET".into(), url.into(), vec![], Bytes::new(), RedirectMode::Follow, id).await?;
    let OpValue::Response { head, body, more } = sent else { panic!("expected a response") };
    Ok((serde_json::from_slice(&head).unwrap(), body, more))
}

/// Reads a response to its end.
async fn rest(caller: &Caller, id: u32) -> Result<Vec<u8>, OpFailure> {
    let mut all = Vec::new();
    while let OpValue::Bytes(piece) = caller.outgoing().read(id).await? {
        assert!(!piece.is_empty() && piece.len() <= 2 * FETCH_CHUNK_BYTES, "{}", piece.len());
        all.extend_from_slice(&piece);
    }
    Ok(all)
}

/// Accepts one connection, reads a request from it, and answers with `head`.
async fn raw(head: &'static str) -> (String, tokio::task::JoinHandle<TcpStream>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let answered = tokio::spawn(async move {
        let (mut connection, _) = listener.accept().await.unwrap();
        let mut request = Vec::new();
        while !request.ends_with(b"\r\n\r\n") {
            let mut byte = [0];
            connection.read_exact(&mut byte).await.unwrap();
            request.push(byte[0]);
        }
        connection.write_all(head.as_bytes()).await.unwrap();
        connection
    });
    (address, answered)
}

fn caller_of(address: &str, limits: Limits) -> (Caller, String) {
    let guard = Guard::new(GuardSettings { allow: vec![address.to_owned()], ..GuardSettings::default() }).unwrap();
    let mut caller = Caller::new(guard, &["127.0.0.1"], limits);
    caller.hidden = Redactor::new([]);
    (caller, format!("http://{address}/"))
}

const ENDLESS: &str = "HTTP/1.1 200 OK\r\ncontent-type: application/octet-stream\r\n\r\n";

#[tokio::test]
async fn the_head_comes_before_the_body_and_each_piece_when_it_is_there() {
    let (address, connection) = raw("HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\ncontent-type: text/event-stream\r\n\r\n").await;
    let (caller, url) = caller_of(&address, Limits::default());
    let (head, beginning, more) = open(&caller, &url, 1).await.unwrap();
    assert_eq!((head["status"].as_u64(), beginning, more), (Some(200), Bytes::new(), true));
    let mut connection = connection.await.unwrap();
    for event in ["data: 1\n\n", "data: 2\n\n"] {
        connection.write_all(format!("{:x}\r\n{event}\r\n", event.len()).as_bytes()).await.unwrap();
        assert_eq!(caller.outgoing().read(1).await.unwrap(), OpValue::Bytes(event.into()));
    }
    connection.write_all(b"0\r\n\r\n").await.unwrap();
    assert_eq!(caller.outgoing().read(1).await.unwrap(), OpValue::None);
    assert_eq!(caller.counters.requests.len(), 0);
    assert!(caller.outgoing().read(1).await.is_err(), "it has ended");
}

#[tokio::test]
async fn a_server_waits_while_nobody_reads() {
    let (address, connection) = raw(ENDLESS).await;
    let limits = Limits { http_body_bytes: 4 << 20, ..Limits::default() };
    let (caller, url) = caller_of(&address, limits);
    open(&caller, &url, 1).await.unwrap();
    let mut connection = connection.await.unwrap();
    // More than all buffers of both sides together.
    let all = vec![0; 64 << 20];
    let blocked = tokio::time::timeout(Duration::from_millis(500), connection.write_all(&all)).await;
    assert!(blocked.is_err(), "the host does not read on");
}

#[tokio::test]
async fn a_body_that_is_cut_off_is_an_error_after_what_came() {
    let (address, connection) = raw("HTTP/1.1 200 OK\r\ncontent-length: 100000\r\n\r\nbegin").await;
    let (caller, url) = caller_of(&address, Limits::default());
    let (_, beginning, more) = open(&caller, &url, 1).await.unwrap();
    assert!(more);
    drop(connection.await.unwrap());
    let mut came = beginning.to_vec();
    let error = loop {
        match caller.outgoing().read(1).await {
            Ok(OpValue::Bytes(piece)) => came.extend_from_slice(&piece),
            Ok(other) => panic!("{other:?} is no error"),
            Err(error) => break error,
        }
    };
    assert_eq!((came.as_slice(), error.code.as_str()), (&b"begin"[..], "unreachable"));
    assert_eq!(caller.counters.requests.len(), 0);
}

#[tokio::test]
async fn an_endless_body_ends_at_its_limit() {
    let endless = get(|| async { Stream::from_stream(stream::repeat_with(|| Ok::<_, io::Error>(Bytes::from_static(&[0; 10_000])))) });
    let limits = Limits { http_body_bytes: 300_000, ..Limits::default() };
    let (mut caller, base) = local(Router::new().route("/", endless), limits).await;
    caller.hidden = Redactor::new([]);
    assert!(open(&caller, &base, 1).await.unwrap().2);
    assert_eq!(rest(&caller, 1).await.unwrap_err().code, "body_too_large");
}

#[tokio::test]
async fn gzip_is_decoded_in_pieces_and_a_bomb_ends_at_the_limit() {
    let packed = |bytes: usize| {
        let mut gzip = GzEncoder::new(Vec::new(), Compression::best());
        gzip.write_all(&vec![b'a'; bytes]).unwrap();
        let packed = gzip.finish().unwrap();
        get(move || async move {
            let pieces: Vec<_> = packed.chunks(100).map(|piece| Ok::<_, io::Error>(Bytes::copy_from_slice(piece))).collect();
            Response::builder().header(CONTENT_ENCODING, "gzip").body(Stream::from_stream(stream::iter(pieces))).unwrap()
        })
    };
    let server = Router::new().route("/fits", packed(500_000)).route("/bomb", packed(50_000_000));
    let (mut caller, base) = local(server, Limits { http_body_bytes: 500_000, ..Limits::default() }).await;
    caller.hidden = Redactor::new([]);
    let (head, body) = caller.get(&format!("{base}/fits")).await.unwrap();
    assert!(body == vec![b'a'; 500_000] && values(&head, "content-encoding").is_empty());
    assert_eq!(caller.get(&format!("{base}/bomb")).await.unwrap_err().code, "body_too_large");
}

#[tokio::test]
async fn a_canceled_request_gives_its_place_back_at_once() {
    let limits = Limits { http_wall_ms: 30_000, ..Limits::default() };
    // Before the head.
    let (address, connection) = raw("").await;
    let (caller, url) = caller_of(&address, limits);
    let canceled = async {
        let mut connection = connection.await.unwrap();
        caller.counters.requests.cancel(1);
        assert_eq!(connection.read(&mut [0]).await.unwrap_or(0), 0, "the connection is closed");
    };
    let (answer, ()) = tokio::join!(open(&caller, &url, 1), canceled);
    assert_eq!(answer.unwrap_err().code, "canceled");
    // While a piece is awaited.
    let (address, connection) = raw(ENDLESS).await;
    let (caller, url) = caller_of(&address, limits);
    open(&caller, &url, 2).await.unwrap();
    let mut connection = connection.await.unwrap();
    let outgoing = caller.outgoing();
    let canceled = async {
        caller.counters.requests.cancel(2);
        assert_eq!(connection.read(&mut [0]).await.unwrap_or(0), 0, "the connection is closed");
    };
    let (read, ()) = tokio::join!(outgoing.read(2), canceled);
    assert!(["canceled", "invalid_argument"].contains(&read.unwrap_err().code.as_str()));
    caller.counters.requests.cancel(3);
}

#[tokio::test]
async fn a_response_that_nobody_reads_is_closed_with_its_call() {
    let (address, connection) = raw(ENDLESS).await;
    let (caller, url) = caller_of(&address, Limits::default());
    open(&caller, &url, 1).await.unwrap();
    let mut connection = connection.await.unwrap();
    assert_eq!(caller.counters.requests.len(), 1);
    drop(caller);
    assert_eq!(connection.read(&mut [0]).await.unwrap_or(0), 0);
}

#[tokio::test]
async fn the_time_between_two_pieces_is_limited() {
    let (address, connection) = raw(ENDLESS).await;
    let (caller, url) = caller_of(&address, Limits { http_wall_ms: 200, ..Limits::default() });
    open(&caller, &url, 1).await.unwrap();
    let _connection = connection.await.unwrap();
    assert_eq!(caller.outgoing().read(1).await.unwrap_err().code, "timeout");
    assert_eq!(caller.counters.requests.len(), 0);
}

#[tokio::test]
async fn no_two_requests_have_one_number() {
    let (address, connection) = raw(ENDLESS).await;
    let (caller, url) = caller_of(&address, Limits::default());
    open(&caller, &url, 1).await.unwrap();
    assert_eq!(open(&caller, &url, 1).await.unwrap_err().code, "invalid_argument");
    assert_eq!(caller.outgoing().read(2).await.unwrap_err().code, "invalid_argument");
    drop(connection.await);
}

#[tokio::test]
async fn a_secret_in_events_is_hidden_wherever_pieces_end() {
    let (sender, pieces) = mpsc::channel(1);
    let pieces = Arc::new(tokio::sync::Mutex::new(pieces));
    let events = get(move || async move {
        let events = stream::unfold(pieces.lock_owned().await, |mut pieces| async move {
            let piece: Bytes = pieces.recv().await?;
            Some((Ok::<_, io::Error>(piece), pieces))
        });
        Response::builder().header("content-type", EVENT_STREAM).body(Stream::from_stream(events.boxed())).unwrap()
    });
    let (caller, base) = local(Router::new().route("/", events), Limits::default()).await;
    assert!(open(&caller, &base, 1).await.unwrap().2);
    let (half, other_half) = SECRET.split_at(9);
    sender.send(format!("data: a\n\ndata: {half}").into()).await.unwrap();
    assert_eq!(caller.outgoing().read(1).await.unwrap(), OpValue::Bytes("data: a\n\ndata: ".into()));
    sender.send(format!("{other_half}\n\n").into()).await.unwrap();
    drop(sender);
    assert_eq!(rest(&caller, 1).await.unwrap(), b"[redacted]\n\n");
}

//! Servers that send data outside of responses. A limited amount is read.

use std::sync::atomic::Ordering::SeqCst;

use bytes::Bytes;
use tokio::{
    io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt},
    net::TcpListener,
};
use tokio_rustls::{TlsAcceptor, rustls::ServerConfig};

use super::{
    limits::{AWAITED_BYTES, HEADER_BYTES, WIRE_BYTES},
    *,
};
use crate::testing::certified;

/// A timeout that nothing here reaches.
const TIMEOUT: Duration = Duration::from_secs(60);

const HERE: &str = "HTTP/1.1 200 OK\r\ncontent-length: 4\r\n\r\nhere";

/// The data that a server sends on each connection: one response per request, then the flood without end.
struct Script {
    answers: Vec<String>,
    flood: String,
    /// The largest number of responses sent on one connection.
    max: AtomicUsize,
}

impl Script {
    fn new(answers: Vec<String>, flood: impl Into<String>) -> Arc<Self> {
        Arc::new(Self { answers, flood: flood.into(), max: AtomicUsize::new(0) })
    }

    async fn play(&self, mut stream: impl AsyncRead + AsyncWrite + Unpin) -> io::Result<()> {
        let mut request = [0; 4_096];
        for (position, answer) in self.answers.iter().enumerate() {
            if stream.read(&mut request).await? == 0 {
                return Ok(());
            }
            stream.write_all(answer.as_bytes()).await?;
            stream.flush().await?;
            self.max.fetch_max(position + 1, SeqCst);
        }
        let is_asked = stream.read(&mut request).await? > 0;
        while is_asked && !self.flood.is_empty() {
            stream.write_all(self.flood.as_bytes()).await?;
        }
        Ok(())
    }

    async fn serve(self: &Arc<Self>, tls: Option<ServerConfig>) -> SocketAddr {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let (address, script) = (listener.local_addr().unwrap(), Arc::clone(self));
        let tls = tls.map(|tls| TlsAcceptor::from(Arc::new(tls)));
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let (script, tls) = (Arc::clone(&script), tls.clone());
                tokio::spawn(async move {
                    match tls {
                        Some(tls) => script.play(tls.accept(stream).await?).await,
                        None => script.play(stream).await,
                    }
                });
            }
        });
        address
    }

    /// Returns what the guard gets from the server over plain HTTP and over TLS, with at most `body_bytes` bytes of
    /// body.
    async fn gives(self: &Arc<Self>, body_bytes: usize) -> [Result<Bytes, FetchError>; 2] {
        let plain = self.serve(None).await;
        let clear = get(&allowing(&[plain]), &format!("http://{plain}/"), body_bytes).await;
        let (tls, root) = certified(&["first.dev"]);
        [clear, over_tls(self.serve(Some(tls)).await, root, body_bytes).await]
    }
}

async fn get(guard: &Guard, url: &str, body_bytes: usize) -> Result<Bytes, FetchError> {
    guard.fetch(Fetch::get(url, TIMEOUT, body_bytes)).await.map(|fetched| fetched.body)
}

async fn over_tls(address: SocketAddr, root: Vec<u8>, body_bytes: usize) -> Result<Bytes, FetchError> {
    let guard = guard(GuardSettings {
        allow: vec![format!("first.dev:{}", address.port())],
        roots: vec![root],
        lookup: Some(FixedNames::new(&[("first.dev", &["127.0.0.1"])])),
        ..GuardSettings::default()
    });
    get(&guard, &format!("https://first.dev:{}/", address.port()), body_bytes).await
}

#[tokio::test]
async fn heads_that_are_no_answer_yet_are_read_up_to_a_number_of_bytes() {
    for head in [
        "HTTP/1.1 100 Continue\r\n\r\n".to_owned(),
        "HTTP/1.1 103 Early Hints\r\nlink: </x>; rel=preload\r\n\r\n".to_owned(),
        "HTTP/1.1 199\r\n\r\n".to_owned(),
        format!("HTTP/1.1 102 Processing\r\nx: {}\r\n\r\n", "x".repeat(60 << 10)),
    ] {
        let endless = Script::new(Vec::new(), head.repeat(64)).gives(1_000).await;
        assert_eq!(endless, [(); 2].map(|()| Err(FetchError::Flooded(AWAITED_BYTES))), "{head:.40}");
        let few = Script::new(vec![head.repeat(5) + HERE], "").gives(1_000).await;
        assert_eq!(few, [(); 2].map(|()| Ok(Bytes::from("here"))), "{head:.40}");
    }
}

/// TLS records count with their overhead, even if they are empty.
#[tokio::test]
async fn bytes_are_counted_as_they_come_from_the_network() {
    let heads = format!("HTTP/1.1 102 Processing\r\nx: {}\r\n\r\n", "x".repeat(60 << 10)).repeat(6) + HERE;
    // The smallest record has 27 bytes of data and 22 of overhead.
    for (record, expected) in [(None, Ok(Bytes::from("here"))), (Some(32), Err(FetchError::Flooded(AWAITED_BYTES)))] {
        let (mut tls, root) = certified(&["first.dev"]);
        tls.max_fragment_size = record;
        let address = Script::new(vec![heads.clone()], "").serve(Some(tls)).await;
        assert_eq!(over_tls(address, root, 1_000).await, expected, "{record:?}");
    }
}

#[tokio::test]
async fn a_body_can_come_in_chunks_of_any_size() {
    let body = "x".repeat(4 << 20);
    let length = format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n{body}", body.len());
    // On the wire, the chunked body has more bytes than are allowed before a head.
    let bytes = 120_000;
    let chunked = format!("HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n{}0\r\n\r\n", "1\r\nx\r\n".repeat(bytes));
    for (answer, length) in [(length, body.len()), (chunked, bytes)] {
        for given in Script::new(vec![answer], "").gives(length).await {
            assert_eq!(given.map(|body| body.len()), Ok(length));
        }
    }
}

/// Each response is counted separately, even if nobody reads its body.
#[tokio::test]
async fn a_reused_connection_serves_any_number_of_answers() {
    let padding = "x".repeat(60 << 10);
    let moved = format!("HTTP/1.1 302 Found\r\ncontent-length: 0\r\nlocation: /\r\nx: {padding}\r\n\r\n");
    let read = format!("HTTP/1.1 200 OK\r\ncontent-length: 4\r\nx: {padding}\r\n\r\nhere");
    for (answer, expected) in [(moved, Err(FetchError::TooManyRedirects)), (read, Ok(Bytes::from("here")))] {
        let script = Script::new(vec![answer; 100], "");
        let address = script.serve(None).await;
        let (guard, url) = (allowing(&[address]), format!("http://{address}/"));
        // A connection does not announce when it becomes idle, so the next request may open another.
        for _ in 0..1_000 {
            assert_eq!(get(&guard, &url, 1_000).await, expected);
            if script.max.load(SeqCst) > 2 * AWAITED_BYTES / padding.len() {
                break;
            }
        }
        assert!(script.max.load(SeqCst) > 2 * AWAITED_BYTES / padding.len());
    }
}

#[tokio::test]
async fn the_allowance_of_a_large_body_ends_with_it() {
    let script = Script::new(vec![HERE.to_owned()], "HTTP/1.1 103 Early Hints\r\n\r\n".repeat(64));
    let address = script.serve(None).await;
    let (guard, url) = (allowing(&[address]), format!("http://{address}/"));
    // As above.
    for _ in 0..1_000 {
        match get(&guard, &url, 64 << 20).await {
            Ok(body) => assert_eq!(body, "here"),
            flooded => return assert_eq!(flooded, Err(FetchError::Flooded(AWAITED_BYTES))),
        }
    }
    panic!("no connection was reused");
}

#[tokio::test]
async fn headers_may_have_just_so_many_bytes() {
    let others = "content-length".len() + "4".len() + "x".len();
    for (bytes, expected) in [
        (HEADER_BYTES, "here".to_owned()),
        (HEADER_BYTES + 1, format!("headers of {} bytes, and the maximum is {HEADER_BYTES}", HEADER_BYTES + 1)),
    ] {
        let answer = format!("HTTP/1.1 200 OK\r\ncontent-length: 4\r\nx: {}\r\n\r\nhere", "x".repeat(bytes - others));
        for given in Script::new(vec![answer], "").gives(1_000).await {
            let given = given.map_or_else(|error| error.to_string(), |body| String::from_utf8(body.to_vec()).unwrap());
            assert!(given.contains(&expected), "{given}");
        }
    }
}

#[tokio::test]
async fn a_body_that_takes_more_in_flight_than_any_of_its_size_is_not_whole() {
    let chunks = format!("{}1\r\nx\r\n", "0".repeat(8 << 10)).repeat(1_000);
    let answer = format!("HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n{chunks}0\r\n\r\n");
    for given in Script::new(vec![answer], "").gives(1_000).await {
        assert_eq!(given, Err(FetchError::Flooded(AWAITED_BYTES + 1_000 * WIRE_BYTES)));
    }
}

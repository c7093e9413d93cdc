//! Servers whose responses never end or contain more than was requested.

use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
    sync::mpsc,
};

use super::{
    limits::{AWAITED_BYTES, WIRE_BYTES},
    *,
};

/// Timeouts for responses that end only with the timeout, and for those that end before it.
const HASTE: Duration = Duration::from_millis(300);
const TIMEOUT: Duration = Duration::from_secs(60);

/// A server's response: `head`, then `again` forever, with `pause` in between.
#[derive(Clone)]
struct Flood {
    head: Vec<u8>,
    again: Vec<u8>,
    pause: Duration,
}

impl Flood {
    fn of(head: impl Into<Vec<u8>>, again: impl Into<Vec<u8>>) -> Self {
        Self { head: head.into(), again: again.into(), pause: Duration::ZERO }
    }
}

/// Starts a server that sends `flood`. When a client has gone, it reports how many bytes were sent.
async fn flooding(flood: Flood) -> (SocketAddr, mpsc::UnboundedReceiver<usize>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let (report, reported) = mpsc::unbounded_channel();
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let (flood, report) = (flood.clone(), report.clone());
            tokio::spawn(async move { _ = report.send(pour(stream, flood).await) });
        }
    });
    (address, reported)
}

async fn pour(mut stream: TcpStream, flood: Flood) -> usize {
    let mut request = [0; 4_096];
    _ = stream.read(&mut request).await;
    let mut sent = 0;
    if stream.write_all(&flood.head).await.is_ok() {
        while stream.write_all(&flood.again).await.is_ok() {
            sent += flood.again.len();
            tokio::time::sleep(flood.pause).await;
        }
    }
    sent
}

/// Returns how a request to a server that sends `flood` ends within `wall`, and how many bytes were sent.
async fn ended(wall: Duration, flood: Flood) -> (FetchError, usize) {
    let (address, mut reported) = flooding(flood).await;
    let url = format!("http://{address}/");
    let ended = allowing(&[address]).fetch(Fetch::get(&url, wall, 1_000)).await.unwrap_err();
    (ended, reported.recv().await.unwrap())
}

#[tokio::test]
async fn an_answer_that_drips_ends_with_the_time_for_it() {
    let drip = |head: &str, again: &str| Flood { pause: Duration::from_millis(5), ..Flood::of(head, again) };
    for flood in [
        drip("", "H"),
        drip("", "HTTP/1.1 103 Early Hints\r\n\r\n"),
        drip("HTTP/1.1 200 OK\r\n", "x: y\r\n"),
        drip("HTTP/1.1 200 OK\r\nx: ", "y"),
        drip("HTTP/1.1 200 OK\r\n\r\n", "1"),
        drip("HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n", "1\r\nx\r\n"),
        drip("HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n1", ";x"),
    ] {
        let head = String::from_utf8(flood.head.clone()).unwrap();
        let (ended, sent) = ended(HASTE, flood).await;
        let cut = matches!(&ended, FetchError::Timeout(300)) || head.is_empty() && matches!(&ended, FetchError::Unreachable(_));
        assert!(cut && sent < 10_000, "{head:?}: {ended:?}, {sent} bytes");
    }
}

#[tokio::test]
async fn a_body_without_end_is_read_up_to_the_limit() {
    let chunk = [b"1000\r\n".to_vec(), vec![b'x'; 0x1000], b"\r\n".to_vec()].concat();
    for (head, again) in [
        ("HTTP/1.1 200 OK\r\n\r\n", vec![b'x'; 1 << 16]),
        ("HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n", chunk),
        ("HTTP/1.1 200 OK\r\ncontent-length: 18446744073709551615\r\n\r\n", vec![b'x'; 1 << 16]),
        ("HTTP/1.1 200 OK\r\ncontent-length: 9999999999\r\n\r\n", vec![b'x'; 1 << 16]),
    ] {
        let (ended, sent) = ended(TIMEOUT, Flood::of(head, again)).await;
        assert!(
            matches!(ended, FetchError::TooLarge(1_000) | FetchError::Unreachable(_)) && sent < 64 << 20,
            "{head:?}: {ended:?}, {sent}"
        );
    }
}

/// Data that belongs to no body: chunk extensions and trailers.
#[tokio::test]
async fn chunk_extensions_and_trailers_are_bounded() {
    let chunked = "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n";
    for (started, again) in [("1;", "x".repeat(1 << 12)), ("0\r\n", "x: y\r\n".repeat(1 << 9))] {
        let (ended, sent) = ended(TIMEOUT, Flood::of(format!("{chunked}{started}"), again)).await;
        assert!(matches!(ended, FetchError::Unreachable(_)) && sent < 64 << 20, "{started:?}: {ended:?}, {sent}");
    }
    // A number with endless leading zeros keeps its value and takes no memory, so its bytes must be counted.
    let (ended, sent) = ended(TIMEOUT, Flood::of(chunked, "0".repeat(1 << 12))).await;
    assert!(ended == FetchError::Flooded(AWAITED_BYTES + 1_000 * WIRE_BYTES) && sent < 64 << 20, "{ended:?}, {sent}");
}

#[tokio::test]
async fn a_body_in_a_packing_is_refused_unread() {
    let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::best());
    io::Write::write_all(&mut gzip, &vec![b'x'; 16 << 20]).unwrap();
    let gzip = gzip.finish().unwrap();
    for (packing, bytes) in [("compress", vec![0; 1 << 16]), ("gzip, br", gzip.clone()), ("gzip\r\ncontent-encoding: gzip", gzip.clone())] {
        let head = format!("HTTP/1.1 200 OK\r\ncontent-encoding: {packing}\r\ncontent-type: application/json\r\n\r\n");
        let (ended, sent) = ended(TIMEOUT, Flood::of(head, bytes)).await;
        assert_eq!(ended, FetchError::Encoded(packing.replace("\r\ncontent-encoding:", ",")));
        // No more than fits in the buffers of both sockets.
        assert!(sent < 64 << 20, "{packing}: {sent}");
    }
    // A coding that is decoded is limited twice: on the wire, and as it expands.
    let bombs = |coding: &str, bytes: &[u8]| {
        let head = format!("HTTP/1.1 200 OK\r\ncontent-encoding: {coding}\r\ncontent-length: {}\r\n\r\n", bytes.len());
        [head.as_bytes(), bytes].concat()
    };
    let mut small = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::best());
    io::Write::write_all(&mut small, &vec![b'x'; 500_000]).unwrap();
    let small = small.finish().unwrap();
    assert!(small.len() < 1_000 && gzip.len() > 1_000, "{} and {}", small.len(), gzip.len());
    // A zstd frame in which every four bytes expand to 128 KiB, and a mebibyte of spaces in brotli.
    let zstd = |blocks: usize| [&[0x28, 0xb5, 0x2f, 0xfd, 0, 0x58][..], &[2, 0, 0x10, b'x'].repeat(blocks)].concat();
    let brotli = hex::decode("5bffff8f5f02241e0b0472ef1f00").unwrap();
    for (coding, bytes) in [
        ("gzip", &gzip),
        ("gzip", &small),
        ("GZIP", &small),
        ("x-gzip", &small),
        ("br", &brotli),
        ("zstd", &zstd(100)),
        ("zstd", &zstd(1 << 14)),
    ] {
        let (address, _told) = flooding(Flood::of(bombs(coding, bytes), b"")).await;
        let ended = fetch(&allowing(&[address]), &format!("http://{address}/")).await.unwrap_err();
        assert_eq!(ended, FetchError::TooLarge(1_000), "{coding}");
    }
    // A coding that is not named is passed on unchanged.
    let head = format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n", 900);
    let (address, _told) = flooding(Flood::of([head.as_bytes(), &gzip[..900]].concat(), b"")).await;
    assert_eq!(fetch(&allowing(&[address]), &format!("http://{address}/")).await.unwrap().body, gzip[..900]);
}

#[tokio::test]
async fn headers_of_an_answer_are_read_up_to_their_limits() {
    let with = |headers: &str| format!("HTTP/1.1 200 OK\r\ncontent-length: 0\r\n{headers}\r\n");
    let long = |bytes: usize| format!("x-long: {}\r\n", "x".repeat(bytes));
    for (headers, passes) in [
        (long(63 << 10), true),
        (long(65 << 10), false),
        ("x: y\r\n".repeat(99), true),
        ("x: y\r\n".repeat(100), false),
        (long(1 << 10).repeat(90), false),
    ] {
        let (address, _told) = flooding(Flood::of(with(&headers), "")).await;
        let fetched = fetch(&allowing(&[address]), &format!("http://{address}/")).await;
        assert_eq!(fetched.is_ok(), passes, "{} bytes: {fetched:?}", headers.len());
        assert!(passes || matches!(fetched, Err(FetchError::Unreachable(_))), "{fetched:?}");
    }
    for (bytes, passes) in [(63 << 10, true), (65 << 10, false)] {
        let head = format!("HTTP/1.1 200 {}\r\ncontent-length: 0\r\n\r\n", "x".repeat(bytes));
        let (address, _told) = flooding(Flood::of(head, "")).await;
        let fetched = fetch(&allowing(&[address]), &format!("http://{address}/")).await;
        assert_eq!(fetched.is_ok(), passes, "a status text of {bytes} bytes: {fetched:?}");
    }
    for again in ["x".repeat(1 << 16), "x: y\r\n".repeat(1 << 12)] {
        let (ended, sent) = ended(TIMEOUT, Flood::of("HTTP/1.1 200 OK\r\nx: ", again)).await;
        assert!(matches!(ended, FetchError::Unreachable(_)) && sent < 64 << 20, "{ended:?}, {sent}");
    }
}

#[tokio::test]
async fn a_protocol_upgrade_is_not_an_answer() {
    let (address, _told) = flooding(Flood::of("HTTP/1.1 101 Switching Protocols\r\nupgrade: x\r\nconnection: upgrade\r\n\r\n", "x")).await;
    let fetched = fetch(&allowing(&[address]), &format!("http://{address}/")).await.unwrap();
    assert_eq!((fetched.status.as_u16(), fetched.body.len()), (101, 0));
}

/// HTTP/2 is never requested, so its frames are not a valid response.
#[tokio::test]
async fn frames_of_http2_are_no_answer() {
    let frame =
        |kind: u8, flags: u8, stream: u8, payload: &[u8]| [&[0, 0, payload.len() as u8, kind, flags, 0, 0, 0, stream], payload].concat();
    let settings = frame(4, 0, 0, b"");
    // Headers with status 103, settings, pings, and endless continuation headers.
    for again in [frame(1, 4, 1, b"\x08\x03103"), settings.clone(), frame(6, 0, 0, &[0; 8]), frame(9, 0, 1, b"")] {
        let (ended, sent) = ended(TIMEOUT, Flood::of(settings.clone(), again.repeat(1 << 10))).await;
        assert!(matches!(ended, FetchError::Unreachable(_)) && sent < 64 << 20, "{ended:?}, {sent}");
    }
}

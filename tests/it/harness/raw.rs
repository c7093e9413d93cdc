//! Raw connections, on which a test can send any bytes at any time.

use std::{
    net::{Ipv4Addr, SocketAddr},
    time::Duration,
};

use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::{TcpSocket, TcpStream},
};

use super::Host;

/// Maximum time for a host to react.
const TIMEOUT: Duration = Duration::from_secs(20);

/// A connection.
pub struct Raw {
    stream: TcpStream,
}

/// An HTTP/2 frame.
#[derive(Debug, Clone)]
pub struct Frame {
    pub kind: u8,
    pub flags: u8,
    pub stream: u32,
    pub payload: Vec<u8>,
}

/// Frame types.
pub const DATA: u8 = 0;
pub const HEADERS: u8 = 1;
pub const RST_STREAM: u8 = 3;
pub const SETTINGS: u8 = 4;
pub const PING: u8 = 6;
pub const GOAWAY: u8 = 7;

/// Identifiers of settings.
pub const MAX_CONCURRENT_STREAMS: u16 = 3;
pub const INITIAL_WINDOW_SIZE: u16 = 4;

const ACK: u8 = 1;
const END_STREAM: u8 = 1;
const END_HEADERS: u8 = 4;

impl Raw {
    pub async fn open(host: &Host) -> Self {
        Self::open_from(host, Ipv4Addr::LOCALHOST).await
    }

    /// Opens a connection from another loopback address.
    pub async fn open_from(host: &Host, from: Ipv4Addr) -> Self {
        let socket = TcpSocket::new_v4().unwrap();
        socket.bind((from, 0).into()).unwrap();
        let to: SocketAddr = host.url.trim_start_matches("http://").parse().unwrap();
        let stream = socket.connect(to).await.unwrap();
        stream.set_nodelay(true).unwrap();
        Self { stream }
    }

    pub async fn send(&mut self, bytes: impl AsRef<[u8]>) {
        self.stream.write_all(bytes.as_ref()).await.unwrap();
    }

    /// Sends as much as the host accepts, without an error if it accepts nothing more. Returns
    /// false if not all was sent within `patience`.
    pub async fn try_send(&mut self, bytes: &[u8], timeout: Duration) -> bool {
        matches!(tokio::time::timeout(timeout, self.stream.write_all(bytes)).await, Ok(Ok(())))
    }

    /// Returns whether the host sends anything within `patience`.
    pub async fn receives_within(&self, timeout: Duration) -> bool {
        tokio::time::timeout(timeout, self.stream.readable()).await.is_ok()
    }

    /// Reads an HTTP/1 answer with a content length. Returns head and body.
    pub async fn answer(&mut self) -> (String, String) {
        let mut head = Vec::new();
        while !head.ends_with(b"\r\n\r\n") {
            head.push(self.byte().await.unwrap_or_else(|| panic!("it was closed: {}", String::from_utf8_lossy(&head))));
        }
        let head = String::from_utf8(head).unwrap().to_ascii_lowercase();
        let length = head.lines().find_map(|line| line.strip_prefix("content-length: ")).unwrap_or_else(|| panic!("no length: {head}"));
        let mut body = vec![0; length.parse().unwrap()];
        self.within(async |stream| stream.read_exact(&mut body).await).await.unwrap();
        (head, String::from_utf8_lossy(&body).into_owned())
    }

    /// Reads the next line, without its end.
    pub async fn line(&mut self) -> String {
        let mut line = Vec::new();
        while !line.ends_with(b"\r\n") {
            line.push(self.byte().await.unwrap_or_else(|| panic!("it was closed: {}", String::from_utf8_lossy(&line))));
        }
        String::from_utf8(line).unwrap().trim_end().to_owned()
    }

    async fn byte(&mut self) -> Option<u8> {
        self.within(async |stream| stream.read_u8().await).await.ok()
    }

    /// Reads everything until the host closes the connection.
    pub async fn rest(&mut self) -> Vec<u8> {
        let mut rest = Vec::new();
        // If the host closes it with unread bytes, the connection breaks.
        _ = self.within(async |stream| stream.read_to_end(&mut rest).await).await;
        rest
    }

    async fn within<T>(&mut self, read: impl AsyncFnOnce(&mut TcpStream) -> std::io::Result<T>) -> std::io::Result<T> {
        tokio::time::timeout(TIMEOUT, read(&mut self.stream)).await.expect("the host did nothing in time")
    }

    /// Starts HTTP/2 with these settings.
    pub async fn begin_http2(&mut self, settings: &[(u16, u32)]) {
        self.send("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n").await;
        let payload = settings.iter().flat_map(|(name, value)| [&name.to_be_bytes()[..], &value.to_be_bytes()[..]].concat()).collect();
        self.send(Frame { kind: SETTINGS, flags: 0, stream: 0, payload }.bytes()).await;
    }

    /// Reads the next frame; `None` if the connection has ended.
    pub async fn frame(&mut self) -> Option<Frame> {
        let mut head = [0; 9];
        self.within(async |stream| stream.read_exact(&mut head).await).await.ok()?;
        let mut payload = vec![0; usize::from(head[0]) << 16 | usize::from(head[1]) << 8 | usize::from(head[2])];
        self.within(async |stream| stream.read_exact(&mut payload).await).await.ok()?;
        let stream = u32::from_be_bytes([head[5], head[6], head[7], head[8]]);
        Some(Frame { kind: head[3], flags: head[4], stream, payload })
    }

    /// Reads the next frame of a type, skipping others.
    pub async fn frame_of(&mut self, kind: u8) -> Option<Frame> {
        loop {
            let frame = self.frame().await?;
            if frame.kind == kind {
                return Some(frame);
            }
        }
    }
}

impl Frame {
    pub fn bytes(&self) -> Vec<u8> {
        let length = u32::try_from(self.payload.len()).unwrap().to_be_bytes();
        [&length[1..], &[self.kind, self.flags], &self.stream.to_be_bytes(), &self.payload].concat()
    }

    /// Returns the frame of `GET path` on this stream.
    pub fn get(stream: u32, path: &str) -> Self {
        // HPACK: `:method: GET` and `:scheme: http` by index, `:path` and `:authority` as text.
        let mut payload = vec![0x82, 0x86];
        for (name, value) in [(4, path), (1, "localhost")] {
            payload.extend([name, u8::try_from(value.len()).unwrap()]);
            payload.extend(value.bytes());
        }
        Self { kind: HEADERS, flags: END_STREAM | END_HEADERS, stream, payload }
    }

    /// Returns the head of `POST path` with a JSON body that still has to come, so that it is not
    /// answered yet.
    pub fn post(stream: u32, path: &str) -> Self {
        let mut head = Self { flags: END_HEADERS, ..Self::get(stream, path) };
        head.payload[0] = 0x83;
        // `content-type` (index 31), and its value.
        head.payload.extend([0x0f, 0x10, 16]);
        head.payload.extend(b"application/json");
        head
    }

    /// Returns the frame that cancels a stream.
    pub fn reset(stream: u32) -> Self {
        Self { kind: RST_STREAM, flags: 0, stream, payload: 8_u32.to_be_bytes().to_vec() }
    }

    pub fn ping() -> Self {
        Self { kind: PING, flags: 0, stream: 0, payload: vec![7; 8] }
    }

    /// Returns the value of a setting.
    pub fn setting(&self, requested: u16) -> Option<u32> {
        self.payload.chunks_exact(6).find_map(|entry| {
            let (name, value) = entry.split_at(2);
            (name == requested.to_be_bytes()).then(|| u32::from_be_bytes(value.try_into().unwrap()))
        })
    }

    pub fn is_ack(&self) -> bool {
        self.flags & ACK != 0
    }
}

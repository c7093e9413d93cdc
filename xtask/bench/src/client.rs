//! A blocking HTTP/1.1 client with a persistent connection. Small enough not to influence the
//! measurement.

use std::{
    io::{BufRead, BufReader, Read, Write},
    net::{Ipv4Addr, SocketAddr, SocketAddrV4, TcpStream},
    time::{Duration, Instant},
};

use rustix::net::{self, AddressFamily, SocketType};

use crate::Failure;

/// A loopback address that no other client uses.
const ELSEWHERE: Ipv4Addr = Ipv4Addr::new(127, 0, 0, 2);

/// A request in bytes, except the host's name.
#[derive(Debug, Clone)]
pub(crate) struct Request {
    method: &'static str,
    path: String,
    media: &'static str,
    headers: String,
    body: String,
}

impl Request {
    pub(crate) fn post(path: &str, body: &str) -> Self {
        Self::of("POST", path, "application/json", body)
    }

    pub(crate) fn get(path: &str) -> Self {
        Self::of("GET", path, "application/json", "")
    }

    pub(crate) fn patch(path: &str, body: &str) -> Self {
        Self::of("PATCH", path, "application/json", body)
    }

    /// Returns the submission of a form, with fields that are already encoded.
    pub(crate) fn form(path: &str, fields: &str) -> Self {
        Self::of("POST", path, "application/x-www-form-urlencoded", fields)
    }

    fn of(method: &'static str, path: &str, media: &'static str, body: &str) -> Self {
        Self { method, path: path.to_owned(), media, headers: String::new(), body: body.to_owned() }
    }

    pub(crate) fn with(mut self, name: &str, value: &str) -> Self {
        self.headers.push_str(&format!("{name}: {value}\r\n"));
        self
    }

    /// Returns the request for the host at `address`.
    pub(crate) fn bytes(&self, address: SocketAddr) -> Vec<u8> {
        format!(
            "{} {} HTTP/1.1\r\nhost: {address}\r\ncontent-type: {}\r\naccept: application/json\r\n{}content-length: {}\r\n\r\n{}",
            self.method,
            self.path,
            self.media,
            self.headers,
            self.body.len(),
            self.body
        )
        .into_bytes()
    }
}

/// Opens a connection from a separate address, without sending anything.
pub(crate) fn socket_from_elsewhere(address: SocketAddr) -> Result<TcpStream, Failure> {
    socket_from(ELSEWHERE, address)
}

fn socket_from(own: Ipv4Addr, address: SocketAddr) -> Result<TcpStream, Failure> {
    let socket = net::socket(AddressFamily::INET, SocketType::STREAM, None)?;
    net::bind(&socket, &SocketAddrV4::new(own, 0))?;
    net::connect(&socket, &address)?;
    Ok(TcpStream::from(socket))
}

/// A persistent connection.
pub(crate) struct Client {
    address: SocketAddr,
    stream: BufReader<TcpStream>,
    /// Status line and headers of the last answer.
    head: String,
    body: Vec<u8>,
}

impl Client {
    pub(crate) fn connect(address: SocketAddr) -> Result<Self, Failure> {
        Self::over(TcpStream::connect(address)?, address, Duration::from_secs(30))
    }

    /// Opens a connection from a separate address, with a maximum time for answers.
    pub(crate) fn from_elsewhere(address: SocketAddr, timeout: Duration) -> Result<Self, Failure> {
        Self::connect_from(ELSEWHERE, address, timeout)
    }

    /// Opens a connection from this loopback address, with a maximum time for answers.
    pub(crate) fn connect_from(own: Ipv4Addr, address: SocketAddr, timeout: Duration) -> Result<Self, Failure> {
        Self::over(socket_from(own, address)?, address, timeout)
    }

    fn over(stream: TcpStream, address: SocketAddr, timeout: Duration) -> Result<Self, Failure> {
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(timeout))?;
        Ok(Self { address, stream: BufReader::new(stream), head: String::new(), body: Vec::new() })
    }

    /// Sends a request that must be answered with 200.
    pub(crate) fn expect_ok(&mut self, request: &Request) -> Result<(), Failure> {
        self.timed(request).map(drop)
    }

    /// Sends a request that must be answered with 200. Returns the time from the first byte sent to
    /// the last byte received.
    pub(crate) fn timed(&mut self, request: &Request) -> Result<Duration, Failure> {
        let bytes = request.bytes(self.address);
        let started = Instant::now();
        self.stream.get_mut().write_all(&bytes)?;
        let status = self.read()?;
        let elapsed = started.elapsed();
        if status == 200 {
            return Ok(elapsed);
        }
        Err(format!("{} answered {status}: {}", request.path, String::from_utf8_lossy(&self.body)).into())
    }

    /// Sends a request, and returns the status of its answer.
    pub(crate) fn ask(&mut self, request: &Request) -> Result<u16, Failure> {
        self.stream.get_mut().write_all(&request.bytes(self.address))?;
        self.read()
    }

    /// Returns the body of the last answer.
    pub(crate) fn body(&self) -> &[u8] {
        &self.body
    }

    /// Returns a header of the last answer.
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        let headers = self.head.lines().filter_map(|line| line.split_once(':'));
        headers.into_iter().find(|(found, _)| found.eq_ignore_ascii_case(name)).map(|(_, value)| value.trim())
    }

    /// Reads one answer into `head` and `body`.
    fn read(&mut self) -> Result<u16, Failure> {
        let (mut status, mut length, mut chunked) = (0, None, false);
        self.head.clear();
        loop {
            let start = self.head.len();
            if self.stream.read_line(&mut self.head)? == 0 {
                return Err("the connection was closed".into());
            }
            let text = self.head[start..].trim_end();
            if let Some(rest) = text.strip_prefix("HTTP/1.1 ") {
                status = rest.get(..3).unwrap_or_default().parse()?;
            } else if text.is_empty() {
                break;
            } else if let Some((name, value)) = text.split_once(':') {
                if name.eq_ignore_ascii_case("content-length") {
                    length = Some(value.trim().parse::<usize>()?);
                }
                chunked |= name.eq_ignore_ascii_case("transfer-encoding");
            }
        }
        self.body.clear();
        if chunked {
            while self.read_chunk()? {}
            return Ok(status);
        }
        let length = length.ok_or("an answer without content-length")?;
        self.body.resize(length, 0);
        self.stream.read_exact(&mut self.body)?;
        Ok(status)
    }

    /// Appends one chunk to `body`. Returns false if it was the last.
    fn read_chunk(&mut self) -> Result<bool, Failure> {
        let mut line = String::new();
        self.stream.read_line(&mut line)?;
        let (length, before) = (usize::from_str_radix(line.trim(), 16)?, self.body.len());
        // Includes the line break after the chunk.
        self.body.resize(before + length + 2, 0);
        self.stream.read_exact(&mut self.body[before..])?;
        self.body.truncate(before + length);
        Ok(length > 0)
    }
}

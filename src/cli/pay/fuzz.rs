//! Fuzzes the code that reads a foreign host's responses: challenges and streamed results.

use base64::{Engine as _, engine::general_purpose::STANDARD};
use reqwest::header::{HeaderMap, HeaderName, HeaderValue};
use tollhouse_money::{Asset, Network};
use tollhouse_tool::MicroUsd;

use super::{Arrival, Challenge, PaymentLimits, Progress, Reply, SentPayment, Token, answer, choose, stream::Stream};

/// The network of the payments.
fn network() -> &'static Network {
    Network::named("eip155:84532").unwrap()
}

/// The limit of a payment.
const MAX: MicroUsd = MicroUsd(100_000);

/// Returns a response made of these bytes: header lines, an empty line, and the body. The value of a header written as
/// `name=value` is encoded in base64, as in x402.
fn reply(status: u16, bytes: &[u8]) -> Reply {
    let end = bytes.windows(2).position(|two| two == b"\n\n").unwrap_or(bytes.len());
    let (head, body) = (&bytes[..end], bytes.get(end + 2..).unwrap_or_default());
    let header = |line: &[u8]| {
        let end = line.iter().position(|byte| b":=".contains(byte))?;
        let (name, value) = (HeaderName::from_bytes(&line[..end]).ok()?, line[end + 1..].trim_ascii());
        let value = if line[end] == b'=' { STANDARD.encode(value).into_bytes() } else { value.to_owned() };
        Some((name, HeaderValue::from_bytes(&value).ok()?))
    };
    let headers: HeaderMap = head.split(|byte| *byte == b'\n').take(100).filter_map(header).collect();
    Reply { status, headers, body: body.to_vec(), ..Reply::default() }
}

/// Returns whether the text contains control characters that a terminal acts on.
fn drives(words: &str) -> bool {
    words.chars().any(|c| c.is_control() && !"\n\t".contains(c))
}

/// Returns a payment of the whole limit.
fn sent() -> SentPayment {
    let token = Asset::of(network()).next().unwrap();
    serde_json::from_value(serde_json::json!({
        "paymentId": "pmt_0123456789abcdef", "name": "tool", "madeAt": "2026-11-24T00:00:00.000Z", "method": "POST", "url": "https://seller.example/tools/tool",
        "body": null, "stream": true, "headers": [], "byCredit": false, "host": "https://seller.example", "own": false,
        "usd": 0.1, "most": false, "timeoutSecs": 60,
        "token": Token {
            network: network().caip2.to_owned(), asset: token.address.to_string(), amount: "100000".to_owned(), payer: "0x0".to_owned(), until_secs: 0,
        },
    }))
    .unwrap()
}

#[test]
fn chosen_terms_are_within_the_limits() {
    tollhouse_fuzz::check("challenge", |bytes| {
        let network = network();
        let reply = reply(402, bytes);
        _ = (answer::verdict_of(&reply), answer::reason(&reply));
        if let Some(settlement) = answer::Settlement::of(&reply, &sent()) {
            assert!(settlement.taken.is_none_or(|taken| taken <= MAX), "{settlement:?}");
        }
        let Some(challenge) = Challenge::read(&reply.headers, &reply.body) else { return };
        assert!(challenge.accepts.len() <= 64);
        for only in [None, Some(network)] {
            let limits = PaymentLimits { profile: String::new(), network: only, asset: None, max: MAX, daily: MAX };
            match choose(&challenge, &limits, "tool") {
                Ok(chosen) => {
                    assert!(chosen.usd <= MAX && limits.takes(chosen.token) && chosen.token.network.is_test, "{chosen:?}");
                    assert_eq!(only.unwrap_or(chosen.token.network), chosen.token.network);
                }
                Err(error) => assert!(!drives(&error.words()), "{error:?}"),
            }
        }
    });
}

fn progress_of(arrival: Arrival<'_>) -> Option<Progress> {
    match arrival {
        Arrival::Progress(progress) => Some(progress),
        Arrival::Piece { .. } => None,
    }
}

/// Reads a stream in pieces of `pieces` bytes. Returns the progress reports, and the reply or the reason that there is
/// none.
fn streamed(bytes: &[u8], pieces: usize) -> (Vec<Progress>, Result<Option<Reply>, String>) {
    let mut listed = vec![];
    let mut stream = Stream::new(200, HeaderMap::new());
    for piece in bytes.chunks(pieces) {
        match stream.take(piece, &mut |arrival| listed.extend(progress_of(arrival))) {
            Ok(None) => {}
            ended => return (listed, ended.map_err(|lost| lost.reason().to_owned())),
        }
    }
    (listed, Ok(None))
}

#[test]
fn stream_reads_the_same_in_any_pieces() {
    tollhouse_fuzz::check("streamed", |bytes| {
        let (reported, whole) = streamed(bytes, bytes.len().max(1));
        assert!(reported.iter().all(|progress| progress.fraction.is_none_or(f64::is_finite)), "{reported:?}");
        for pieces in [1, 7, 1 + bytes.len() / 2] {
            let (again, parts) = streamed(bytes, pieces);
            assert_eq!(again, reported, "{pieces}");
            match (&whole, &parts) {
                (Ok(Some(one)), Ok(Some(other))) => {
                    assert_eq!((one.status, &one.headers, &one.body), (other.status, &other.headers, &other.body), "{pieces}");
                    assert_eq!(
                        (&one.extras.receipt, &one.extras.settlement),
                        (&other.extras.receipt, &other.extras.settlement),
                        "{pieces}"
                    );
                }
                (Ok(None), Ok(None)) => {}
                (Err(one), Err(other)) => assert_eq!(one, other, "{pieces}"),
                other => panic!("{pieces}: {other:?}"),
            }
        }
        let Ok(Some(reply)) = whole else { return };
        _ = (answer::verdict_of(&reply), answer::reason(&reply));
        if let Some(settlement) = answer::Settlement::of(&reply, &sent()) {
            assert!(settlement.taken.is_none_or(|taken| taken <= MAX), "{settlement:?}");
        }
    });
}

//! W3C Trace Context: reads trace headers from untrusted clients and passes them on.

/// Maximum length of a `tracestate` that is passed on, in bytes, and maximum number of its members. The specification
/// requires everybody to pass on as much.
const STATE_BYTES: usize = 512;
const STATE_MEMBERS: usize = 32;

/// A trace and a span in it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Context {
    pub(super) trace: [u8; 16],
    pub(super) span: [u8; 8],
    /// Whether the caller records the trace.
    pub(super) sampled: bool,
}

impl Context {
    /// Parses a `traceparent` header. Returns `None` if it is malformed, which counts as absent.
    pub(super) fn read(header: &str) -> Option<Self> {
        let mut parts = header.trim().split('-');
        let [version, trace, span, flags] = [parts.next()?, parts.next()?, parts.next()?, parts.next()?];
        let version = byte(version)?;
        // Future versions start with the same four fields and may add more. Version 0 has no more.
        if version == 0xff || version == 0 && parts.next().is_some() {
            return None;
        }
        let (trace, span) = (bytes::<16>(trace)?, bytes::<8>(span)?);
        let known = trace != [0; 16] && span != [0; 8];
        let sampled = byte(flags)? & 1 == 1;
        known.then_some(Self { trace, span, sampled })
    }

    /// Begins a new trace.
    pub(super) fn begin() -> Self {
        let trace = (fastrand::u128(..) | 1).to_be_bytes();
        Self { trace, span: span_id(), sampled: true }
    }

    /// Returns a new, recorded span in the same trace.
    pub(super) fn below(self) -> Self {
        Self { span: span_id(), sampled: true, ..self }
    }

    pub(super) fn header(self) -> String {
        format!("00-{}-{}-{:02x}", hex::encode(self.trace), hex::encode(self.span), u8::from(self.sampled))
    }
}

/// Generates a span id, which is never zero.
pub(super) fn span_id() -> [u8; 8] {
    (fastrand::u64(..) | 1).to_be_bytes()
}

/// Validates a `tracestate` header. Returns `None` if it is malformed or longer than everybody has to pass on.
pub(super) fn state(header: &str) -> Option<&str> {
    let header = header.trim();
    let reads = |member: &str| {
        member.trim().split_once('=').is_some_and(|(key, value)| {
            let named = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || b"_-*/@".contains(&byte);
            let describe = |byte: u8| (b' '..=b'~').contains(&byte) && byte != b'=';
            !key.is_empty() && key.len() <= 256 && key.bytes().all(named) && !value.is_empty() && value.bytes().all(describe)
        })
    };
    let members = header.split(',').filter(|member| !member.trim().is_empty());
    let fits = header.len() <= STATE_BYTES && members.clone().count() <= STATE_MEMBERS;
    (fits && !header.is_empty() && members.clone().all(reads)).then_some(header)
}

/// Parses two lower-case hex digits.
fn byte(text: &str) -> Option<u8> {
    bytes::<1>(text).map(|[byte]| byte)
}

fn bytes<const N: usize>(text: &str) -> Option<[u8; N]> {
    let lower = text.len() == 2 * N && !text.bytes().any(|byte| byte.is_ascii_uppercase());
    let mut read = [0; N];
    (lower && hex::decode_to_slice(text, &mut read).is_ok()).then_some(read)
}

#[cfg(test)]
mod tests {
    use super::*;

    const GIVEN: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";

    #[test]
    fn context_is_passed_on_unchanged() {
        let read = Context::read(GIVEN).unwrap();
        assert!(read.sampled && read.header() == GIVEN);
        let below = read.below();
        assert!(below.trace == read.trace && below.span != read.span);
        assert!(!Context::read(&GIVEN.replace("-01", "-02")).unwrap().sampled);
        assert_eq!(Context::read("cc-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01-what-will-be"), Some(read));
        assert_ne!(Context::begin().trace, Context::begin().trace);
    }

    #[test]
    fn malformed_context_is_ignored() {
        let zeros = ["00-00000000000000000000000000000000-00f067aa0ba902b7-01", "00-4bf92f3577b34da6a3ce929d0e0e4736-0000000000000000-01"];
        let more = format!("{GIVEN}-more");
        let upper = GIVEN.to_uppercase();
        let wrong =
            ["", "00", "-", "00---", &GIVEN[..54], "ff-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01", &more, &upper, "00-é-é-01"];
        for wrong in wrong.into_iter().chain(zeros) {
            assert_eq!(Context::read(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn valid_short_state_is_passed_on() {
        for right in ["congo=t61rcWkgMzE", "a=1, b@c=2 x,,d_-*/=~"] {
            assert_eq!(state(right), Some(right));
        }
        let (long, many) = (format!("a={}", "x".repeat(511)), ["a=1"; 33].join(","));
        for wrong in ["", "a", "A=1", "a=", "=1", "a=b=c", "a=\u{7}", "a=é", &long, &many] {
            assert_eq!(state(wrong), None, "{wrong}");
        }
    }
}

#[cfg(test)]
mod fuzz {
    use super::*;

    #[test]
    fn any_context_is_read_back_unchanged() {
        tollhouse_fuzz::check("traceparent", |bytes| {
            let text = String::from_utf8_lossy(bytes);
            if let Some(read) = Context::read(&text) {
                assert_eq!(Context::read(&read.header()), Some(read));
            }
            if let Some(state) = state(&text) {
                assert!(state.len() <= STATE_BYTES && state.is_ascii());
            }
        });
    }
}

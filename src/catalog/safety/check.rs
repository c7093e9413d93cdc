//! Checks beyond regular expressions: check digits, entropy, structure.

use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use serde::Deserialize;

/// An additional check of a value that matched a regex.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum ValueCheck {
    /// A card number with a known issuer and length, and a valid check digit.
    Luhn,
    /// An IBAN with the length of its country, and valid check digits.
    Mod97,
    /// A JSON Web Token: a header with `alg`, and two more parts.
    Jwt,
    /// A valid United States social security number.
    Ssn,
    /// A random string, not made of words.
    Random,
    /// A password with letters, and digits or symbols.
    Password,
    /// A host outside the ranges for documentation and the local machine.
    Address,
}

/// A match: its text, and the position of its value.
#[derive(Debug, Clone, Copy)]
pub(super) struct Candidate<'t> {
    pub(super) text: &'t [u8],
    /// Start of the whole match.
    pub(super) begins: usize,
    pub(super) start: usize,
    pub(super) end: usize,
}

impl Candidate<'_> {
    pub(super) fn value(&self) -> &[u8] {
        &self.text[self.start..self.end]
    }

    fn before(&self) -> Option<u8> {
        self.start.checked_sub(1).map(|at| self.text[at])
    }
}

impl ValueCheck {
    pub(super) fn passes(self, candidate: Candidate<'_>) -> bool {
        match self {
            Self::Luhn => is_card(candidate),
            Self::Mod97 => is_iban(candidate),
            Self::Jwt => is_jwt(candidate),
            Self::Ssn => is_ssn(candidate.value()),
            Self::Random => is_random(candidate),
            Self::Password => is_password(candidate.value()),
            Self::Address => is_address(candidate.value()),
        }
    }
}

/// Returns the Shannon entropy, in bits per byte.
pub(super) fn entropy(bytes: &[u8]) -> f64 {
    let mut counts = [0u32; 256];
    for byte in bytes {
        counts[usize::from(*byte)] += 1;
    }
    let length = bytes.len() as f64;
    -counts.iter().filter(|count| **count > 0).map(|count| f64::from(*count) / length).map(|share| share * share.log2()).sum::<f64>()
}

/// Test numbers that payment providers publish.
const TEST_CARDS: &str = "4242424242424242 4000056655665556 5555555555554444 2223003122003222 5200828282828210 5105105105105100 378282246310005 \
    371449635398431 6011111111111117 6011000990139424 3056930009020004 36227206271667 3566002020360505 4111111111111111 \
    4012888888881881 5454545454545454 4000000000000002 4000000000009995 4000000000000077 4000002500003155 30569309025904 \
    38520000023237 3530111333300000 6200000000000005 4917610000000000 4444333322221111 5431111111111111 2222405343248877 \
    3714496353984312 4000000000000000";

fn is_card(candidate: Candidate<'_>) -> bool {
    // Part of a decimal fraction, of a longer number with separators, or of an identifier.
    let joins = |byte: u8| byte == b'.' || byte == b'-' || byte == b'_' || byte == b'/' || byte.is_ascii_alphanumeric();
    if candidate.before().is_some_and(joins) {
        return false;
    }
    let digits: Vec<u8> = candidate.value().iter().copied().filter(u8::is_ascii_digit).collect();
    let number = |length: usize| digits[..length].iter().fold(0u32, |number, digit| number * 10 + u32::from(digit - b'0'));
    let (two, three, four) = (number(2), number(3), number(4));
    let fits = match digits.len() {
        14 => two == 36 || two == 38 || (300..=305).contains(&three),
        15 => two == 34 || two == 37,
        16 => {
            two / 10 == 4
                || (51..=55).contains(&two)
                || (2221..=2720).contains(&four)
                || four == 6011
                || two == 65
                || (644..=649).contains(&three)
                || (3528..=3589).contains(&four)
        }
        _ => false,
    };
    let text = std::str::from_utf8(&digits).unwrap_or_default();
    fits && luhn(&digits) && !lists(TEST_CARDS, text) && entropy(&digits) > 1.5
}

/// Returns whether a space-separated list contains a word.
fn lists(list: &str, word: &str) -> bool {
    list.split(' ').any(|listed| listed == word)
}

fn luhn(digits: &[u8]) -> bool {
    let sum: u32 = digits
        .iter()
        .rev()
        .enumerate()
        .map(|(index, digit)| (index, u32::from(digit - b'0')))
        .map(|(index, digit)| if index % 2 == 1 { digit * 2 / 10 + digit * 2 % 10 } else { digit })
        .sum();
    sum.is_multiple_of(10)
}

/// Length of an IBAN by country.
const IBAN_LENGTHS: &str = "AD24 AE23 AL28 AT20 AZ28 BA20 BE16 BG22 BH22 BR29 BY28 CH21 CR22 CY28 CZ24 DE22 DK18 DO28 EE20 EG29 ES24 FI18 FO18 FR27 \
    GB22 GE22 GI23 GL18 GR27 GT28 HR21 HU28 IE22 IL23 IQ23 IS26 IT27 JO30 KW30 KZ20 LB28 LC32 LI21 LT20 LU20 LV21 MC27 MD24 \
    ME22 MK19 MR27 MT31 MU30 NL18 NO15 PK24 PL28 PS29 PT25 QA29 RO24 RS22 SA24 SC31 SE24 SI19 SK24 SM27 ST25 SV28 TL23 TN24 \
    TR26 UA29 VA22 VG24 XK20";

/// IBANs that banks and standards use as examples.
const EXAMPLE_IBANS: &str = "GB82WEST12345698765432 GB29NWBK60161331926819 GB33BUKB20201555555555 DE89370400440532013000 FR1420041010050500013M02606 \
    NL91ABNA0417164300 CH9300762011623852957 ES9121000418450200051332 BE68539007547034 AT611904300234573201 \
    IT60X0542811101000000123456 PL61109010140000071219812874 IE29AIBK93115212345678 FR7630006000011234567890189 \
    SE4550000000058398257466 NO9386011117947 DK5000400440116243 FI2112345600000785 PT50000201231234567890154";

fn is_iban(candidate: Candidate<'_>) -> bool {
    if candidate.before().is_some_and(|byte| byte.is_ascii_alphanumeric()) {
        return false;
    }
    let mut compact: Vec<u8> = candidate.value().iter().copied().filter(|byte| *byte != b' ').collect();
    let country = IBAN_LENGTHS.split(' ').find(|entry| compact.starts_with(&entry.as_bytes()[..2]));
    let Some(length) = country.and_then(|entry| entry[2..].parse().ok()) else { return false };
    // After a space that follows the number, another word begins.
    if compact.len() < length {
        return false;
    }
    compact.truncate(length);
    let text = String::from_utf8_lossy(&compact).into_owned();
    let digits = compact[4..].iter().chain(&compact[..4]);
    let rest = digits.fold(0u32, |rest, byte| match byte {
        b'0'..=b'9' => (rest * 10 + u32::from(byte - b'0')) % 97,
        _ => (rest * 100 + u32::from(byte.to_ascii_uppercase() - b'A') + 10) % 97,
    });
    rest == 1 && !lists(EXAMPLE_IBANS, &text) && entropy(&compact[4..]) > 1.5
}

/// The signature of the token in most introductions to JWT.
const EXAMPLE_JWT: &[u8] = b"SflKxwRJSMeKKF2QT4fwpMeJf36POk6yJV_adQssw5c";
/// Maximum size of a header that is checked, in bytes.
const JWT_HEADER: usize = 512;

fn is_jwt(candidate: Candidate<'_>) -> bool {
    let digit = |byte: &&u8| byte.is_ascii_alphanumeric() || **byte == b'-' || **byte == b'_';
    let part = |from: usize, max: usize| candidate.text[from.min(candidate.text.len())..].iter().take(max).take_while(digit).count();
    let header = part(candidate.start, JWT_HEADER);
    let header_end = candidate.start + header;
    if candidate.text.get(header_end) != Some(&b'.') {
        return false;
    }
    let payload = part(header_end + 1, 8 << 10);
    let payload_end = header_end + 1 + payload;
    let signature = part(payload_end + 1, 1 << 10);
    if payload < 4 || signature < 16 || candidate.text.get(payload_end) != Some(&b'.') {
        return false;
    }
    let decoded = URL_SAFE_NO_PAD.decode(&candidate.text[candidate.start..header_end]);
    let alg = decoded.ok().and_then(|json| serde_json::from_slice::<serde_json::Value>(&json).ok()).map(|json| json["alg"].is_string());
    alg == Some(true) && &candidate.text[payload_end + 1..payload_end + 1 + signature] != EXAMPLE_JWT
}

/// Numbers that were printed in advertisements, and obvious inventions.
const KNOWN_SSNS: &[&[u8]] = &[b"078051120", b"219099999", b"123456789", b"987654321", b"111111111", b"457555462"];

fn is_ssn(value: &[u8]) -> bool {
    let digits: Vec<u8> = value.iter().copied().filter(u8::is_ascii_digit).collect();
    digits.len() == 9
        && !matches!(&digits[..3], b"000" | b"666")
        && digits[0] != b'9'
        && &digits[3..5] != b"00"
        && &digits[5..] != b"0000"
        && !KNOWN_SSNS.contains(&digits.as_slice())
}

/// Words that make a name ending in `key` or `token` harmless.
const PUBLIC_NAMES: &str = "public cache sort primary foreign partition idempotency storage i18n locale translation lookup row object map kv query \
    field group order react list hot short unique composite csrf_field page next_page continuation cursor site publishable \
    content integrity index item sprite asset etag pub";

/// Maximum bytes of a name before the match.
const NAME_BYTES: usize = 32;

fn is_random(candidate: Candidate<'_>) -> bool {
    let value = candidate.value();
    let head = &candidate.text[candidate.begins.saturating_sub(NAME_BYTES)..candidate.begins];
    let name: Vec<u8> = head
        .iter()
        .rev()
        .take_while(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-'))
        .map(u8::to_ascii_lowercase)
        .collect();
    let name: String = name.iter().rev().map(|byte| char::from(*byte)).collect();
    let name = name.trim_end_matches(['_', '-']);
    if PUBLIC_NAMES.split(' ').any(|public| name.ends_with(public)) || is_plain_identifier(value) {
        return false;
    }
    max_mixed(value) >= 12
}

/// Returns whether a value is an address, a named hash, or a link, none of which is secret.
fn is_plain_identifier(value: &[u8]) -> bool {
    let address = value.len() == 42 && value.starts_with(b"0x") && value[2..].iter().all(u8::is_ascii_hexdigit);
    address || value.windows(3).any(|window| window == b"://") || value.starts_with(b"sha256-") || value.starts_with(b"sha256:")
}

/// Returns the longest run of letters and digits that contains both, and alternates between them or
/// between cases unlike words.
fn max_mixed(value: &[u8]) -> usize {
    let run = |part: &[u8]| {
        let class = |byte: &u8| if byte.is_ascii_digit() { 0 } else { 1 + u8::from(byte.is_ascii_uppercase()) };
        let changes = part.windows(2).filter(|pair| class(&pair[0]) != class(&pair[1])).count();
        let digits = part.iter().filter(|byte| byte.is_ascii_digit()).count();
        if digits >= 2 && digits < part.len() && changes >= part.len() / 5 { part.len() } else { 0 }
    };
    value.split(|byte| !byte.is_ascii_alphanumeric()).map(run).max().unwrap_or(0)
}

fn is_password(value: &[u8]) -> bool {
    let letters = value.iter().any(u8::is_ascii_alphabetic);
    let digits = value.iter().filter(|byte| byte.is_ascii_digit()).count();
    let symbols = value.iter().filter(|byte| b"!@#$%^&*+?~".contains(byte)).count();
    letters && !is_plain_identifier(value) && ((digits >= 1 && symbols >= 1) || digits >= 2)
}

/// Returns false for addresses reserved for documentation, or of the local machine.
fn is_address(value: &[u8]) -> bool {
    let text = String::from_utf8_lossy(value);
    match text.parse::<std::net::Ipv4Addr>() {
        Ok(address) => !address.is_documentation() && !address.is_unspecified() && !address.is_loopback() && !address.is_broadcast(),
        Err(_) => text.starts_with('[') || !text.contains('.'),
    }
}

//! The encoding of keys, which sort as the values that they encode.
//!
//! A key has one or more parts. Every part except the last marks its own end: by a fixed length, a zero byte after it,
//! or its length before it. Numbers and times are big-endian, so that their bytes sort as they do.

use std::str::FromStr;

use tollhouse_base::{
    clock::Timestamp,
    id::{AuditId, BuilderId, CallId, CreditId, EndpointId, EventId, PaymentId, PayoutId, ReceiptId, ReplicaId, RequestId},
};

/// The type of a table's keys.
pub trait Key: Sized + Send + Sync + 'static {
    /// Appends the encoded key.
    fn write(&self, out: &mut Vec<u8>);

    /// Decodes a key from all of `bytes`, or returns `None` if they are malformed.
    fn read(bytes: &[u8]) -> Option<Self>;
}

/// A part of a key that marks its own end.
pub trait KeyPart: Sized + Send + Sync + 'static {
    /// Appends the encoded part.
    fn write(&self, out: &mut Vec<u8>);

    /// Decodes the part that `bytes` start with. Returns it with the bytes that follow.
    fn read(bytes: &[u8]) -> Option<(Self, &[u8])>;
}

/// A key `K`, or the first parts of one: the start or end of a range.
pub trait KeyPrefix<K>: Sync {
    /// Appends its encoding.
    fn begin(&self, out: &mut Vec<u8>);
}

/// A text followed by a zero byte. It must not contain one itself, so that no such text is a prefix of another.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TerminatedText<T>(pub T);

/// A text of at most 255 bytes, preceded by its length.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CountedText<T>(pub T);

impl<P: KeyPart> Key for P {
    fn write(&self, out: &mut Vec<u8>) {
        KeyPart::write(self, out);
    }

    fn read(bytes: &[u8]) -> Option<Self> {
        P::read(bytes).filter(|(_, rest)| rest.is_empty()).map(|(part, _)| part)
    }
}

impl Key for String {
    fn write(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(self.as_bytes());
    }

    fn read(bytes: &[u8]) -> Option<Self> {
        Some(std::str::from_utf8(bytes).ok()?.to_owned())
    }
}

macro_rules! numbers {
    ($($number:ty)*) => {$(
        impl KeyPart for $number {
            fn write(&self, out: &mut Vec<u8>) {
                out.extend_from_slice(&self.to_be_bytes());
            }

            fn read(bytes: &[u8]) -> Option<(Self, &[u8])> {
                let (number, rest) = bytes.split_first_chunk()?;
                Some((Self::from_be_bytes(*number), rest))
            }
        }
    )*};
}

numbers! { u8 u32 u64 }

impl KeyPart for Timestamp {
    fn write(&self, out: &mut Vec<u8>) {
        KeyPart::write(&self.0, out);
    }

    fn read(bytes: &[u8]) -> Option<(Self, &[u8])> {
        <u64 as KeyPart>::read(bytes).map(|(millis, rest)| (Self(millis), rest))
    }
}

/// Number of characters in a ULID.
const ULID: usize = 26;
/// Number of hex digits in a payment id.
const PAYMENT: usize = 32;

macro_rules! ids {
    ($($id:ident)*) => {$(
        impl KeyPart for $id {
            fn write(&self, out: &mut Vec<u8>) {
                out.extend_from_slice(self.as_str().as_bytes());
            }

            fn read(bytes: &[u8]) -> Option<(Self, &[u8])> {
                let (id, rest) = bytes.split_at_checked(Self::PREFIX.len() + ULID)?;
                Some((std::str::from_utf8(id).ok()?.parse().ok()?, rest))
            }
        }
    )*};
}

/// A payment id is stored without its `pmt_` prefix, which the table's own prefix already contains.
impl KeyPart for PaymentId {
    fn write(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.as_str().as_bytes()[Self::PREFIX.len()..]);
    }

    fn read(bytes: &[u8]) -> Option<(Self, &[u8])> {
        let (digits, rest) = bytes.split_at_checked(PAYMENT)?;
        Some((format!("{}{}", Self::PREFIX, std::str::from_utf8(digits).ok()?).parse().ok()?, rest))
    }
}

ids! { AuditId BuilderId CallId CreditId EndpointId EventId PayoutId ReceiptId ReplicaId RequestId }

impl<T: AsRef<str> + FromStr + Send + Sync + 'static> KeyPart for TerminatedText<T> {
    fn write(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(self.0.as_ref().as_bytes());
        out.push(0);
    }

    fn read(bytes: &[u8]) -> Option<(Self, &[u8])> {
        let end = bytes.iter().position(|byte| *byte == 0)?;
        Some((Self(std::str::from_utf8(&bytes[..end]).ok()?.parse().ok()?), &bytes[end + 1..]))
    }
}

impl<T: AsRef<str> + FromStr + Send + Sync + 'static> KeyPart for CountedText<T> {
    fn write(&self, out: &mut Vec<u8>) {
        let text = self.0.as_ref().as_bytes();
        out.push(u8::try_from(text.len()).expect("what is counted in a key is an id"));
        out.extend_from_slice(text);
    }

    fn read(bytes: &[u8]) -> Option<(Self, &[u8])> {
        let (length, rest) = bytes.split_first()?;
        let (text, rest) = rest.split_at_checked(usize::from(*length))?;
        Some((Self(std::str::from_utf8(text).ok()?.parse().ok()?), rest))
    }
}

impl<K: Key> KeyPrefix<K> for K {
    fn begin(&self, out: &mut Vec<u8>) {
        Key::write(self, out);
    }
}

macro_rules! tuples {
    ($($parts:ident)+, $last:ident) => {
        impl<$($parts: KeyPart,)+ $last: Key> Key for ($($parts,)+ $last) {
            #[expect(non_snake_case, reason = "the parts are named as their types")]
            fn write(&self, out: &mut Vec<u8>) {
                let ($($parts,)+ $last) = self;
                $(KeyPart::write($parts, out);)+
                Key::write($last, out);
            }

            #[expect(non_snake_case, reason = "the parts are named as their types")]
            fn read(bytes: &[u8]) -> Option<Self> {
                $(let ($parts, bytes) = <$parts as KeyPart>::read(bytes)?;)+
                Some(($($parts,)+ $last::read(bytes)?))
            }
        }
    };
}

tuples! { A, B }
tuples! { A B, C }
tuples! { A B C, D }

/// Declares the first parts of keys that a range can start with.
macro_rules! prefixes {
    ($(<$($part:ident)+ $(, $rest:ident)*> $prefix:ty => $key:ty;)+) => {$(
        impl<$($part: KeyPart,)+ $($rest),*> KeyPrefix<$key> for $prefix {
            fn begin(&self, out: &mut Vec<u8>) {
                Key::write(self, out);
            }
        }
    )+};
}

prefixes! {
    <A, B> A => (A, B);
    <A, B, C> A => (A, B, C);
    <A B, C> (A, B) => (A, B, C);
    <A, B, C, D> A => (A, B, C, D);
    <A B, C, D> (A, B) => (A, B, C, D);
    <A B C, D> (A, B, C) => (A, B, C, D);
}
pub(super) use prefixes;

/// Matches texts that start with this one.
#[derive(Debug, Clone, Copy)]
pub struct TextPrefix<'a>(pub &'a str);

impl KeyPrefix<String> for TextPrefix<'_> {
    fn begin(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(self.0.as_bytes());
    }
}

impl<A: KeyPart> KeyPrefix<(A, String)> for (A, TextPrefix<'_>) {
    fn begin(&self, out: &mut Vec<u8>) {
        KeyPart::write(&self.0, out);
        KeyPrefix::begin(&self.1, out);
    }
}

/// The key of a table with a single row. It has no bytes.
impl KeyPart for () {
    fn write(&self, _: &mut Vec<u8>) {}

    fn read(bytes: &[u8]) -> Option<(Self, &[u8])> {
        Some(((), bytes))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bytes(key: &impl Key) -> Vec<u8> {
        let mut out = Vec::new();
        key.write(&mut out);
        out
    }

    #[test]
    fn keys_are_read_as_they_were_written() {
        let id = EndpointId::generate();
        let key = (TerminatedText(id.clone()), 7_u8, Timestamp(9), "rest\0of it".to_owned());
        assert_eq!(Key::read(&bytes(&key)), Some(key));
        let key = (CountedText(id.clone()), Timestamp(u64::MAX), 3_u64);
        assert_eq!(Key::read(&bytes(&key)), Some(key));
        assert_eq!(EndpointId::parse_key(&bytes(&id)), Some(id.clone()));
        // Too short, too long, of another kind.
        let long = bytes(&(id.clone(), String::from("x")));
        assert_eq!(EndpointId::parse_key(&long), None);
        assert_eq!(EndpointId::parse_key(&long[..28]), None);
        assert_eq!(BuilderId::parse_key(&bytes(&id)), None);
        assert_eq!(<(TerminatedText<String>, u64)>::read(b"no end"), None);
        assert_eq!(<(CountedText<String>, String)>::read(b"\x09short"), None);
    }

    trait ParseKey: Key {
        fn parse_key(bytes: &[u8]) -> Option<Self> {
            <Self as Key>::read(bytes)
        }
    }
    impl<K: Key> ParseKey for K {}

    #[test]
    fn keys_sort_as_their_values() {
        let keys = [(Timestamp(1), 256_u64), (Timestamp(2), 1), (Timestamp(256), 0), (Timestamp(257), u64::MAX)];
        assert!(keys.map(|key| bytes(&key)).is_sorted());
        // A text that is a prefix of another sorts before it, together with everything that follows it.
        let shares = [(TerminatedText("ab".to_owned()), "z".to_owned()), (TerminatedText("abc".to_owned()), "a".to_owned())];
        assert!(shares.map(|key| bytes(&key)).is_sorted());
    }
}

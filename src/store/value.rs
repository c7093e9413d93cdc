//! The encoding of values: a mark, the number of their format, and the content in that format.

use std::{borrow::Cow, iter};

use serde::{Serialize, de::DeserializeOwned};
use tollhouse_base::id::{AuditId, BuilderId, CallId, CreditId, EndpointId, EventId, PaymentId, PayoutId, ReceiptId, ReplicaId, RequestId};

use super::error::StoreError;

/// The first byte of every value with a format.
pub(super) const MARK: u8 = 0xf5;

/// The type of a table's values.
pub trait Value: Sized + Send + 'static {
    /// Encodes the value, including its format.
    fn to_bytes(&self) -> Vec<u8>;

    /// Decodes a value, or returns `None` if the bytes are malformed.
    fn of_bytes(bytes: &[u8]) -> Option<Self>;
}

/// A value with a numbered format. It implements [`Value`].
pub trait Formatted: Sized + Send + 'static {
    /// Number of the format, from 1 on. A value of another format is malformed.
    const FORMAT: u8 = 1;

    /// Appends the value in [`Formatted::FORMAT`].
    fn write(&self, out: &mut Vec<u8>);

    /// Decodes a value in [`Formatted::FORMAT`], or returns `None` if the bytes are malformed.
    fn read(bytes: &[u8]) -> Option<Self>;
}

/// Implements [`Formatted`] for types that are stored as JSON.
#[macro_export]
macro_rules! json_values {
    ($($value:ty),+ $(,)?) => {$(
        impl $crate::Formatted for $value {
            fn write(&self, out: &mut Vec<u8>) {
                $crate::write_json(self, out);
            }

            fn read(bytes: &[u8]) -> Option<Self> {
                $crate::read_json(bytes)
            }
        }
    )+};
}

/// Implements [`Formatted`] for types that are stored in postcard encoding.
#[macro_export]
macro_rules! postcard_values {
    ($($value:ty),+ $(,)?) => {$(
        impl $crate::Formatted for $value {
            fn write(&self, out: &mut Vec<u8>) {
                $crate::write_postcard(self, out);
            }

            fn read(bytes: &[u8]) -> Option<Self> {
                $crate::read_postcard(bytes)
            }
        }
    )+};
}

impl<F: Formatted> Value for F {
    fn to_bytes(&self) -> Vec<u8> {
        let mut out = vec![MARK, F::FORMAT];
        self.write(&mut out);
        out
    }

    fn of_bytes(bytes: &[u8]) -> Option<Self> {
        F::read(bytes.strip_prefix(&[MARK, F::FORMAT])?)
    }
}

/// An empty value, for tables in which the key says everything.
impl Value for () {
    fn to_bytes(&self) -> Vec<u8> {
        Vec::new()
    }

    fn of_bytes(_: &[u8]) -> Option<Self> {
        Some(())
    }
}

macro_rules! texts {
    ($($text:ident)*) => {$(
        impl Formatted for $text {
            fn write(&self, out: &mut Vec<u8>) {
                out.extend_from_slice(self.as_str().as_bytes());
            }

            fn read(bytes: &[u8]) -> Option<Self> {
                std::str::from_utf8(bytes).ok()?.parse().ok()
            }
        }
    )*};
}

texts! { String AuditId BuilderId CallId CreditId EndpointId EventId PaymentId PayoutId ReceiptId ReplicaId RequestId }

/// A sum, read as a row. Only additions write sums.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Sum(pub i128);

impl Value for Sum {
    fn to_bytes(&self) -> Vec<u8> {
        sum_bytes(self.0)
    }

    fn of_bytes(bytes: &[u8]) -> Option<Self> {
        sum_of(bytes).map(Self)
    }
}

/// Appends `value` as JSON.
pub fn write_json(value: &impl Serialize, out: &mut Vec<u8>) {
    serde_json::to_writer(out, value).expect("what is stored has text keys, and memory takes it");
}

/// Appends `value` in postcard encoding.
pub fn write_postcard(value: &impl Serialize, out: &mut Vec<u8>) {
    *out = postcard::to_extend(value, std::mem::take(out)).expect("what is stored is plain data, and memory takes it");
}

/// Decodes a value from JSON, or returns `None` if it is malformed.
pub fn read_json<T: DeserializeOwned>(bytes: &[u8]) -> Option<T> {
    serde_json::from_slice(bytes).ok()
}

/// Decodes a value from postcard. It must use all of `bytes`.
pub fn read_postcard<T: DeserializeOwned>(bytes: &[u8]) -> Option<T> {
    postcard::take_from_bytes(bytes).ok().filter(|(_, rest)| rest.is_empty()).map(|(value, _)| value)
}

/// Encodes a sum: in eight bytes if it fits, as most do, otherwise in sixteen.
pub(super) fn sum_bytes(sum: i128) -> Vec<u8> {
    let mut out = vec![MARK];
    match i64::try_from(sum) {
        Ok(short) => out.extend(iter::once(1).chain(short.to_be_bytes())),
        Err(_) => out.extend(iter::once(2).chain(sum.to_be_bytes())),
    }
    out
}

/// Decodes a sum.
pub(super) fn sum_of(bytes: &[u8]) -> Option<i128> {
    match bytes.strip_prefix(&[MARK])?.split_first()? {
        (1, sum) => Some(i64::from_be_bytes(sum.try_into().ok()?).into()),
        (2, sum) => Some(i128::from_be_bytes(sum.try_into().ok()?)),
        _ => None,
    }
}

/// Returns the error that the value at a key is not a sum.
pub(super) fn not_a_sum(at: &[u8]) -> StoreError {
    StoreError::Away(format!("the value at `{}` is not a sum", shown(at)))
}

/// Formats `bytes` for a message, shortened to what is needed to recognize them.
pub(super) fn shown(bytes: &[u8]) -> Cow<'_, str> {
    String::from_utf8_lossy(&bytes[..bytes.len().min(64)])
}

#[cfg(test)]
mod tests {
    use serde::Deserialize;

    use super::*;

    #[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
    struct Two {
        first: u64,
        second: u64,
    }
    postcard_values!(Two);

    #[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
    struct NamedPair {
        name: String,
    }
    json_values!(NamedPair);

    #[test]
    fn values_carry_their_format() {
        let two = Two { first: 1, second: 2 };
        assert_eq!(two.to_bytes(), [MARK, 1, 1, 2]);
        assert_eq!(Two::of_bytes(&two.to_bytes()), Some(two));
        assert_eq!("slug".to_owned().to_bytes(), b"\xf5\x01slug");
        let named = NamedPair { name: "x".to_owned() };
        assert_eq!(NamedPair::of_bytes(&named.to_bytes()), Some(named));
        assert_eq!(NamedPair::of_bytes(b"\xf5\x02{\"name\":\"x\"}"), None, "a format of a later version");
        assert_eq!(Two::of_bytes(&[]), None);
    }

    #[test]
    fn values_without_a_format_are_malformed() {
        assert_eq!(NamedPair::of_bytes(b"{\"name\":\"x\"}"), None);
        assert_eq!(String::of_bytes(b"slug"), None);
        assert_eq!(Two::of_bytes(&[1, 2]), None);
    }

    #[test]
    fn sums_are_read_in_both_lengths() {
        let short = [0, 1, -1, i64::MAX.into(), i64::MIN.into()];
        for sum in short.into_iter().chain([i128::from(i64::MAX) + 1, i128::from(i64::MIN) - 1, i128::MAX, i128::MIN]) {
            assert_eq!(sum_of(&sum_bytes(sum)), Some(sum));
            assert_eq!(sum_bytes(sum).len() == 10, short.contains(&sum), "{sum}");
        }
        assert_eq!(sum_of(&7_u64.to_be_bytes()), None);
        assert_eq!(sum_of(b""), None);
    }
}

//! Fields that have only one value.

use std::borrow::Cow;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, Serialize, Serializer, de::Error as _};

/// Declares a type whose only value is a boolean.
macro_rules! boolean {
    ($(#[$about:meta])* $name:ident $value:literal) => {
        $(#[$about])*
        #[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
        pub struct $name;

        impl Serialize for $name {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.serialize_bool($value)
            }
        }

        impl<'de> Deserialize<'de> for $name {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                match bool::deserialize(deserializer)? {
                    $value => Ok(Self),
                    _ => Err(D::Error::custom(concat!("this is always `", $value, "`"))),
                }
            }
        }

        impl JsonSchema for $name {
            fn inline_schema() -> bool {
                true
            }

            fn schema_name() -> Cow<'static, str> {
                stringify!($name).into()
            }

            fn json_schema(_: &mut SchemaGenerator) -> Schema {
                json_schema!({ "const": $value })
            }
        }
    };
}

boolean! {
    /// `true`.
    True true
}

boolean! {
    /// `false`.
    False false
}

/// The number `N`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Number<const N: u64>;

impl<const N: u64> Serialize for Number<N> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_u64(N)
    }
}

impl<'de, const N: u64> Deserialize<'de> for Number<N> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        match u64::deserialize(deserializer)? {
            number if number == N => Ok(Self),
            _ => Err(D::Error::custom(format_args!("this is always {N}"))),
        }
    }
}

impl<const N: u64> JsonSchema for Number<N> {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        format!("Number{N}").into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "const": N })
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{from_str, to_string};

    use super::*;

    #[test]
    fn constant_is_read_only_from_its_value() {
        assert_eq!(
            (to_string(&True).unwrap(), to_string(&False).unwrap(), to_string(&Number::<2>).unwrap()),
            ("true".into(), "false".into(), "2".into())
        );
        assert!(from_str::<True>("true").is_ok() && from_str::<False>("false").is_ok() && from_str::<Number<2>>("2").is_ok());
        assert!(from_str::<True>("false").is_err() && from_str::<False>("true").is_err() && from_str::<Number<2>>("3").is_err());
    }
}

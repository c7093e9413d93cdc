//! Structs that are read from objects only.

use std::{fmt, marker::PhantomData};

use serde::{
    Deserialize, Deserializer,
    de::{MapAccess, Visitor, value::MapAccessDeserializer},
};

/// A struct that is read from an object only. The code that serde derives would also accept an array with the fields in
/// order.
#[derive(Debug, Default)]
pub struct ByName<T>(pub T);

impl<'de, T: Deserialize<'de>> Deserialize<'de> for ByName<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(Fields(PhantomData)).map(Self)
    }
}

/// Reads the fields of an object.
struct Fields<T>(PhantomData<T>);

impl<'de, T: Deserialize<'de>> Visitor<'de> for Fields<T> {
    type Value = T;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, fields: A) -> Result<T, A::Error> {
        T::deserialize(MapAccessDeserializer::new(fields))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{json, value::RawValue};

    #[derive(Debug, Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Call {
        slug: String,
        input: Option<Box<RawValue>>,
    }

    #[test]
    fn struct_is_read_by_the_names_of_its_fields() {
        let read = |text| serde_json::from_str::<ByName<Call>>(text).map(|ByName(call)| call);
        let call = read(r#" {"input": 1.50, "slug": "a"} "#).unwrap();
        assert_eq!((call.slug.as_str(), call.input.unwrap().get()), ("a", "1.50"), "the text of a field is kept");
        assert!(read(r#"{"slug":"a"}"#).unwrap().input.is_none());
        for other in [r#"["a",{}]"#, r#"["a"]"#, "null", "\"a\"", "{}", r#"{"slug":"a","b":1}"#, r#"{"slug":"a","slug":"b"}"#] {
            assert!(read(other).is_err(), "{other}");
        }
        assert_eq!(serde_json::from_str::<Call>(r#"["a",null]"#).unwrap().slug, "a", "serde accepts it");
    }

    #[test]
    fn other_shapes_are_named_in_errors() {
        let error = crate::deserialize_error::json::<ByName<Call>>(&json!(["a", {}])).unwrap_err();
        assert_eq!(error.message, "the whole value is an array, but must be an object");
        let error = crate::deserialize_error::json::<ByName<Call>>(&json!({ "slug": 1 })).unwrap_err();
        assert_eq!((error.pointer.as_str(), error.message.as_str()), ("/slug", "`slug` is 1, but must be a string"));
    }
}

//! Routes of management, as the file of each subject declares them: how one is asked for, what it is for, and what performs it.
//!
//! Who may ask is said by no row: it is the type of the handler's first argument, which lets nobody else in. So is what the
//! query may say. A handler that does not begin with an [`Asker`] is no route.

use axum::{
    Router,
    handler::Handler,
    routing::{MethodFilter, MethodRouter, on},
};
use serde::{
    Deserialize, Deserializer,
    de::{DeserializeOwned, Error as _, Visitor, value},
    forward_to_deserialize_any,
};

use super::services::Http;

/// Whose business a route is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Whose {
    /// Everyone's, strangers' too.
    Everyone,
    /// Any builder's, for what becomes their own.
    Builders,
    /// The builder's who shows the key; an admin names one by `?builderId=`, and a builder names no other.
    Themselves,
    /// The owner's of the endpoint that the path names.
    Owner,
    /// Admins'.
    Admins,
    /// Not a builder's; whoever holds the credit's token asks with that.
    Holder,
}

impl Whose {
    /// As documents say it.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Everyone => "everyone",
            Self::Builders => "builders",
            Self::Themselves => "the builder",
            Self::Owner => "the owner",
            Self::Admins => "admins",
            Self::Holder => "the holder",
        }
    }
}

/// A route, as tests and documents read it.
#[derive(Debug, Clone)]
pub struct Row {
    /// In capitals.
    pub method: &'static str,
    /// With `{slug}` or `{id}` where it names something.
    pub path: &'static str,
    /// Who may ask. Admins may wherever a builder may.
    pub whose: Whose,
    /// The names that its query takes. Any other is refused.
    pub query: &'static [&'static str],
    /// What it is for.
    pub what: &'static str,
}

/// A row, and what performs it.
pub(super) struct Route {
    pub(super) row: Row,
    performs: MethodRouter<Http>,
}

impl Route {
    /// Adds it to the routes that there are.
    pub(super) fn join(self, router: Router<Http>) -> Router<Http> {
        router.route(self.row.path, self.performs)
    }
}

/// Who asks, as a handler takes it: a credential that was looked at, and the query, in which nothing unknown stands.
pub(super) trait Asker {
    const WHOSE: Whose;
    type Query: DeserializeOwned;
}

/// The arguments of a handler, as axum knows them: the first says who asks.
pub(super) trait Arguments {
    type Asker: Asker;
}

macro_rules! arguments {
    ($($also:ident)*) => {
        impl<M, A: Asker, $($also),*> Arguments for (M, A, $($also,)*) {
            type Asker = A;
        }
    };
}

arguments!();
arguments!(B);
arguments!(B C);
arguments!(B C D);
arguments!(B C D E);
arguments!(B C D E F);

macro_rules! methods {
    ($($method:ident $filter:ident;)*) => {
        $(pub(super) fn $method<H, T>(path: &'static str, what: &'static str, handler: H) -> Route
        where
            H: Handler<T, Http>,
            T: Arguments + 'static,
        {
            let (whose, query) = (<T::Asker as Asker>::WHOSE, names::<<T::Asker as Asker>::Query>());
            let row = Row { method: stringify!($filter), path, whose, query, what };
            Route { row, performs: on(MethodFilter::$filter, handler) }
        })*
    };
}

methods! {
    get GET;
    post POST;
    put PUT;
    patch PATCH;
    delete DELETE;
}

/// A query that says nothing.
#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Nothing {}

/// The names of a type's members, as they are sent.
fn names<T: DeserializeOwned>() -> &'static [&'static str] {
    let mut names: &'static [&'static str] = &[];
    // It fails once it has been told them.
    drop(T::deserialize(Names(&mut names)));
    names
}

struct Names<'n>(&'n mut &'static [&'static str]);

impl<'de> Deserializer<'de> for Names<'_> {
    type Error = value::Error;

    fn deserialize_struct<V: Visitor<'de>>(self, _: &'static str, fields: &'static [&'static str], _: V) -> Result<V::Value, value::Error> {
        *self.0 = fields;
        Err(value::Error::custom("only its names are asked for"))
    }

    fn deserialize_any<V: Visitor<'de>>(self, _: V) -> Result<V::Value, value::Error> {
        Err(value::Error::custom("it has no names"))
    }

    forward_to_deserialize_any! {
        bool i8 i16 i32 i64 u8 u16 u32 u64 f32 f64 char str string bytes byte_buf option unit unit_struct
        newtype_struct seq tuple tuple_struct map enum identifier ignored_any
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_query_has_the_names_that_are_sent() {
        #[derive(Deserialize)]
        #[serde(rename_all = "camelCase", deny_unknown_fields)]
        #[expect(dead_code, reason = "only its names are asked for")]
        struct Query {
            builder_id: Option<String>,
            #[serde(rename = "since")]
            back: u64,
        }
        assert_eq!(names::<Query>(), ["builderId", "since"]);
        assert_eq!(names::<Nothing>(), [""; 0]);
    }
}

//! Routes: each file declares the rows of its subject in the operation table. A row has the path, purpose, inputs,
//! outputs, errors and handler of an operation. The router, the documentation and the tests are built from the table.
//!
//! For management routes, the type of the handler's first argument decides who is allowed and which query parameters
//! exist, not the row. A handler whose first argument is not a [`CallerExtractor`] is [`open`] to everyone.

use std::collections::BTreeMap;

use axum::{
    Router,
    handler::Handler,
    routing::{MethodFilter, MethodRouter},
};
use serde::{
    Deserialize, Deserializer,
    de::{DeserializeOwned, Error as _, Visitor, value},
    forward_to_deserialize_any,
};
use tollhouse_front::Code;

use crate::{Access, Http, Operation, ResponseKind};

/// A row and its handler.
pub(super) struct Route {
    pub(super) row: Operation,
    /// Adds the handler to the other methods of its path.
    add_handler: HandlerFn,
}

type HandlerFn = Box<dyn FnOnce(MethodRouter<Http>) -> MethodRouter<Http>>;

/// Builds a router. The methods of a path are combined first, one after the other. If they were merged as routers,
/// `Allow` would repeat methods.
pub(super) fn router(routes: impl Iterator<Item = Route>) -> Router<Http> {
    let mut paths: BTreeMap<&str, MethodRouter<Http>> = BTreeMap::new();
    for Route { row, add_handler } in routes {
        let others = paths.remove(row.path).unwrap_or_default();
        paths.insert(row.path, add_handler(others));
    }
    paths.into_iter().fold(Router::new(), |router, (path, methods)| router.route(path, methods))
}

impl Route {
    /// Sets the schema of the JSON request body.
    pub(super) fn takes(mut self, schema: &'static str) -> Self {
        self.row.takes = Some(schema);
        self
    }

    /// Sets the schema of the JSON response.
    pub(super) fn answers(self, schema: &'static str) -> Self {
        self.responds(ResponseKind::Json(schema))
    }

    pub(super) fn responds(mut self, answers: ResponseKind) -> Self {
        self.row.answers = answers;
        self
    }

    /// Marks the operation as available as a live stream.
    pub(super) fn streams(mut self) -> Self {
        self.row.streams = true;
        self
    }

    /// Sets the headers that the operation reads.
    pub(super) fn reads_headers(mut self, headers: &'static [&'static str]) -> Self {
        self.row.headers = headers;
        self
    }

    /// Sets the query parameters of an [`open`] operation.
    pub(super) fn query(mut self, names: &'static [&'static str]) -> Self {
        self.row.query = names;
        self
    }

    /// Adds error codes.
    pub(super) fn fails(mut self, codes: &[Code]) -> Self {
        self.row.fails.extend(codes);
        self
    }

    pub(super) fn for_agents(mut self) -> Self {
        self.row.for_agents = true;
        self
    }
}

/// The first argument of a handler: an authenticated caller and a query without unknown parameters.
pub(super) trait CallerExtractor {
    const ACCESS: Access;
    type Query: DeserializeOwned;
}

/// The arguments of a handler, as axum defines them. The first is the caller.
pub(super) trait Arguments {
    type CallerExtractor: CallerExtractor;
}

macro_rules! arguments {
    ($($also:ident)*) => {
        impl<M, A: CallerExtractor, $($also),*> Arguments for (M, A, $($also,)*) {
            type CallerExtractor = A;
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
        $(pub(super) fn $method<H, T>(path: &'static str, id: &'static str, what: &'static str, handler: H) -> Route
        where
            H: Handler<T, Http>,
            T: Arguments + 'static,
        {
            let (access, query) = (<T::CallerExtractor as CallerExtractor>::ACCESS, names::<<T::CallerExtractor as CallerExtractor>::Query>());
            let row = Operation { access, query, ..Operation::new(stringify!($filter), path, id, what) };
            Route { row, add_handler: Box::new(|others| others.on(MethodFilter::$filter, handler)) }
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

/// Routes open to everyone, whatever the arguments of their handlers are.
pub(super) mod open {
    use axum::{handler::Handler, routing::MethodFilter};

    use super::{Http, Operation, Route};

    macro_rules! methods {
        ($($method:ident $filter:ident;)*) => {
            $(pub(in crate) fn $method<H: Handler<T, Http>, T: 'static>(
                path: &'static str,
                id: &'static str,
                what: &'static str,
                handler: H,
            ) -> Route {
                let row = Operation::new(stringify!($filter), path, id, what);
                Route { row, add_handler: Box::new(|others| others.on(MethodFilter::$filter, handler)) }
            })*
        };
    }

    methods! {
        get GET;
        head HEAD;
        post POST;
    }
}

/// Lists error codes by name.
macro_rules! codes {
    ($($code:ident)*) => {
        &[$(Code::$code),*]
    };
}

pub(super) use codes;

/// A query without parameters.
#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct NoQuery {}

/// Returns the serialized names of a type's fields.
fn names<T: DeserializeOwned>() -> &'static [&'static str] {
    let mut names: &'static [&'static str] = &[];
    // Deserialization fails after it has recorded the names.
    drop(T::deserialize(Names(&mut names)));
    names
}

struct Names<'n>(&'n mut &'static [&'static str]);

impl<'de> Deserializer<'de> for Names<'_> {
    type Error = value::Error;

    fn deserialize_struct<V: Visitor<'de>>(self, _: &'static str, fields: &'static [&'static str], _: V) -> Result<V::Value, value::Error> {
        *self.0 = fields;
        Err(value::Error::custom("only the names are needed"))
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
    fn names_of_query_parameters_are_found() {
        #[derive(Deserialize)]
        #[serde(rename_all = "camelCase", deny_unknown_fields)]
        #[expect(dead_code, reason = "only the names are needed")]
        struct Query {
            builder_id: Option<String>,
            #[serde(rename = "since")]
            back: u64,
        }
        assert_eq!(names::<Query>(), ["builderId", "since"]);
        assert_eq!(names::<NoQuery>(), [""; 0]);
    }
}

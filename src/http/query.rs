//! Types of queries.

/// Defines a query whose parameters can all be absent. One `of_builder` can also name a builder.
macro_rules! query {
    ($name:ident { $($parameter:ident: $type:ty),* $(,)? }) => {
        #[derive(Default, serde::Deserialize)]
        #[serde(default, rename_all = "camelCase", deny_unknown_fields)]
        struct $name {
            $($parameter: $type,)*
        }
    };
    ($name:ident of_builder { $($parameters:tt)* }) => {
        crate::query::query!($name { builder_id: Option<String>, $($parameters)* });

        impl crate::auth::OfBuilder for $name {
            fn builder_id(&self) -> Option<&str> {
                self.builder_id.as_deref()
            }
        }
    };
}

pub(super) use query;

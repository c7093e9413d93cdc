//! Ops that make a request to the host: one for each row of the protocol's table.

use deno_core::{OpDecl, OpState, op2};
use tollhouse_protocol::OpRequest;

use super::args::{Argument, page};
use crate::call_state::CallState;

/// Defines an op for each row. Its arguments are in the order of the request's fields.
macro_rules! bind {
    (@op $op:ident $request:ident [$($argument:tt)*] [$($field:ident = $read:path;)*]) => {
        #[op2(fast)]
        #[smi]
        fn $op(state: &mut OpState, $($argument)*) -> u32 {
            $(let Some($field) = $read($field) else {
                return CallState::of(state).ops().refuse("invalid_argument", concat!("`", stringify!($field), "` is malformed"));
            };)*
            CallState::of(state).ops().request(OpRequest::$request { $($field),* })
        }
    };
    (@op $op:ident $request:ident [$($argument:tt)*] [$($done:tt)*]
        $(#[$what:meta])* $field:ident: $kind:ty = text, $($rest:tt)*) => {
        bind!(@op $op $request [$($argument)* #[string] $field: String,] [$($done)* $field = Argument::read;] $($rest)*);
    };
    (@op $op:ident $request:ident [$($argument:tt)*] [$($done:tt)*]
        $(#[$what:meta])* $field:ident: $kind:ty = number, $($rest:tt)*) => {
        bind!(@op $op $request [$($argument)* $field: f64,] [$($done)* $field = Argument::read;] $($rest)*);
    };
    (@op $op:ident $request:ident [$($argument:tt)*] [$($done:tt)*]
        $(#[$what:meta])* $field:ident: $kind:ty = page, $($rest:tt)*) => {
        bind!(@op $op $request [$($argument)* $field: f64,] [$($done)* $field = page;] $($rest)*);
    };
    (@op $op:ident $request:ident [$($argument:tt)*] [$($done:tt)*]
        $(#[$what:meta])* $field:ident: $kind:ty = buffer, $($rest:tt)*) => {
        bind!(@op $op $request [$($argument)* #[buffer] $field: &[u8],] [$($done)* $field = Argument::read;] $($rest)*);
    };
    ($($(#[$about:meta])* $part:ident.$method:ident $op:ident $request:ident { $($fields:tt)* } $($writes:ident)?;)*) => {
        $(bind!(@op $op $request [] [] $($fields)*);)*

        /// Returns all of these ops.
        pub(super) fn table() -> Vec<OpDecl> {
            vec![$($op()),*]
        }
    };
}

tollhouse_protocol::ops!(bind);

/// Writes a text file: the same request, but the scripts need not make a buffer.
#[op2(fast)]
#[smi]
pub(super) fn op_file_write_text(state: &mut OpState, #[string] path: String, #[string] content: String) -> u32 {
    CallState::of(state).ops().request(OpRequest::FileWrite { path, content: content.into() })
}

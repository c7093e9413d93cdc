//! The ops: all that the scripts of `runtime-js` can ask of this process.
//!
//! None of them waits and none trusts its arguments. One that asks something of the host gives it
//! a number and answers that; [`Call`] sends the request and delivers the answer.

mod end;
mod files;
mod http;
mod kv;
mod log;
mod text;
mod timers;

use deno_core::{Extension, OpDecl, OpState};

use crate::{call::Call, scripts};

/// The ops on top of the snapshot's scripts, and none of deno_core's own.
pub(crate) fn extension(call: Call) -> Extension {
    let ops = table();
    let names: Vec<&'static str> = ops.iter().map(|op| op.name).collect();
    Extension {
        name: scripts::NAME,
        ops: ops.into(),
        op_state_fn: Some(Box::new(move |state: &mut OpState| state.put(call))),
        middleware_fn: Some(Box::new(move |op| if names.contains(&op.name) { op } else { op.disable() })),
        ..Default::default()
    }
}

fn table() -> Vec<OpDecl> {
    vec![
        kv::op_kv_get(),
        kv::op_kv_set(),
        kv::op_kv_delete(),
        kv::op_kv_list(),
        kv::op_kv_atomic(),
        files::op_file_read(),
        files::op_file_write(),
        files::op_file_write_text(),
        files::op_file_delete(),
        files::op_file_list(),
        http::op_http_get_json(),
        timers::op_sleep(),
        timers::op_forget(),
        log::op_log(),
        text::op_text_encode(),
        text::op_text_decode(),
        end::op_returned(),
        end::op_responded(),
        end::op_responded_bytes(),
        end::op_threw(),
        end::op_loaded(),
        end::op_unloadable(),
    ]
}

/// The running call.
fn call(state: &mut OpState) -> &mut Call {
    state.borrow_mut::<Call>()
}
